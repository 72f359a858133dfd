"""Language models: do they answer, and are their answers of use?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gralkord.doctor import role as roles
from gralkord.doctor import samples
from gralkord.doctor.case import Tally
from gralkord.doctor.findings import NOT_LOOKED, Finding, of_error
from gralkord.errors import ConfigError, GralkorError, MalformedOutput, RateLimited
from gralkord.providers.sized import SizedModels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gralkord.doctor.case import Case
    from gralkord.providers.chat import ChatModel
    from gralkord.providers.specs import Role

CHECKS: Final = (*roles.BASICS, "answer", "schema", "sense", "length")
# To understand a session takes several answers, each longer than this one.
SLOW_SECONDS: Final = 20.0
STAGE: Final = "doctor"


async def look(case: Case, role: Role) -> AsyncIterator[Finding]:
    """Yield what is found of the language model for *role*: ``llm`` or ``llm_small``."""
    ready = False
    async for found in roles.basics(case, role):
        yield found
        ready = found.name.endswith(".clock")
    if not ready:
        return
    tally = Tally(whole=case.tally)
    try:
        model = case.builder(tally).language_model()
    except ConfigError as error:
        yield of_error(f"{role}.answer", error)
        return
    if model is None:
        return
    try:
        one = model.sized(small=role == "llm_small") if isinstance(model, SizedModels) else model
        answered = False
        async for found in _ask(one, role, tally):
            yield found
            answered = found.name.endswith(".sense")
        if answered:
            yield await _length(one, role, case)
    finally:
        await model.close()


async def _ask(model: ChatModel, role: Role, tally: Tally) -> AsyncIterator[Finding]:
    began = time.perf_counter()
    try:
        answer = await model.complete(
            samples.CONVERSATION,
            samples.DoctorSample,
            max_tokens=samples.MAX_TOKENS,
            stage=STAGE,
        )
    except MalformedOutput as error:
        yield _answered(role, time.perf_counter() - began, tally)
        yield Finding(
            f"{role}.schema",
            "fail",
            error.message,
            "name a larger model, or a server that keeps JSON schemas",
        )
        return
    except RateLimited as error:
        yield of_error(f"{role}.answer", error, "warn")
        return
    except GralkorError as error:
        yield of_error(f"{role}.answer", error)
        return
    yield _answered(role, time.perf_counter() - began, tally)
    yield _schema(model, role, tally)
    yield _sense(role, samples.DoctorSample.model_validate(answer))


def _answered(role: Role, seconds: float, tally: Tally) -> Finding:
    used = tally.to_dict()
    known = {"seconds": round(seconds, 2), **used}
    found = (
        f"it answered in {seconds:.1f} s: {used['prompt_tokens']} tokens sent, "
        f"{used['completion_tokens']} written"
    )
    if seconds > SLOW_SECONDS:
        mend = "a session takes several answers: name a faster model, or wait patiently"
        return Finding(f"{role}.answer", "warn", found, mend, known)
    return Finding(f"{role}.answer", "ok", found, facts=known)


def _schema(model: ChatModel, role: Role, tally: Tally) -> Finding:
    name = f"{role}.schema"
    how = model.how
    known = {"calls": len(tally.calls), "how": how}
    if len(tally.calls) > 1:
        return Finding(
            name,
            "warn",
            "the answer fitted the schema only after it was repaired",
            "each repair costs a call: name a larger model, or a server that keeps JSON schemas",
            known,
        )
    if how in {"json_object", "text"}:
        return Finding(
            name,
            "warn",
            f"the server knows no JSON schemas ({how}); the answer fitted all the same",
            "use a server that keeps JSON schemas, such as a newer version of it",
            known,
        )
    return Finding(name, "ok", f"the answer fitted the schema at once ({how})", facts=known)


def _sense(role: Role, answer: samples.DoctorSample) -> Finding:
    missing = samples.understood(answer)
    if not missing:
        return Finding(f"{role}.sense", "ok", "it names all that the message names")
    return Finding(
        f"{role}.sense",
        "warn",
        f"its answer does not name {', '.join(missing)}, which stand in the message",
        "name a larger model: this one will miss facts",
        {"missing": missing},
    )


async def _length(model: ChatModel, role: Role, case: Case) -> Finding:
    name = f"{role}.length"
    if not case.long:
        return Finding(name, "skip", f"{NOT_LOOKED}only with --long")
    mend = (
        "give the server a longer context (llama.cpp: -c, vLLM: --max-model-len, Ollama: fields "
        "= { options = { num_ctx = … } }), or lower capture.flush_bytes"
    )
    began = time.perf_counter()
    try:
        answer = await model.complete(
            samples.long_conversation(case.longest),
            samples.DoctorRecollection,
            max_tokens=samples.MAX_TOKENS,
            stage=STAGE,
        )
    except RateLimited as error:
        return of_error(name, error, "warn")
    except GralkorError as error:
        return Finding(name, "fail", error.message, error.hint or mend)
    seconds = time.perf_counter() - began
    known = {"characters": case.longest, "seconds": round(seconds, 2)}
    if samples.FERRY.casefold() in str(answer["ferry"]).casefold():
        found = (
            f"it reads prompts of {case.longest} characters to their beginning, in {seconds:.1f} s"
        )
        return Finding(name, "ok", found, facts=known)
    found = f"of a prompt of {case.longest} characters it does not know the beginning"
    return Finding(name, "warn", found, mend, known)
