"""`tokenproof golden`: true ids from a running engine, and how often they are what encoding their text would give.

Part of the command: it may print. The work is in `runners`, imported inside the functions: no other command pays for
it. Knows nothing of HTTP.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import report
from harness.cli_base import clean_ends, judging, model_format
from harness.cli_roundtrip import roundtrip
from harness.encoder import encode_ordinary, encode_prompt_text
from harness.errors import HarnessError, SetupError
from harness.formats import find_format, formats

if TYPE_CHECKING:
    from runners.engines import Told
    from runners.golden import Plan
    from runners.golden_files import Change, Row

golden = typer.Typer(
    name="golden",
    help="True ids of a running engine: capture them, and measure how often a model splits text in a way of its own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MAX_TIMEOUT_S = 86_400.0

Prompts = Annotated[
    list[str], typer.Argument(metavar="PROMPTS...", help="JSONL (.gz): a line a prompt, `messages` or `prompt_ids`.")
]
UrlOption = Annotated[str, typer.Option("--url", metavar="URL", help="A running SGLang or vLLM server.")]
OutOption = Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where golden folders stand.")]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name of the golden folder; ENGINE-VERSION-MODEL.")
]
FormatOption = Annotated[
    str | None, typer.Option("--model", metavar="M", help="Render as for this model, whatever the server calls it.")
]
ThinkingOption = Annotated[
    bool | None, typer.Option("--thinking/--no-thinking", help="For lines that do not say it themselves.")
]
MaxTokensOption = Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Longest answer, in ids.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", metavar="S", help="Seconds for one answer.")]
EngineOption = Annotated[
    str | None, typer.Option("--engine", metavar="NAME", help="sglang or vllm, where the server does not say.")
]
VersionOption = Annotated[
    str | None, typer.Option("--engine-version", metavar="V", help="Its version, where it does not say.")
]
FlagsOption = Annotated[
    str | None, typer.Option("--flags", metavar="TEXT", help="What the server was started with, to be noted.")
]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="TEXT", help="Where these goldens come from, in words.")
]
BareOption = Annotated[bool, typer.Option("--bare", help="Ask for no ids in chat answers: text and bill must do.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a golden, and nothing else.")]
CreateOption = Annotated[bool, typer.Option("--create", help="Write goldens that do not exist.")]
FixOption = Annotated[bool, typer.Option("--fix", help="Replace goldens whose ids or answer differ.")]
UpdateOption = Annotated[bool, typer.Option("--update", help="Rewrite goldens that say the same in another way.")]


@golden.command()
def capture(
    prompts: Prompts,
    url: UrlOption,
    out: OutOption = "golden",
    label: LabelOption = None,
    model: FormatOption = None,
    thinking: ThinkingOption = None,
    max_tokens: MaxTokensOption = 2048,
    timeout: TimeoutOption = 600.0,
    engine: EngineOption = None,
    engine_version: VersionOption = None,
    flags: FlagsOption = None,
    source: SourceOption = None,
    bare: BareOption = False,
    create: CreateOption = False,
    fix: FixOption = False,
    update: UpdateOption = False,
    as_json: JsonLines = False,
) -> None:
    """Ask a running engine for true ids: prompts go in as ids, output ids come back, greedily sampled.

    A server whose tokenizer disagrees with the pinned vocabulary is refused before anything is asked. A line of PROMPTS
    holds `messages` (and perhaps tools, thinking, name), or `prompt_ids` alone. With messages the chat answer to the
    same prompt is asked too, whole and streamed; it is stored only if it is the same generation - same prompt, same
    count, same ids or text - and refused with the reason if it is not.

    Nothing is written without a flag; each change is shown as a diff. With --create alone a golden that answers the
    same question is kept without asking, so a run that was broken off is taken up by the same command. No key is sent.

    \b
    exit code 0  every golden stands as the engine answers
              1  an answer was refused, or a change waits for its flag
              2  wrong call, no such server, another tokenizer, or a prompt without an answer

    \b
    examples:
      tokenproof golden capture --url http://127.0.0.1:30000 prompts.jsonl --create
      tokenproof golden capture --url http://127.0.0.1:8000 prompts.jsonl --model kimi-k2.5 --flags "--tp 8" --create
      tokenproof golden capture --url http://127.0.0.1:30000 prompts.jsonl            # does it still answer so?
      tokenproof golden capture --url http://127.0.0.1:30000 prompts.jsonl --fix --json | jq -r .reason
    """
    typed = Typed(
        prompts, url, out, label, model, thinking, max_tokens, timeout, engine, engine_version, flags, source, bare
    )
    changes: tuple[tuple[Change, bool], ...] = (("create", create), ("fix", fix), ("update", update))
    allowed = frozenset(name for name, yes in changes if yes)
    with clean_ends():
        statuses: Counter[str] = Counter()
        try:
            for row in _captured(typed, allowed):
                statuses[row.status] += 1
                _print_row(row, as_json)
        except HarnessError as error:
            raise SetupError(str(error)) from error
        finally:
            if statuses and not as_json:
                print(", ".join(f"{n} {status}" for status, n in sorted(statuses.items())))
        codes = {"failed": report.EXIT_UNUSABLE, "refused": report.EXIT_REJECTED, "pending": report.EXIT_REJECTED}
        raise typer.Exit(max((codes.get(status, 0) for status in statuses), default=0))


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed for `capture`, beside the changes that it allows."""

    prompts: list[str]
    url: str
    out: str
    label: str | None
    model: str | None
    thinking: bool | None
    max_tokens: int
    timeout: float
    engine: str | None
    engine_version: str | None
    flags: str | None
    source: str | None
    bare: bool


