"""The extraction loop: what is done, what is left, and what a fault leaves behind."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from runners.extract import Limits, Summary, extract, fitted, wanted, windows
from runners.extract_plan import survey
from runners.manifests import Manifest, run_block
from runners.shards import About, Kept, ShardSink, problems, sample_line, write_shard
from runners.standing import standing
from runners.states import Sample
from tests.runners.states_kit import FACTS, Arithmetic, arithmetic, drawn, facts, sample

RUN = run_block(FACTS, layout="native", max_length=64, over_long="drop")
ABOUT = About(RUN, {"name": "s", "sha256": "0"})
LIMITS = Limits(max_length=64, over_long="drop", shard_bytes=6000, bytes_per_token=81)


def run(folder: Path, samples: Sequence[Sample], backend: Arithmetic | None = None, **more: Any) -> Summary:
    """One run of `extract` over what stands in the folder."""
    done, _, number = standing(folder, RUN)
    return extract(samples, backend or Arithmetic(), ShardSink(folder, number, ABOUT), LIMITS, done, **more)


def lines(folder: Path) -> list[dict[str, Any]]:
    """The samples of all shards in order; every shard is whole."""
    _, whole, _ = standing(folder, RUN)
    return [dict(line) for manifest in whole for line in manifest.samples]


def test_every_sample_stands_once_and_in_order(tmp_path: Path) -> None:
    """Shard by shard, and the sums are those of the samples."""
    samples = drawn(40)

    summary = run(tmp_path, samples)

    assert lines(tmp_path) == [sample_line(Kept(one, arithmetic(one.ids))) for one in samples]
    assert summary.samples == 40
    assert summary.tokens == sum(len(one.ids) for one in samples)
    assert summary.shards == len(list(tmp_path.glob("shard-*.json"))) > 5
    assert summary.n_bytes == sum(p.stat().st_size for p in tmp_path.glob("*.safetensors"))


def test_a_second_run_computes_only_what_is_new(tmp_path: Path) -> None:
    """By id and hash: old shards are left as they are."""
    samples = drawn(20)
    run(tmp_path, samples[:9])
    before = {p: p.read_bytes() for p in tmp_path.glob("shard-*")}
    backend = Arithmetic()

    summary = run(tmp_path, samples, backend)

    assert (summary.done_before, summary.samples, sum(backend.asked)) == (9, 11, 11)
    assert {p: p.read_bytes() for p in before} == before
    assert [line["id"] for line in lines(tmp_path)] == [one.id for one in samples]


def test_a_damaged_shard_is_computed_again(tmp_path: Path) -> None:
    """Its samples count as not done; the damaged pair stays under another name, and is told."""
    samples = drawn(20)
    run(tmp_path, samples)
    path = tmp_path / "shard-000001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    said: list[str] = []

    done, _, number = standing(tmp_path, RUN, said.append)
    summary = extract(samples, Arithmetic(), ShardSink(tmp_path, number, ABOUT), LIMITS, done)

    assert said == [
        "shard-000001.json: shard-000001.safetensors: loss_mask: its bytes are not those that were written; kept as "
        "*.broken, and computed again"
    ]
    assert summary.samples > 0
    assert sorted(line["id"] for line in lines(tmp_path)) == sorted(one.id for one in samples)
    assert {p.name for p in tmp_path.glob("*.broken")} == {f"shard-000001.{e}.broken" for e in ("json", "safetensors")}


def test_tensors_without_a_manifest_count_for_nothing(tmp_path: Path) -> None:
    """A run killed between the two files left them; the next one writes over them."""
    samples = drawn(5)
    run(tmp_path, samples)
    (tmp_path / "shard-000000.json").unlink()
    for path in tmp_path.glob("shard-00000[1-9].*"):
        path.unlink()

    assert run(tmp_path, samples).samples == 5
    assert [line["id"] for line in lines(tmp_path)] == [one.id for one in samples]


def test_shards_of_another_run_are_never_mixed(tmp_path: Path) -> None:
    """Other layers, another model: the message says what differs."""
    run(tmp_path, drawn(3))
    other = run_block(facts(weights_sha256="x"), layout="native", max_length=64, over_long="drop")
    with pytest.raises(SetupError, match=r'shards of another run; .*:\nweights_sha256 is "w+" there and "x" now'):
        standing(tmp_path, other)


@pytest.mark.parametrize("changed", [sample("s1", [9], [9]), sample("s1", [1], [2], [0])], ids=["ids", "mask"])
def test_a_sample_that_changed_since_is_refused(tmp_path: Path, changed: Sample) -> None:
    """Same id, other ids or another mask: neither old nor new states may pass for it."""
    run(tmp_path, [sample("s1", [1], [2])])
    with pytest.raises(SetupError, match="sample 's1' was extracted with other ids or another loss_mask"):
        run(tmp_path, [changed])


def test_two_samples_of_one_id_are_refused(tmp_path: Path) -> None:
    """Before anything is computed, where the run is surveyed first."""
    twice = [sample("a", [1], [2]), sample("a", [1], [2])]
    with pytest.raises(SetupError, match="two samples have the id 'a'"):
        survey(twice, LIMITS, {})


def test_a_sample_in_two_shards_is_refused(tmp_path: Path) -> None:
    """Somebody copied a shard: no run goes on over it."""
    rows = [Kept(one, arithmetic(one.ids)) for one in drawn(2)]
    write_shard(tmp_path, 0, rows, ABOUT)
    write_shard(tmp_path, 1, rows[1:], ABOUT)
    with pytest.raises(SetupError, match="sample 's1' stands in two shards"):
        standing(tmp_path, RUN)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda found: found[::-1], id="another-order"),
        pytest.param(lambda found: [type(s)(s.aux[1:], s.last[1:], s.last_norm) for s in found], id="rows-missing"),
        pytest.param(lambda found: [type(s)(s.aux[:, :2], s.last, s.last_norm) for s in found], id="layer-missing"),
        pytest.param(lambda found: [type(s)(s.aux, s.last[:, :3], s.last_norm) for s in found], id="width"),
        pytest.param(lambda found: [type(s)(s.aux, s.last, "pre") for s in found], id="norm"),
    ],
)
def test_rows_that_are_not_those_of_the_ids_are_refused(tmp_path: Path, wrong: Any) -> None:
    """The report of states in the order of text (10 before 2) and of states with cached rows missing."""
    batch = [sample("req_0_2", [1], [2, 3, 4, 5]), sample("req_0_10", [1], [2, 3, 4, 5, 6, 7])]
    with pytest.raises(SetupError, match="sample req_0_2: states of shapes"):
        run(tmp_path, batch, Arithmetic(wrong=wrong))
    assert not list(tmp_path.glob("shard-*.json"))


def test_fewer_states_than_samples_are_refused(tmp_path: Path) -> None:
    """No exception of the back end, and yet a request went missing."""
    with pytest.raises(SetupError, match="arithmetic gave the states of 1 sequences; 2 were asked"):
        run(tmp_path, drawn(2, longest=9), Arithmetic(wrong=lambda found: found[:-1]))


LONG = sample("long", [1] * 60, [2] * 10)


@pytest.mark.parametrize(
    ("policy", "one", "expected"),
    [
        ("drop", LONG, None),
        ("cut", LONG, sample("long", [1] * 60, [2] * 4)),
        ("cut", sample("p", [1] * 64, [2]), None),
        ("cut", sample("m", [1] * 60, [2] * 10, [0] * 4 + [1] * 6), None),
        ("drop", sample("fits", [1] * 60, [2] * 4), sample("fits", [1] * 60, [2] * 4)),
    ],
)
def test_over_long_samples_follow_the_policy(policy: Any, one: Sample, expected: Sample | None) -> None:
    """Dropped, or cut to their first ids where something is left that is trained on."""
    assert fitted(one, Limits(64, policy, 1, 1)) == expected


def test_what_cutting_leaves_out_is_counted() -> None:
    """Of three that are over-long two are cut, and one has nothing left that is trained on."""
    summary, limits = Summary(), Limits(64, "cut", 1, 1)
    samples = [LONG, sample("fits", [1], [2]), sample("prompt", [1] * 64, [2]), sample("too", [1] * 60, [2] * 9)]
    assert [one.id for one in wanted(samples, limits, {}, summary)] == ["long", "fits", "too"]
    assert (summary.over_long, summary.dropped) == (3, 1)
    told = survey(samples, limits, {})
    assert (told.samples, told.over_long, told.dropped) == (3, 3, 1)


def test_over_long_samples_are_counted_and_named(tmp_path: Path) -> None:
    """In every run, also where everything else is done."""
    samples = [*drawn(3), LONG]
    for _ in range(2):
        summary = run(tmp_path, samples)
        assert (summary.over_long, summary.dropped, summary.over_long_ids) == (1, 1, ["long"])
    assert len(lines(tmp_path)) == 3
    with pytest.raises(SetupError, match=r"'long' has 70 ids, --max-length is 64; raise it"):
        fitted(LONG, Limits(64, "refuse", 1, 1))
    assert fitted(LONG, Limits(None, "refuse", 1, 1)) is LONG


def test_a_shard_has_what_has_room_and_at_least_one_sample() -> None:
    """In order; a sample larger than a shard stands alone."""
    samples = [sample(str(n), [], [1] * n) for n in (3, 4, 3, 50, 1, 1)]
    assert [[len(one.ids) for one in group] for group in windows(samples, Limits(None, "drop", 100, 10))] == [
        [3, 4, 3],
        [50],
        [1, 1],
    ]


def test_a_survey_counts_what_is_left() -> None:
    """Without what is done and what is too long."""
    samples = [sample("a", [1], [2]), sample("b", [1, 2], [3, 4]), LONG, sample("c", [5], [6, 7])]
    done = {"c": (samples[3].ids_sha256, samples[3].mask_sha256)}

    found = survey(samples, LIMITS, done)

    assert (found.samples, found.tokens, found.longest) == (2, 6, 4)


def test_writing_goes_on_while_the_next_states_are_computed(tmp_path: Path) -> None:
    """The writer of shard 0 is still at work when the back end is asked for shard 1: else this never ends."""
    asked, written = threading.Event(), []

    class Slow(ShardSink):
        def write(self, kept: Any, set_aside: Any) -> Manifest:
            if not written:
                assert asked.wait(30)
            written.append(len(kept))
            return super().write(kept, set_aside)

    class Watching(Arithmetic):
        def states(self, batch: Any) -> Any:
            if self.asked:
                asked.set()
            return super().states(batch)

    samples = drawn(12)
    extract(samples, Watching(), Slow(tmp_path, 0, ABOUT), LIMITS, {})

    assert sum(written) == 12
    assert len(written) > 1


def test_a_full_disk_says_what_stays_and_what_to_do(tmp_path: Path) -> None:
    """The writer's error reaches the caller, with the way on; whole shards stay."""

    class Full(ShardSink):
        def write(self, kept: Any, set_aside: Any) -> Manifest:
            if list(tmp_path.glob("shard-*.json")):
                raise SetupError("shard-000001.safetensors cannot be written: No space left on device")
            return super().write(kept, set_aside)

    with pytest.raises(SetupError, match="No space left on device; 1 shards of this run stand whole and stay: put the"):
        extract(drawn(20), Arithmetic(), Full(tmp_path, 0, ABOUT), LIMITS, {})
    assert len(lines(tmp_path)) > 0


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_back_end_that_fails_leaves_whole_shards(tmp_path: Path, at: int) -> None:
    """What was computed before is written; the next run does the rest."""
    samples = drawn(20)
    backend = Arithmetic()

    def broken(found: Any) -> Any:
        if len(backend.asked) == at:
            raise SetupError("the server went away")
        return found

    backend.wrong = broken
    with pytest.raises(SetupError, match="went away"):
        run(tmp_path, samples, backend)
    n_done = len(lines(tmp_path))
    assert n_done == sum(backend.asked[: at - 1])
    assert run(tmp_path, samples).done_before == n_done
    assert [line["id"] for line in lines(tmp_path)] == [one.id for one in samples]


