"""harness.report: verdicts as rows, lines, tables and tokens."""

import re
import sys
from typing import Any

import pytest

from harness import report, types
from harness.encoder import load_vocab
from harness.inputs import Entry
from harness.report import (
    ORIGIN_STYLES,
    Progress,
    Tally,
    coloured_tokens,
    line,
    piece,
    plain_table,
    printable,
    reasons,
    rich_table,
    row,
    token_rows,
    trouble_row,
)
from harness.types import Finding, Ids, Origin, Verdict

IDS = Ids([19180, 163607, 127, 163586], bytes([Origin.CANONICAL, Origin.TEMPLATE, Origin.INFERRED, Origin.REPORTED]))
GOOD = Verdict(
    "verified",
    IDS,
    assumptions=("spaces",),
    witnesses=(types.Testimony("bill", "supports", "4 = 4"),),
    findings=(Finding("marker-in-text", "content", "x", fatal=False),),
    premise="count",
    format="kimi-k2.5",
    thinking=True,
    provider="P",
    model="m",
    completion_tokens=4,
    prompt="verified",
)
BAD = Verdict(
    "rejected",
    witnesses=(
        types.Testimony("chunks", "supports", "fine"),
        types.Testimony("bill", "contradicts", "5 ids, billed 7"),
    ),
    findings=(Finding("bill-mismatch", "usage", "5 ids, billed 7"), Finding("note", "", "n", fatal=False)),
    model="m",
    provider="P",
    completion_tokens=7,
)


def test_row_tells_everything() -> None:
    """Every key that is promised, each with its value; ids, origins and loss mask are of one length."""
    assert row("n", GOOD, "abc") == {
        "name": "n",
        "model": "m",
        "provider": "P",
        "verdict": "verified",
        "ids": [19180, 163607, 127, 163586],
        "origins": ["canonical", "template", "inferred", "reported"],
        "loss_mask": [1, 1, 0, 1],
        "n_ids": 4,
        "n_inferred": 1,
        "completion_tokens": 4,
        "premise": "count",
        "truncated": False,
        "witnesses": [{"witness": "bill", "says": "supports", "reason": "4 = 4"}],
        "assumptions": ["spaces"],
        "findings": [{"code": "marker-in-text", "where": "content", "text": "x"}],
        "format": "kimi-k2.5",
        "thinking": True,
        "prompt": "verified",
        "habits_sha256": "abc",
        "error": None,
    }


def test_a_rejected_row_has_no_ids() -> None:
    """Nothing to train on by mistake."""
    got = row("n", BAD, "abc")

    assert (got["verdict"], got["ids"], got["origins"], got["loss_mask"], got["premise"]) == (
        "rejected",
        [],
        [],
        [],
        None,
    )


def test_a_row_of_trouble_has_the_same_keys() -> None:
    """A reader of columns finds all of them; `error` says why nothing is known."""
    got = trouble_row(Entry("p", 3, trouble="empty"), "abc")

    assert list(got) == list(row("n", GOOD, "abc"))
    assert (got["name"], got["verdict"], got["error"], got["ids"]) == ("p:3", None, "empty", [])


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (GOOD, "verified   n: 4 ids, bill 4, 1 masked, premise count - marker-in-text"),
        (BAD, "rejected   n: bill 7 - bill-mismatch: 5 ids, billed 7"),
        (
            Verdict("unverified", witnesses=(types.Testimony("bill", "silent", "no usage"),)),
            "unverified n: no bill - bill: no usage",
        ),
        (Verdict("exact", Ids([5], b"\0"), truncated=True), "exact      n: 1 ids, no bill, cut"),
    ],
)
def test_lines(verdict: Verdict, text: str) -> None:
    """One line says what it is and why; with colour it says the same."""
    assert line("n", verdict, colour=False) == text
    assert re.sub(r"\x1b\[[0-9;]*m", "", line("n", verdict, colour=True)) == text
    assert "\x1b[" in line("n", verdict, colour=True)


def test_nothing_of_a_file_reaches_the_terminal_raw() -> None:
    """Escapes, line breaks and bidi marks in foreign text come as escapes; other text comes as it is."""
    assert printable("a\x1b[2J\nb\u202ec") == "a\\x1b[2J\\nb\\u202ec"
    assert printable("Größe 世界") == "Größe 世界"
    assert printable("a\ud800\udcff") == "a\\ud800\\udcff"
    assert printable("\udce4\udcb8\udc96\udcff") == "世\\xff"
    assert "\x1b" not in line("\x1b]0;x\x07", BAD, colour=False)


@pytest.mark.parametrize(
    ("names", "n_unusable", "code"),
    [
        ((), 0, 0),
        (("exact", "verified"), 0, 0),
        (("exact", "unverified"), 0, 3),
        (("unverified", "rejected"), 0, 1),
        (("rejected",), 1, 2),
        (("exact",), 1, 2),
    ],
)
def test_exit_codes(names: tuple[Any, ...], n_unusable: int, code: int) -> None:
    """Unusable input outranks a rejection, a rejection outranks what is unverified."""
    tally = Tally(n_unusable=n_unusable)
    for name in names:
        tally.add(Verdict(name))

    assert tally.exit_code == code


