"""What an answer cost, asked of the generation endpoint where the answer itself does not say; and how long it is then.

Knows nothing of the ledger and of budgets.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from harness.catalog import generation_of
from harness.errors import HarnessError, ProviderError
from harness.response import parse
from harness.transport import Call, Transport
from harness.types import Turn
from runners.budget import nano_of

WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Before each try: a generation may be unknown for some seconds after its answer."""
READ_TIMEOUT_S = 30.0
BYTES_PER_TOKEN = 4  # of English and of code; of Chinese it is a little more


def length_of(answer: Turn | bytes) -> int:
    """Completion tokens of an answer, as billed; where it does not say, about as many as its text has, at least 1."""
    try:
        turn = parse(answer) if isinstance(answer, bytes) else answer
    except ProviderError:
        return 1
    if turn.usage and (turn.usage.completion_tokens or 0) > 0:
        return turn.usage.completion_tokens or 0
    texts = (turn.reasoning, turn.content, *(part for c in turn.tool_calls for part in (c.name, c.arguments)))
    n_bytes = sum(len((text or "").encode("utf-8", "surrogatepass")) for text in texts)
    return 1 + n_bytes // BYTES_PER_TOKEN


async def cost_of(transport: Transport, generation: str, sleep: Callable[[float], Awaitable[object]]) -> int | None:
    """The cost of a generation in nano-dollars; None where nobody tells."""
    call = Call("GET", f"/generation?id={quote(generation, safe='')}", read_timeout_s=READ_TIMEOUT_S)
    for wait in WAITS_S:
        await sleep(wait)
        try:
            reply = await transport.send(call)
            if reply.status == 200:
                found = generation_of(reply.body)
                if found.id == generation and found.total_cost is not None:
                    return nano_of(found.total_cost)
        except HarnessError:
            continue  # the next try may fare better; at the end the whole reservation is booked
    return None
