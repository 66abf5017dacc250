"""What an answer cost, asked of the generation endpoint where the answer itself does not say.

Knows nothing of the ledger and of budgets.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from harness.catalog import generation_of
from harness.errors import HarnessError
from harness.transport import Call, Transport
from runners.budget import nano_of

WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Before each try: a generation may be unknown for some seconds after its answer."""
READ_TIMEOUT_S = 30.0


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
