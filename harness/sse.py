"""Server-sent events: bytes in any pieces -> the data of each event.

Knows nothing of JSON. Works on bytes alone, so that a character cut in two, or U+2028, U+2029 and U+0085 inside a text,
cannot split a line: only CR, LF and CRLF do.
"""

from collections.abc import Sequence

from harness.errors import ProviderError

MAX_EVENT_BYTES = 16 * 2**20
MAX_STREAM_BYTES = 256 * 2**20
BOM = b"\xef\xbb\xbf"
DONE = b"[DONE]"


class EventStream:
    """Payloads of a stream, however its bytes are cut.

    The several `data` lines of an event are joined by a line feed; `event`, `id`, `retry`, unknown fields and comments
    are ignored. No payload is given for blank data, nor for a comment that a proxy sent on as data (`data: : PING`). A
    line that begins with `{` counts as data: gateways put the JSON of an error into a stream like that.

    Attributes:
        done: True once `[DONE]` came; it is no payload, and what follows it is ignored.
    """

    __slots__ = ("_after_cr", "_at_start", "_buffer", "_left_bytes", "_max_event_bytes", "done")

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES, max_stream_bytes: int = MAX_STREAM_BYTES) -> None:
        self.done = False
        self._buffer = bytearray()  # what no blank line has ended yet, every line end a LF
        self._after_cr = False
        self._at_start = True
        self._left_bytes = max_stream_bytes
        self._max_event_bytes = max_event_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that these bytes complete."""
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise ProviderError("the stream is longer than the limit of bytes that are read")
        if self.done or not data:
            return []
        searched = max(0, len(self._buffer) - 1)
        self._buffer += self._with_lf(data)
        cut = self._buffer.rfind(b"\n\n", searched)
        if cut < 0:
            self._check_size([self._buffer])
            return []
        blocks = bytes(self._buffer[:cut]).split(b"\n\n")
        del self._buffer[: cut + 2]
        self._check_size([self._buffer])
        return self._payloads(blocks)

    def close(self) -> list[bytes]:
        """The payload of a last event that no blank line ended, as it is: it may be cut."""
        blocks = [bytes(self._buffer)]
        self._buffer.clear()
        return [] if self.done else self._payloads(blocks)

    def _with_lf(self, data: bytes) -> bytes:
        """CR and CRLF -> LF; a LF right after the CR that ended the last piece belongs to it."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data

    def _check_size(self, blocks: Sequence[bytes | bytearray]) -> None:
        if max(map(len, blocks)) <= self._max_event_bytes:
            return
        longest = max(len(block.strip(b"\n")) for block in blocks)  # a blank line before or behind is not of the event
        if longest > self._max_event_bytes:
            raise ProviderError(f"an event of {longest:,} bytes or more; at most {self._max_event_bytes:,} are read")

    def _payloads(self, blocks: list[bytes]) -> list[bytes]:
        if self._at_start:
            self._at_start = False
            blocks[0] = blocks[0].removeprefix(BOM)
        self._check_size(blocks)
        payloads = []
        for block in blocks:
            payload = block[6:] if block.startswith(b"data: ") and b"\n" not in block else _data(block)
            if payload.startswith(b"{"):
                payloads.append(payload)
            elif payload.strip() == DONE:
                self.done = True
                self._buffer.clear()
                break
            elif payload.strip() and not payload.startswith(b":"):
                payloads.append(payload)
        return payloads


def _data(block: bytes) -> bytes:
    """The data of one event, b"" where it has none."""
    lines = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
        elif line.startswith(b"{"):
            lines.append(line)
    return b"\n".join(lines)
