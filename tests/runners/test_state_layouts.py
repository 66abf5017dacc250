"""The files of two trainers: read as they read them, logits rebuilt as they rebuild them, nothing half believed."""

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import load_from_disk
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from harness.errors import SetupError
from runners.backend_transformers import Loading, TransformersBackend
from runners.contents import EMPTY_DATA_SET, data_set_files, read_contents, write_contents
from runners.extract_job import Job, run_job
from runners.manifests import read_manifest
from runners.shard_reading import find_sample, folder_problems, verify
from runners.shards import manifests, problems
from runners.standing import pair
from runners.state_layouts import LAYOUTS, check_layout
from tests.runners.states_kit import Arithmetic, drawn, facts, faults, sample, samples_file, tiny

ARCHITECTURES = ("llama", "deepseek_v3")


def job(folder: Path, layout: str, n: int = 12) -> Job:
    """Over n samples, several to a shard."""
    return Job(samples_file(folder / "s.parquet", drawn(n)), folder / "out", shard_bytes=6000, layout=layout)


def arithmetic_for(layout: str) -> Arithmetic:
    """A back end that delivers what a layout needs."""
    return Arithmetic(facts(last_norm="post" if layout == "native" else LAYOUTS[layout].last_norm))


def model_of(architecture: str) -> Any:
    """The tiny target as transformers loads it."""
    return AutoModelForCausalLM.from_pretrained(tiny(architecture), dtype=torch.float32).eval()


def logits_of(model: Any, ids: "array[int]") -> Any:
    """What the model says of these ids."""
    with torch.inference_mode():
        return model(torch.tensor([list(ids)])).logits[0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_specforge_rebuilds_the_logits(tmp_path: Path, architecture: str) -> None:
    """As its trainer does: lm_head on hidden_state. Keys, shapes and dtypes are those that its reader looks for."""
    run_job(job(tmp_path, "specforge"), TransformersBackend(tiny(architecture), Loading(dtype="fp32")))
    model = model_of(architecture)

    for row, one in enumerate(drawn(12)):
        raw = torch.load(tmp_path / f"out/rows_0-2000/data_{row}.ckpt", weights_only=True)
        n_ids = len(one.ids)
        assert {key: (tuple(value.shape), value.dtype) for key, value in raw.items()} == {
            "input_ids": ((n_ids,), torch.int64),
            "loss_mask": ((n_ids,), torch.int64),
            "hidden_state": ((1, n_ids, 32), torch.float32),
            "aux_hidden_state": ((1, n_ids, 96), torch.float32),
        }
        assert raw["input_ids"].tolist() == list(one.ids)
        assert bytes(raw["loss_mask"].tolist()) == one.loss_mask
        logits = model.lm_head(raw["hidden_state"][0])
        assert (logits - logits_of(model, one.ids)).abs().max() < 1e-5


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_speculators_rebuilds_the_logits(tmp_path: Path, architecture: str) -> None:
    """As its trainer does: the final norm on the last slot, then lm_head; the other slots are the auxiliary layers."""
    how = Loading(dtype="fp32", last_norm="pre")
    run_job(job(tmp_path, "speculators"), TransformersBackend(tiny(architecture), how))
    model = model_of(architecture)

    for row, one in enumerate(drawn(12)):
        raw = load_file(tmp_path / f"out/hidden_states/hs_{row}.safetensors")
        assert raw["token_ids"].tolist() == list(one.ids)
        assert raw["hidden_states"].shape == (len(one.ids), 4, 32)
        logits = model.lm_head(model.model.norm(raw["hidden_states"][:, -1]))
        assert (logits - logits_of(model, one.ids)).abs().max() < 1e-5
        with torch.inference_mode():
            listed = model(torch.tensor([list(one.ids)]), output_hidden_states=True).hidden_states
        for slot, layer in enumerate((2, 4, 5)):
            assert (raw["hidden_states"][:, slot] - listed[layer][0]).abs().max() < 1e-5


def test_a_feature_file_holds_one_sample_alone(tmp_path: Path) -> None:
    """torch.save of a part of a batch would save all of the batch with it."""
    run_job(job(tmp_path, "specforge"), TransformersBackend(tiny("llama"), Loading(dtype="fp32")))
    sizes = [(tmp_path / f"out/rows_0-2000/data_{row}.ckpt").stat().st_size for row in range(12)]
    for size, one in zip(sizes, drawn(12), strict=True):
        assert size < len(one.ids) * (4 * 32 * 4 + 16) + 4096


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_files_are_proven_by_manifests(tmp_path: Path, layout: str) -> None:
    """Each has its sha256 in a manifest; ids and masks stand in the shard; a changed byte is found."""
    run_job(job(tmp_path, layout), arithmetic_for(layout))

    found = [problems(path) for path in manifests(tmp_path / "out")]
    sides = [side for manifest, _ in found if manifest for side in manifest.side_files]
    assert [said for _, said in found] == [[]] * len(found)
    assert [side["row"] for side in sides] == list(range(12))
    one = find_sample(tmp_path / "out", "s7")
    assert (one.ids, one.side_file) == (drawn(12)[7].ids, LAYOUTS[layout].name(7))

    path = tmp_path / "out" / sides[7]["name"]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    said = [text for manifest_path in manifests(tmp_path / "out") for text in problems(manifest_path)[1]]
    assert said == [f"{sides[7]['name']}: its bytes are not those that were written"]


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_run_goes_on_with_the_next_row(tmp_path: Path, layout: str) -> None:
    """Files that stand there and are told of by no manifest are written anew: whole is what a manifest calls so."""
    run_job(job(tmp_path, layout, 5), arithmetic_for(layout))
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if LAYOUTS[layout].folders[:4] in p.parent.name}
    for row in (5, 6, 17):
        (tmp_path / "out" / LAYOUTS[layout].name(row)).write_bytes(b"half a file")

    summary = run_job(job(tmp_path, layout, 12), arithmetic_for(layout))

    assert (summary.done_before, summary.samples) == (5, 7)
    assert {p: p.read_bytes() for p in before} == before
    assert not (tmp_path / "out" / LAYOUTS[layout].name(17)).exists()
    assert all(problems(path)[1] == [] for path in manifests(tmp_path / "out"))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_file_of_which_no_manifest_tells_is_named(tmp_path: Path, layout: str) -> None:
    """The trainer would read it as a sample: also in a folder of its own, and where a manifest was lost."""
    run_job(job(tmp_path, layout), arithmetic_for(layout))
    out, names = tmp_path / "out", LAYOUTS[layout].name
    assert list(folder_problems(out, verify(out))) == []

    (out / names(4001)).parent.mkdir(exist_ok=True)
    (out / names(4001)).write_bytes(b"x")
    (out / names(0)).parent.joinpath("notes.txt").write_bytes(b"x")
    said = "no manifest tells of it, and a trainer would read it"
    assert list(folder_problems(out, verify(out))) == [f"{names(4001)}: {said}"]

    (out / "shard-000000.json").unlink()
    assert f"{names(0)}: {said}" in list(folder_problems(out, verify(out)))


