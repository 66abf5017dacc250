"""The same work on more than one machine: rows through workers of a Ray cluster, in any order, each done.

The owner of ray. A worker is made once in a process of its own and called with one row at a time; where a process or a
machine dies, its row is done again by another. So what a worker leaves must be the same when it is left twice. Knows
nothing of what the rows are.
"""

import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, SetupError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about settings of its own that are outdated: nothing a caller could change
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise SetupError(
            f"--ray needs the extra `ray` ({error}): pip install 'tokenproof[ray]', or leave it out"
        ) from error

LOCAL = "local"
HOST_PORT = re.compile(r"(?:ray://)?(?P<host>[^/:]+|\[[^\]]+\]):(?P<port>\d{1,5})")
CONNECT_S = 5.0
LOGGERS = ("ray", "ray.data")
Row = Mapping[str, Any]
"""Numbers, texts, bytes, and lists of these."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to work, and with how much of it.

    Attributes:
        address: As `ray.init` takes it: host:port, ray://host:port, auto; `local` starts one in this machine.
        workers: Processes at a time.
        cpus, gpus: Of each; a model over eight GPUs is one worker with 8.
    """

    address: str
    workers: int = 1
    cpus: float = 1.0
    gpus: float = 0.0


class _Worker:
    """Makes the real worker at its first row, so that what is wrong with it comes back as words."""

    def __init__(self, make: Callable[[], Callable[[Row], Row]]) -> None:
        self._make = make
        self._work: Callable[[Row], Row] | None = None

    def __call__(self, row: Row) -> dict[str, Any]:
        try:
            self._work = self._work or self._make()
            return {**self._work(row), "trouble": ""}
        except HarnessError as error:
            return {"trouble": str(error)}


def spread(cluster: Cluster, rows: Sequence[Row], make: Callable[[], Callable[[Row], Row]]) -> Iterator[dict[str, Any]]:
    """What the workers made of each row, as it comes; what Ray prints meanwhile goes to stderr.

    Args:
        make: Makes a worker, in its process; it must not hold what cannot be sent there.

    Raises:
        SetupError: No such cluster, or a worker raised a HarnessError, whose words these are; the rest is given up.
    """
    with connected(cluster), _quiet():
        parts = ray.data.from_items([dict(row) for row in rows], override_num_blocks=max(1, len(rows)))
        worker: Any = _Worker  # a class stands for an actor; the annotation of `map` knows functions alone
        done = parts.map(
            worker,
            fn_constructor_args=(make,),
            compute=ray.data.ActorPoolStrategy(size=max(1, min(cluster.workers, len(rows)))),
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
        )
        try:
            for row in done.iter_rows():
                if row["trouble"]:
                    raise SetupError(f"a worker of the cluster: {row['trouble']}")
                yield row
        except ray.exceptions.RayError as error:
            raise SetupError(f"Ray gave up: {error!s:.400}") from error


@contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """Connected to the cluster; a connection that was there before is used, and stays."""
    if ray.is_initialized():
        yield
        return
    started: dict[str, Any] = {"address": cluster.address}
    if cluster.address == LOCAL:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # for the processes that start now: nobody is told that they did
        started |= {"num_cpus": max(1, round(cluster.workers * cluster.cpus)), "include_dashboard": False}
    try:
        _demand_answer(cluster.address)
        with _unwarned():
            ray.init(**started, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise SetupError(
            f"--ray {cluster.address}: no cluster answers there ({error!s:.200}); expected host:port of a head node, "
            f"`auto` on one of its machines, or `{LOCAL}`"
        ) from error
    with _quiet():  # also between two calls of `spread`
        try:
            yield
        finally:
            ray.shutdown()


def _demand_answer(address: str) -> None:
    """OSError where nobody listens: Ray itself would wait for minutes, and then end the process."""
    if found := HOST_PORT.fullmatch(address):
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), CONNECT_S).close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Ray's own bars and log lines: the command has a bar of its own, and stdout is for its result."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    with _unwarned():
        context = ray.data.DataContext.get_current()
    bars, context.enable_progress_bars = context.enable_progress_bars, False
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        context.enable_progress_bars = bars


@contextmanager
def _unwarned() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