def test_a_ctrl_c_leaves_whole_shards(tmp_path: Path) -> None:
    """Pressed while the third batch is computed: the two before it stand."""
    backend = Arithmetic()

    def pressed(found: Any) -> Any:
        if len(backend.asked) == 3:
            raise KeyboardInterrupt
        return found

    backend.wrong = pressed
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, drawn(20), backend)
    assert len(lines(tmp_path)) == sum(backend.asked[:2])


def test_what_is_set_aside_is_told_and_not_computed_again(tmp_path: Path) -> None:
    """A proof refuses every third sample: not among the samples, and done for the next run."""

    def examine(kept: Sequence[Kept]) -> tuple[list[Kept], list[dict[str, Any]]]:
        bad = [one for one in kept if int(one.sample.id[1:]) % 3 == 0]
        good = [Kept(one.sample, one.states, {"share": 1.0}) for one in kept if one not in bad]
        return good, [sample_line(one) | {"reason": "agreement 0.1"} for one in bad]

    samples = drawn(10)
    summary = run(tmp_path, samples, examine=examine)
    again = Arithmetic()

    assert (summary.samples, summary.set_aside) == (6, 4)
    assert run(tmp_path, samples, again).done_before == 10
    assert again.asked == []
    assert {line["share"] for line in lines(tmp_path)} == {1.0}


def test_a_shard_that_breaks_again_takes_no_other_name(tmp_path: Path) -> None:
    """What was kept of the first time stays, and the two files of a shard keep one number."""
    for n in range(2):
        run(tmp_path, drawn(1))
        path = tmp_path / "shard-000000.safetensors"
        path.write_bytes(b"damaged %d" % n)
        standing(tmp_path, RUN)
    kept = [tmp_path / f"shard-000000.safetensors.broken{end}" for end in ("", ".1")]
    assert [path.read_bytes() for path in kept] == [b"damaged 0", b"damaged 1"]
    assert (tmp_path / "shard-000000.json.broken.1").exists()


def test_a_shard_written_is_a_shard_checked(tmp_path: Path) -> None:
    """What the loop wrote is what `verify` accepts."""
    run(tmp_path, drawn(8))
    assert [problems(p)[1] for p in sorted(tmp_path.glob("*.json"))] == [[]] * len(list(tmp_path.glob("*.json")))
