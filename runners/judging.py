"""Answers judged beside the event loop, in processes of their own: the same `judge` as the gate's.

A process takes a batch of answers and gives packed verdicts. Knows nothing of the ledger.
"""

import asyncio
import gc
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import resource_tracker
from pathlib import Path

from harness.encoder import encode_ordinary, encode_prompt_text, load_vocab
from harness.errors import SetupError
from harness.flow import Kit, judge
from harness.formats import formats
from harness.habits import load_habits
from harness.response import loads
from harness.types import Exchange, Finding, Verdict
from runners.verdicts import Facts, pack


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a kit is made of, in values that another process can be sent.

    Attributes:
        habits: Text of the habits file.
        vocab: As `encoder.load_vocab` takes it.
        facts: What each verdict is packed with.
        allow_unverified_prompt: Whether an answer goes into training whose prompt nobody verified.
    """

    habits: str
    vocab: str | None
    facts: Facts
    allow_unverified_prompt: bool = False

    def kit(self) -> Kit:
        """Load and check everything."""
        vocab, habits = load_vocab(self.vocab), load_habits(self.habits)
        return Kit(vocab, encode_ordinary, formats(), habits, encode_prompt_text)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to be judged: the bytes that were sent and those that came."""

    name: str
    request: bytes
    response: bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict in short, and packed.

    Attributes:
        good: Whether the answer goes into training as it is: accepted, and its prompt verified or not needed to be.
        findings: Codes of what speaks against it.
    """

    name: str
    good: bool
    n_ids: int
    findings: tuple[str, ...]
    packed: bytes


def judged(answer: Answer, kit: Kit, facts: Facts, allow_unverified_prompt: bool = False) -> Judged:
    """The verdict on one answer; a bug of ours is a rejection that says so, never the end of a run.

    Raises:
        SetupError: Our own inputs are wrong: every further answer would fail the same way.
    """
    try:
        verdict = judge(Exchange(answer.name, answer.response, loads(answer.request)), kit)
    except SetupError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error!s:.200} ({Path(where.filename).name}:{where.lineno})"
        text = f"a bug of tokenproof, please report it with this answer: {said}"
        verdict = Verdict("rejected", findings=(Finding("judge-failed", "judge", text),))
    return brief(verdict, facts, allow_unverified_prompt)


def brief(verdict: Verdict, facts: Facts, allow_unverified_prompt: bool = False) -> Judged:
    """A verdict in short, and packed."""
    codes = against(verdict, allow_unverified_prompt)
    return Judged(verdict.name, not codes, len(verdict.ids.ids), codes, pack(verdict, facts))


def against(verdict: Verdict, allow_unverified_prompt: bool = False) -> tuple[str, ...]:
    """Codes of why an answer does not go into training, as `samples.take` leaves it out; () where it does."""
    if verdict.accepted and verdict.prompt != "contradicted":
        return () if allow_unverified_prompt or verdict.prompt == "verified" else ("prompt-unverified",)
    return tuple(f.code for f in verdict.findings if f.fatal or f.code == "prompt-mismatch") or (verdict.name,)


class Judges:
    """Processes that judge; 0 of them: a thread of this one. Close them.

    Attributes:
        n_batches: That should be under way at once, so that no process waits for the next one.

    Raises (from `judge`):
        SetupError: The recipe is wrong, or a process died.
    """

    def __init__(self, recipe: Recipe, n_processes: int) -> None:
        self.n_batches = 2 * n_processes + 1
        self._pool: Executor
        if n_processes:
            spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads and a loop may hang
            self._pool = ProcessPoolExecutor(n_processes, spawn, _begin, (recipe,))
        else:
            self._pool = ThreadPoolExecutor(1, "judge")
        self._recipe = recipe

    def against(self, verdict: Verdict) -> tuple[str, ...]:
        """As the findings that they give."""
        return against(verdict, self._recipe.allow_unverified_prompt)

    async def judge(self, batch: Sequence[Answer]) -> list[Judged]:
        """Verdicts in the order of the batch."""
        work = partial(_judged_by, self._recipe) if isinstance(self._pool, ThreadPoolExecutor) else _judged_here
        try:
            with _born_deaf():
                found = asyncio.get_running_loop().run_in_executor(self._pool, work, tuple(batch))
            return await found
        except BrokenProcessPool as error:
            said = "a process that judges has died; the answers are in the ledger: run the same command again"
            raise SetupError(said) from error

    def close(self) -> None:
        """End the processes; a batch that they have begun is finished first."""
        self._pool.shutdown(cancel_futures=True)


FOR_THE_RUNNER = (signal.SIGINT, signal.SIGHUP)
"""A terminal sends Ctrl-C, and its own end, to us too; the runner ends us when it is done."""


@contextmanager
def _born_deaf() -> Iterator[None]:
    """A process that is begun in here does not hear the terminal, not even before `_begin`: the pool would end."""
    resource_tracker.ensure_running()  # when it begins, it opens our ears again
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_RUNNER)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


_RECIPES: list[Recipe] = []  # of a process of the pool: the one that it was begun with


def _begin(recipe: Recipe) -> None:
    """The first thing that a process of the pool does."""
    for number in FOR_THE_RUNNER:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    _RECIPES.append(recipe)
    _kit(recipe)
    gc.freeze()  # a vocabulary is looked through again and again for nothing


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # it was killed: nobody reads what we write any more


@lru_cache(maxsize=2)
def _kit(recipe: Recipe) -> Kit:
    return recipe.kit()


def _judged_by(recipe: Recipe, batch: Sequence[Answer]) -> list[Judged]:
    kit = _kit(recipe)
    return [judged(answer, kit, recipe.facts, recipe.allow_unverified_prompt) for answer in batch]


def _judged_here(batch: Sequence[Answer]) -> list[Judged]:
    return _judged_by(_RECIPES[0], batch)
