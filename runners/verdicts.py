"""A verdict, and with what it was made, as compact bytes and back: a ledger keeps a million of them.

Knows nothing of the ledger and judges nothing. The bytes are: the head (HEAD: length of the packed part, T, planes and
flags); the CRC-32 of all else; one origin byte an id [T] and the header as JSON, squeezed; then the ids as planes, the
lowest bytes of all [T], the second lowest, and so on: 3 planes for any vocabulary below 2**24, which packing would make
hardly smaller and much slower.
"""

import json
import struct
import sys
import zlib
from array import array
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from harness.errors import ProviderError, SetupError
from harness.records import compact
from harness.types import Finding, Ids, Testimony, Verdict
from runners.tables import squeezed, unsqueezed

_json = json.JSONEncoder(separators=(",", ":")).encode
HEAD, SUM = struct.Struct("<IIB"), struct.Struct("<I")
CHECKED, SQUEEZED = 0x80, 0x40
"""Bits of the planes' byte. CHECKED: a CRC-32 follows; verdicts of older ledgers have none, and are read as they are.
Where this bit alone was lost, all that follows lies four bytes too early, and cannot be unpacked. Without SQUEEZED the
packed part is zlib's, as in older ledgers."""
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
        "facts": _plain(facts),
        "ambiguous": verdict.ids.ambiguous,
        "assumptions": verdict.assumptions,
        "witnesses": [(t.witness, t.says, t.reason) for t in verdict.witnesses],
        "findings": [(f.code, f.where, f.text, f.fatal) for f in verdict.findings],
    }
    packed = squeezed(verdict.ids.origins + _text(header))
    ids = _little(array("I", verdict.ids.ids)).tobytes()
    planes = [ids[k::4] for k in range(4 if ids[3::4].strip(b"\0") else 3)]
    head = HEAD.pack(len(packed), len(verdict.ids.origins), len(planes) | CHECKED | SQUEEZED)
    rest = b"".join((packed, *planes))
    return head + SUM.pack(zlib.crc32(rest, zlib.crc32(head))) + rest


def _text(header: dict[str, Any]) -> bytes:
    try:
        return compact(header).encode()
    except ProviderError:  # of a host's words, a lone surrogate: our own JSON escapes it
        return _json(header).encode()


def unpack(data: bytes) -> tuple[Verdict, Facts]:
    """What `pack` was given.

    Raises:
        SetupError: These bytes are none.
    """
    try:
        n_packed, n_ids, flags = HEAD.unpack_from(data)
        rest = _rest(data, checked=bool(flags & CHECKED))
        whole = (unsqueezed if flags & SQUEEZED else zlib.decompress)(rest[:n_packed])
        header: dict[str, Any] = json.loads(whole[n_ids:])
        verdict = Verdict(
            **{name: header[name] for name in PLAIN},
            ids=Ids(_ids(rest[n_packed:], n_ids, flags & ~(CHECKED | SQUEEZED)), whole[:n_ids], header["ambiguous"]),
            assumptions=tuple(header["assumptions"]),
            witnesses=tuple(Testimony(*row) for row in header["witnesses"]),
            findings=tuple(Finding(*row) for row in header["findings"]),
        )
        return verdict, Facts(**header["facts"])
    except (SetupError, zlib.error, struct.error, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"a verdict in the ledger cannot be read ({error!r:.100}); `tokenproof rejudge` it") from error


@lru_cache(maxsize=8)
def _plain(facts: Facts) -> dict[str, Any]:
    return asdict(facts)


def _rest(data: bytes, *, checked: bool) -> bytes:
    """What follows the head, held against its sum where there is one."""
    if not checked:
        return data[HEAD.size :]
    rest = data[HEAD.size + SUM.size :]
    if SUM.unpack_from(data, HEAD.size) != (zlib.crc32(rest, zlib.crc32(data[: HEAD.size])),):
        raise ValueError("its checksum is another one")
    return rest


def _ids(planes: bytes, n_ids: int, n_planes: int) -> list[int]:
    if len(planes) != n_ids * n_planes:
        raise ValueError(f"{len(planes)} bytes for {n_ids} ids in {n_planes} planes")
    whole = bytearray(4 * n_ids)
    for k in range(n_planes):
        whole[k::4] = planes[k * n_ids : (k + 1) * n_ids]
    return _little(array("I", bytes(whole))).tolist()


def _little(ids: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
