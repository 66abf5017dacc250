"""The sentence as one function: exchange -> turn -> readings -> ids -> witnesses + checks -> verdict.

The only module that knows the order. Reads no file and knows no command.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness import checks, exact, ids, joins, readings, stream, verdict, witnesses
from harness.asked import offers_tools, prompt_status, same_provider, thinking_of
from harness.errors import ProviderError
from harness.formats import Format, find_format
from harness.habits import Habits, Traits
from harness.json_keys import wire_style
from harness.replay import replay_of
from harness.response import parse
from harness.types import Encode, Exchange, Finding, Reading, Testimony, Turn, Usage, Verdict
from harness.verdict import Outcome, Trial
from harness.vocab import Vocab
from harness.witnesses import Scene

PLACEHOLDER = "(no content)"


@dataclass(frozen=True, slots=True)
class Kit:
    """What judging needs beside the answer.

    Attributes:
        encode: For outputs, never cut.
        encode_prompt: For prompts, cut at the official seams; None leaves every prompt unverified.
    """

    vocab: Vocab
    encode: Encode
    formats: Sequence[Format]
    habits: Habits
    encode_prompt: Encode | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an answer before its readings are listed.

    Attributes:
        provider: Whose habits hold; None for nobody's. `named` is what verdicts say.
        wire: How the arguments came.
    """

    turn: Turn
    fmt: Format
    thinking: bool | None
    provider: str | None
    model: str
    completion_tokens: int | None
    has_tools: bool
    wire: str
    named: str | None = None
    notes: tuple[Finding, ...] = ()


def judge(
    exchange: Exchange, kit: Kit, *, model: str | None = None, provider: str | None = None, blind: bool = False
) -> Verdict:
    """What an answer stands for and how sure that is.

    Args:
        model: Takes this model's format, whatever the answer says.
        provider: Takes this provider's habits, whatever the answer says; "unknown" takes none.
        blind: Forgets ids, logprobs and prompt ids that the host sent.

    Raises:
        SetupError: Our own inputs are wrong. An answer that is an error is a `rejected`, never an exception.
    """
    known = known_of(exchange, kit, model=model, provider=provider, blind=blind)
    return known if isinstance(known, Verdict) else _verdict(known, exchange, kit)


def known_of(exchange: Exchange, kit: Kit, *, model: str | None, provider: str | None, blind: bool) -> Known | Verdict:
    """What `judge` goes by; the verdict itself where nothing can be read."""
    try:
        turn = parse(exchange.response)
    except ProviderError as error:
        return _no_answer(exchange, error)
    if blind:
        turn = replace(turn, reported=None)
    name = kit.habits.provider_name(provider or exchange.provider or turn.provider)
    habits_of = None if provider == "unknown" else name
    told = model or exchange.model or turn.model
    fmt = find_format(model, kit.formats) if model else find_answer_format(told, turn.model, habits_of, kit)
    if fmt is None:
        models = " and ".join(dict.fromkeys(repr(m) for m in (told, turn.model)))
        finding = Finding("unknown-format", "model", f"no one format covers {models}; see harness/formats")
        return Verdict("rejected", findings=(finding,), provider=name, model=told)
    tokens, notes = completion_tokens(turn.usage)
    tools, wire = offers_tools(exchange.request), wire_style(call.arguments for call in turn.tool_calls)
    return Known(turn, fmt, thinking_of(exchange), habits_of, told or fmt.name, tokens, tools, wire, name, notes)


def find_answer_format(told: str | None, said: str | None, provider: str | None, kit: Kit) -> Format | None:
    """The format of an answer: what the recorded stack implies, else the line's model, else the response's.

    None where the line and the response name models of two formats: then nobody knows who answered.
    """
    implied = kit.habits.implies_format.get(provider or "")
    if implied:
        return next((f for f in kit.formats if f.name == implied), None)
    found = {f.name: f for f in (find_format(name, kit.formats) for name in (told, said)) if f is not None}
    return next(iter(found.values())) if len(found) == 1 else None


