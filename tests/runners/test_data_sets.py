"""runners.data_sets: rows -> prompts ready to be sent, or every fault with its file and line."""

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.prompt import render
from runners import data_sets, row_faults
from runners.data_sets import prompts, survey
from runners.jobs import Prompt
from runners.runfile import RunFile
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text

HI = [{"role": "user", "content": "Say hi."}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CALLED = {"name": "f", "arguments": "{}"}
HI_BODY = (
    b'{"max_tokens":100,"messages":[{"content":"Say hi.","role":"user"}],"model":"moonshotai/kimi-k2.5",'
    b'"reasoning":{"enabled":true},"usage":{"include":true}}'
)


def read(run: RunFile) -> list[Prompt]:
    """The prompts of the first data set."""
    return list(prompts(run, run.data_sets[0], encode_prompt_text))


def told(run: RunFile) -> list[str]:
    """Every fault that a survey tells."""
    with pytest.raises(SetupError) as caught:
        survey(run, encode_prompt_text)
    return str(caught.value).splitlines()


def parquet_run(folder: Path, columns: dict[str, Any], more: str = "") -> RunFile:
    """A run whose data set is a Parquet file with these columns."""
    pq.write_table(pa.table(columns), folder / "p.parquet", row_group_size=2)
    return run_of(folder, text=run_text(PROVIDER, f'[[data]]\npath = "p.parquet"\n{more}'))


def test_a_prompt_is_ready_to_be_sent(tmp_path: Path) -> None:
    """Canonical body without the provider block, the rendered length, and the place as id where there is none."""
    run = run_of(tmp_path, {"prompt": "Say hi."}, {"messages": HI, "id": "b"}, {"id": 7, "messages": json.dumps(HI)})

    n = len(render(HI, None, format=run.format, thinking=True, encode=encode_prompt_text).ids)
    assert read(run) == [Prompt("a", name, k, HI_BODY, n, 100) for k, name in enumerate(("0", "b", "7"))]


def test_sampling_and_tools_are_in_the_body(tmp_path: Path) -> None:
    """As OpenRouter names them; keys in any order make the same bytes."""
    text = run_text(PROVIDER, ONE, "[sampling]\ntop_p = 0.5\nseed = 1\n", thinking="false")
    turned = json.loads(json.dumps(TOOL), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    run = run_of(tmp_path, {"messages": HI, "tools": [TOOL]}, {"messages": HI, "tools": [turned]}, text=text)

    first, second = read(run)
    body = json.loads(first.body)
    assert (body["top_p"], body["seed"], body["tools"], body["reasoning"]) == (0.5, 1, [TOOL], {"enabled": False})
    assert first.body == second.body
    rendered = render(HI, [TOOL], format=run.format, thinking=False, encode=encode_prompt_text)
    assert first.n_prompt == len(rendered.ids)


def test_a_limit_ends_the_reading(tmp_path: Path) -> None:
    """Rows behind it are neither read nor checked."""
    run = run_of(tmp_path, *({"prompt": f"{k}"} for k in range(3)), "{", text=run_text(PROVIDER, ONE + "limit = 2\n"))

    assert [p.id for p in read(run)] == ["0", "1"]
    assert survey(run, encode_prompt_text)[0].n_prompts == 2


def test_what_a_survey_counts(tmp_path: Path) -> None:
    """Prompts, their ids, the longest, the bytes; the digest tells requests and their order, not how a file is made."""
    run = run_of(tmp_path, {"prompt": "Say hi."}, {"prompt": "Say hi, and say it well."})
    ready, ticks = read(run), []
    (found,) = survey(run, encode_prompt_text, lambda: ticks.append(1))

    lengths = [p.n_prompt for p in ready]
    assert (found.name, found.n_prompts, found.prompt_tokens, found.longest) == ("a", 2, sum(lengths), max(lengths))
    assert (found.body_bytes, len(ticks)) == (sum(len(p.body) for p in ready), 2)
    well = [{"role": "user", "content": "Say hi, and say it well."}]
    data_file(tmp_path, "", '{"prompt":  "Say hi."}', "  ", {"messages": well})
    assert survey(run, encode_prompt_text)[0].sha256 == found.sha256
    data_file(tmp_path, {"prompt": "Say hi, and say it well."}, {"prompt": "Say hi."})
    assert survey(run, encode_prompt_text)[0].sha256 != found.sha256


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "no JSON: "),
        ('{"prompt": "a", "prompt": "b"}', "no JSON: a member comes twice: 'prompt'"),
        ('{"prompt": "a", "pr\\u006fmpt": "a"}', "no JSON: a member comes twice: 'prompt'"),
        ('{"prompt": "a", "id": 1, "id": 1}', "no JSON: a member comes twice: 'id'"),
        ('{"messages": [{"role": "user", "role": "system", "content": "x"}]}', "no JSON: a member comes twice: 'role'"),
        ({"messages": '[{"role": "user", "content": "x", "content": "y"}]'}, "text that is no JSON: a member comes tw"),
        ({"messages": HI, "tools": '[{"a": {"b": 1, "b": 2}}]'}, "text that is no JSON: a member comes twice: 'b'"),
        ("[1]", "a list; expected an object with `messages` or `prompt`"),
        ({"prompt": "x", "source": "s"}, "unknown: 'source'; known are id, messages, prompt, tools; what says nothing"),
        ({}, "neither `messages` nor `prompt`"),
        ({"prompt": "x", "messages": HI}, "both `messages` and `prompt`"),
        ({"prompt": ""}, "`prompt` is '', expected the text"),
        ({"prompt": 3}, "`prompt` is '3', expected the text"),
        ({"messages": {}}, "`messages` is dict, expected a list"),
        ({"messages": "hi"}, "text that is no JSON"),
        ({"messages": []}, "messages is empty"),
        ({"messages": ["hi"]}, "messages[0] is"),
        ({"messages": HI, "tools": {}}, "`tools` is no list of objects"),
        ({"messages": HI, "tools": ["f"]}, "`tools` is no list of objects"),
        ({"prompt": "x", "id": 1.5}, "`id` is '1.5', expected text or a whole number"),
        ({"prompt": "x", "id": True}, "`id` is 'True', expected"),
        ('{"prompt": "x", "id": "\\ud800"}', "cannot be written as JSON"),
        ('{"prompt": "\\ud800"}', "messages[0].content cannot be encoded"),
        ('{"messages": [{"role": "user", "content": "x", "weight": NaN}]}', "cannot be written as JSON"),
        ({"prompt": "say <think> aloud"}, "prompt-marker-text: messages[0].content: holds <think>"),
        ({"messages": [*HI, {"role": "assistant", "content": "hi"}]}, "assistant-last: messages[1]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0] is a part of type 'image_url', expected text",
        ),
        (
            {
                "messages": [
                    *HI,
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "call_1", "function": {"name": "f", "arguments": "{}"}}],
                    },
                    {"role": "tool", "tool_call_id": "call_1", "content": "3"},
                ]
            },
            "foreign-tool-id: messages[1].tool_calls[0].id: 'call_1' is not functions.NAME:IDX",
        ),
        ({"messages": HI, "tools": [{"function": 3}]}, ""),
    ],
)
def test_what_may_not_be_sent_is_told(tmp_path: Path, row: Any, said: str) -> None:
    """With file and line, before anything is asked; and whoever reads on all the same is stopped there."""
    run = run_of(tmp_path, {"prompt": "fine"}, row, {"prompt": "fine"})

    (line,) = told(run)
    assert line.startswith(f"a.jsonl:2: {said}")
    with pytest.raises(SetupError, match=r"a\.jsonl:2: "):
        read(run)


