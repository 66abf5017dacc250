"""`tokenproof providers`: how each provider has done, and the `provider` block of a run that takes the good ones.

Part of the command: it may print. Knows nothing of how answers are judged.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report, store
from harness.cli_base import (
    HabitsOption,
    JsonOption,
    Judging,
    MeantHostOption,
    RunUrlOption,
    clean_ends,
    complain,
    finite,
    holds,
    judging,
    may_replace,
)
from harness.errors import HarnessError, SetupError
from harness.report import EXIT_OK, EXIT_REJECTED, EXIT_UNUSABLE
from harness.settings import settings
from harness.types import Exchange, Turn, Verdict

if TYPE_CHECKING:
    from harness.recording import Provenance
    from harness.scoreboard import Rule, Score, Seen
    from harness.transport import Target

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH...]", help="Files or folders of answers, as for check; `cassettes` if not given."),
]
WriteOption = Annotated[str | None, typer.Option("--write", metavar="FILE", help="Write the provider block for a run.")]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="M", help="With --write: of the run; needed where several were seen.")
]
MaxAgeOption = Annotated[
    float,
    typer.Option(
        "--max-age",
        metavar="DAYS",
        min=0.0,
        max=365.0,
        help="With --write: the newest evidence is no older.",
        callback=finite,
    ),
]
MinOption = Annotated[
    float,
    typer.Option(
        "--min-verified", metavar="SHARE", min=0.0, max=1.0, help="With --write: of an endpoint.", callback=finite
    ),
]
AnswersOption = Annotated[
    int, typer.Option("--min-answers", metavar="N", min=1, help="With --write: fewer answers prove nothing.")
]


def providers(
    paths: PathsArgument = None,
    write: WriteOption = None,
    model: ModelOption = None,
    max_age: MaxAgeOption = 7.0,
    min_verified: MinOption = 0.5,
    min_answers: AnswersOption = 5,
    base_url: RunUrlOption = None,
    allow_host: MeantHostOption = None,
    habits: HabitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a scoreboard: per endpoint and model the answers seen, their verdicts, what rejected ones were rejected by,
    what of them is evidence for the place of the run, how old that is, and the habits that are known.

    With --write also the `provider` block of a run (only, ignore, quantizations) from it, for `tokenproof generate
    --from-scoreboard FILE`. Only recordings made where the run will call are evidence: hand-made, emulated and
    engine-recorded answers, and answers without a cassette that says where they are from, are shown and never counted.

    \b
    exit code 0  done
              1  with --write: no endpoint is good enough, nothing is written
              2  wrong call, or an input that is no answer (the rest is still counted)

    \b
    examples:
      tokenproof providers
      tokenproof providers cassettes build/gate --write providers.json
      tokenproof providers answers.jsonl.gz --json | jq '.scores[] | [.provider, .verdicts.rejected, .rejected_by]'
    """
    from harness.scoreboard import scoreboard  # late: no other command needs it
    from harness.transport import target

    with clean_ends():
        may_replace(write, "--write", "provider block of `tokenproof providers`", holds(b'"provider"'))
        place = target(base_url or settings().base_url, None, allow_host or (), offline=True)
        judge_of = judging(None, None, False, habits)
        bad: list[str] = []
        scores = scoreboard(_rows(paths or ["cassettes"], judge_of, place, bad))
        now = datetime.now(UTC)
        code, block = EXIT_OK, None
        reasons: tuple[str, ...] = ()
        if write is not None:
            rule = _rule(now, _model(model, scores), max_age, min_answers, min_verified)
            block, reasons = _written(write, scores, rule, place)
            code = EXIT_REJECTED if block is None else EXIT_OK
        _tell(scores, judge_of, now, as_json, (write, block, reasons))
        raise typer.Exit(EXIT_UNUSABLE if bad else code)


def _rows(paths: list[str], judge_of: Judging, place: "Target", bad: list[str]) -> "Iterator[Seen]":
    provenance = cache(provenance_of)
    for entry in store.read(paths):
        found = judge_of.judged(entry)[1]
        if entry.exchange is None or not isinstance(found, Verdict):
            bad.append(entry.place)
            complain(f"{entry.place}: {entry.trouble or getattr(found, 'trouble', '')}")
            continue
        yield seen_of(entry.exchange, found, provenance(entry.path), place)


