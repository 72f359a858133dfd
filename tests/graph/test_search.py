from __future__ import annotations

from types import SimpleNamespace

GROUP = "op__default__ann__default"


def fact(number: int, **more):
    return SimpleNamespace(
        uuid=f"f{number}", name="KNOWS", fact=f"fact number {number}", source_uuid="a",
        target_uuid="b", group_id=GROUP, created_at="2024-01-01T00:00:00Z",
        valid_at=f"2024-01-{number:02}T00:00:00Z", invalid_at=None, expired_at=None,
        reference_time=None, episodes=("e1",), attributes={"since": number}, vector=None, seq=number,
    ).__class__(**{
        "uuid": f"f{number}", "name": "KNOWS", "fact": f"fact number {number}", "source_uuid": "a",
        "target_uuid": "b", "group_id": GROUP, "created_at": "2024-01-01T00:00:00Z",
        "valid_at": f"2024-01-{number:02}T00:00:00Z", "invalid_at": None, "expired_at": None,
        "reference_time": None, "episodes": ("e1",), "attributes": {"since": number},
        "vector": None, "seq": number, **more,
    })  # fmt: skip