@pytest.mark.parametrize(
    "name",
    ["stray.ckpt", "rows_0-2000/data_3.ckpt.gz", "data_4.ckpt.gz", "rows_0-2000/old/data_5.ckpt", "a/b/c/x.ckpt.gz"],
)
def test_whatever_specforge_would_walk_into_is_named(tmp_path: Path, name: str) -> None:
    """Its reader takes both endings in any folder below, whatever else their names are."""
    run_job(job(tmp_path, "specforge"), arithmetic_for("specforge"))
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    assert faults(tmp_path / "out") == [f"{name}: no manifest tells of it, and a trainer would read it"]


@pytest.mark.parametrize("layout", ["native", *LAYOUTS])
def test_whatever_a_layout_wrote_is_held_against_what_was_written(tmp_path: Path, layout: str) -> None:
    """Every file of the folder: a byte of it flipped is found, that it is gone is found, and back again all is well."""
    run_job(job(tmp_path, layout), arithmetic_for(layout))
    out = tmp_path / "out"
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != ".lock")
    endings = {path.suffix for path in files}
    assert endings >= {".json", ".jsonl", ".safetensors"} | {"specforge": {".ckpt"}, "speculators": {".arrow"}}.get(
        layout, set()
    )

    for path in files:
        data = path.read_bytes()
        for at in {0, len(data) // 3, len(data) - 1}:
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert faults(out), f"{path.name}, byte {at}"
        for changed in (data[:-1], data + b"x", b""):
            path.write_bytes(changed)
            assert faults(out), f"{path.name}: {len(changed)} of {len(data)} bytes"
        path.unlink()
        assert faults(out), f"{path.name} is gone"
        path.write_bytes(data)
    assert faults(out) == []


@pytest.mark.parametrize("layout", ["native", *LAYOUTS])
def test_a_group_that_is_gone_as_a_whole_is_missed(tmp_path: Path, layout: str) -> None:
    """Shard, manifest and the files of its samples: and the same command brings them back, where rows may move."""
    run_job(job(tmp_path, layout), arithmetic_for(layout))
    out = tmp_path / "out"
    last = manifests(out)[-1]
    for side in read_manifest(last).side_files:
        (out / side["name"]).unlink()
    for path in pair(last):
        path.unlink()

    assert any("in no shard: " in said for said in faults(out))
    run_job(job(tmp_path, layout), arithmetic_for(layout))
    assert faults(out) == []


def test_a_data_set_that_was_not_made_anew_is_told(tmp_path: Path) -> None:
    """A run that was broken off behind its last shard left the data set of the run before; the same command ends it."""
    for n in (5, 12):
        run_job(job(tmp_path, "speculators", n), arithmetic_for("speculators"))
        out = tmp_path / "out"
        if n == 5:
            before = {path.name: path.read_bytes() for path in data_set_files(out)}
    for path in data_set_files(out):
        path.unlink()
    for name, data in before.items():
        (out / name).write_bytes(data)
    write_contents(out, replace(read_contents(out), data_set=EMPTY_DATA_SET))

    said = faults(out)
    assert said[0].startswith("the data set has 0 rows, and 12 files of states stand beside it: the run did not come")
    assert [text.split(":")[0] for text in said[1:]] == sorted(before)
    run_job(job(tmp_path, "speculators", 12), arithmetic_for("speculators"))
    assert faults(out) == []


@pytest.mark.parametrize("layout", ["native", *LAYOUTS])
def test_samples_that_changed_since_are_computed_again(tmp_path: Path, layout: str) -> None:
    """Resume by id and hash: other ids under an old id are redone with their shard, what the file lacks now is named;
    where rows may not move nothing is touched."""
    asked = job(tmp_path, layout)
    run_job(asked, arithmetic_for(layout))
    out, samples, said = asked.out, drawn(12), list[str]()
    old = find_sample(out, "s3").path
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    samples[3] = sample("s3", [7, 7], [8, 9])
    samples_file(asked.samples, samples[:-1])

    if layout == "speculators":
        with pytest.raises(SetupError, match=r"other ids .* now, sample 's3'; rows of .* may not move: begin anew"):
            run_job(asked, arithmetic_for(layout), complain=said.append)
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
        return
    summary = run_job(asked, arithmetic_for(layout), complain=said.append)

    assert (summary.changed_ids, summary.vanished_ids) == (["s3"], ["s11"])
    assert find_sample(out, "s3").ids == array("q", [7, 7, 8, 9])
    last = find_sample(out, "s11").path
    assert "other ids or another loss_mask than in the samples file now, sample 's3'; kept as *.old" in said[0]
    assert said[1].startswith(f"in {last.stem}.safetensors: sample 's11' that s.parquet does not have any more; they")
    assert {p.name for p in out.glob("*.old")} == {f"{path.name}.old" for path in pair(old)}
    assert ["sample 's11' that the last run did not have" in text for text in faults(out)] == [True]

    for path in pair(last):
        path.unlink()
    run_job(asked, arithmetic_for(layout), complain=pytest.fail)
    assert faults(out) == []
    assert {line["id"] for path in manifests(out) for line in read_manifest(path).samples} == {
        one.id for one in samples[:-1]
    }


def test_the_way_out_is_one_that_the_layout_has(tmp_path: Path) -> None:
    """A sample that vanished from the file, where rows may not move: to remove its shard would leave a gap."""
    run_job(asked := job(tmp_path, "speculators"), arithmetic_for("speculators"))
    samples_file(asked.samples, drawn(11))
    said: list[str] = []
    run_job(asked, arithmetic_for("speculators"), complain=said.append)
    way = "rows of this layout may not move: begin anew in another --out"
    assert said[0].endswith(f"they stay, and a trainer would read them: {way}")
    assert [way in text for text in faults(asked.out)] == [True]


def test_specforge_groups_its_files() -> None:
    """Two thousand to a folder."""
    name = LAYOUTS["specforge"].name
    assert [name(row) for row in (0, 1999, 2000, 4001)] == [
        "rows_0-2000/data_0.ckpt",
        "rows_0-2000/data_1999.ckpt",
        "rows_2000-4000/data_2000.ckpt",
        "rows_4000-6000/data_4001.ckpt",
    ]


@pytest.mark.parametrize(
    ("layout", "changes", "said"),
    [
        ("specforge", {"last_norm": "pre"}, "needs the last state post the final norm .its trainer applies lm_head"),
        (
            "speculators",
            {"last_norm": "post"},
            "needs the last state pre the final norm .its trainer applies the final",
        ),
        ("specforge", {"aux_layers": (2, 4)}, r"takes 3 auxiliary layers; --layers names \(2, 4\)"),
        ("eagle", {}, "'eagle' is none of native, specforge, speculators"),
    ],
)
def test_what_the_back_end_did_not_deliver_is_refused(
    tmp_path: Path, layout: str, changes: dict[str, Any], said: str
) -> None:
    """Before anything is computed."""
    backend = Arithmetic(facts(**changes))
    with pytest.raises(SetupError, match=said):
        run_job(job(tmp_path, layout), backend)
    assert backend.asked == []


def test_what_is_delivered_is_accepted() -> None:
    """Any number of layers for speculators, either side of the norm for native shards."""
    check_layout("speculators", facts(last_norm="pre", aux_layers=(1, 2, 3, 4)))
    check_layout("native", facts(last_norm="pre"))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_files_of_somebody_else_are_left_alone(tmp_path: Path, layout: str) -> None:
    """A folder with features, where no run of ours was: refused, nothing removed, also when it is tried again."""
    path = tmp_path / "out" / LAYOUTS[layout].name(3)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"theirs")
    for _ in range(2):
        with pytest.raises(SetupError, match="no run of tokenproof was in"):
            run_job(job(tmp_path, layout), arithmetic_for(layout))
        assert path.read_bytes() == b"theirs"


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        *(("speculators", name) for name in ("data-00000-of-00001.arrow", "dataset_info.json", "state.json")),
        ("speculators", ".data-set/mine"),
        *(("specforge", name) for name in ("shard-000000.safetensors", "shard-000000.json", ".shard-x")),
    ],
)
def test_names_that_a_run_would_take_are_refused(tmp_path: Path, layout: str, name: str) -> None:
    """A user's data set or shards: twice refused, and left."""
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"theirs")
    for _ in range(2):
        with pytest.raises(SetupError, match=f"no run of tokenproof was in .* with --layout {layout}"):
            run_job(job(tmp_path, layout), arithmetic_for(layout))
        assert path.read_bytes() == b"theirs"


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_run_killed_before_its_first_manifest_goes_on(tmp_path: Path, layout: str) -> None:
    """It had begun: its mark says that what it left is ours."""

    def gone(found: Any) -> Any:
        raise SetupError("the server went away")

    with pytest.raises(SetupError, match="went away"):
        run_job(job(tmp_path, layout), Arithmetic(facts(last_norm=LAYOUTS[layout].last_norm), wrong=gone))
    left = tmp_path / "out" / LAYOUTS[layout].name(3)
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half a file")
    (tmp_path / "out/shard-000000.safetensors").write_bytes(b"half a shard")

    assert run_job(job(tmp_path, layout), arithmetic_for(layout)).samples == 12


