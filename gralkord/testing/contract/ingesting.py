"""The contract of ingesting: things that are handed over as a whole."""

from __future__ import annotations

from gralkord.errors import InvalidInput, UnknownLens
from gralkord.testing.contract.base import Contract, refused

LONG = "# Kettles\n" + "The kettle is red. " * 500 + "\n# Pans\nThe pan is blue."


class IngestContract(Contract):
    """How documents, conversations and records are ingested."""

    def test_a_document_is_recalled_and_another_version_replaces_it(self) -> None:
        """Its words are found under their source while it has them, and when it has them again."""
        memory = self.memory
        first = memory.hand_over(LONG, source="kitchen.md")
        (found,) = memory.ask("pan", max_results=1).results
        assert (found.source, found.offset, found.session) == ("kitchen.md", "#2", first.session)
        shown = memory.memory(memory.ada, found.id)
        assert (shown.form, shown.description) == ("document", "a note")
        assert memory.ask("pan", memory.bob).results == []
        again = memory.hand_over(LONG, source="kitchen.md")
        assert (again.receipt, again.duplicate, again.turns) == (first.receipt, True, 2)
        memory.hand_over("# Kettles\nThe kettle is green.", source="kitchen.md")
        assert memory.texts("pan kettle") == ["# Kettles\nThe kettle is green."]
        assert not memory.hand_over(LONG, source="kitchen.md").duplicate
        assert [one.offset for one in memory.ask("pan", max_results=1).results] == ["#2"]

    def test_a_conversation_has_its_speakers_and_a_record_its_members(self) -> None:
        """Lines and messages are found by who says them, records as JSON; an id counts once."""
        memory = self.memory
        talk = "Eve: The parrot is green.\nhelper: It eats seeds."
        memory.hand_over(talk, kind="conversation", agent="helper")
        (eve,) = memory.ask("green parrot", max_results=1).results
        (mine,) = memory.ask("seeds", max_results=1).results
        assert (eve.text, eve.speaker, eve.role) == ("The parrot is green.", "Eve", "user")
        assert (mine.text, mine.speaker, mine.role) == ("It eats seeds.", "helper", "assistant")
        record = {"name": "Kettle 7", "colour": "violet"}
        name = memory.new_name("record")
        memory.hand_over(record, kind="structured_record", id=name)
        assert memory.hand_over({"a": 1}, kind="structured_record", id=name).duplicate
        assert '"colour":"violet"' in memory.texts("violet")[0].replace(": ", ":")

    def test_an_agent_adds_a_memory(self) -> None:
        """The answer comes at once, and says so; what was added is recalled."""
        memory = self.memory
        added = memory.memory_add(memory.ada, "helper", "Ada likes plums.", "said by Ada")
        assert (added.message, added.duplicate) == ("Ingesting.", False)
        memory.settle(added)
        assert memory.texts("plums") == ["Ada likes plums."]

    def test_what_cannot_be_ingested_is_refused(self) -> None:
        """Each refusal names the field, and nothing is kept."""
        memory = self.memory
        with refused(InvalidInput) as refusal:
            memory.ingest(memory.ada, "words", " ")
        assert refusal.field == "source_description"
        with refused(InvalidInput) as refusal:
            memory.ingest(memory.ada, "no speaker", "a talk", kind="conversation")
        assert refusal.field == "content"
        with refused(UnknownLens):
            memory.ingest(memory.ada, "words", "a note", lens="nobody-s")
        assert memory.ask("words").results == []