def test_every_fault_of_every_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are told at once, the first ones by name and the rest by number."""
    monkeypatch.setattr(row_faults, "MAX_TOLD", 3)
    data_file(tmp_path, {"prompt": 1}, name="b.jsonl")
    text = run_text(PROVIDER, ONE, '[[data]]\npath = "b.jsonl"\n')

    assert [line.partition(": ")[0] for line in told(run_of(tmp_path, "1", {"prompt": "x"}, "2", text=text))] == [
        "a.jsonl:1", "a.jsonl:3", "b.jsonl:1",
    ]  # fmt: skip
    assert told(run_of(tmp_path, *"12345", text=text))[3:] == ["and 3 faults more"]


def test_ids_that_come_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each later place is told with the first one, a place taken for an id too, in whatever part it is looked for."""
    monkeypatch.setattr(data_sets, "SHARD_IDS", 2)
    rows = [{"prompt": "x", "id": "a"}, {"prompt": "x", "id": "4"}, {"prompt": "x", "id": "b"}]
    run = run_of(tmp_path, *rows, {"prompt": "x", "id": "a"}, {"prompt": "x"}, {"prompt": "x", "id": "a"})

    assert told(run) == [
        "a.jsonl:4: the id 'a' is that of a.jsonl:1; each prompt has an id of its own",
        "a.jsonl:6: the id 'a' is that of a.jsonl:1; each prompt has an id of its own",
        "a.jsonl:5: the id '4' is that of a.jsonl:2; each prompt has an id of its own",
    ]


def test_two_data_sets_may_share_ids(tmp_path: Path) -> None:
    """An id is one within its data set."""
    data_file(tmp_path, {"prompt": "y", "id": "a"}, name="b.jsonl")
    run = run_of(tmp_path, {"prompt": "x", "id": "a"}, text=run_text(PROVIDER, ONE, '[[data]]\npath = "b.jsonl"\n'))

    assert [found.n_prompts for found in survey(run, encode_prompt_text)] == [1, 1]


def test_ignored_columns(tmp_path: Path) -> None:
    """What the run file says to ignore is no fault and does not reach the request."""
    run = run_of(tmp_path, {"prompt": "Say hi.", "source": 3}, text=run_text(PROVIDER, ONE + 'ignore = ["source"]\n'))

    assert [p.body for p in read(run)] == [HI_BODY]


