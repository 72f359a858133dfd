"""One run of Graphiti over one episode, on our model, cache and write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog
from pydantic import ValidationError

from gralkord.errors import MalformedOutput
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.driver import EpisodeDriver
from gralkord.graph.library import EpisodeType, EpisodicNode
from gralkord.graph.llm import EpisodeEmbedder, EpisodeModel, NoReranker
from gralkord.graph.names import Spellings
from gralkord.graph.operations import EpisodeOperations
from gralkord.graph.pipeline import EpisodePipeline, bare
from gralkord.graph.prompts import episode_prompts
from gralkord.graph.resolving import FactResolver
from gralkord.graph.search import CacheSearch
from gralkord.graph.statement import EpisodeRows
from gralkord.graph.told import told_in
from gralkord.groups import parse_group
from gralkord.providers.base import Embedder, LanguageModel

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache

log = structlog.get_logger(__name__)

# Model calls of one episode at once, at each place where Graphiti makes several.
CONCURRENCY: Final = 8


@dataclass(frozen=True, slots=True)
class PreviousEpisode:
    """An episode before this one, as far as the model is shown it."""

    uuid: str
    name: str
    source_description: str
    content: str
    valid_at: datetime


async def understand(
    group: str,
    draft: EpisodeDraft,
    *,
    known: GroupCache,
    previous: Sequence[PreviousEpisode],
    model: LanguageModel,
    embedder: Embedder | None,
    save: Callable[[EpisodeRows], Awaitable[None]],
) -> tuple[int, int]:
    """Have Graphiti extract entities and facts from *draft*, and *save* them.

    A Graphiti object is made for each episode, in less than a millisecond: nothing is shared.

    Args:
        group: The group id.
        draft: What to understand.
        known: What the group knows.
        previous: Episodes before it, oldest first.
        model: Answers the prompts.
        embedder: Makes the vectors; with none, things are told apart by their words.
        save: Writes everything, or raises.

    Returns:
        How many facts and entities the episode has.

    Raises:
        MalformedOutput: Graphiti could not work with an answer.
    """
    payer = parse_group(group)
    llm = EpisodeModel(model, Spellings(known.entities.called), payer)

    kinds = draft.kinds

    async def save_if_whole(rows: EpisodeRows) -> None:
        if llm.failure:  # Graphiti went on without an answer
            raise llm.failure
        rows.told_in = told_in(rows.entities, known.entities.by_uuid, kinds, draft.uuid)
        await save(rows)

    operations = EpisodeOperations(
        known,
        _node(group, draft),
        [_previous_node(group, each) for each in previous],
        save_if_whole,
    )
    search, vectors = CacheSearch(known), EpisodeEmbedder(embedder, payer, known.entities)
    graphiti = EpisodePipeline(
        FactResolver(known, search.fact, llm, vectors),
        kinds,
        graph_driver=EpisodeDriver(group, search, operations),
        llm_client=llm,
        embedder=vectors,
        cross_encoder=NoReranker(),
        max_coroutines=CONCURRENCY,
        prompt_library=episode_prompts(),
    )
    try:
        found = await graphiti.add_episode(
            name=draft.name,
            episode_body=draft.body,
            source_description=draft.source_description,
            reference_time=draft.reference_time,
            source=EpisodeType(draft.source),
            group_id=group,
            uuid=draft.uuid,
            previous_episode_uuids=[each.uuid for each in previous],
            entity_types={name: bare(kind) for name, kind in kinds.entity_types.items()} or None,
            excluded_entity_types=list(kinds.excluded_entity_types) or None,
            edge_types=dict(kinds.edge_types) or None,
            edge_type_map={ends: list(names) for ends, names in kinds.edge_type_map.items()}
            or None,
        )
    except ValidationError as error:
        raise MalformedOutput(f"an answer does not fit: {error.error_count()} errors") from error
    finally:
        await llm.cancel()
    log.debug("episode_understood", group=group, episode=draft.uuid, model_calls=llm.calls)
    return len({edge.uuid for edge in found.edges}), len({node.uuid for node in found.nodes})


def _node(group: str, draft: EpisodeDraft) -> EpisodicNode:
    return EpisodicNode(
        uuid=draft.uuid,
        name=draft.name,
        group_id=group,
        labels=[],
        source=EpisodeType(draft.source),
        source_description=draft.source_description,
        content=draft.body,
        created_at=datetime.now(UTC),
        valid_at=draft.reference_time,
    )


def _previous_node(group: str, episode: PreviousEpisode) -> EpisodicNode:
    return EpisodicNode(
        uuid=episode.uuid,
        name=episode.name,
        group_id=group,
        labels=[],
        source=EpisodeType.message,
        source_description=episode.source_description,
        content=episode.content,
        created_at=episode.valid_at,
        valid_at=episode.valid_at,
    )
