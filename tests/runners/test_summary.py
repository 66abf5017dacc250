"""runners.summary: sums that are right, and ids against the bill with what cannot be compared kept apart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.bills import length_of
from runners.samples import take
from runners.summary import HEADERS, Asked, Bill, Summary, bill_lines, narrow, table
from tests.corpus import kit
from tests.runners.ledger_kit import unanswered
from tests.runners.run_kit import run_of
from tests.runners.sample_kit import answered
from tests.runners.test_samples import mixed


def summed(ledger: Any) -> dict[str, Any]:
    """The summary of a ledger."""
    summary = Summary()
    with ledger:
        for row in ledger.rows():
            summary.add(take(row, kit()))
    return summary.as_json(name="n")


def test_sums_by_data_set_and_provider(tmp_path: Path) -> None:
    """Verdicts, samples, ends, dollars; the totals are the sums of the groups."""
    told = summed(mixed(tmp_path))

    groups = {(g["data_set"], g["provider"]): g for g in told["groups"]}
    assert sorted(groups) == [("a", "Chutes"), ("a", "vllm-0.32"), ("b", "Chutes")]
    chutes = groups["a", "Chutes"]
    assert (chutes["answers"], chutes["verified"], chutes["rejected"], chutes["unverified"]) == (3, 1, 1, 1)
    assert (chutes["samples"], chutes["no_answer"], chutes["ends"]) == (1, 1, {"gave-up": 1})
    assert (told["answers"], told["samples"], told["open"], told["name"]) == (5, 2, 0, "n")
    for name in ("answers", "verified", "samples", "ids", "masked"):
        assert told[name] == sum(group[name] for group in told["groups"])
    assert told["spent_usd"] == sum(group["cost_usd"] for group in told["groups"])


def test_what_is_open(tmp_path: Path) -> None:
    """Prompts that were never tried count, those beyond a target of tokens do not; unknown data sets as they stand."""
    with mixed(tmp_path) as ledger:
        ledger.commit([unanswered(1)])
        taken = [take(row, kit()) for row in ledger.rows()]

    def n_open(**asked: Asked) -> int:
        summary = Summary(asked)
        for one in taken:
            summary.add(one)
        return summary.as_json()["open"]  # type: ignore[no-any-return]

    assert n_open() == 1
    assert n_open(a=Asked(5), b=Asked(10), c=Asked(7)) == 1 + 9 + 7
    answers = [t.row for t in taken if t.row.answer and t.row.dataset == "a"]
    assert [row.n_tokens for row in answers].count(None) == 1  # whose length is that of its text, as for the run
    tokens = sum(row.n_tokens or length_of(row.answer or b"") for row in answers)
    assert [n_open(a=Asked(50, tokens + k)) for k in (0, 1)] == [0, 46]


def test_ids_against_the_bill(tmp_path: Path) -> None:
    """Accepted whole answers fit to the id; rejected and unverified ones stand apart with what they cost."""
    bill = summed(mixed(tmp_path))["bill"]

    assert (bill["answers"], bill["difference"], bill["difference_share"]) == (2, 0, 0.0)
    assert bill["ids"] == bill["billed"] > 20
    assert {why: n["answers"] for why, n in bill["apart"].items()} == {"rejected": 2, "unverified": 1}
    rejected, unverified = bill["apart"]["rejected"], bill["apart"]["unverified"]
    assert (rejected["compared"], rejected["difference"]) == (2, -1)  # one bill of the two is one token too high
    assert rejected["completion_tokens"] == rejected["billed"] + 2 > 20
    assert (unverified["compared"], unverified["completion_tokens"]) == (0, 0)


def test_what_cannot_be_compared_stands_apart(tmp_path: Path) -> None:
    """Of them a prefix is kept, so that the bill is longer by design; and without an equation nothing is compared."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        (taken,) = (take(row, kit()) for row in ledger.rows())
    assert taken.verdict is not None
    bill = Bill()
    bill.add(replace(taken, verdict=replace(taken.verdict, truncated=True)))
    bill.add(replace(taken, traits={}))

    n = taken.verdict.completion_tokens
    alone = {"answers": 1, "completion_tokens": n, "compared": 0, "ids": 0, "billed": 0, "difference": 0}
    assert bill.as_json()["apart"] == {"offset unknown": alone, "truncated": alone}
    assert (bill.n_answers, bill.as_json()["difference_share"]) == (0, None)


def test_the_table_and_the_bill_in_words(tmp_path: Path) -> None:
    """A row a group under HEADERS; the bill with its difference in ids and in per cent."""
    told = summed(mixed(tmp_path))
    rows = table(told)

    assert {len(row) for row in rows} == {len(HEADERS)}
    assert dict(zip(HEADERS, rows[0], strict=True))["no answer"] == "1"
    assert rows[0][-1].startswith("gave-up 1")
    first, *apart = bill_lines(told["bill"])
    n = told["bill"]["ids"]
    assert first == f"{n} ids of 2 accepted answers, {n} billed after known offsets: +0 (+0.0000%)"
    assert [line.partition(":")[0] for line in apart] == ["rejected", "unverified"]


def test_a_narrow_screen_shows_every_figure() -> None:
    """Names and dollars are whole, at most 80 wide; what is 0 is left out."""
    row = (
        "a-data-set-with-a-long-name",
        "Chutes",
        "1,234",
        "0",
        "1,200",
        "30",
        "4",
        "1,200",
        "0",
        "9,876,543",
        "12.3456",
    )
    lines = narrow([(*row, "prompt-unverified 30, bill-mismatch 4")])

    assert lines[0] == "a-data-set-with-a-long-name at Chutes:"
    assert " ".join(" ".join(lines[1:]).split()) == (
        "answers 1,234, verified 1,200, unverified 30, rejected 4, samples 1,200, ids 9,876,543, USD 12.3456, "
        "findings prompt-unverified 30, bill-mismatch 4"
    )
    assert max(map(len, lines)) <= 80
