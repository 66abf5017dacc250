"""Answers that are in the ledger -> verdicts in the ledger, in batches, beside the requests; and who fails by them.

Knows nothing of how an answer came.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass

from harness.errors import SetupError
from runners import ledger_writes as w
from runners.bills import length_of
from runners.commits import Commits
from runners.desk import Desk
from runners.judging import Answer, Judges
from runners.ledger import Ledger
from runners.verdicts import unpack

BATCH = 64  # of answers: a message to a process costs as much as judging one
NOBODY = "a provider that does not say its name"
"""Who gave what names nobody, where several might have."""


SEE = "see why in rejected.parquet"
WAYS = {
    "unverified": "nothing confirms their counts, for want of a bill or of known habits: `tokenproof calibrate` "
    "learns habits from recordings; then `tokenproof rejudge` and go on, both with --habits",
    "prompt-unverified": "nobody tells how long its prompts are: go on with --allow-unverified-prompt if that will do",
}
"""Commonest finding -> what helps, beside another provider."""


@dataclass(frozen=True, slots=True)
class Came:
    """An answer that waits for its verdict."""

    job: int
    dataset: str
    provider: str
    n_tokens: int
    answer: Answer


class Assess:
    """The queue before the judges.

    Attributes:
        n_waiting: Answers without a verdict, those at the judges included.
    """

    def __init__(self, desk: Desk, judges: Judges, commits: Commits) -> None:
        self._desk, self._judges, self._commits = desk, judges, commits
        self._queue: deque[Came] = deque()
        self._busy: set[asyncio.Task[None]] = set()
        self._n_judging = 0  # of those in `_busy`; the others write down what came of them
        self._why = Counter[str]()  # what speaks against answers, those of earlier parts included
        self.n_waiting = 0

    @property
    def full(self) -> bool:
        """Whether enough wait: what has been paid for should be known before more is."""
        return self.n_waiting >= 2 * self._desk.orders.concurrency + BATCH

    def add(self, came: Came) -> None:
        """One more."""
        self._queue.append(came)
        self.n_waiting += 1
        self._start()

    def begin(self, reader: Ledger) -> None:
        """What an earlier part of the run left: how its providers fared, and answers without a verdict."""
        for provider, _, packed in reader.latest_verdicts(self._desk.orders.window):
            codes = self._judges.against(unpack(packed)[0])
            self._why.update(codes)
            if self._desk.quality.add(provider, not codes) and provider not in self._desk.dropped:
                self._failed(provider)
        for name in self._desk.orders.targets:
            for row in reader.unbilled(reader.datasets()[name]):
                self._desk.sets[name].n_tokens += length_of(row.answer or b"")
        for row in reader.unjudged():
            answer = Answer(f"{row.dataset}/{row.id}", row.request, row.answer or b"")
            self.add(Came(row.job, row.dataset, row.provider or "", length_of(answer.response), answer))

    def no_answer(self, provider: str | None, asked: Collection[str]) -> None:
        """Something of status 200 came from one of those asked, and is no answer: it speaks against whoever gave it.

        A later part of the run forgets it: unlike a verdict, it may have been the trouble of an hour.
        """
        desk = self._desk
        name = (provider if provider in asked else next(iter(asked)) if len(asked) == 1 else None) or NOBODY
        desk.findings["no-answer"] += 1
        self._why["no-answer"] += 1
        if desk.quality.add(name, False) and name not in desk.dropped:
            self._failed(name)

    async def finish(self) -> None:
        """Until every answer has its verdict, or the judges have failed."""
        while self._busy:
            await asyncio.wait(self._busy)

    def _start(self) -> None:
        while self._queue and self._n_judging < self._judges.n_batches:
            self._n_judging += 1
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            task = asyncio.create_task(self._batch(batch))
            self._busy.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._busy.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._desk.failed(error)
        self._start()
        self._desk.changed.set()

    async def _batch(self, batch: list[Came]) -> None:
        try:
            found = await self._judges.judge([came.answer for came in batch])
        except SetupError as error:
            self._queue.clear()  # they are in the ledger, and are judged by the next run
            self._desk.stop("judge", str(error))
            return
        finally:
            self._n_judging -= 1
        self.n_waiting -= len(batch)
        self._start()
        for came, judged in zip(batch, found, strict=True):
            if not judged.good:
                self._why.update(judged.findings)
            self._desk.quality.add(NOBODY, True)  # what names nobody is held against all that came
            if self._desk.judged(came.dataset, came.provider, judged, came.n_tokens):
                self._failed(came.provider)
        await self._commits.put(
            *(w.judged(came.job, judged.name, judged.packed) for came, judged in zip(batch, found, strict=True))
        )

    def _failed(self, provider: str) -> None:
        """A provider is dropped where others may answer; else the run pauses before more is spent."""
        desk, quality = self._desk, self._desk.quality
        codes = ", ".join(f"{code} {n}" for code, n in desk.findings.most_common(3))
        said = f"{provider}: {quality.n_rejected(provider)} of its last {quality.n_answers(provider)} answers cannot be"
        said = f"{said} trained on" + (f" (in this run: {codes})" if codes else "")
        if provider != NOBODY and desk.drop(provider):
            desk.dropped_why = "; ".join(filter(None, (desk.dropped_why, said)))
            self._commits.put(w.meta(dropped=json.dumps(sorted(desk.dropped)), dropped_why=desk.dropped_why))
            return
        top = next((code for code, _ in self._why.most_common(1)), "")
        remedy = "name another provider, or raise max_rejected in [quality] with --amend"
        desk.stop("quality", f"{said}; {WAYS.get(top, SEE)}; {remedy}")
