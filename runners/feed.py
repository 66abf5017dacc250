"""Prompts into a run: pulled from their files by a thread, a bounded number ahead, those that are done passed over.

Knows nothing of requests and answers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice

from harness.errors import SetupError
from runners.backoff import ENDS
from runners.jobs import Prompt
from runners.ledger import Ledger
from runners.ledger_rows import Known

CHUNK = 32  # prompts that the thread prepares at a time


@dataclass(slots=True)
class Task:
    """A prompt that is to be answered.

    Attributes:
        job: Its number in the ledger.
        new: Whether the ledger has yet to be told of it.
        was: How it ended in an earlier run, None where it did not.
        failures: Its failed attempts in this run, by kind.
    """

    prompt: Prompt
    job: int
    dataset: int
    new: bool
    was: str | None = None
    failures: Counter[str] = field(default_factory=Counter)


class Feed:
    """The prompts of a run that have no answer yet, in their order.

    Args:
        prompts: All of them; run in a thread, one chunk at a time.
        ledger: A reader of its own, for that thread.
        numbers: Data set -> its number in the ledger.
        amended: Whether a request may differ from the one that the ledger knows. It replaces it where there is no
            answer; an answer stays what it is.
    """

    def __init__(
        self, prompts: Iterator[Prompt], ledger: Ledger, numbers: dict[str, int], *, next_job: int, amended: bool
    ) -> None:
        self._prompts, self._ledger, self._numbers = prompts, ledger, numbers
        self._next_job, self._amended = next_job, amended
        self._ready: list[Task] = []
        self.at_end = False

    async def next(self, skipped: set[str], stopped: Callable[[], bool]) -> Task | None:
        """The next prompt of a data set that is not among the skipped ones; None where there is no more, or no need.

        Raises:
            SetupError: A prompt differs from the one that was asked under its id, or a row cannot be sent.
        """
        while not stopped():  # a million prompts that are done take minutes to pass over
            while self._ready:
                task = self._ready.pop()
                if task.prompt.dataset not in skipped:
                    return task
            if self.at_end:
                return None
            self._ready = (await asyncio.get_running_loop().run_in_executor(None, self._chunk))[::-1]
        return None

    def _chunk(self) -> list[Task]:
        chunk = list(islice(self._prompts, CHUNK))
        self.at_end = len(chunk) < CHUNK
        ids: dict[int, list[str]] = {}
        for prompt in chunk:
            ids.setdefault(self._numbers[prompt.dataset], []).append(prompt.id)
        known = {dataset: self._ledger.known(dataset, names) for dataset, names in ids.items()}
        found = (self._task(prompt, known[self._numbers[prompt.dataset]].get(prompt.id)) for prompt in chunk)
        return [task for task in found if task is not None]

    def _task(self, prompt: Prompt, known: Known | None) -> Task | None:
        """None where it is done."""
        dataset = self._numbers[prompt.dataset]
        if known is None:
            self._next_job += 1
            return Task(prompt, self._next_job - 1, dataset, new=True)
        changed = known.sha256 != sha256(prompt.body).digest()
        if changed and not self._amended:
            raise SetupError(
                f"data set {prompt.dataset}: prompt {prompt.id!r} is not the one that was asked under this id; "
                "restore the data set, name the change with --amend, or choose another output folder"
            )
        if known.end is None or ENDS.get(known.end) or (changed and known.end in ENDS):
            return Task(prompt, known.job, dataset, new=changed or known.end is not None, was=known.end)
        return None