def completion_tokens(usage: Usage | None) -> tuple[int | None, tuple[Finding, ...]]:
    """What was billed for the answer: some hosts count reasoning outside completion_tokens."""
    if usage is None or usage.completion_tokens is None:
        return None, ()
    billed, total, prompt = usage.completion_tokens, usage.total_tokens, usage.prompt_tokens
    if total is None or prompt is None or total - prompt == billed:
        return billed, ()
    if total - prompt == billed + (usage.reasoning_tokens or 0):
        text = f"reasoning is billed outside completion_tokens: {billed} + {usage.reasoning_tokens} = {total - prompt}"
        return total - prompt, (Finding("reasoning-outside", "usage", text, fatal=False),)
    text = f"total_tokens {total} - prompt_tokens {prompt} is not completion_tokens {billed}"
    return None, (Finding("totals-disagree", "usage", text, fatal=False),)


def _no_answer(exchange: Exchange, error: ProviderError) -> Verdict:
    said = f"{error.code}: " if error.code else ""
    raw = f" ({error.raw})" if error.raw else ""
    finding = Finding("provider-error", "response", f"{said}{error}{raw}")
    return Verdict("rejected", findings=(finding,), provider=error.provider or exchange.provider, model=exchange.model)


def traits_of(known: Known, kit: Kit, mode: bool) -> Traits:
    """The provider's traits for this answer's key, in one mode.

    A section that came as raw text ended either as a text or as calls do: only what holds for both is known.
    """
    turn = known.turn
    if turn.finish_reason == "length":
        return _traits_for("length", known, kit, mode)
    calls = _traits_for("tool_calls", known, kit, mode)
    if turn.tool_calls:
        return calls
    text = _traits_for("stop", known, kit, mode)
    if turn.shows_section:
        return {trait: value for trait, value in text.items() if calls.get(trait) == value}
    return text


def _traits_for(finish: str, known: Known, kit: Kit, mode: bool) -> Traits:
    traits = kit.habits.traits(
        known.provider,
        model=known.model,
        format=known.fmt.name,
        thinking=mode,
        finish=finish,
        stream=known.turn.chunks is not None,
        tools=known.has_tools,
        wire=known.wire,
    )
    return {"argument_types": "kept", **traits} if stream.arguments_seen(known.turn, traits) else traits


def _verdict(known: Known, exchange: Exchange, kit: Kit) -> Verdict:
    modes = readings.modes(known.turn, known.fmt, known.thinking)
    traits = traits_of(known, kit, modes[0])
    answered = kit.habits.provider_name(known.turn.provider or exchange.provider)
    case = checks.Case(
        known.turn,
        known.fmt,
        known.thinking,
        traits,
        exchange.request,
        answered,
        same_provider,
        known.completion_tokens,
    )
    thinking = known.thinking if known.thinking is not None else (modes[0] if len(modes) == 1 else None)
    prompt, mismatch = prompt_status(exchange.request, known.turn, known.fmt, thinking, traits, kit.encode_prompt)
    findings = (*known.notes, *checks.check(case), *((mismatch,) if mismatch else ()))
    base = Verdict(
        "rejected",
        findings=findings,
        prompt=prompt,
        truncated=known.turn.finish_reason == "length",
        format=known.fmt.name,
        thinking=thinking,
        provider=known.named,
        model=known.model,
        completion_tokens=known.completion_tokens,
    )
    if known.turn.reported is not None:
        offset = witnesses.billed_offset(traits, known.fmt, modes[0], cut=base.truncated)
        replay = replay_of(known.provider, exchange.request, modes[0], kit.vocab)
        report = exact.reported(known.turn, known.fmt, kit.vocab, known.completion_tokens, offset, replay)
        if report is not None:
            return _reported(base, report)
    return base if any(f.fatal for f in findings) else _tried(base, known, traits, kit, modes)


