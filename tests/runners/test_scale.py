"""Rows through the workers of a cluster: those parts that need none. What a cluster does is in test_scale_extract."""

import socket
from functools import partial

import pytest

from harness.errors import SetupError
from runners.scale import Cluster, Row, _Worker, spread


class Doubling:
    """A worker; negative numbers are more than it can take."""

    def __init__(self, made: list[int]) -> None:
        made.append(1)

    def __call__(self, row: Row) -> Row:
        if row["n"] < 0:
            raise SetupError(f"{row['n']} is negative")
        return {"n": 2 * row["n"]}


def test_a_worker_is_made_once_and_its_trouble_comes_back_as_words() -> None:
    """At the first row, not before; an error of ours is a row, any other one is not hidden."""
    made: list[int] = []
    worker = _Worker(partial(Doubling, made))
    assert made == []

    assert [worker({"n": 3}), worker({"n": -1}), worker({"n": 4})] == [
        {"n": 6, "trouble": ""},
        {"trouble": "-1 is negative"},
        {"n": 8, "trouble": ""},
    ]
    assert made == [1]
    with pytest.raises(KeyError):
        worker({})


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_an_address_where_nobody_listens_is_told_at_once(prefix: str) -> None:
    """Ray would wait for minutes, and then end the process."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"{prefix}127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(SetupError, match=f"--ray {address}: no cluster answers there"):
            list(spread(Cluster(address), [{"n": 1}], partial(Doubling, [])))