def seen_of(exchange: Exchange, verdict: Verdict, of: "Provenance", place: "Target") -> "Seen":
    """What the scoreboard counts of one answer; only what was recorded at the place of the run speaks for it."""
    from harness.evidence import speaks
    from harness.scoreboard import Seen

    model, pin = _asked(exchange.request)
    turn = _turn(exchange)
    stranger = turn is not None and turn.provider != of.provider_name
    return Seen(
        verdict,
        of.provider_name or verdict.provider or "?",
        of.model or model or verdict.model or "?",
        of.provider or pin,
        of.quantization,
        of.kind,
        speaks(of, place) and not stranger,
        of.at or _made(turn),
    )


def _asked(request: Mapping[str, Any]) -> tuple[str, str]:
    """The model of a request and the one endpoint that it pins, "" where it does not say."""
    model, block = request.get("model"), request.get("provider")
    only = block.get("only") if isinstance(block, dict) else None
    pin = only[0] if isinstance(only, list) and len(only) == 1 else ""
    return (model if isinstance(model, str) else ""), (pin if isinstance(pin, str) else "")


def provenance_of(path: str) -> "Provenance":
    """Where a file's answers came from; only cassettes say it."""
    from harness.cassette_files import read_recording
    from harness.recording import Provenance, complaints

    if not path.endswith((".yaml", ".yml")):
        return Provenance()
    try:
        recording = read_recording(path)
    except SetupError:
        return Provenance()
    if wrong := complaints(recording):
        complain(f"{path}: {wrong[0]}; it is evidence of nothing")
        return Provenance()
    return recording.provenance


def _turn(exchange: Exchange) -> Turn | None:
    """What an answer says, None where it is an error."""
    from harness.response import parse

    try:
        return parse(exchange.response)
    except HarnessError:
        return None


def _made(turn: Turn | None) -> datetime | None:
    """When an answer says that it was made."""
    try:
        return datetime.fromtimestamp(turn.created, UTC) if turn and turn.created else None
    except (ValueError, OverflowError, OSError):
        return None


def _model(model: str | None, scores: "tuple[Score, ...]") -> str:
    models = sorted({s.model for s in scores})
    if model is None and len(models) != 1:
        raise SetupError(f"several models were seen ({', '.join(models) or 'none'}); name the run's with --model")
    return model or models[0]


def _rule(now: datetime, model: str, max_age: float, min_answers: int, min_verified: float) -> "Rule":
    from harness.scoreboard import Rule

    return Rule(now, model, timedelta(days=max_age), min_answers, min_verified)


def _written(
    path: str, scores: "tuple[Score, ...]", rule: "Rule", place: "Target"
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The block that was written, None where nobody is good enough; and why others are left out."""
    from harness.scoreboard import run_block
    from harness.ticket import utc_text

    block, reasons = run_block(scores, rule)
    if block is not None:
        told = {"provider": block, "model": rule.model, "base_url": place.base_url, "written_at": utc_text(rule.now)}
        store.write_atomic(path, json.dumps(told | {"left_out": list(reasons)}, indent=1).encode() + b"\n")
    return block, reasons


def _tell(
    scores: "tuple[Score, ...]",
    judge_of: Judging,
    now: datetime,
    as_json: bool,
    written: tuple[str | None, dict[str, Any] | None, tuple[str, ...]],
) -> None:
    from harness.evidence_report import score_lines, score_object

    path, block, reasons = written
    habits = judge_of.kit.habits
    if as_json:
        told = {"scores": [score_object(s, habits) for s in scores], "provider": block, "left_out": list(reasons)}
        print(json.dumps(told | {"written": path if block else None}))
        return
    print(*score_lines(scores, habits, now), sep="\n")
    if path is not None:
        print("", *(report.printable(f"left out: {reason}") for reason in reasons), sep="\n")
        print(f"{path}: only {', '.join(block['only'])}" if block else "no endpoint is good enough; nothing is written")
