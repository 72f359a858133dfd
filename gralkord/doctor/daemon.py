"""The daemon: does it run, with these settings, and does its work get done?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gralkord import __version__
from gralkord.client.client import AsyncClient
from gralkord.client.discovery import read_token, start_command
from gralkord.client.transport import Retry
from gralkord.doctor.findings import Finding
from gralkord.errors import BackendUnavailable, ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from gralkord.doctor.case import Case

CHECKS: Final = ("reachable", "version", "parts", "settings", "model", "budget", "work", "letters")
ANSWER_SECONDS: Final = 10.0
# What is routed takes milliseconds; what waits longer waits for somebody.
LATE_SECONDS: Final = {"intake": 10.0, "index": 30.0, "understand": 900.0}


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what the daemon says of itself."""
    if not case.running and case.url is None:
        where = f"no daemon runs on {case.data_dir}"
        mend = f"start it with {start_command(case.data_dir)}, or name one with --url"
        yield Finding("daemon.reachable", "skip", where, mend)
        return
    client = AsyncClient(
        case.url,
        read_token(case.token_file) if case.token_file else None,
        data_dir=None if case.url else case.data_dir,
        timeout=ANSWER_SECONDS,
        retry=Retry(retries=0),
    )
    async with client:
        status = await client.status()
        yield Finding("daemon.reachable", "ok", f"it answers at {client.endpoint.url}")
        yield version(status)
        try:
            yield parts(await client.ready())
        except BackendUnavailable as error:
            yield Finding("daemon.parts", "fail", error.message, error.hint or "")
        yield settings(status, _model(case), _embedder(case))
        yield model(status.get("model_state") or {})
        yield budget(status.get("budget") or {})
        queue = status.get("queue") or {}
        yield work(queue)
        yield letters(queue)


def _model(case: Case) -> str | None:
    try:
        model = case.builder().language_model()
    except ConfigError:
        return None  # told in the section of the model
    return model.name if model else "none"


def _embedder(case: Case) -> str:
    return case.builder().written("embedder")[0].strip() or "local"


def version(status: Mapping[str, Any]) -> Finding:
    """Judge whether daemon and doctor are of one version."""
    theirs = str(status.get("version", "unknown"))
    known = {"daemon": theirs, "doctor": __version__}
    if theirs == __version__:
        return Finding("daemon.version", "ok", f"gralkord {theirs}", facts=known)
    return Finding(
        "daemon.version",
        "warn",
        f"the daemon is {theirs}, this is {__version__}",
        "restart the daemon and its workers",
        known,
    )


def parts(ready: Mapping[str, Any]) -> Finding:
    """Judge the parts that the daemon needs."""
    found = {str(name): str(state) for name, state in (ready.get("parts") or {}).items()}
    wrong = [f"{name}: {state}" for name, state in found.items() if state != "ok"]
    if not ready.get("ready"):
        return Finding(
            "daemon.parts", "fail", f"captures are refused; {'; '.join(wrong)}", facts=found
        )
    if wrong:
        return Finding("daemon.parts", "warn", "; ".join(wrong), facts=found)
    return Finding("daemon.parts", "ok", "captures can be stored", facts=found)


def settings(status: Mapping[str, Any], model: str | None, embedder: str) -> Finding:
    """Judge whether the daemon has the model and the embedder that are looked at here."""
    name = "daemon.settings"
    theirs = {"model": status.get("model"), "embedder": status.get("embedder") or "local"}
    ours = {"model": model, "embedder": embedder}
    known = {"daemon": theirs, "doctor": ours}
    other = [each for each in ours if ours[each] is not None and ours[each] != theirs[each]]
    if not other:
        return Finding(name, "ok", "its model and embedder are those of the settings", facts=known)
    told = ", ".join(f"its {each} is {theirs[each]}, here it is {ours[each]}" for each in other)
    return Finding(
        name,
        "warn",
        told,
        "run the doctor with the daemon's --config and environment, or restart the daemon",
        known,
    )


def model(state: Mapping[str, Any]) -> Finding:
    """Judge whether the models are held back just now."""
    name = "daemon.model"
    now = str(state.get("state", "ok"))
    known = {each: value for each, value in state.items() if value is not None}
    if now in {"ok", "none"}:
        return Finding(name, "ok", "no model is held back", facts=known)
    reason = f": {state['reason']}" if state.get("reason") else ""
    return Finding(
        name,
        "fail" if now == "misconfigured" else "warn",
        f"work waits for the model ({now}){reason}",
        "see the section of the model; work goes on by itself when it answers",
        known,
    )


def budget(state: Mapping[str, Any]) -> Finding:
    """Judge whether a budget is spent."""
    name = "daemon.budget"
    now, operators = str(state.get("state", "none")), int(state.get("operators_spent") or 0)
    known = {each: value for each, value in state.items() if value is not None}
    mend = "raise it in the section budget, or wait for midnight UTC; see `gralkord costs`"
    if now == "spent":
        found = "the daily budget is spent: nothing is understood until midnight UTC"
        return Finding(name, "warn", found, mend, known)
    if now not in {"ok", "none"}:
        return Finding(name, "warn", f"the ledger cannot be read: {now}", "", known)
    if operators:
        words = "1 operator" if operators == 1 else f"{operators} operators"
        return Finding(name, "warn", f"the daily budget of {words} is spent", mend, known)
    return Finding(name, "ok", "no budget" if now == "none" else "no budget is spent", facts=known)


def work(queue: Mapping[str, Any]) -> Finding:
    """Judge whether something waits for longer than it should."""
    name = "daemon.work"
    ages = {
        lane: float(found["oldest_seconds"])
        for lane in LATE_SECONDS
        if isinstance(found := queue.get(lane), dict) and found.get("oldest_seconds") is not None
    }
    late = {lane: age for lane, age in ages.items() if age > LATE_SECONDS[lane]}
    if not late:
        return Finding(name, "ok", "nothing waits for long", facts=ages)
    return Finding(
        name,
        "warn",
        ", ".join(f"{lane} has waited for {age:.0f} s" for lane, age in late.items()),
        "see `gralkord status`; is a worker running, and does the model answer?",
        ages,
    )


def letters(queue: Mapping[str, Any]) -> Finding:
    """Judge whether there is work that was given up."""
    name = "daemon.letters"
    number = int(queue.get("dead_letters") or 0)
    known = {"dead_letters": number}
    if not number:
        return Finding(name, "ok", "no dead letters", facts=known)
    words = "1 dead letter" if number == 1 else f"{number} dead letters"
    return Finding(name, "warn", words, "see `gralkord dead list`", known)
