"""`tokenproof generate`: live bulk generation, watched, resumed by the same command.

Part of the command: it may print. The work is in `runners`, imported inside the functions.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from harness import report
from harness.cli_base import (
    INTERRUPTED,
    HabitsOption,
    KeyHostOption,
    clean_ends,
    complain,
    habits_of,
    habits_text,
    judging,
)
from harness.cli_samples import (
    BaseUrlOption,
    RunFileArgument,
    ScoreboardOption,
    UnverifiedOption,
    print_summary,
    write_samples,
)
from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.settings import settings

if TYPE_CHECKING:
    from harness.transport import Target
    from runners.bulk import Launch
    from runners.live_view import Planned
    from runners.progress import Progress, Stop, Watch

TicketOption = Annotated[
    str | None, typer.Option("--ticket", metavar="FILE", help="In the place of the run file's own.")
]
UngatedOption = Annotated[
    str | None, typer.Option("--ungated", metavar="REASON", help="Run without a ticket; every row carries the reason.")
]
AmendOption = Annotated[
    str | None, typer.Option("--amend", metavar="REASON", help="The run file or its data was changed, and why.")
]
JudgesOption = Annotated[
    int | None, typer.Option("--judges", metavar="N", min=0, max=64, help="Processes that judge; all cores but one.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="The summary as one JSON object, and nothing else.")]


def generate(
    run: RunFileArgument,
    ticket: TicketOption = None,
    ungated: UngatedOption = None,
    amend: AmendOption = None,
    scoreboard: ScoreboardOption = None,
    base_url: BaseUrlOption = None,
    allow_host: KeyHostOption = None,
    allow_unverified_prompt: UnverifiedOption = False,
    judges: JudgesOption = None,
    habits: HabitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask for every answer of a run file, judge each, and write samples; the same command takes it up again.

    The key comes from OPENROUTER_API_KEY. Nothing is asked without a valid ticket of `tokenproof gate` that fits the
    run, and nothing beyond the budget, over all resumes. What was answered is never asked again. Prompts that ended
    as `gave-up`, or as `bad-request` (a 400, which costs nothing), are asked once more by each later call, those that
    ended as `refused` (moderation) are not. A provider whose answers cannot be trained on (5% of its last 200,
    [quality]) is dropped, and where no other may answer the run pauses. Ctrl-C once lets what is under way come in,
    twice gives it up; a terminal that closes is as Ctrl-C. A data set is known by its file's name, or its `name`.
    OUT/run.log tells the course in plain lines; a terminal shows it live. For a run file see `tokenproof plan --help`.
    Answers that were judged by other code or habits than today's are judged anew first, by `tokenproof rejudge`.

    A run file or data set that changed is refused, unless --amend says why; then samples follow the new files. Answers
    to prompts that they no longer have stay in the ledger, are counted and named, and are no samples
    (`no-longer-asked`). Where only max_tokens or sampling changed, a prompt that is answered keeps its answer
    (`answered as before`). Another prompt, model or thinking mode under an id that has an answer is refused: it needs
    an id of its own.

    \b
    exit code 0  every prompt has an answer or an end of its own
              1  the run stopped before: budget, quality, key, a bill above its reservation; the reason is told
            130  interrupted
              2  wrong call, or it may not start: faults of the run file, no ticket, another run in this folder

    \b
    examples:
      tokenproof generate run.toml
      tokenproof generate run.toml --ungated "trying the emulator" --base-url http://127.0.0.1:8000/api/v1
      tokenproof generate run.toml --amend "twice the budget" --json | jq .bill
    """
    from harness.transport import target
    from runners.live_view import said
    from runners.runfile import load_run

    with clean_ends():
        refuse_both(ticket, ungated)
        loaded = load_run(run, base_url=base_url or settings().base_url, scoreboard=scoreboard, ticket=ticket)
        to = target(loaded.base_url, settings().api_key, allow_host or ())  # a missing key is told before the survey
        n, allow = n_judges(judges), allow_unverified_prompt
        stop = run_it(launched(loaded, ungated, habits, n, amend, allow_unverified_prompt=allow), to)
        if not stop.good:
            _say(f"stopped: {said(stop)}" + ("" if stop.lasting else "; the same command goes on from here"))
        code = 0 if stop.good else INTERRUPTED if stop.why == "interrupted" else 1
        try:
            told = write_samples(loaded.out, judging(None, None, False, habits).kit, allow_unverified_prompt)
        except SetupError as error:
            if stop.good:
                raise
            complain(f"no samples were written: {error}")  # why the run stopped is what the code tells
            raise typer.Exit(code) from None
        if as_json:
            print(json.dumps(told | {"stop": {"why": stop.why, "text": stop.text}}, ensure_ascii=False))
        else:
            print_summary(told)
        raise typer.Exit(code)


