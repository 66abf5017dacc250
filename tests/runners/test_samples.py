"""runners.samples: rows of the ledger become samples and what was left out, whole, in order, byte for byte the same."""

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.flow import judge
from harness.prompt import render
from harness.types import ORIGIN_NAMES, Exchange
from runners import ledger_writes as w
from runners import tables
from runners.ledger import Ledger
from runners.samples import COLUMNS, FILES, fields, take, write
from runners.tables import read_rows
from runners.verdicts import pack
from tests.corpus import kit
from tests.runners.ledger_kit import unanswered
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text
from tests.runners.sample_kit import CLOSE, END, FACTS, answered, ids

PLACES = {1: "500", 2: "wrong-usage", 3: "missing-usage", 4: "wrong-provider"}


def mixed(folder: Path) -> Ledger:
    """Six prompts: an answer, an error, a wrong bill, none, another host, and one from a second data set."""
    data_file(folder, {"prompt": "last"}, name="b.jsonl")
    text = run_text(PROVIDER, ONE, '[[data]]\npath = "b.jsonl"\n')
    return answered(folder, run_of(folder, *({"prompt": f"number {k}"} for k in range(5)), text=text), PLACES)


def parquet(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a written file."""
    return list(read_rows(folder / name, tuple(COLUMNS)))


def test_a_sample_says_everything(tmp_path: Path) -> None:
    """Ids, origins and mask of one length, and all that ties the row to request, answer, code and ticket."""
    run = run_of(tmp_path, {"prompt": "hi", "id": "x"})
    with answered(tmp_path, run) as ledger:
        (row,) = ledger.rows()
        made = fields(take(row, kit()))

    messages = [{"role": "user", "content": "hi"}]
    prompt = render(messages, None, format=run.format, thinking=True, encode=encode_prompt_text).ids
    output = ids("They said hi", CLOSE, "You said: hi!", END)
    assert list(made) == list(COLUMNS)
    assert (made["id"], made["data_set"], made["index"]) == ("x", "a", 0)
    assert (made["prompt_ids"], made["output_ids"]) == (prompt, output)
    assert len(made["origins"]) == len(made["loss_mask"]) == len(output)
    assert set(made["origins"]) <= set(ORIGIN_NAMES)
    assert made["loss_mask"] == [int(o != "inferred") for o in made["origins"]]
    assert (made["verdict"], made["prompt"], made["premise"], made["left_out"]) == (
        "verified",
        "verified",
        "count",
        None,
    )
    assert (made["thinking"], made["truncated"], made["finish_reason"]) == (True, False, "stop")
    assert (made["provider"], made["model"]) == ("Chutes", "moonshotai/kimi-k2.5")
    assert made["usage"]["completion_tokens"] == len(output)
    assert made["usage"]["prompt_tokens"] == len(prompt)
    assert made["cost_usd"] == pytest.approx(len(prompt) * 5e-7 + len(output) * 2.5e-6)
    assert (made["request_sha256"], made["answer_sha256"]) == (row.request_sha256, row.answer_sha256)
    hashes = [made[name] for name in ("content_hash", "vocab_sha256", "formats_sha256", "habits_sha256", "ticket_id")]
    assert hashes == [*astuple(FACTS)[:4], "t" * 64]
    assert (made["ungated"], made["attempts"], made["generation_id"]) == (None, 1, row.generation)


def test_rows_go_where_they_belong_in_the_order_of_the_input(tmp_path: Path) -> None:
    """What is accepted into the samples, all else into rejected.parquet with verdict, findings or end state."""
    with mixed(tmp_path) as ledger:
        ledger.commit([w.meta(ticket_id="", ungated="a trial")])
        write(ledger, kit(), tmp_path)

    kept, left = parquet(tmp_path, "samples.parquet"), parquet(tmp_path, "rejected.parquet")
    assert [(row["data_set"], row["id"]) for row in kept] == [("a", "0"), ("b", "0")]
    assert [(row["id"], row["left_out"], row["verdict"]) for row in left] == [
        ("1", "gave-up", None), ("2", "rejected", "rejected"), ("3", "unverified", "unverified"),
        ("4", "rejected", "rejected"),
    ]  # fmt: skip
    codes = [[f["code"] for f in row["findings"]] for row in left]
    assert codes == [["http-500"], ["bill-mismatch"], ["no-witness"], ["wrong-provider"]]
    assert all(row["output_ids"] == row["loss_mask"] == row["origins"] == [] for row in left)
    assert left[0]["prompt_ids"]
    assert (left[0]["answer_sha256"], left[0]["prompt"], left[0]["content_hash"]) == (None, None, None)
    assert (left[0]["ungated"], left[1]["ungated"], left[1]["ticket_id"]) == ("a trial", None, FACTS.ticket_id)
    text = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in text] == kept


def test_the_same_ledger_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice from one ledger, with row groups of two rows."""
    monkeypatch.setattr(tables, "GROUP_ROWS", 2)
    with mixed(tmp_path) as ledger:
        written = []
        for place in ("one", "two"):
            (tmp_path / place).mkdir()
            write(ledger, kit(), tmp_path / place)
            written.append([(tmp_path / place / name).read_bytes() for name in FILES])

    assert written[0] == written[1]
    assert pq.ParquetFile(tmp_path / "one" / "rejected.parquet").metadata.num_row_groups == 2


def test_prompts_that_nobody_verified(tmp_path: Path) -> None:
    """They stay out unless that is allowed, and then the row says so."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        (row,) = ledger.rows()
        bill = json.loads(row.answer or b"")
        del bill["usage"]["prompt_tokens"], bill["usage"]["total_tokens"]
        ledger.commit([_rejudged(row, bill)])
        (row,) = ledger.rows()
        strict, lax = (take(row, kit(), allow_unverified_prompt=yes) for yes in (False, True))

    assert (strict.left_out, lax.left_out) == ("prompt-unverified", None)
    assert (fields(lax)["prompt"], fields(lax)["verdict"]) == ("unverified", "verified")


def test_a_prompt_that_the_bill_contradicts(tmp_path: Path) -> None:
    """It is never a sample, whatever is allowed."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        (row,) = ledger.rows()
        bill = json.loads(row.answer or b"")
        for name in ("prompt_tokens", "total_tokens"):
            bill["usage"][name] += 18
        ledger.commit([_rejudged(row, bill)])
        (row,) = ledger.rows()
        taken = take(row, kit(), allow_unverified_prompt=True)

    assert taken.left_out == "prompt-contradicted"
    assert [f["code"] for f in fields(taken)["findings"]] == ["prompt-mismatch"]


def _rejudged(row: Any, body: Any) -> Any:
    """A verdict on another body than the one that came."""
    verdict = judge(Exchange("x", body, json.loads(row.request)), kit())
    return w.judged(row.job, verdict.name, pack(verdict, FACTS))


def test_an_answer_that_nobody_judged(tmp_path: Path) -> None:
    """Nothing is written, and what was there stays."""
    (tmp_path / "samples.parquet").write_bytes(b"old")
    with (
        answered(tmp_path, run_of(tmp_path), judged=False) as ledger,
        pytest.raises(SetupError, match="tokenproof rej"),
    ):
        write(ledger, kit(), tmp_path)

    assert (tmp_path / "samples.parquet").read_bytes() == b"old"
    assert not (tmp_path / "samples.jsonl").exists()


def test_open_prompts_are_in_no_file(tmp_path: Path) -> None:
    """A request that was never answered nor given up was not decided."""
    with answered(tmp_path, run_of(tmp_path, {"prompt": "a"}, {"prompt": "b"})) as ledger:
        ledger.commit([unanswered(1)])
        write(ledger, kit(), tmp_path)

    assert [row["id"] for row in parquet(tmp_path, "samples.parquet")] == ["1"]
    assert parquet(tmp_path, "rejected.parquet") == []


def test_datasets_loads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader that trainers use, offline: every column, every row, from Parquet and from JSONL."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets

    with mixed(tmp_path) as ledger:
        write(ledger, kit(), tmp_path)
    files = {"kept": str(tmp_path / "samples.parquet"), "left": str(tmp_path / "rejected.parquet")}
    loaded = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))

    assert (loaded["kept"].num_rows, loaded["left"].num_rows) == (2, 4)
    assert loaded["kept"].column_names == list(COLUMNS)
    assert [dict(row) for row in loaded["kept"]] == parquet(tmp_path, "samples.parquet")
