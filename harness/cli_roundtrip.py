"""`tokenproof golden roundtrip`: how often the ids of golden files are what encoding their text would give.

Part of the command: it may print. The work is in `runners`, imported inside the functions. Knows nothing of engines.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import report, store
from harness.cli_base import JsonOption, clean_ends, complain
from harness.encoder import encode_ordinary, load_vocab
from harness.errors import SetupError
from harness.inputs import Golden
from harness.settings import settings
from harness.vocab import Vocab

if TYPE_CHECKING:
    from runners.roundtrip import Tally

GoldenPaths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Golden files (.gz too), or folders of them.")
]


def roundtrip(paths: GoldenPaths, as_json: JsonOption = False) -> None:
    """Measure how often encode(decode(ids)) == ids in golden files: the rate of non-canonical sampling.

    By engine and source, and by kind: reasoning, content, header and arguments of tool calls, and what stands between
    the markers of a section. Every place where other ids were sampled than encoding gives is listed. The same ids for
    the same prompt count once, however many goldens hold them. Goldens whose ids were chosen - their source says so -
    tell nothing of a model.

    \b
    exit code 0  done
              2  wrong call, or a file that is no golden (it is named, and the rest is still measured)

    \b
    examples:
      tokenproof golden roundtrip golden/sglang-0.5.23-kimi-k2.5-generate
      tokenproof golden roundtrip golden --json | jq '.groups[] | [.engine, .places, .ids]'
    """
    from runners.roundtrip import group, measure

    with clean_ends():
        vocab = load_vocab(settings().vocab)
        bad: list[str] = []
        tallies = measure(_goldens(paths, bad), vocab, encode_ordinary)
        if as_json:
            groups = [group(tally, vocab) for tally in tallies]
            print(json.dumps({"groups": groups, "unusable": len(bad)}, ensure_ascii=False))
        else:
            for tally in tallies:
                _print_tally(tally, vocab)
        raise typer.Exit(report.EXIT_UNUSABLE if bad else 0)


def _goldens(paths: list[str], bad: list[str]) -> Iterator[Golden]:
    """Every golden of every path; names what is none, and notes it in `bad`."""
    for path in paths:
        folder = Path(path).is_dir()
        files = [file for file in store.walk(path) if file.removesuffix(".gz").endswith(".json")] if folder else [path]
        if not files:
            bad.append(path)
            complain(f"{path}: a folder without a golden; expected files such as NAME.json or NAME.json.gz")
        for file in files:
            try:
                yield store.read_golden(file)
            except SetupError as error:
                bad.append(file)
                complain(str(error))


def _print_tally(tally: "Tally", vocab: Vocab) -> None:
    print(report.printable(f"{tally.engine}: {tally.source}"))
    again = f", {tally.repeats} goldens repeat one of them" if tally.repeats else ""
    print(f"{tally.equal} of {tally.sequences} sequences come back as they were sampled{again}")
    heads = ("kind", "", "runs", "equal", "ids", "places", "cut", "no text", "places per million ids")
    rows = [
        (kind, "", *map(str, (c.runs, c.equal, c.ids, c.places, c.cut, c.no_text)), _million(c.rate))
        for kind, c in tally.kinds.items()
    ]
    print(*report.plain_table(heads, rows), sep="\n")
    for place in tally.places:
        sampled, canonical = (
            " ".join(f"{i} {report.piece(vocab, i)}" for i in ids) for ids in (place.sampled, place.canonical)
        )
        print(report.printable(f"  {place.name} at {place.at}, {place.kind}: {sampled}; canonical: {canonical}"))
    print()


def _million(rate: float | None) -> str:
    return "-" if rate is None else f"{rate * 1e6:.1f}"
