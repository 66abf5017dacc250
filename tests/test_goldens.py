"""The goldens that ship, judged: no wrong id, and each verdict as it is written here.

A rule that goes lax or strict changes a letter. V is verified, E exact, U unverified, R rejected; one letter a variant,
in the order of the files: first blind (no ids, no logprobs) with the habits of the stack, then with what the host said,
then blind with no habits at all. A verdict that changes for a good reason is changed here, in the same commit.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from harness.flow import judge
from harness.store import read_golden
from harness.types import Exchange, Verdict
from tests.corpus import ROOT, differs, kit

pytestmark = pytest.mark.required
LETTERS = {"verified": "V", "exact": "E", "unverified": "U", "rejected": "R"}
WAYS = ((None, True), (None, False), ("unknown", True))
"""(provider, blind); None takes the habits of the golden's own stack."""

TABLE = """
sglang-0.5.23 empty_reasoning  VVVV VVVV UUUU
sglang-0.5.23 eos_163585  RRRV RRRV UUUU
sglang-0.5.23 invalid_utf8  RRRR RRRR RRRR
sglang-0.5.23 literal_think_end  RRRR RRRR UUUU
sglang-0.5.23 literal_tool  RRRR RRRR UUUU
sglang-0.5.23 no_think_end  VVVV VVVV RRRR
sglang-0.5.23 noncanonical_args  RRVR RRVR UUUU
sglang-0.5.23 plain  VVVV VVVV UUUU
sglang-0.5.23 special_in_content  RVRV RVRV UUUU
sglang-0.5.23 think_start_again  RRRR RRRR UUUU
sglang-0.5.23 thinking_false  VVVV VVVV UUUU
sglang-0.5.23 tool_bad_json  VVVV VVVV UUUU
sglang-0.5.23 tool_bare_counter  VRVR VRVR UUUU
sglang-0.5.23 tool_missing_section  VVVR VVVR UUUU
sglang-0.5.23 tool_no_content  VVVV VVVV UUUU
sglang-0.5.23 tool_no_prefix  VRVR VRVR UUUU
sglang-0.5.23 tool_not_object  VRVV VRVV URUU
sglang-0.5.23 tool_single  VVVV VVVV UUUU
sglang-0.5.23 tool_text_between  VRVV VRVV UUUR
sglang-0.5.23 tool_two_sections  VRVR VRVR UUUR
sglang-0.5.23 tool_unclosed  VRVR VRVR UUUU
sglang-0.5.23 tool_unknown_name  VVVV VVVV UUUU
sglang-0.5.23 tool_ws_ids  VRVR VRVR UUUR
sglang-0.5.23 ws_tool_boundary  VVVR VVVR UUUU
vllm-0.32.0 d01_plain  VVVV EEEV UUUU
vllm-0.32.0 d02_nl  VVVV EEEV UUUU
vllm-0.32.0 d03_nlnl  VVVV EEEV UUUU
vllm-0.32.0 d05_leadnl  VVVV EEEV UUUU
vllm-0.32.0 d06_tool1_compact  RRVV EEEV RRUU
vllm-0.32.0 d07_tool1_spaced  RRRR EEER RRUU
vllm-0.32.0 d08_tool2_text  RRVV EEEV UUUU
vllm-0.32.0 d10_args_ws  RRRV EEEV RRUU
vllm-0.32.0 d11_tool_ws_tokens  RRRR EEER UUUU
vllm-0.32.0 d12_args_badjson  RRVV EEEV RRUU
vllm-0.32.0 d14_id_odd  RRRR EEER RRUU
vllm-0.32.0 d15_no_te  VVVV EEEV RRRR
vllm-0.32.0 d16_no_te_tool  RRRR EEER RRUU
vllm-0.32.0 d18_two_sections  RRRR EEER RRUU
vllm-0.32.0 d20_special_think_in_content  RRRR EEER UUUU
vllm-0.32.0 d21_special_in_content  VVVV EEEV UUUU
vllm-0.32.0 d23_nl_reasoning  VVVV EEEV UUUU
vllm-0.32.0 d24_empty_content  VVVV EEEV RRRR
vllm-0.32.0 d26_bytes_noncanon  RRRR EEER UUUU
vllm-0.32.0 d27_literal_tool_text  RVRV EEEV UUUU
vllm-0.32.0 d28_empty_section  RRRR EEER UUUU
vllm-0.32.0 d30_nothink_plain  VVVV EEEV UUUU
vllm-0.32.0 d32_nothink_te  VVVV EEEV UUUU
vllm-0.32.0 d33_zh_code  VVVV EEEV UUUU
"""