def test_a_damaged_group_is_computed_again_where_rows_may_move(tmp_path: Path) -> None:
    """SpecForge's reader takes any file: the damaged ones go, their samples get new rows."""
    run_job(job(tmp_path, "specforge"), arithmetic_for("specforge"))
    (tmp_path / "out/rows_0-2000/data_1.ckpt").write_bytes(b"damaged")

    run_job(job(tmp_path, "specforge"), arithmetic_for("specforge"))

    found = [torch.load(p, weights_only=True)["input_ids"].tolist() for p in (tmp_path / "out").glob("rows*/*.ckpt")]
    assert sorted(found) == sorted(list(one.ids) for one in drawn(12))


@pytest.mark.parametrize("gone", ["file", "damaged", "manifest", "shard"])
def test_a_damaged_group_is_computed_again_at_its_own_rows(tmp_path: Path, gone: str) -> None:
    """speculators finds states by row number: the same command gives the very files and data set of before."""
    run_job(asked := job(tmp_path, "speculators"), arithmetic_for("speculators"))
    files = sorted((asked.out / "hidden_states").iterdir())
    before = {path.name: path.read_bytes() for path in files}
    rows = load_from_disk(str(asked.out)).with_format(None)[:]
    manifest = find_sample(asked.out, "s7").path
    of_shard = len(read_manifest(manifest).samples)
    if gone == "damaged":
        (asked.out / "hidden_states/hs_7.safetensors").write_bytes(b"damaged")
    else:
        path = {"file": asked.out / "hidden_states/hs_7.safetensors", "manifest": manifest}
        path.get(gone, manifest.with_suffix(".safetensors")).unlink()

    summary = run_job(asked, arithmetic_for("speculators"))

    assert (summary.samples, faults(asked.out)) == (of_shard, [])
    assert {path.name: path.read_bytes() for path in (asked.out / "hidden_states").iterdir()} == before
    assert load_from_disk(str(asked.out)).with_format(None)[:] == rows


def test_a_row_that_no_sample_is_left_for_is_told(tmp_path: Path) -> None:
    """Its sample is no longer in the file: no data set stands there whose rows are others."""
    run_job(asked := job(tmp_path, "speculators"), arithmetic_for("speculators"))
    (asked.out / "hidden_states/hs_0.safetensors").unlink()
    samples_file(asked.samples, drawn(12)[1:])
    with pytest.raises(SetupError, match=r"row \d is missing.* too few samples for it now"):
        run_job(asked, arithmetic_for("speculators"))
    assert data_set_files(asked.out) == []