def test_the_table_counts_by_model_and_provider() -> None:
    """A row a pair, the commonest findings named."""
    tally = Tally()
    for verdict in (GOOD, GOOD, BAD, Verdict("unverified", provider="A")):
        tally.add(verdict)

    assert tally.rows() == [
        ("?", "A", "1", "0", "0", "1", "0", "0", "0", ""),
        ("m", "P", "3", "0", "2", "0", "1", "8", "2", "marker-in-text 2, bill-mismatch 1, note 1"),
    ]


def test_plain_table() -> None:
    """Columns line up, numbers to the right, no blanks at the ends."""
    assert list(plain_table(("a", "b", "n", "why"), [("xx", "y", "10", ""), ("x", "yy", "7", "z")])) == [
        "a   b    n  why",
        "xx  y   10",
        "x   yy   7  z",
    ]


def test_rich_table_reads_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A provider called [red] is a name, not a colour."""
    rich_table(("a", "b", "n", "why"), [("[red]x", "y", "1", "")])

    assert "[red]x" in capsys.readouterr().out


def test_token_rows() -> None:
    """A token a line: place, id, origin, piece; control ids by name, bytes that are no text as bytes."""
    assert list(token_rows(GOOD, load_vocab())) == [
        "     0   19180  canonical  'Hello'",
        "     1  163607  template   </think>",
        "     2     127  inferred   b'\\xc3'",
        "     3  163586  reported   <|im_end|>",
    ]


def test_pieces_of_marker_text_and_of_markers_differ() -> None:
    """Ordinary tokens are quoted, control ids are not: no text can pass for one."""
    vocab = load_vocab()

    assert piece(vocab, 163607) == "</think>"
    assert piece(vocab, 163533) == "'chas'"


def test_coloured_tokens_show_ids_origins_and_boundaries(capsys: pytest.CaptureFixture[str]) -> None:
    """Neighbours differ in shade, control ids have their number, white space can be seen, each origin has a colour."""
    vocab = load_vocab()
    two = Verdict("exact", Ids([220, 198, 19180, 163586], bytes([3, 3, 3, 2])))

    coloured_tokens(two, vocab)

    out = capsys.readouterr().out
    text = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert text.startswith("·↵\nHello 163586 <|im_end|> ")
    assert "origins: template  canonical" in text
    shades = re.findall(r"48;5;(\d+)m", out) or re.findall(r"48;2;[\d;]+m", out)
    assert len(set(shades)) >= 2
    assert len(set(ORIGIN_STYLES.values())) == len(Origin)


def test_progress_shows_itself_late(capsys: pytest.CaptureFixture[str]) -> None:
    """Short runs show nothing, long ones count on stderr and leave stdout alone; switched off, it stays silent."""
    times = iter([0.0, 0.5, 2.0])
    with Progress(True, lambda: next(times), what="prompts read") as tick:
        tick()
        assert capsys.readouterr().err == ""
        tick()
        sys.stdout.write("a row\n")
        tick()
    out, err = capsys.readouterr()
    assert "prompts read" in err
    assert out == "a row\n"
    with Progress(False) as tick:
        tick()
    assert (tick.n, capsys.readouterr().err) == (1, "")


def test_reasons_begin_with_the_contradiction() -> None:
    """Of a rejected answer the place where reading and witness part comes first; an accepted one has none."""
    assert list(reasons(BAD)) == [
        "reading and witness part at: 5 ids, billed 7 (bill)",
        "finding bill-mismatch in usage: 5 ids, billed 7",
        "finding note: n",
        "witness chunks supports: fine",
        "witness bill contradicts: 5 ids, billed 7",
    ]
    assert list(reasons(GOOD)) == [
        "finding marker-in-text in content: x",
        "witness bill supports: 4 = 4",
        "assumed: spaces",
    ]


@pytest.mark.parametrize(
    ("done", "elapsed_s", "expected"),
    [
        (0, 5.0, ""),
        (1_000, 0.0, ""),
        (1_000_000, 100.0, "1,000,000 of 138,000,000 tokens, 10,000 tokens/s, 0.573 GB/s, 3:48:20 to go"),
        (138_000_000, 9000.0, "138,000,000 of 138,000,000 tokens, 15,333 tokens/s, 0.879 GB/s, 0:00:00 to go"),
    ],
)
def test_throughput(done: int, elapsed_s: float, expected: str) -> None:
    """Tokens and bytes a second, and the time to the end."""
    assert report.throughput(done, 138_000_000, done * 57_344, elapsed_s) == expected


def test_without_a_terminal_a_line_now_and_then() -> None:
    """At most one in 30 seconds, whatever is done in between."""
    times = iter([0.0, 10.0, 31.0, 40.0, 62.0])
    said: list[str] = []

    progress = report.Throughput(100, bar=False, say=said.append, clock=lambda: next(times))
    for _ in range(4):
        progress(20, 1000)
    progress.close()

    assert [line.partition(" of")[0] for line in said] == ["40", "80"]


def test_a_bar_is_drawn_on_stderr_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """Rows meant for a file never share it with a bar."""
    progress = report.Throughput(100, bar=True, say=lambda _: None)
    progress(100, 5_000_000)
    progress.close()

    out, err = capfd.readouterr()
    assert out == ""
    assert "100 of 100 tokens" in err
