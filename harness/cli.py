"""The command: arguments in, lines and exit codes out.

Knows nothing of how a verdict comes about. Start-up is part of the job: what a command does not need, it does not
import.
"""

import json
import signal
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import typer

from harness import __version__, report, store
from harness.cli_base import (
    INTERRUPTED,
    BlindOption,
    HabitsOption,
    Judging,
    ModelOption,
    Paths,
    ProviderOption,
    clean_ends,
    coloured,
    complain,
    judging,
    say,
)
from harness.cli_calibrate import calibrate
from harness.cli_drift import drift
from harness.cli_extract import extract
from harness.cli_gate import gate
from harness.cli_generate import generate
from harness.cli_golden import golden
from harness.cli_plan import plan
from harness.cli_providers import providers
from harness.cli_record import record
from harness.cli_report import report_page
from harness.cli_samples import export, rejudge
from harness.cli_shards import shards
from harness.errors import SetupError
from harness.inputs import Entry
from harness.types import Verdict

app = typer.Typer(
    name="tokenproof",
    help="Prove which token ids a model sampled, from the text that an API returned.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text: rich costs 50 ms that no answer should wait for
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    """Prove which token ids a model sampled, from the text that an API returned."""
    if version:
        print(f"tokenproof {__version__}")
        raise typer.Exit


@app.command()
def check(
    paths: Paths,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object an input line, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The table alone, no line an answer.")] = False,
    model: ModelOption = None,
    provider: ProviderOption = None,
    blind: BlindOption = False,
    habits: HabitsOption = None,
) -> None:
    """Judge every answer: which ids does it stand for, and how sure is that?

    A line of JSONL is an answer, or an object with `response` and perhaps name, request, provider, model, thinking, url
    and index; nothing else of it is read. Blank lines are passed over, in cassettes everything but POSTs, in folders
    files with other endings. An input that is no answer is named on stderr (with --json also as a row, verdict null,
    with `error`), and the rest is still checked.

    \b
    exit code 0  every answer is exact or verified
              1  an answer is rejected
              3  none is rejected, but one is unverified
              2  wrong call, or an input that is no answer

    \b
    examples:
      tokenproof check answer.json
      tokenproof check answers.jsonl.gz recorded/ --quiet
      tokenproof check answers.jsonl --json | jq -c 'select(.verdict == "rejected") | [.name, .findings]'
      tokenproof check golden/vllm-0.32.0 --blind --as unknown
    """
    with clean_ends():
        raise typer.Exit(_check(paths, judging(model, provider, blind, habits), as_json, quiet))


def _check(paths: list[str], judge_of: Judging, as_json: bool, quiet: bool) -> int:
    tally, colour, sha256 = report.Tally(), coloured(), judge_of.kit.habits.sha256
    waiting = sys.stderr.isatty() and (quiet or (as_json and not sys.stdout.isatty()))
    with report.Progress(waiting) as tick:
        for name, found in map(judge_of.judged, store.read(paths)):
            tick()
            if isinstance(found, Entry):
                tally.n_unusable += 1
                complain(f"{found.place}: {found.trouble}")
                if as_json:
                    say(json.dumps(report.trouble_row(found, sha256)))
                continue
            tally.add(found)
            if as_json:
                say(json.dumps(report.row(name, found, sha256)))
            elif not quiet:
                say(report.line(name, found, colour))
    if not as_json:
        _print_table(tally)
    return tally.exit_code


def _print_table(tally: report.Tally) -> None:
    rows = tally.rows()
    if rows and sys.stdout.isatty():
        sys.stdout.flush()
        report.rich_table(report.HEADERS, rows)
    elif rows:
        say("", *report.plain_table(report.HEADERS, rows))
    if tally.n_unusable:
        say(f"{tally.n_unusable} inputs are no answers and were not judged (named on stderr)")


@app.command()
def show(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file as for check.")],
    name: Annotated[str | None, typer.Option("--name", help="The answer of this name.")] = None,
    line: Annotated[int | None, typer.Option("--line", min=1, help="The answer on this line.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every answer, not the first alone.")] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="A token a line, as it always is where no colour can be.")
    ] = False,
    model: ModelOption = None,
    provider: ProviderOption = None,
    blind: BlindOption = False,
    habits: HabitsOption = None,
) -> None:
    """Show the tokens of an answer: control ids, origins and boundaries; of a rejected one, what contradicts it.

    \b
    examples:
      tokenproof show answer.json
      tokenproof show answers.jsonl.gz --line 17
      tokenproof show golden/sglang-0.5.23/plain.chat_tools.json --blind --rows
    """
    with clean_ends():
        judge_of = judging(model, provider, blind, habits)
        picked = (e for e in store.read([path]) if name in (None, e.name) and line in (None, e.line))
        found = map(judge_of.judged, picked)
        code = _show(found if everything else islice(found, 1), judge_of, rows)
        if code is None:
            raise SetupError(f"{path}: no answer with this name or line; `tokenproof check {path}` lists them")
        if not everything and next(picked, None):
            complain("more answers follow; --line N or --name NAME picks one, --all shows them all")
        raise typer.Exit(code)


def _show(answers: Iterable[tuple[str, Verdict | Entry]], judge_of: Judging, rows: bool) -> int | None:
    """The exit code; None where there is no answer."""
    tally, colour = report.Tally(), coloured()
    for name, found in answers:
        if isinstance(found, Entry):
            tally.n_unusable += 1
            complain(f"{found.place}: {found.trouble}")
            continue
        tally.add(found)
        say(report.line(name, found, colour))
        for text in report.reasons(found):
            say(f"  {text}")
        if found.ids.ids and colour and not rows:
            sys.stdout.flush()
            report.coloured_tokens(found, judge_of.kit.vocab)
        elif found.ids.ids:
            say(*report.token_rows(found, judge_of.kit.vocab))
    return tally.exit_code if tally.groups or tally.n_unusable else None


app.command()(calibrate)
app.command()(drift)
app.command()(extract)
app.command()(record)
app.command("report")(report_page)
app.command()(gate)
app.command()(generate)
app.command()(providers)
app.command()(plan)
app.command()(rejudge)
app.command()(export)
app.add_typer(golden)
app.add_typer(shards)


def main() -> None:
    """The console script."""
    try:
        app()
    except (KeyboardInterrupt, SystemExit) as ended:
        code = getattr(ended, "code", INTERRUPTED)
        if code == INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # python would die of a second one while it ends
        sys.exit(code)


if __name__ == "__main__":
    main()