def refuse_both(ticket: str | None, ungated: str | None) -> None:
    """A ticket that was typed is looked at, or the call is a wrong one (SetupError)."""
    if ticket is not None and ungated is not None:
        raise SetupError(
            "--ticket and --ungated contradict each other: one runs with a ticket, one without; leave one out"
        )


def _say(text: str) -> None:
    """To stderr, where anybody reads it: a pipe that is closed or a full disk ends no run and costs no samples."""
    with suppress(OSError):
        complain(text)


def n_judges(typed: int | None) -> int:
    """Processes that judge, as typed, else all cores but one."""
    return typed if typed is not None else max(1, (os.cpu_count() or 2) - 1)


def launched(
    run: Any,
    ungated: str | None,
    habits: str | None,
    n_judges: int,
    amend: str | None = None,
    *,
    allow_unverified_prompt: bool = False,
) -> "Launch":
    """A run that may start, as far as that can be told without asking anyone.

    Raises:
        SetupError: It may not, a line a reason.
    """
    from harness.hashes import hashes
    from runners.admission import admit
    from runners.bulk import Launch
    from runners.data_sets import survey
    from runners.judging import Recipe

    if amend is not None and not amend.strip():
        raise SetupError("--amend needs a reason in words: the ledger keeps it")
    path = habits or settings().habits
    facts, ticket = admit(run, hashes(habits_of(path)), datetime.now(UTC), ungated)
    with report.Progress(sys.stderr.isatty(), what="prompts read") as tick:
        surveyed = survey(run, encode_prompt_text, tick)
    recipe = Recipe(habits_text(path), settings().vocab, facts, allow_unverified_prompt)
    return Launch(run, surveyed, recipe, ticket, amend, n_judges=n_judges)


def run_it(launch: "Launch", to: "Target", probe: int | None = None) -> "Stop":
    """The run until it stops, watched; Ctrl-C drains it."""
    import asyncio  # late, as all that follows: no other command should pay for what bulk generation needs

    from harness.client_bulk import AiohttpTransport, run
    from runners.attempts import Outside
    from runners.backoff import wait_s
    from runners.bulk import generate
    from runners.generate import Run
    from runners.limits import unheard
    from runners.live_view import Planned

    planned = {
        told.name: Planned(min(told.n_prompts, probe or told.n_prompts), data.tokens)
        for data, told in zip(launch.run.data_sets, launch.surveyed, strict=True)
    }

    async def main() -> "Stop":
        loop = asyncio.get_running_loop()

        transport = AiohttpTransport(to)
        outside = Outside(transport, time.monotonic, time.time, asyncio.sleep, random.random, wait_s)
        try:
            with watching(launch, planned) as (watch, begin):

                def started(made: Run) -> None:
                    begin()
                    for note in unheard(launch.run, made.desk.orders.endpoints):
                        _say(f"note: {note}")
                    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                        loop.add_signal_handler(number, made.interrupt)

                counting = partial(report.Progress, sys.stderr.isatty(), what="prompts compared")
                return await generate(replace(launch, probe=probe, counting=counting), outside, watch, started)
        finally:
            await transport.close()

    return run(main())


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o666)  # a pipe that nobody reads would keep the run waiting


@contextmanager
def watching(launch: "Launch", planned: "dict[str, Planned]") -> "Iterator[tuple[Watch, Callable[[], None]]]":
    """Lines into OUT/run.log, and for whoever looks on: the live view on a terminal, the same lines on stderr else.

    Gives who watches, and what opens the log, to be called before the first request: SetupError where it cannot be.
    """
    from runners.live_view import LiveView, LogView
    from runners.output import LOG

    path = launch.run.out / LOG
    with ExitStack() as stack:
        live = stack.enter_context(LiveView(planned)) if sys.stderr.isatty() else None
        log: IO[bytes] | None = None

        def begin() -> None:
            nonlocal log
            try:
                log = stack.enter_context(open(path, "ab", buffering=0, opener=_opener))
            except OSError as error:
                said = f"{path} cannot be written: {error.strerror or error}; move it away; nothing was asked"
                raise SetupError(said) from error

        def write(line: str) -> None:
            nonlocal log
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            try:
                if log is not None:
                    log.write(f"{at} {line}\n".encode())
            except OSError as error:  # what was paid for is worth more than its log
                log = None
                _say(f"{path} cannot be written any more: {error.strerror or error}; the run goes on without it")
            if live is None:
                _say(line)

        lines = LogView(planned, write)

        def watch(now: "Progress") -> None:
            lines(now)
            if live is not None:
                with suppress(OSError):  # of a terminal that was closed
                    live(now)

        yield watch, begin
