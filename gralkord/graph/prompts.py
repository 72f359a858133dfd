"""Graphiti's prompts as they are sent: what never changes first, and no more than is needed.

Providers keep the beginning of a prompt that they have seen before, and charge a fraction for it.
Graphiti puts the transcript in front of its rules, or into their middle.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from gralkord.graph.library import (
    ChatPrompt,
    ChatPromptLibrary,
    DefaultChatPromptLibrary,
    UserMessage,
    create_prompt_library,
    to_prompt_json,
)
from gralkord.providers.quoting import tagless, untagged

Context = dict[str, Any]
Builder = Callable[[Context], ChatPrompt]

# What differs from one episode to the next: in what a prompt is made of, and in the prompt.
_CHANGING: Final = (
    *("previous_episodes", "episode_content", "nodes", "reference_time", "source_description"),
)
_PART: Final = re.compile(
    r"<(PREVIOUS[ _]MESSAGES|CURRENT[ _]MESSAGE|ENTITIES|REFERENCE_TIME|SOURCE DESCRIPTION|TEXT|"
    r"JSON)>\n.*?\n</\1>\n?",
    re.DOTALL,
)
_GAP: Final = re.compile(r"\n{3,}")
# Stands for a text, or in a list of its own for a list.
_MARK: Final = re.compile('\\["\ue000(\\w+)\ue001"\\]|\ue000(\\w+)\ue001')


def episode_prompts() -> ChatPromptLibrary:
    """Return the prompts of an episode.

    Those that read the words have their rules first. Those that compare entities or sum them
    up do not get the episodes before this one: they are told what is known instead.
    """
    plain = DefaultChatPromptLibrary()
    return create_prompt_library(
        {
            "extract_nodes": {
                "extract_message": static_first(plain.extract_nodes.extract_message),
                "extract_text": static_first(plain.extract_nodes.extract_text),
                "extract_json": static_first(plain.extract_nodes.extract_json),
                "extract_summaries_batch": _alone(plain.extract_nodes.extract_summaries_batch),
            },
            "extract_edges": {"edge": static_first(plain.extract_edges.edge)},
            "dedupe_nodes": {"nodes": _alone(plain.dedupe_nodes.nodes)},
        }
    )


def static_first(build: Builder) -> Builder:
    """Return a builder that puts the parts of a prompt that change at its end, in their order.

    A part is a tag and what stands up to its end. Words of people are put in after the parts have
    been moved, so that nothing in them is taken for a tag.
    """

    def built(context: Context) -> ChatPrompt:
        marked = {name: _mark(name, context[name]) for name in _CHANGING if name in context}
        prompt = build(context | marked)
        rules = _PART.sub("", prompt.user.content).replace("provided above", "provided below")
        parts = [part[0].strip() for part in _PART.finditer(prompt.user.content)]
        text = "\n\n".join([_GAP.sub("\n\n", rules).strip(), *parts]) + "\n"
        return ChatPrompt(
            system=prompt.system,
            user=UserMessage(
                content=_MARK.sub(lambda mark: _shown(context[mark[1] or mark[2]]), text)
            ),
        )

    return built


def _alone(build: Builder) -> Builder:
    """Return a builder that leaves out the episodes before this one."""
    return lambda context: build(context | {"previous_episodes": []})


def _mark(name: str, value: Any) -> Any:
    mark = f"\ue000{name}\ue001"
    return [mark] if isinstance(value, list) else mark


def _shown(value: Any) -> str:
    return tagless(to_prompt_json(value)) if isinstance(value, list) else untagged(str(value))
