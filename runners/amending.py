"""A run that was begun with other data sets: where its prompts are now, which are asked no longer, which otherwise.

One pass over the prompts, before anything is asked. Knows nothing of HTTP, money and tickets.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from harness.errors import SetupError
from runners.data_sets import Surveyed, canonical
from runners.jobs import Prompt
from runners.ledger import Ledger
from runners.ledger_rows import ANSWERED, AS_SENT, OTHERWISE
from runners.row_faults import Faults

PROMPT = ("model", "messages", "tools", "reasoning")
"""Members of a request that say what is read, and by whom; the others say how long and how freely it is answered."""
REMEDY = (
    "an answer never passes as one to another prompt: give each of these prompts an id of its own (a row without `id` "
    "goes by its place, from 0: write the places that rows had before as their ids), restore them, or choose another "
    "output folder; the ledger is as it was"
)


def layout(surveyed: Sequence[Surveyed]) -> str:
    """What the places of a run's prompts depend on, as a sha256: its data sets in their order, and what each asks."""
    return hashlib.sha256(canonical([[told.name, told.sha256] for told in surveyed])).hexdigest()


def places(
    prompts: Iterable[Prompt], ledger: Ledger, numbers: Mapping[str, int], tick: Callable[[], None]
) -> Iterator[tuple[int, int, int]]:
    """As `ledger_writes.placed` takes them: the job of each prompt that the ledger knows, its place, how it is asked.

    Args:
        ledger: A reader, which does not see what is being written.
        numbers: Data set -> its number there; new ones have none.
        tick: Called once a prompt.

    Raises:
        SetupError: Prompts that are answered under their id and are other ones now, a line each; after the last prompt.
    """
    faults = Faults()
    for prompt in prompts:
        tick()
        dataset = numbers.get(prompt.dataset)
        known = None if dataset is None else ledger.known(dataset, (prompt.id,)).get(prompt.id)
        if known is None:
            continue
        same = known.end != ANSWERED or known.sha256 == hashlib.sha256(prompt.body).digest()
        if not same and _read(ledger.body(known.job)) != _read(prompt.body):
            said = (
                f"the answer under the id {prompt.id!r:.100} is not to the prompt of today's row {prompt.index + 1:,}"
            )
            faults.add(f"data set {prompt.dataset}", said)
        yield known.job, prompt.index, AS_SENT if same else OTHERWISE
    try:
        faults.end()
    except SetupError as error:
        raise SetupError(f"{error}\n{REMEDY}") from None


def _read(body: bytes) -> bytes:
    whole = json.loads(body)
    return canonical({name: whole.get(name) for name in PROMPT})
