"""The questions of a LoCoMo file and the turns that hold their answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gralkord.errors import InvalidInput
from gralkord.evaluation.question import Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gralkord.client.import_locomo import Sample

# By number: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop. 5 is adversarial: its questions
# have no answer in the conversation, so there is nothing to find.
CATEGORIES: Final = (1, 2, 3, 4)
UNANSWERABLE: Final = 5

_EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*(\d+)", re.IGNORECASE)


def read_questions(sample: Sample) -> list[Question]:
    """Return the questions of categories 1 to 5, those without readable evidence included.

    Those of category 5 are not answerable, whatever evidence the file names for them.

    Raises:
        InvalidInput: A question lacks its text or its category.
    """
    known = {turn.dia_id for session in sample.sessions for turn in session.turns}
    questions = []
    for number, item in enumerate(sample.questions):
        text, category = item.get("question"), item.get("category")
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{sample.id}: qa[{number}].question: a text is missing")
        if not isinstance(category, int) or isinstance(category, bool):
            raise InvalidInput(f"{sample.id}: qa[{number}].category: a number is missing")
        name = f"{sample.id}/{number}"
        if category in CATEGORIES:
            evidence = read_evidence(_texts(item)) & known
            questions.append(Question(text, str(category), evidence, name))
        elif category == UNANSWERABLE:
            questions.append(Question(text, str(category), frozenset(), name, answerable=False))
    return questions


def read_evidence(texts: Iterable[str]) -> frozenset[str]:
    """Return the turn ids in *texts*, however they are strung together.

    ``"D8:6; D9:17"`` names two turns, ``"D:11:26"`` and ``"D11:026"`` one, ``"D"`` none.
    """
    return frozenset(
        f"D{int(session)}:{int(turn)}"
        for text in texts
        for session, turn in _EVIDENCE.findall(text)
    )


def _texts(item: Mapping[str, Any]) -> list[str]:
    evidence = item.get("evidence", [])
    if isinstance(evidence, str):
        return [evidence]
    return [text for text in evidence if isinstance(text, str)] if evidence else []
