"""What a test tells a twin to answer, and what the twin was asked."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from gralkord.errors import InvalidInput
from gralkord.testing.twin.routes import Routes, not_done
from gralkord.testing.twin.shelves import Shelves

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from gralkord.client.calls import Call
    from gralkord.clock import Clock
    from gralkord.testing.twin.shelves import LensSettings

Answer = TypeVar("Answer")
Method: TypeAlias = Callable[..., Any]
TwinClass = TypeVar("TwinClass", bound="type[Script]")

_OWN: Final = frozenset({"answer", "reset", "calls_of", "close"})


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One call of a method.

    Attributes:
        method: Its name.
        arguments: What it was given, by name; what was left out is not among it.
    """

    method: str
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class _Canned:
    value: Any
    times: int | None

    def said(self, arguments: Mapping[str, Any]) -> Any:
        """Return the answer to a call.

        Raises:
            BaseException: The answer is an error.
        """
        if isinstance(self.value, BaseException):
            raise self.value
        if isinstance(self.value, type) and issubclass(self.value, BaseException):
            raise self.value
        return self.value(**arguments) if callable(self.value) else self.value


class _Accepted(BaseException):
    """The arguments were accepted, and the request would have been sent."""


class Script:
    """The part of a twin that tests talk to.

    Args:
        lenses: The lenses besides ``default``, by name: ``operator`` or ``global``, or settings as
            a configuration file has them.
        tenant: Whose memory it is.
        shelves: The memory, where several twins share one; it knows lenses, agents and clock.
        clock: What tells the time; default: the clock of this machine.
        agents: Agents that have lenses of their own, by name, with such settings.

    Attributes:
        calls: What was asked, in order.
    """

    def __init__(
        self,
        lenses: Mapping[str, LensSettings] | None = None,
        *,
        tenant: str = "default",
        shelves: Shelves | None = None,
        clock: Clock | None = None,
        agents: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.calls: list[LoggedCall] = []
        self.shelves = shelves or Shelves(lenses, clock, agents)
        self._routes = Routes(self.shelves, tenant)
        self._canned: dict[str, list[_Canned]] = {}
        self._checking = False

    if not TYPE_CHECKING:  # for a type checker any name would be right then

        def __getattr__(self, name: str) -> Any:
            """Refuse what would be sent over a connection, by a method that the twin lacks."""
            if name == "_http":
                raise not_done("this")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def answer(self, method: str, value: Any, *, times: int | None = None) -> None:
        """Answer calls of a method with *value* from now on; their arguments are checked first.

        Args:
            method: Name of the method.
            value: What it returns or, where it is an error, raises; or a function that is called
                with the arguments by name. Of a method that yields: what it yields, one by one.
            times: For so many calls, which come before others that were told; default: for all.

        Raises:
            InvalidInput: There is no such method.
        """
        if method not in methods_of(type(self)):
            raise InvalidInput(
                f"method: the client has no {method!r}",
                field="method",
                hint=f"it has {', '.join(methods_of(type(self)))}",
            )
        if times is None:
            self._canned[method] = [_Canned(value, None)]
        else:
            told = self._canned.setdefault(method, [])
            place = sum(each.times is not None for each in told)
            told.insert(place, _Canned(value, times))

    def calls_of(self, method: str) -> list[Mapping[str, Any]]:
        """Return the arguments of all calls of a method, in order."""
        return [call.arguments for call in self.calls if call.method == method]

    def reset(self) -> None:
        """Forget the memory, the canned answers and the log."""
        self.shelves.clear()
        self._canned.clear()
        self.calls.clear()

    def _note(self, call: LoggedCall) -> Callable[[], Any] | None:
        """Note a call; return what gives the answer that was told for it, if one was."""
        self.calls.append(call)
        told = self._canned.get(call.method)
        if not told:
            return None
        canned = told[0]
        if canned.times is not None:
            canned.times -= 1
            if canned.times <= 0:
                told.pop(0)
        return functools.partial(canned.said, call.arguments)

    def _checker(self) -> Self:
        """Return a twin that goes no further than to accept arguments."""
        checker = copy.copy(self)
        checker._checking = True  # noqa: SLF001 - it is of this class
        return checker

    def _route(self, call: Call[Answer]) -> Answer:
        if self._checking:
            raise _Accepted
        return self._routes.answer(call)


def methods_of(kind: type) -> list[str]:
    """Return the names of the methods of a client that talk to its daemon."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return [name for name, _ in found if not name.startswith("_") and name not in _OWN]


def scripted(kind: TwinClass) -> TwinClass:
    """Have all methods of a twin's client noted, and answered as told where something was told."""
    for name in methods_of(kind):
        setattr(kind, name, _scripted(name, getattr(kind, name)))
    return kind


def _scripted(name: str, method: Method) -> Method:
    if inspect.isasyncgenfunction(method):
        wrapper = _scripted_stream(name, method)
    elif inspect.isgeneratorfunction(method):
        wrapper = _scripted_lines(name, method)
    elif inspect.iscoroutinefunction(method):
        wrapper = _scripted_coroutine(name, method)
    else:
        wrapper = _scripted_function(name, method)
    return functools.wraps(method)(wrapper)


def _scripted_stream(name: str, method: Method) -> Method:
    noted = _noter(name, method)

    async def stream(self: Script, *args: Any, **named: Any) -> AsyncIterator[Any]:
        answer = noted(self, *args, **named)
        twin = self if answer is None else self._checker()
        try:
            async with contextlib.aclosing(method(twin, *args, **named)) as values:
                async for each in values:
                    yield each
        except _Accepted:
            for each in answer() if answer else ():
                yield each

    return stream


def _scripted_lines(name: str, method: Method) -> Method:
    noted = _noter(name, method)

    def lines(self: Script, *args: Any, **named: Any) -> Iterator[Any]:
        answer = noted(self, *args, **named)
        twin = self if answer is None else self._checker()
        try:
            yield from method(twin, *args, **named)
        except _Accepted:
            yield from answer() if answer else ()

    return lines


def _scripted_coroutine(name: str, method: Method) -> Method:
    noted = _noter(name, method)

    async def ask(self: Script, *args: Any, **named: Any) -> Any:
        answer = noted(self, *args, **named)
        if answer is None:
            return await method(self, *args, **named)
        with contextlib.suppress(_Accepted):
            await method(self._checker(), *args, **named)
        return answer()

    return ask


def _scripted_function(name: str, method: Method) -> Method:
    noted = _noter(name, method)

    def ask(self: Script, *args: Any, **named: Any) -> Any:
        answer = noted(self, *args, **named)
        if answer is None:
            return method(self, *args, **named)
        with contextlib.suppress(_Accepted):
            method(self._checker(), *args, **named)
        return answer()

    return ask


def _noter(name: str, method: Method) -> Callable[..., Callable[[], Any] | None]:
    """Return a function that notes a call of a method with its arguments by name."""
    signature = inspect.signature(method)

    def note(twin: Script, *args: Any, **named: Any) -> Callable[[], Any] | None:
        arguments = dict(signature.bind(twin, *args, **named).arguments)
        del arguments["self"]
        return twin._note(LoggedCall(name, arguments))  # noqa: SLF001 - this is a part of it

    return note
