"""page_answers.py: the rejected answers of a page: tokens, readings, partings; some of each kind, the rest counted."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.encoder import load_vocab
from harness.flow import judge
from harness.markup import Html
from harness.page_answers import AROUND, HEAD, MAX_ANSWERS, MAX_READINGS, TAIL, Rejections, answer, tokens
from harness.traces import Parting, Trace, trace
from harness.types import Exchange, Finding, Ids, Origin, Verdict
from tests.harness.test_markup import HOSTILE, Reader
from tests.providerx import AS_SENT, OFFSET, ids, kit
from tests.providerx import answer as body

VOCAB = load_vocab()
KNOWN = {**OFFSET, **AS_SENT}
TALK = {"reasoning": "Think of it.", "content": "Say it."}
BAD = Verdict("rejected", findings=(Finding("bill-mismatch", "usage", "7 ids, billed 9"),), provider="P", model="m")
TAGS = {"details", "summary", "b", "span", "p", "h4", "ul", "li", "i", "small", "br", "a", "div"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}


def made(response: Any, traits: Mapping[str, str] = KNOWN, name: str = "n") -> Html:
    """The markup of an answer of ProviderX, judged and traced."""
    exchange, used = Exchange(name, response), kit(traits)
    verdict = judge(exchange, used)
    return answer("a1", name, verdict, trace(exchange, verdict, used), VOCAB)


def row_of(n: int, *marks: int) -> Trace:
    """n times the same id, with witnesses parting at these places."""
    return Trace(Ids([19180] * n, bytes([3]) * n), (), tuple(Parting("chunks", at, "x") for at in marks), "")


def test_what_an_answer_shows() -> None:
    """Its name and reason while it is closed; opened its facts, partings, findings, tokens and readings."""
    text = Reader(made(body(TALK, 12))).text
    wanted = [
        "n bill-mismatch: bill: 8 ids before the end + 1 = 9, billed 12",
        "moonshotai/kimi-k2.5 · ProviderX · format kimi-k2.5 · thinking · billed 12 · prompt unverified",
        "Where witness and reading partbill: 8 ids before the end + 1 = 9, billed 12",
        "Findingsbill-mismatch in usage: bill: 8 ids",
        "Tokens (9 ids, none certified)Think·of·it.163607</think>Say·it.163586<|im_end|>",
        "Readings (2)",
        "1nothing9bill contradicts: 8 ids before the end + 1 = 9, billed 12the same ids",
        "2think-again; stands only against others: ",
        " (the model did one rare thing)10bill contradicts: 9 ids before the end + 1 = 10, billed 12",
        "at id 0: 48187 'Think' above, 163606 <think> here",
    ]
    places = [text.find(words) for words in wanted]
    assert -1 not in places, wanted[places.index(-1)]
    assert places == sorted(places)


def test_tokens_tell_origin_and_boundaries() -> None:
    """The class says the origin and whether the place is even; the title says id, place and origin in words."""
    row = Ids([19180, 163607, 19180, 198], bytes([Origin.REPORTED, Origin.TEMPLATE, Origin.CANONICAL, Origin.INFERRED]))
    shown = tokens(Trace(row, (), (), ""), VOCAB, "a1")
    found = re.findall(r'<i class="([^"]+)" title="([^"]+)">(.*?)</i>', shown)
    assert found == [
        ("r0", "19180, id 0, reported", "Hello"),
        ("t1", "163607, id 1, template", "<small>163607</small>&lt;/think&gt;"),
        ("c0", "19180, id 2, canonical", "Hello"),
        ("i1", "198, id 3, inferred", "↵<br>"),
    ]


def test_a_place_where_they_part_can_be_reached() -> None:
    """The parting is a link to its token, which is marked and shows its id."""
    shown = answer("a7", "n", BAD, row_of(5, 3), VOCAB)
    assert '<a href="#a7-3">id 3</a>' in shown
    assert '<i class="c1 parts" id="a7-3" title="19180, id 3, canonical"><small>19180</small>Hello</i>' in shown
    assert shown.count(" parts") == 1


@pytest.mark.parametrize(
    ("trace", "shown", "gaps"),
    [
        (row_of(HEAD + TAIL), HEAD + TAIL, []),
        (row_of(HEAD + TAIL + 7), HEAD + TAIL, [7]),
        (row_of(50_000, 20_000), HEAD + TAIL + 2 * AROUND + 1, [20_000 - AROUND - HEAD, 29_999 - AROUND - TAIL]),
        (row_of(50_000, *range(1000, 40_000, 1000)), HEAD + TAIL + 20 * (2 * AROUND + 1), None),
    ],
)
def test_long_answers_are_cut(trace: Trace, shown: int, gaps: list[int] | None) -> None:
    """The start, the end, and what stands around the first places where they part; what is left out is counted."""
    markup = tokens(trace, VOCAB, "a1")
    left = [int(n) for n in re.findall(r"… (\d+) ids left out …", markup)]
    assert markup.count("<i ") == shown
    assert shown + sum(left) == len(trace.ids.ids)
    assert gaps is None or left == gaps


@pytest.mark.parametrize("token", [163840, 10**9])
def test_an_id_that_does_not_exist(token: int) -> None:
    """A host may report any number."""
    reported = body(TALK, 9)
    reported["choices"][0]["token_ids"] = [*ids("Think of it.", "</think>"), token, 163586]
    text = Reader(made(reported)).text
    assert "no such id163586<|im_end|>" in text
    assert f"{token} (no such id) above, " in text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_stay_texts(text: str) -> None:
    """In content, reasoning, name, provider, model, findings, witnesses: no element but ours, no attribute but ours."""
    answered = {**body({"reasoning": text, "content": text}, 3), "provider": text, "model": text}
    verdict = replace(
        BAD, provider=text, model=text, findings=(Finding(text, text, text), Finding("x", "", text, False))
    )
    odd = Trace(Ids([], b""), (), (Parting(text, None, text),), text)
    for markup in (
        made(answered),
        made(body({"content": text}, 99), name=text),
        answer("a1", text, verdict, odd, VOCAB),
    ):
        got = Reader(markup)
        names = {name for name, _ in got.attributes}
        assert set(got.tags) <= TAGS
        assert names <= {"class", "id", "href", "title", "role", "tabindex", "aria-label", "scope"}
        assert all(value.startswith("#a1-") for name, value in got.attributes if name == "href" and value)
        assert markup.isprintable()
        assert markup.encode()


def test_many_readings_are_counted() -> None:
    """MAX_READINGS rows, and how many more there were."""
    talk = {"reasoning": "<think> <|im_user|> a </think> <|im_system|>", "content": "<|im_user|> b <|im_middle|>"}
    markup = made(body(talk, 60))
    n = int(re.search(r"Readings \((\d+)\)", markup)[1])  # type: ignore[index]
    assert n > MAX_READINGS
    assert markup.count("<tr>") == MAX_READINGS + 1
    assert f"and {n - MAX_READINGS} more, left out here" in markup


def test_some_of_each_kind_are_kept() -> None:
    """The first ones of each provider and finding; no trace is asked for of the others."""
    asked: list[int] = []

    def traced() -> Trace:
        asked.append(1)
        return row_of(1)

    found = Rejections(VOCAB, per_kind=2)
    other = replace(BAD, provider=None, findings=(Finding("note", "", "x", fatal=False), Finding("ambiguous", "", "y")))
    for k in range(5):
        found.add(f"n{k}", BAD, traced)
    found.add("m", other, traced)
    assert found.seen == {("P", "bill-mismatch"): 5, ("?", "ambiguous"): 1}
    assert [len(rows) for rows in found.shown.values()] == [2, 1]
    assert (found.n_shown, len(asked)) == (3, 3)
    anchors = [re.match(r'<details id="(a\d+)"', row)[1] for rows in found.shown.values() for row in rows]  # type: ignore[index]
    assert anchors == ["a1", "a2", "a3"]


def test_no_more_than_a_page_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the kinds: MAX_ANSWERS at most, and none more once they are MAX_CHARS together."""
    found = Rejections(VOCAB)
    for k in range(MAX_ANSWERS + 50):
        found.add("n", replace(BAD, provider=f"P{k}"), lambda: row_of(1))
    assert (found.n_shown, found.seen.total()) == (MAX_ANSWERS, MAX_ANSWERS + 50)
    monkeypatch.setattr("harness.page_answers.MAX_CHARS", 1000)
    small = Rejections(VOCAB)
    for _ in range(9):
        small.add("n", BAD, lambda: row_of(HEAD))
    assert (small.n_shown, small.seen.total()) == (1, 9)
