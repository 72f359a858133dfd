"""The direct producer and a real ``gralkord up``."""

from __future__ import annotations

import pytest
from up_process import eventually, turn

from gralkord import StreamProducer
from gralkord.errors import BackendUnavailable


@pytest.mark.timeout(120)
def test_the_direct_producer_finds_the_queue_and_is_recalled(tmp_path, start_up):
    """It needs no more than the data directory; what it wrote is recallable, by its operator only."""
    with pytest.raises(BackendUnavailable):
        StreamProducer(data_dir=tmp_path / "data")
    up = start_up().ready()
    with StreamProducer(data_dir=up.data_dir) as producer:
        producer.capture_many([turn("The kettle is in the blue cupboard.", operator="ada")])
        producer.capture_many([turn("The kettle is lost.", operator="bob", session="s2")])
    eventually(lambda: up.recall("kettle") == ["The kettle is in the blue cupboard."])
    assert eventually(lambda: up.recall("kettle", "bob")) == ["The kettle is lost."]
    assert up.end() == 0
