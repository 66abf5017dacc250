"""Rejudging on a Ray cluster: the ledger stays here, the answers go to workers, each with one kit, in parts.

What a worker gives depends on its part alone, so that a part may be done twice. Knows nothing of Ray itself.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path

from harness.errors import SetupError
from harness.hashes import hashes
from runners.judging import Answer, Recipe, judged
from runners.rejudge import Question, Told, rejudge_by
from runners.scale import Cluster, Row, connected, spread
from runners.verdicts import Facts

PART_BYTES, PARTS_A_WORKER = 1 << 20, 64


class JudgeWorker:
    """One worker: a kit, loaded once, and one part after the other.

    Raises:
        SetupError: Its code, vocabulary, formats or habits are not those that the verdicts will name.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._kit = recipe.kit()
        mine, named = asdict(hashes(self._kit.habits)), asdict(recipe.facts)
        if parted := [name for name in mine if mine[name] != named[name]]:
            said = ", ".join(f"{name} {mine[name]:.12} here, {named[name]:.12} there" for name in parted)
            raise SetupError(f"the machines of this cluster differ: {said}; install the same tokenproof on all of them")

    def __call__(self, row: Row) -> Row:
        found = [judged(answer, self._kit, facts) for answer, facts in unpacked(row)]
        return {
            "number": row["number"],
            "names": [one.name for one in found],
            "verdicts": [one.packed for one in found],
        }


def packed(number: int, part: Sequence[Question]) -> Row:
    """A part as a row: texts and bytes."""
    return {
        "number": number,
        "answers": [one.answer.name for one in part],
        "requests": [one.answer.request for one in part],
        "responses": [one.answer.response for one in part],
        "facts": [json.dumps(asdict(one.facts)) for one in part],
    }


def unpacked(row: Row) -> Iterator[tuple[Answer, Facts]]:
    """What was packed, without what stays here."""
    columns = (row[name] for name in ("answers", "requests", "responses", "facts"))
    for name, request, response, facts in zip(*columns, strict=True):
        yield Answer(str(name), bytes(request), bytes(response)), Facts(**json.loads(facts))


def parts(questions: Iterator[Question], n_bytes: int) -> Iterator[list[Question]]:
    """Parts of at least so many bytes of requests and responses; the last may have fewer."""
    part, size = list[Question](), 0
    for question in questions:
        part.append(question)
        size += len(question.answer.request) + len(question.answer.response)
        if size >= n_bytes:
            yield part
            part, size = [], 0
    if part:
        yield part


def in_order(rows: Iterable[Row], n: int) -> Iterator[Row]:
    """Rows by their number, each as soon as those before it have come.

    Raises:
        SetupError: One is missing, or came twice.
    """
    waiting: dict[int, Row] = {}
    given = came = 0
    for row in rows:
        came += 1
        waiting[row["number"]] = row
        while given in waiting:
            yield waiting.pop(given)
            given += 1
    if came != n or given != n:
        raise SetupError(f"the cluster gave {came} of {n} parts back; no verdict was changed: run the command again")


def rejudge_on_cluster(
    path: Path,
    recipe: Recipe,
    cluster: Cluster,
    tick: Callable[[], None] = lambda: None,
    *,
    part_bytes: int = PART_BYTES,
    parts_a_worker: int = PARTS_A_WORKER,
) -> Counter[tuple[str, str]]:
    """As `rejudge.rejudge`, by the workers of a cluster; in memory are `parts_a_worker` parts for each of them.

    Args:
        recipe: Of each worker's kit; its facts are the hashes that the verdicts will name.

    Raises:
        SetupError: As `rejudge_by`, or the cluster does not do it; no verdict was changed then.
    """

    def tell(questions: Iterator[Question]) -> Iterator[Told]:
        made = parts(questions, part_bytes)
        with connected(cluster):
            while wave := list(islice(made, parts_a_worker * cluster.workers)):
                rows = [packed(k, part) for k, part in enumerate(wave)]
                found = in_order(spread(cluster, rows, partial(JudgeWorker, recipe)), len(wave))
                for part, row in zip(wave, found, strict=True):
                    for question, name, verdict in zip(part, row["names"], row["verdicts"], strict=True):
                        yield Told(question, str(name), bytes(verdict))

    return rejudge_by(path, tell, replace(recipe.facts, ticket_id=None, ungated=None), tick)