def _tried(base: Verdict, known: Known, traits: Traits, kit: Kit, modes: Sequence[bool]) -> Verdict:
    """The verdict by readings and witnesses."""
    try:
        tried = try_readings(known, kit, traits, modes)
    except readings.SearchBound as error:
        return replace(base, findings=(*base.findings, Finding("search-bound", "readings", str(error))))
    offset = witnesses.billed_offset(traits, known.fmt, modes[0], cut=base.truncated)
    told = _told(base, tried.outcome, len(tried.common))
    more = _placeholder(tried.outcome, known, kit, offset)
    return replace(told, findings=(*told.findings, *more)) if more else told


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome, the trials of rank 0, and those of rank 1 ([] where the outcome did not need them)."""

    outcome: Outcome
    common: list[Trial]
    rare: list[Trial]


def try_readings(known: Known, kit: Kit, traits: Traits, modes: Sequence[bool]) -> Tried:
    """Every reading of an answer, and what comes of them; SearchBound where there are too many."""
    common, rare = _common(known, kit, traits, modes), list[Trial]()

    def ask() -> list[Trial]:
        # of a cut answer only what came is believed; and with the mode unknown a rare reading exists once a mode
        if known.turn.finish_reason != "length" and len(modes) == 1:
            rare.extend(_rare(common, known, traits, kit, modes[0]))
        return rare

    return Tried(verdict.decide(common, ask, lost_text=traits.get("lost_text") != "no"), common, rare)


def _placeholder(outcome: Outcome, known: Known, kit: Kit, offset: int | None) -> tuple[Finding, ...]:
    """The tag for calls without content whose bill lacks just the ids of a placeholder that some hosts filter out."""
    trial, billed, turn = outcome.trial, known.completion_tokens, known.turn
    if outcome.name != "rejected" or trial is None or billed is None or offset is None:
        return ()
    missing = billed - offset - witnesses.n_before_end(trial.ids.ids, known.fmt)
    if turn.content or not turn.tool_calls or missing != len(kit.encode(PLACEHOLDER)):
        return ()
    text = f"{missing} ids were billed beyond what came: a host that filters {PLACEHOLDER!r} looks like this"
    return (Finding("placeholder-filtered", "content", text, fatal=False),)


def _reported(base: Verdict, report: exact.Report) -> Verdict:
    findings = tuple(replace(f, fatal=False) if f.code in exact.BELIEVED_WITH_IDS else f for f in base.findings)
    if report.doubt:
        findings = (*findings, Finding("ids-contradict-answer", "token_ids", report.doubt))
    says: Literal["supports", "contradicts"] = "contradicts" if report.doubt else "supports"
    told = Testimony("reported", says, report.doubt or f"{len(report.ids.ids)} ids reported")
    base = replace(base, findings=findings, witnesses=(told,))
    if any(f.fatal for f in findings):
        return base
    return replace(base, name="exact", ids=report.ids, premise="none")


def _told(base: Verdict, outcome: Outcome, n_readings: int) -> Verdict:
    trial = outcome.trial
    accepted = outcome.name == "verified" and trial is not None
    return replace(
        base,
        name=outcome.name,
        ids=verdict.certified(outcome.ids) if base.truncated else outcome.ids,
        findings=(*base.findings, *outcome.findings),
        witnesses=trial.testimony if trial else (),
        assumptions=trial.reading.assumptions if trial else (),
        n_readings=n_readings,
        # single chunks cannot see control ids, so only reports close every door
        premise="count" if accepted else base.premise,
    )


def _common(known: Known, kit: Kit, first: Traits, modes: Sequence[bool]) -> list[Trial]:
    """Trials of rank 0 in every mode, of which the first has these traits."""
    trials = []
    for mode in modes:
        traits = first if mode is modes[0] else traits_of(known, kit, mode)
        found = readings.readings(known.turn, known.fmt, mode, traits)
        trials += [_trial(row, known, kit, traits, mode) for row in found]
    return trials


def _rare(common: Sequence[Trial], known: Known, traits: Traits, kit: Kit, mode: bool) -> list[Trial]:
    """Trials of rank 1: of readings of their own, and of the common ones split as a stream shows."""
    found = readings.readings(known.turn, known.fmt, mode, traits, rare=True)
    split = (stream.chunkwise(t.reading, known.turn, traits, kit.encode, kit.vocab.ranks) for t in common)
    return [_trial(row, known, kit, traits, mode) for row in (*found, *split) if row is not None]


def _trial(reading: Reading, known: Known, kit: Kit, traits: Traits, mode: bool) -> Trial:
    row, vocab = ids.build(reading, kit.encode), kit.vocab
    scene = Scene(
        reading, row, known.turn, known.fmt, traits, mode, known.completion_tokens, kit.encode, vocab.ranks, vocab.find
    )
    trial = Trial(reading, row, witnesses.hear(scene))
    return trial if trial.contradicted else replace(trial, ids=joins.masked(row, traits, vocab, kit.encode))
