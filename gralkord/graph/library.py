"""Graphiti, imported with its side effects held back. Only this module imports it.

The import takes more than a second, so nothing imports this module but what understands episodes.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _held_back() -> Iterator[None]:
    # Read at each start of a Graphiti, so it stays set.
    os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
    # It would take settings from any .env file in the folders above its own.
    before = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if before is None:
            del os.environ["PYTHON_DOTENV_DISABLED"]
        else:
            os.environ["PYTHON_DOTENV_DISABLED"] = before


with _held_back():
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.client import CrossEncoderClient
    from graphiti_core.driver.driver import GraphDriver, GraphDriverSession, GraphProvider
    from graphiti_core.driver.graph_operations.graph_operations import GraphOperationsInterface
    from graphiti_core.driver.search_interface.search_interface import SearchInterface
    from graphiti_core.edges import EntityEdge, create_entity_edge_embeddings
    from graphiti_core.embedder.client import EmbedderClient
    from graphiti_core.graphiti_types import GraphitiClients
    from graphiti_core.llm_client.client import LLMClient, get_extraction_language_instruction
    from graphiti_core.llm_client.config import LLMConfig, ModelSize
    from graphiti_core.nodes import EntityNode, EpisodeType, EpisodicNode
    from graphiti_core.prompts.extract_edges import BatchEdgeTimestamps
    from graphiti_core.prompts.lib import (
        ChatPromptLibrary,
        DefaultChatPromptLibrary,
        create_prompt_library,
        prompt_library,
    )
    from graphiti_core.prompts.models import ChatPrompt, Message, UserMessage
    from graphiti_core.prompts.prompt_helpers import to_prompt_json
    from graphiti_core.search.search_filters import (
        ComparisonOperator,
        DateFilter,
        PropertyFilter,
        SearchFilters,
    )
    from graphiti_core.utils.bulk_utils import resolve_edge_pointers
    from graphiti_core.utils.maintenance import dedup_helpers
    from graphiti_core.utils.maintenance.edge_operations import (
        enforce_edge_type_signatures,
        extract_edges,
    )
    from graphiti_core.utils.maintenance.temporal_edge_utils import apply_extracted_timestamps

# Its warnings and errors quote texts, which are somebody's memory.
logging.getLogger("graphiti_core").setLevel(logging.CRITICAL + 1)

# It takes names for one person's that have most letters in common, without asking the model: "Anna
# Lind" is "Hanna Lind", and names in other alphabets are all alike. Only equal names are.
if not hasattr(dedup_helpers, "_FUZZY_JACCARD_THRESHOLD"):
    raise ImportError("this version of graphiti tells names apart in another way")
dedup_helpers._FUZZY_JACCARD_THRESHOLD = math.inf  # noqa: SLF001

__all__ = [
    "BatchEdgeTimestamps",
    "ChatPrompt",
    "ChatPromptLibrary",
    "ComparisonOperator",
    "CrossEncoderClient",
    "DateFilter",
    "DefaultChatPromptLibrary",
    "EmbedderClient",
    "EntityEdge",
    "EntityNode",
    "EpisodeType",
    "EpisodicNode",
    "GraphDriver",
    "GraphDriverSession",
    "GraphOperationsInterface",
    "GraphProvider",
    "Graphiti",
    "GraphitiClients",
    "LLMClient",
    "LLMConfig",
    "Message",
    "ModelSize",
    "PropertyFilter",
    "SearchFilters",
    "SearchInterface",
    "UserMessage",
    "apply_extracted_timestamps",
    "create_entity_edge_embeddings",
    "create_prompt_library",
    "enforce_edge_type_signatures",
    "extract_edges",
    "get_extraction_language_instruction",
    "prompt_library",
    "resolve_edge_pointers",
    "to_prompt_json",
]
