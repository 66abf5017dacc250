"""What a cassette holds, as values: interactions byte for byte, and where they came from.

A cassette's `metadata` says its provenance. Only `live` is evidence for a live provider; a file that does not say where
it came from is `unstated`, which is evidence of nothing. Pure; the YAML is read in `cassette`, written in
`cassette_text`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast

from harness.errors import SetupError

Kind = Literal["live", "emulator", "hand-made", "engine", "unstated"]
KINDS: Mapping[str, str] = {
    "live": "recorded from a live provider",
    "emulator": "recorded from the emulator, or from anything else on loopback",
    "hand-made": "written by a person from a report",
    "engine": "recorded from a serving engine with a model of our choice",
    "unstated": "the file does not say",
}
SHA256 = re.compile(r"[0-9a-f]{64}")
TEXTS = ("recorded_at", "base_url", "model", "scenario", "provider", "provider_name", "quantization", "cost_usd")
Headers = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Interaction:
    """One request and its reply, as sent and as it came; what was secret is removed.

    Attributes:
        request_headers, headers: Names in lower case, each with its values.
        body: Of the reply, unpacked.
    """

    method: str
    uri: str
    request_body: bytes
    status: int
    body: bytes
    request_headers: Headers = field(default_factory=dict)
    headers: Headers = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """What binds a reply to its request: sha256 of the canonical request body and of the reply's bytes.

    Attributes:
        removed: What was taken out before writing, by place; () where the bytes are as they came.
    """

    request_sha256: str
    response_sha256: str
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a cassette came from; "" and None: not said.

    Attributes:
        recorded_at: UTC, `2026-11-30T08:00:00Z`.
        base_url: Where the calls went.
        scenario: Name in scenarios.toml.
        provider: The pin, an endpoint's tag; provider_name is what answers call it.
        cost_usd: What the provider said that it took, in digits.
        pairs: One an interaction, in order.
    """

    kind: Kind = "unstated"
    recorded_at: str = ""
    base_url: str = ""
    model: str = ""
    scenario: str = ""
    provider: str = ""
    provider_name: str = ""
    quantization: str = ""
    cost_usd: str = ""
    pairs: tuple[Pair, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether it can be evidence for a live provider."""
        return self.kind == "live"

    @property
    def at(self) -> datetime | None:
        """When it was recorded; None where not said."""
        return datetime.fromisoformat(self.recorded_at) if self.recorded_at else None


@dataclass(frozen=True, slots=True)
class Recording:
    """A cassette as read."""

    path: str
    interactions: tuple[Interaction, ...]
    provenance: Provenance = Provenance()

    @property
    def name(self) -> str:
        """The provider's folder and the scenario: `siliconflow/hello`."""
        folder, _, file = self.path.replace("\\", "/").rpartition("/")
        return f"{folder.rpartition('/')[2]}/{file.removesuffix('.yaml').removesuffix('.yml')}".lstrip("/")


def canonical(body: bytes) -> bytes:
    """A JSON body with sorted keys, without blanks, whole numbers as integers; any other body as it is."""
    try:
        value = _plain(json.loads(body, parse_constant=_no_number))
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return body


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53 else value


def pair_of(interaction: Interaction, removed: Sequence[str] = ()) -> Pair:
    """The hashes of one interaction."""
    request, reply = canonical(interaction.request_body), interaction.body
    return Pair(hashlib.sha256(request).hexdigest(), hashlib.sha256(reply).hexdigest(), tuple(removed))


def complaints(recording: Recording) -> tuple[str, ...]:
    """Why a cassette's bytes are not those that were recorded; () where they are, or where it states no hashes."""
    pairs, found = recording.provenance.pairs, recording.interactions
    if not pairs:
        said = recording.provenance.kind
        return (f"no hashes, though it says `{said}`",) if said in ("live", "emulator") else ()
    if len(pairs) != len(found):
        return (f"{len(found)} interactions, {len(pairs)} hashes",)
    wrong = []
    for number, (pair, interaction) in enumerate(zip(pairs, found, strict=True), 1):
        is_now = pair_of(interaction)
        if is_now.request_sha256 != pair.request_sha256:
            wrong.append(f"the request of interaction {number} is not the one that was recorded")
        if is_now.response_sha256 != pair.response_sha256:
            wrong.append(f"the reply of interaction {number} is not the one that was recorded for this request")
    return tuple(wrong)


def provenance_of(metadata: Any) -> Provenance:
    """A cassette's `metadata` -> where it came from; a file of others has none, and is `unstated`.

    Raises:
        SetupError: It says `provenance`, and something of it cannot be.
    """
    if not isinstance(metadata, dict) or "provenance" not in metadata:
        return Provenance()
    kind = metadata["provenance"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise SetupError(f"`metadata.provenance` is {kind!r:.40}; expected one of {', '.join(KINDS)}")
    texts = {name: metadata.get(name, "") for name in TEXTS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise SetupError(f"`metadata.{name}` is {text!r:.40}; expected text in quotes")
    found = Provenance(cast(Kind, kind), **texts, pairs=_pairs(metadata.get("exchanges", [])))
    try:
        if found.at is not None and found.at.utcoffset() is None:
            raise ValueError("no time zone")
    except ValueError as error:
        said = f"`metadata.recorded_at` is {found.recorded_at!r:.40} ({error}); expected 2026-11-30T08:00:00Z"
        raise SetupError(said) from None
    return found


def metadata_of(provenance: Provenance) -> dict[str, Any]:
    """What stands in the file; what is not known is left out."""
    texts = {name: text for name in TEXTS if (text := getattr(provenance, name))}
    pairs = [
        {"request_sha256": p.request_sha256, "response_sha256": p.response_sha256}
        | ({"removed": list(p.removed)} if p.removed else {})
        for p in provenance.pairs
    ]
    return {"provenance": provenance.kind, **texts} | ({"exchanges": pairs} if pairs else {})


def _pairs(listed: Any) -> tuple[Pair, ...]:
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise SetupError("`metadata.exchanges` is no list of objects; record the cassette again")
    found = []
    for item in listed:
        asked, said = item.get("request_sha256"), item.get("response_sha256")
        if not all(isinstance(h, str) and SHA256.fullmatch(h) for h in (asked, said)):
            raise SetupError("`metadata.exchanges` holds something else than sha256 sums; record the cassette again")
        removed = item.get("removed", [])
        found.append(Pair(asked, said, tuple(map(str, removed if isinstance(removed, list) else [removed]))))
    return tuple(found)
