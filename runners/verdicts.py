"""A verdict, and with what it was made, as compact bytes and back: a ledger keeps a million of them.

Knows nothing of the ledger and judges nothing. The bytes are zlib's of: the length of the header (4 bytes, little
endian), the header as JSON, one origin byte an id [T], one little-endian uint32 an id [T].
"""

import json
import struct
import sys
import zlib
from array import array
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import SetupError
from harness.types import Finding, Ids, Testimony, Verdict

LEVEL = 1
PLAIN = (
    *("name", "premise", "truncated", "format", "thinking", "provider", "model", "completion_tokens", "prompt"),
    "n_readings",
)
"""Members of a verdict that JSON holds as they are."""


@dataclass(frozen=True, slots=True)
class Facts:
    """With what an answer was judged, and what let it be asked for.

    Attributes:
        content_hash ... habits_sha256: As in `ticket.Hashes`.
        ticket_id: None where the run went without a ticket; then `ungated` says why.
    """

    content_hash: str
    vocab_sha256: str
    formats_sha256: str
    habits_sha256: str
    ticket_id: str | None = None
    ungated: str | None = None


def pack(verdict: Verdict, facts: Facts) -> bytes:
    """Both as bytes; the same verdict and facts give the same bytes."""
    header = {name: getattr(verdict, name) for name in PLAIN} | {
        "facts": asdict(facts),
        "ambiguous": verdict.ids.ambiguous,
        "assumptions": verdict.assumptions,
        "witnesses": [(t.witness, t.says, t.reason) for t in verdict.witnesses],
        "findings": [(f.code, f.where, f.text, f.fatal) for f in verdict.findings],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    parts = (struct.pack("<I", len(text)), text, verdict.ids.origins, _little(array("I", verdict.ids.ids)).tobytes())
    return zlib.compress(b"".join(parts), LEVEL)


def unpack(data: bytes) -> tuple[Verdict, Facts]:
    """What `pack` was given.

    Raises:
        SetupError: These bytes are none.
    """
    try:
        whole = zlib.decompress(data)
        (n,) = struct.unpack_from("<I", whole)
        header: dict[str, Any] = json.loads(whole[4 : 4 + n])
        origins, ids = _split(whole[4 + n :])
        verdict = Verdict(
            **{name: header[name] for name in PLAIN},
            ids=Ids(ids, origins, header["ambiguous"]),
            assumptions=tuple(header["assumptions"]),
            witnesses=tuple(Testimony(*row) for row in header["witnesses"]),
            findings=tuple(Finding(*row) for row in header["findings"]),
        )
        return verdict, Facts(**header["facts"])
    except (zlib.error, struct.error, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"a verdict in the ledger cannot be read ({error!r:.100}); `tokenproof rejudge` it") from error


def _split(rest: bytes) -> tuple[bytes, list[int]]:
    n_ids, odd = divmod(len(rest), 5)
    if odd:
        raise ValueError(f"{len(rest)} bytes of ids and origins")
    ids = array("I")
    ids.frombytes(rest[n_ids:])
    return rest[:n_ids], _little(ids).tolist()


def _little(ids: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
