"""What stands in a folder already: a shard counts as a whole, or not at all."""

from pathlib import Path

from runners.shards import write_shard
from runners.standing import done_of, outdated, pair, standing
from tests.runners.test_extract import ABOUT, RUN
from tests.runners.test_shards import kept


def test_a_shard_with_a_changed_sample_counts_no_more(tmp_path: Path) -> None:
    """Its other samples neither; a sample that was set aside changes as any other."""
    rows = kept(6)
    whole = [write_shard(tmp_path, k, rows[2 * k : 2 * k + 2], ABOUT) for k in range(3)]

    stay, go = outdated(whole, {"s3", "of no shard"})

    assert (stay, go) == ([whole[0], whole[2]], [whole[1]])
    assert list(done_of(stay)) == ["s0", "s1", "s4", "s5"]
    assert outdated(whole, ()) == (whole, [])


def test_numbers_go_on_behind_the_last_shard(tmp_path: Path) -> None:
    """Also where one before it is gone: no number stands for two things."""
    rows = kept(3)
    for k in range(3):
        write_shard(tmp_path, k, rows[k : k + 1], ABOUT)
    for path in pair(tmp_path / "shard-000001.json"):
        path.unlink()

    done, whole, number = standing(tmp_path, RUN)

    assert (list(done), len(whole), number) == (["s0", "s2"], 2, 3)
