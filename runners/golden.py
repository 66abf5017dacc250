"""Goldens from a running engine: the ids that it sampled for a prompt, and the chat answers of the same generation.

A prompt is sent as ids; what comes is one golden. Then the same prompt is asked as a chat, whole and streamed; an
answer becomes a golden of its own only where it is the same generation: the same prompt, the same count, and the same
ids where it carries them, else a text that these ids make. Sampling is greedy, else no two answers are one generation.
Knows nothing of the command.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import OverloadError, ProviderError, SetupError
from harness.flow import Kit, judge
from harness.formats import Format
from harness.response import parse
from harness.types import Exchange, Turn
from harness.vocab import VOCAB_SHA256
from runners.engine_http import Server
from runners.engines import ENGINES, Generated, Json, Told, chat_answer, generated
from runners.golden_files import Change, Row, id_difference, pieces, place, read_value, same_question
from runners.prompts import Ask

MAX_FAILURES = 3
"""So many prompts in a row without an answer end the run: the others would wait as long for nothing."""
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
CHAT_PARTS: Mapping[str, Json] = {"chat": {}, "stream": STREAM}
"""What is asked of each prompt with messages: the ending of the file, and the fields of the request."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run asks and where it writes.

    Attributes:
        out: The folder of golden folders.
        label: Name of the folder in it; `/generate` goldens go beside it, to LABEL-generate.
        bare: Ask for no ids in chat answers; then count and text must prove that it is the same generation.
        allowed: The changes that may be written.
    """

    out: Path
    label: str
    told: Told
    fmt: Format
    flags: Mapping[str, Any]
    source: str
    max_tokens: int
    bare: bool
    allowed: frozenset[Change]

    def path(self, name: str) -> Path:
        """Where the golden of this name stands."""
        return self.out / f"{name}.json"


def label_of(told: Told) -> str:
    """The folder for an engine and its model, `sglang-0.5.23-kimi-k2.5`."""
    named = f"{told.engine}-{told.version}-{told.model.rpartition('/')[2]}"
    return re.sub(r"[^a-z0-9.]+", "-", named.lower()).strip("-.")


def expected(asks: Sequence[Ask]) -> int:
    """How many goldens a run without trouble looks at."""
    return sum(1 + (len(CHAT_PARTS) if ask.messages else 0) for ask in asks)


def capture(asks: Sequence[Ask], server: Server, plan: Plan, kit: Kit) -> Iterator[Row]:
    """Ask every prompt, one at a time: side by side, greedy sampling need not be repeatable.

    With `create` alone, a golden that answers the same question is kept without asking, so that a run can be taken up.

    Raises:
        SetupError: The engine went away, or fails again and again; what was written stays.
    """
    failures = 0
    for ask in asks:
        try:
            yield from _one(ask, server, plan, kit)
            failures = 0
        except ProviderError as error:  # of this prompt alone: too long for the engine, say
            yield Row(f"{plan.label}/{ask.name}", "failed", str(error))
        except OverloadError as error:
            failures += 1
            yield Row(f"{plan.label}/{ask.name}", "failed", str(error))
            if failures == MAX_FAILURES:
                raise SetupError(f"{failures} prompts in a row got no answer; stopped: {error}") from error


def _one(ask: Ask, server: Server, plan: Plan, kit: Kit) -> Iterator[Row]:
    name = f"{plan.label}-generate/{ask.name}"
    head = _head(name, ask, plan)
    true_ids = _standing(head, plan)
    if true_ids is not None:
        yield Row(name, "kept", "", len(true_ids))
    else:
        made: Generated = generated(server, plan.told, list(ask.prompt_ids), plan.max_tokens)
        true_ids = made.ids
        value = head | _ids(true_ids, kit) | {"generate": {"default": made.body}}
        yield place(plan.path(name), value, plan.allowed, kit.vocab)
    for part, fields in CHAT_PARTS.items() if ask.messages else ():
        yield _chat(f"{plan.label}/{ask.name}.{part}", ask, fields, true_ids, server, plan, kit)


def _chat(name: str, ask: Ask, fields: Json, true_ids: list[int], server: Server, plan: Plan, kit: Kit) -> Row:
    request, provider = chat_request(ask, plan, fields), provider_of(plan.told, kit)
    head = _head(name, ask, plan)
    asked = {"model": plan.fmt.name, "provider": provider, "thinking": ask.thinking, "request": request}
    standing = _standing(head | asked, plan)
    if standing is not None:
        return Row(name, "kept", "", len(standing))
    response = chat_answer(server, request)
    exchange = Exchange(name, response, request, provider, plan.fmt.name, ask.thinking)
    match = same_generation(exchange, ask.prompt_ids, true_ids, kit)
    if match.refused:
        seen = f" (the messages: {', '.join(ask.findings)})" if ask.findings else ""
        return Row(name, "refused", f"{match.refused}{seen}; not stored", len(true_ids))
    value = head | _ids(true_ids, kit) | {"shown_by": match.shown_by} | asked | {"response": response}
    return place(plan.path(name), value, plan.allowed, kit.vocab)


def _head(name: str, ask: Ask, plan: Plan) -> Json:
    """What every golden begins with: what was asked, of whom, how."""
    return {
        "name": name,
        "source": plan.source,
        "engine": plan.told.title,
        "version": plan.told.version,
        "served_model": plan.told.model,
        "flags": dict(plan.flags),
        "sampling": {"temperature": 0, "max_tokens": plan.max_tokens},
        "vocab_sha256": VOCAB_SHA256,
        "prompt_ids": list(ask.prompt_ids),
    }


def _ids(true_ids: list[int], kit: Kit) -> Json:
    return {"true_ids": true_ids, "pieces": pieces(true_ids, kit.vocab)}


def _standing(asked: Json, plan: Plan) -> list[int] | None:
    """The ids of a golden that already answers this question, where a run may leave it at that."""
    if plan.allowed != {"create"}:
        return None
    old = read_value(plan.path(str(asked["name"])))
    if not old or not same_question(old, asked):
        return None
    ids = old.get("true_ids")
    return ids if isinstance(ids, list) and all(type(i) is int for i in ids) else None


def chat_request(ask: Ask, plan: Plan, fields: Json) -> Json:
    """The chat request for a prompt."""
    request: Json = {"model": plan.told.model, "messages": list(ask.messages)}
    if ask.tools:
        request["tools"] = list(ask.tools)
    if ask.thinking is False and len(plan.fmt.thinking_modes) > 1:
        request["chat_template_kwargs"] = {"thinking": False}
    request |= {"temperature": 0, "max_tokens": plan.max_tokens}
    return request | fields | ({} if plan.bare else dict(ENGINES[plan.told.engine].id_fields))


def provider_of(told: Told, kit: Kit) -> str:
    """The engine as habits name it: with the version that they know, else with its own."""
    known = {line.provider for line in kit.habits.lines}
    names = [f"{told.engine}-{told.version}", f"{told.engine}-{told.version.rpartition('.')[0]}"]
    return next((name for name in names if name in known), names[0])


@dataclass(frozen=True, slots=True)
class Match:
    """Whether a chat answer is the generation of some ids: what shows it, or why it is not."""

    shown_by: Literal["ids", "text", ""] = ""
    refused: str = ""


def same_generation(exchange: Exchange, prompt_ids: Sequence[int], true_ids: list[int], kit: Kit) -> Match:
    """Ids that the answer carries decide; without them the bill must agree, and the text be what these ids make."""
    try:
        turn = parse(exchange.response)
    except ProviderError as error:
        return Match(refused=f"no chat answer: {error}")
    billed = turn.usage.completion_tokens if turn.usage else None
    reported = turn.reported.ids if turn.reported else None
    refused = _prompt_doubt(turn, prompt_ids, kit)
    if not refused and billed is not None and billed != len(true_ids):
        refused = f"another generation: usage says {billed} completion tokens, {len(true_ids)} ids were sampled"
    if not refused and reported is not None:
        parted = id_difference(true_ids, reported, kit.vocab)
        refused = f"another generation: sampled and reported {parted}" if parted else ""
    elif not refused:
        refused = _text_doubt(exchange, true_ids, kit) if billed is not None else NOTHING_SHOWN
    return Match(refused=refused) if refused else Match("text" if reported is None else "ids")


NOTHING_SHOWN = "neither ids nor usage in the answer, so nothing shows that it is the same generation"


def _prompt_doubt(turn: Turn, prompt_ids: Sequence[int], kit: Kit) -> str:
    read = turn.reported.prompt_ids if turn.reported else None
    if read is not None:
        parted = id_difference(list(prompt_ids), read, kit.vocab)
        return f"the engine's template made another prompt: rendered and read {parted}" if parted else ""
    billed = turn.usage.prompt_tokens if turn.usage else None
    if billed is None:
        return "neither prompt ids nor prompt_tokens in the answer, so nothing shows which prompt it answers"
    if billed != len(prompt_ids):
        return f"the engine's template made another prompt: {billed} prompt tokens, {len(prompt_ids)} were rendered"
    return ""


def _text_doubt(exchange: Exchange, true_ids: list[int], kit: Kit) -> str:
    """Whether the judge would believe these ids, had the answer carried them."""
    extra: Json = {"sglext": {"output_ids": [true_ids]}}
    body = exchange.response
    told = {**body, **extra} if isinstance(body, dict) else [*body, {"choices": [], **extra}]
    verdict = judge(
        Exchange(exchange.name, told, exchange.request, exchange.provider, exchange.model, exchange.thinking), kit
    )
    heard = [t for t in verdict.witnesses if t.witness == "reported"]
    if heard and heard[0].says == "supports":
        return ""
    reasons = [t.reason for t in heard] or [f"{f.code}: {f.text}" for f in verdict.findings]
    return f"another text than the ids make: {(reasons or ['no witness spoke'])[0]}"