N_IDS = ((111, 2173, 121), (146, 3265, 79), (0, 0, 0))
"""(accepted, ids of them, masked ids of them) for each way."""


@cache
def goldens(engine: str) -> dict[str, tuple[Exchange, list[int]]]:
    """The goldens of one engine that hold an answer, by file name."""
    read = {path.stem: read_golden(path) for path in sorted((ROOT / "golden" / engine).glob("*.json"))}
    return {name: (g.exchange, list(g.true_ids)) for name, g in read.items() if g.exchange is not None}


@cache
def verdicts(engine: str) -> dict[str, tuple[Verdict, ...]]:
    """A verdict for each way."""
    return {
        name: tuple(judge(e, kit(), model="kimi-k2.5", provider=p, blind=blind) for p, blind in WAYS)
        for name, (e, _) in goldens(engine).items()
    }


def rows(engine: str) -> dict[str, str]:
    """The letters of each dialogue."""
    letters: dict[str, list[str]] = {}
    for name, said in verdicts(engine).items():
        row = letters.setdefault(f"{engine} {name.partition('.')[0]}", [""] * len(WAYS))
        for k, verdict in enumerate(said):
            row[k] += LETTERS[verdict.name]
    return {name: " ".join(row) for name, row in letters.items()}


ENGINES = ("sglang-0.5.23", "vllm-0.32.0")


@pytest.mark.parametrize("engine", ENGINES)
def test_no_accepted_golden_has_a_wrong_id(engine: str) -> None:
    """Every unmasked id of an accepted golden was sampled, with and without what the host said of single tokens."""
    faults = {
        name: fault
        for name, said in verdicts(engine).items()
        for verdict in said
        if (fault := differs(verdict, goldens(engine)[name][1]))
    }
    assert faults == {}
    assert len(goldens(engine)) == 96


@pytest.mark.parametrize("engine", ENGINES)
def test_each_verdict(engine: str) -> None:
    """Each golden gets the verdict that is written above."""
    expected = dict(line.rsplit("  ", 1) for line in TABLE.strip().splitlines() if line.startswith(engine))
    assert rows(engine) == expected


@pytest.mark.parametrize("k", range(len(WAYS)))
def test_how_much_is_accepted(k: int) -> None:
    """So many goldens are accepted, with so many ids, of which so many are masked."""
    said = [row[k] for engine in ENGINES for row in verdicts(engine).values() if row[k].accepted]
    n_ids = sum(len(v.ids.ids) for v in said)
    assert (len(said), n_ids, n_ids - sum(sum(v.loss_mask) for v in said)) == N_IDS[k]


def test_a_report_is_exact_and_nothing_of_it_masked() -> None:
    """Where the host told ids, all of them are trained on; blind, nothing is exact."""
    counts = Counter((k, v.name) for e in ENGINES for row in verdicts(e).values() for k, v in enumerate(row))
    exact = [row[1] for e in ENGINES for row in verdicts(e).values() if row[1].name == "exact"]
    assert (counts[0, "exact"], counts[2, "exact"], len(exact)) == (0, 0, 72)
    assert all(all(v.loss_mask) and v.premise == "none" for v in exact)


ODD_REQUESTS: tuple[dict[str, Any], ...] = (
    *({"max_tokens": odd} for odd in ([1], "9", {}, 0.5)),
    *({"tools": odd} for odd in (True, [None], "x", [{"function": None}], [{"function": {"name": 1}}])),
    {"tools": [{"function": {"name": "look", "parameters": {"properties": [1]}}}]},
    {"messages": "x"},
)


@pytest.mark.parametrize("odd", ODD_REQUESTS, ids=str)
def test_a_request_that_no_engine_answers_is_no_reason_to_fail(odd: dict[str, Any]) -> None:
    """Reported ids beside it get a verdict, of an engine that nobody knows; none of them is wrong."""
    exact = [(e, name) for e in ENGINES for name, row in verdicts(e).items() if row[1].name == "exact"][::6]
    said = {}
    for engine, name in exact:
        exchange, truth = goldens(engine)[name]
        odder = replace(exchange, request={**exchange.request, **odd})
        verdict = judge(odder, kit(), model="kimi-k2.5", provider=WAYS[1][0])
        said[name] = verdict.name
        assert differs(verdict, truth) == ""
    assert len(exact) == 12
    assert set(said.values()) <= {"exact", "rejected"}