def test_ignored_columns_that_have_a_meaning(tmp_path: Path) -> None:
    """They are as if they were not there, in JSONL as in Parquet; a prompt that is ignored is missing."""
    ignore, tools = 'ignore = ["id", "tools"]\n', json.dumps([TOOL])
    lines = run_of(tmp_path, {"prompt": "Say hi.", "id": "x9", "tools": tools}, text=run_text(PROVIDER, ONE + ignore))
    told_lines = read(lines)
    told_table = read(parquet_run(tmp_path, {"prompt": ["Say hi."], "id": ["x9"], "tools": [tools]}, ignore))

    assert [(p.id, p.body) for p in told_lines] == [(p.id, p.body) for p in told_table] == [("0", HI_BODY)]
    gone = run_of(tmp_path, {"prompt": "Say hi."}, text=run_text(PROVIDER, ONE + 'ignore = ["prompt"]\n'))
    assert told(gone)[0].endswith("neither `messages` nor `prompt`; expected one of them")


def test_packed_lines(tmp_path: Path) -> None:
    """A .gz file is read as what it holds; blank lines are passed over and still count as lines."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'\n{"prompt": "Say hi."}\n\n{\n'))
    run = run_of(tmp_path, text=run_text(PROVIDER, '[[data]]\npath = "a.jsonl.gz"\n'))

    assert [line.partition(": ")[0] for line in told(run)] == ["a.jsonl.gz:4"]


@pytest.mark.parametrize("rows", [(" ",), ("\n\n",)])
def test_an_empty_data_set_is_a_fault(tmp_path: Path, rows: tuple[str, ...]) -> None:
    """A run of nothing is a mistake."""
    assert told(run_of(tmp_path, *rows)) == ["a.jsonl: no prompt in it; expected rows with `messages` or `prompt`"]


def test_parquet_is_read_as_the_same_prompts(tmp_path: Path) -> None:
    """Messages as structs (members that other rows have are left out) or as JSON text, tools as JSON text, null ids."""
    turns = [
        HI,
        [
            *HI,
            {
                "role": "assistant",
                "tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "functions.f:0", "content": "3"},
        ],
        HI,
    ]
    tools = [None, json.dumps([TOOL]), None]
    rows = [{"messages": m, "tools": json.loads(t) if t else None} for m, t in zip(turns, tools, strict=True)]
    plain = [(p.id, p.index, p.body, p.n_prompt) for p in read(run_of(tmp_path, *rows))]

    for messages in (turns, [json.dumps(t) for t in turns]):
        run = parquet_run(tmp_path, {"messages": messages, "tools": tools, "id": pa.array([None, None, "2"])})
        assert [(p.id, p.index, p.body, p.n_prompt) for p in read(run)] == plain


def test_faults_of_parquet(tmp_path: Path) -> None:
    """The row is told; unknown columns are told once and not a row; tools as structs are refused."""
    run = parquet_run(tmp_path, {"prompt": ["x", "<think>", None]})
    assert [line.partition(": pr")[0].partition(": ne")[0] for line in told(run)] == [
        "p.parquet: row 2", "p.parquet: row 3",
    ]  # fmt: skip
    assert told(parquet_run(tmp_path, {"prompt": ["x", "y"], "s": [1, 2]}))[0].startswith("p.parquet: unknown: 's'")
    assert len(read(parquet_run(tmp_path, {"prompt": ["x", "y"], "s": [1, 2]}, 'ignore = ["s"]\n'))) == 2
    twice = pa.table([["x"], ["y"]], names=["prompt", "prompt"])
    said = pa.StructArray.from_arrays([["user"], ["x"], ["y"]], names=["role", "content", "content"])
    inside = pa.table({"messages": pa.ListArray.from_arrays([0, 1], said)})
    for table, expected in ((twice, "the column 'prompt' comes twice"), (inside, "duplicate field names are present")):
        pq.write_table(table, tmp_path / "p.parquet")
        (line,) = told(run)
        assert line.startswith("p.parquet: ")
        assert expected in line
    (tmp_path / "p.parquet").write_bytes(b"PAR1 and no more")
    assert "cannot be read as Parquet" in told(run)[0]


def test_many_prompts_do_not_enter_memory(tmp_path: Path) -> None:
    """Twenty times the prompts take no more than the 8 bytes an id and what a set of 100,000 of them weighs."""

    def peak(n: int) -> int:
        run = run_of(tmp_path, *({"prompt": f"Say hi {k}."} for k in range(n)))
        tracemalloc.start()
        survey(run, encode_prompt_text)
        for _ in prompts(run, run.data_sets[0], encode_prompt_text):
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(10)  # what is loaded once
    few, many = peak(200), peak(4000)
    assert many - few < 4000 * (8 + 100)  # a set of hashes weighs some 70 bytes an id