def _captured(typed: Typed, allowed: "frozenset[Change]") -> "Iterator[Row]":
    from runners.engine_http import Server  # late: httpx costs as much time as judging a hundred answers
    from runners.engines import identify
    from runners.golden import capture, expected
    from runners.probes import check_tokenizer
    from runners.prompts import asks_of, read_lines

    _refuse_wrong(typed)  # what can be known to be wrong is told before anything is asked
    fmt = model_format(typed.model)
    lines = read_lines(typed.prompts)
    asks = asks_of(lines, fmt, typed.thinking, encode_prompt_text) if fmt else []
    kit = judging(None, None, False, None).kit
    with Server(typed.url, timeout_s=typed.timeout) as server:
        told = identify(server, typed.engine, typed.engine_version)
        plan = _plan(typed, told, allowed)
        asks = asks or asks_of(lines, plan.fmt, typed.thinking, encode_prompt_text)
        check_tokenizer(server, told, kit.vocab, encode_ordinary)
        with _waiting(expected(asks)) as tick:
            for row in capture(asks, server, plan, kit):
                tick()
                yield row


def _refuse_wrong(typed: Typed) -> None:
    from runners.engines import ENGINES, VERSION
    from runners.prompts import NAME

    out = Path(typed.out)
    faults = {
        f"--engine {typed.engine!r}; expected one of {sorted(ENGINES)}": typed.engine not in (None, *ENGINES),
        f"--engine-version {typed.engine_version!r}; expected a version such as 0.5.23": (
            typed.engine_version is not None and not VERSION.fullmatch(typed.engine_version)
        ),
        f"--label {typed.label!r} cannot be a folder; expected letters, digits, `.`, `_` and `-`, 100 at most": (
            typed.label is not None and not NAME.fullmatch(typed.label)
        ),
        f"--timeout {typed.timeout:g}; expected seconds, from 0.1 to {MAX_TIMEOUT_S:g}": (
            not 0.1 <= typed.timeout <= MAX_TIMEOUT_S
        ),
        f"--out {typed.out} cannot be read: Not a directory; choose another --out": out.exists() and not out.is_dir(),
    }
    if found := [said for said, wrong in faults.items() if wrong]:
        raise SetupError("\n".join(found))


def _plan(typed: Typed, told: "Told", allowed: "frozenset[Change]") -> "Plan":
    from runners.golden import Plan, label_of

    fmt = find_format(typed.model or told.model, formats())
    if fmt is None:
        said = f"the engine calls its model {told.model!r}"
        raise SetupError(f"{said}, which no format covers; name one with --model, such as kimi-k2.5")
    label = typed.label or label_of(told)
    flags = dict(told.flags) | ({"typed": typed.flags} if typed.flags else {})
    source = f"Recorded from {told.title} serving {told.model}, greedy, by tokenproof golden capture."
    source = typed.source or source
    return Plan(Path(typed.out), label, told, fmt, flags, source, typed.max_tokens, typed.bare, allowed)


@contextmanager
def _waiting(n: int) -> Iterator[Callable[[], None]]:
    """A line on stderr for a person who waits; call what it gives once a golden."""
    done = -1

    def tick() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r\x1b[K{done} of {n} goldens asked ", end="", file=sys.stderr, flush=True)

    tick()
    try:
        yield tick
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _print_row(row: "Row", as_json: bool) -> None:
    from runners.golden_files import row_json

    if as_json:
        print(row_json(row), flush=True)
        return
    ids = f"{row.n_ids} ids" if row.n_ids else ""
    said = ", ".join(part for part in (ids, row.reason) if part)
    print(report.printable(f"{row.status:<8} {row.name}: {said}"), flush=True)
    for line in row.diff:
        print(f"    {report.printable(line)}", flush=True)


golden.command()(roundtrip)
