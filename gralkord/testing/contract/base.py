"""What all parts of the contract are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import SkipTest

from gralkord.errors import GralkorError
from gralkord.testing.contract.subject import Subject


class Contract:
    """The base: tests ask `memory`, a client that is made for each of them.

    Attributes:
        lens: Name of a lens of scope ``operator`` that the client's daemon has besides
            ``default``; the tests of lenses are skipped without one.
    """

    lens: str | None = None
    _subject: Subject | None = None

    def open_client(self) -> Any:
        """Return a client: synchronous or asynchronous, with the methods of gralkord's own."""
        raise NotImplementedError("open_client: say how your client is made")

    @property
    def memory(self) -> Subject:
        """The client under test, made when it is first asked."""
        if self._subject is None:
            self._subject = Subject(self.open_client())
        return self._subject

    def named_lens(self) -> str:
        """Return the lens; without one the test is skipped."""
        if self.lens is None:
            raise SkipTest("no lens: set `lens` to the name of one")
        return self.lens

    def teardown_method(self) -> None:
        """Close the client; pytest calls this after each test."""
        if self._subject is not None:
            self._subject.close()
            self._subject = None


class Refusal:
    """An error that was expected, once it has come."""

    error: GralkorError

    @property
    def text(self) -> str:
        """What it says."""
        return self.error.message

    @property
    def field(self) -> str | None:
        """The field that it names."""
        return self.error.field


@contextmanager
def refused(kind: type[GralkorError]) -> Iterator[Refusal]:
    """Expect an error of that kind, and hand it out."""
    refusal = Refusal()
    try:
        yield refusal
    except kind as error:
        refusal.error = error
    else:
        raise AssertionError(f"no {kind.__name__} was raised")
