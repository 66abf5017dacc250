"""A verdict as compact bytes and back, so that a ledger can keep a million of them.

Knows nothing of the ledger and judges nothing. The bytes are zlib's of: the length of the header (4 bytes, little
endian), the header as JSON, one origin byte an id [T], one little-endian uint32 an id [T].
"""

import json
import struct
import sys
import zlib
from array import array
from typing import Any

from harness.errors import SetupError
from harness.types import Finding, Ids, Testimony, Verdict

LEVEL = 1
PLAIN = (
    *("name", "premise", "truncated", "format", "thinking", "provider", "model", "completion_tokens", "prompt"),
    "n_readings",
)
"""Members of a verdict that JSON holds as they are."""


def pack(verdict: Verdict) -> bytes:
    """The verdict as bytes; the same verdict gives the same bytes."""
    header = {name: getattr(verdict, name) for name in PLAIN} | {
        "ambiguous": verdict.ids.ambiguous,
        "assumptions": verdict.assumptions,
        "witnesses": [(t.witness, t.says, t.reason) for t in verdict.witnesses],
        "findings": [(f.code, f.where, f.text, f.fatal) for f in verdict.findings],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    parts = (struct.pack("<I", len(text)), text, verdict.ids.origins, _little(array("I", verdict.ids.ids)).tobytes())
    return zlib.compress(b"".join(parts), LEVEL)


def unpack(data: bytes) -> Verdict:
    """The verdict that `pack` was given.

    Raises:
        SetupError: These bytes are none.
    """
    try:
        whole = zlib.decompress(data)
        (n,) = struct.unpack_from("<I", whole)
        header: dict[str, Any] = json.loads(whole[4 : 4 + n])
        origins, ids = _split(whole[4 + n :])
        return Verdict(
            **{name: header[name] for name in PLAIN},
            ids=Ids(ids, origins, header["ambiguous"]),
            assumptions=tuple(header["assumptions"]),
            witnesses=tuple(Testimony(*row) for row in header["witnesses"]),
            findings=tuple(Finding(*row) for row in header["findings"]),
        )
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
