"""Run files and data sets of any content: a fault that is told, or something that can be sent; never a crash."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from runners.data_sets import prompts, survey
from runners.runfile import load_run
from tests.runners.run_kit import data_file, run_of, run_text

T = TypeVar("T")
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool", "x"])
PLAIN = st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=20)})
MESSAGE = PLAIN | st.fixed_dictionaries(
    {"role": ROLES | ANY, "content": st.text(max_size=5) | ANY},
    optional={"tool_calls": ANY, "tool_call_id": ANY, "name": ANY, "reasoning": ANY, "reasoning_details": ANY},
)
FUNCTION = st.fixed_dictionaries({"name": st.text(max_size=3) | ANY}, optional={"parameters": ANY, "description": ANY})
TOOL = st.fixed_dictionaries({"type": st.just("function"), "function": FUNCTION | ANY}) | ANY
MORE = {"id": st.text(min_size=1, max_size=3) | st.integers() | ANY, "tools": st.lists(TOOL, max_size=2) | ANY}
MESSAGES = st.lists(PLAIN, min_size=1, max_size=2) | st.lists(MESSAGE, max_size=3) | ANY
ROW = (
    st.fixed_dictionaries({"prompt": st.text(min_size=1, max_size=9)})
    | st.fixed_dictionaries({"messages": st.lists(PLAIN, min_size=1, max_size=2)})
    | st.fixed_dictionaries({"messages": MESSAGES}, optional=MORE)
    | st.fixed_dictionaries({}, optional={"prompt": ANY, "messages": ANY, **MORE})
)
QUIET = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def told(work: Callable[[], T]) -> tuple[str, T | None]:
    """What is said against it, or what it gives."""
    try:
        return "", work()
    except SetupError as error:
        return str(error), None


@given(st.lists(ROW, min_size=1, max_size=2) | st.lists(ROW | ANY, min_size=1, max_size=3))
@QUIET
def test_any_rows(tmp_path: Path, rows: list[Any]) -> None:
    """What a survey lets through can be sent: canonical JSON, ids that are one of a kind, the same twice."""
    run = run_of(tmp_path, *(json.dumps(row) for row in rows))
    faults, found = told(lambda: survey(run, encode_prompt_text)[0])
    if found is None:
        assert faults.startswith("a.jsonl:")
        return
    ready = list(prompts(run, run.data_sets[0], encode_prompt_text))
    assert found.n_prompts == len(ready) == len({p.id for p in ready})
    for prompt in ready:
        body = json.loads(prompt.body)
        assert json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() == prompt.body
        assert prompt.n_prompt > 0


GOOD: dict[str, st.SearchStrategy[Any]] = {
    "thinking": st.booleans(),
    "max_tokens": st.integers(0, 2_000_000),
    "budget_usd": st.floats(-1, 1e9) | st.integers(0, 10**6),
    "out": st.text(max_size=5),
    "concurrency": st.integers(0, 5000),
    "ticket": st.text(max_size=5),
    "base_url": st.text(max_size=5),
    "sampling": st.fixed_dictionaries({}, optional={"temperature": st.floats(0, 3), "seed": st.integers(-1, 5)}),
    "quality": st.fixed_dictionaries({}, optional={"max_rejected": st.floats(0, 2), "window": st.integers(0, 9)}),
}
CHANGES = st.fixed_dictionaries({}, optional=GOOD) | st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*GOOD, "model", "data", "provider", "x"], ANY)
)


def toml(value: Any) -> str:
    """A TOML literal."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if value is None or isinstance(value, str):
        return json.dumps(value or "", ensure_ascii=False)
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


@given(CHANGES)
@QUIET
def test_any_run_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Every fault has the file's name in front; what is read has values that a run can work with."""
    data_file(tmp_path, {"prompt": "hi"})
    lines = run_text().splitlines()
    head = [line for line in lines[:5] if line.partition(" ")[0] not in changes]
    tail = [] if {"provider", "data"} & set(changes) else lines[5:]
    path = tmp_path / "run.toml"
    path.write_bytes(
        "\n".join([*(f"{k} = {toml(v)}" for k, v in changes.items()), *head, *tail]).encode("utf-8", "replace")
    )
    faults, run = told(lambda: load_run(path))
    if run is None:
        assert faults.startswith(str(path))
        return
    assert run.max_tokens >= 1
    assert 0 < run.budget_usd < float("inf")
    assert run.pins


@pytest.mark.parametrize("depth", [1000, 200_000])
def test_deep_rows(tmp_path: Path, depth: int) -> None:
    """Nesting without end is a fault with its line."""
    deep = '{"messages": ' + "[" * depth + "]" * depth + "}"
    with pytest.raises(SetupError, match=r"a\.jsonl:1: "):
        survey(run_of(tmp_path, deep), encode_prompt_text)
