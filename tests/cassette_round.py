"""A round of record -> replay -> drift over sockets on loopback, with secrets planted wherever a host could put one.

What the server put on the wire is kept by the server's side, apart from all that is tested.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.cassette_files import cassette_files, read_recording
from harness.catalog import pinned
from harness.cli_drift import recordings
from harness.client import HttpxTransport
from harness.drift import compare
from harness.flow import Kit, judge
from harness.record import CHAT, Job, Plan, offers, record
from harness.recording import canonical
from harness.sockets import only_loopback
from harness.spending import Meter
from harness.store import read
from harness.tape import playing
from harness.transport import Call, Target
from harness.types import Exchange
from tests.emulator_kit import MODEL
from tests.scenario_truths import planted, recording_app, sampled, shipped
from tests.served import Served

PRESETS = ("chutes", "moonshotai", "siliconflow", "together", "vllm-0.32", "sglang-0.5.23")
KEY = "sk-" + "or-v1-" + "5e1f" * 12
HEADERS = {
    "Set-Cookie": "__cf" + "_bm=COOKIESECRET1; path=/; HttpOnly",
    "SET-COOKIE": "session=COOKIESECRET2",
    "X-Org-Id": "org-HEADERSECRET3",
    "openai-organization": "HEADERSECRET4",
    "x-user-ID": "user_HEADERSECRET5",
    "X-Echo": f"Bearer {KEY.upper()}",
}
ERRORS = ("402-credits", "403-guardrail", "404", "403-moderation")
"""Definite refusals, which --keep-errors writes."""
SECRET = ("secret", KEY, "__cf" + "_bm")
"""In lower case: what no file may hold."""


@dataclass(slots=True)
class Wire:
    """An app whose replies to chat requests are kept as they were sent, by canonical request body."""

    app: Any
    sent: dict[bytes, bytes] = field(default_factory=dict)
    n_planted: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One ASGI connection."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        asked, body, head = bytearray(), bytearray(), bytearray()

        async def hearing() -> Any:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def sending(message: Any) -> None:
            body.extend(message.get("body", b""))
            head.extend(b"".join(k + b": " + v + b"\n" for k, v in message.get("headers", ())))
            await send(message)

        await self.app(scope, hearing, sending)
        if scope["method"] == "POST":
            self.sent[canonical(bytes(asked))] = bytes(body)
            self.n_planted += sum((head + body).lower().count(word.encode()) for word in SECRET)


def with_ids(part: bytes) -> bytes:
    """A body that holds an account's ids, the key and a cookie, in odd letter case."""
    ids = b'"User_ID":"user_BODYSECRET6","organization":"BODYSECRET7","apiKey":"' + KEY.encode() + b'",'
    found = part.replace(b'{"id":', b"{" + ids + b'"id":', 1)
    error = (
        b'{"error":{"headers":{"sEt-cOOkie":"BODYSECRET8"},"detail":"of org-BODYSECRET9, key ' + KEY.upper().encode()
    )
    return found.replace(b'{"error":{', error + b'",', 1) if found.startswith(b'{"error":{') else found


@dataclass(slots=True)
class Round:
    """What a round showed; `trouble` names every case that did not go as claimed."""

    counts: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)

    def count(self, what: str, good: bool, name: str) -> None:
        """One case."""
        self.counts[what] += good
        if not good:
            self.trouble.append(f"{name}: not {what}")


def recorded(wire: Wire, folder: Path, presets: Sequence[str], names: Sequence[str], errors: bool = False) -> str:
    """Records every scenario at every preset; the base URL, whose server is gone afterwards."""

    async def run(url: str) -> None:
        target = Target(url, KEY)
        plan = Plan(target, MODEL, folder, lambda: datetime.now(UTC), keep_errors=errors)
        transport = HttpxTransport(target)
        try:
            endpoints = pinned(presets, await offers(transport, MODEL))
            jobs = [Job(scenario, end) for end in endpoints for scenario in shipped().picked(names)]
            rows = [row async for row in record(plan, jobs, transport, Meter(Decimal(100)))]
        finally:
            await transport.close()
        assert [row.name for row in rows if row.status != "recorded"] == []

    with Served(wire) as url:
        asyncio.run(run(url))
    return url


def played(path: Path) -> tuple[int, bytes, tuple[str, ...], list[str]]:
    """Status and body that a client gets of a cassette, what the tape complains of, and places that it reached for."""
    made = read_recording(path)
    (one,) = made.interactions

    async def ask() -> Any:
        transport = HttpxTransport(Target(made.provenance.base_url, "another-key"))
        try:
            return await transport.send(Call("POST", CHAT, one.request_body))
        finally:
            await transport.close()

    with only_loopback() as tried, playing(made) as tape:
        reply = asyncio.run(ask())
    return reply.status, reply.body, tape.complaints(), tried


def round_trip(folder: Path, presets: Sequence[str], names: Sequence[str], kit: Kit) -> Round:
    """Record, replay, judge and record again."""
    found = Round()
    wire = Wire(planted(recording_app(presets, keys=frozenset({KEY})), HEADERS))
    recorded(wire, folder / "first", presets, names)
    for path in cassette_files(folder / "first"):
        _one(found, path, wire.sent, kit)
    found.counts["planted"] = wire.n_planted
    for k, app in enumerate(_spoiled(presets, names)):
        spoiled = Wire(planted(app, HEADERS, with_ids))
        recorded(spoiled, folder / f"spoiled{k}", presets, names, errors=True)
        found.counts["planted"] += spoiled.n_planted
    _look(found, folder)
    again = recording_app(presets, keys=frozenset({KEY}), rng=random.Random(8))
    recorded(Wire(again), folder / "again", presets, names)
    told = compare(recordings(folder / "first")[0], recordings(folder / "again")[0], kit)
    found.counts |= Counter(pairs=told.n_pairs, drifts=len(told.drifts))
    found.trouble += [f"drift where nothing changed: {d.provider} {d.aspect} {d.why}" for d in told.drifts]
    return found


def _spoiled(presets: Sequence[str], names: Sequence[str]) -> Iterator[Any]:
    """Apps that put secrets into their answers, and into their refusals."""
    yield recording_app(presets, keys=frozenset({KEY}))
    n = len(presets) * (len(names) or len(shipped().scenarios))
    yield recording_app(presets, keys=frozenset({KEY}), faults=[ERRORS[k % len(ERRORS)] for k in range(n)])


def _one(found: Round, path: Path, sent: Mapping[bytes, bytes], kit: Kit) -> None:
    (one,), name = read_recording(path).interactions, f"{path.parent.name}/{path.stem}"
    wire = sent[canonical(one.request_body)]
    status, body, complaints, tried = played(path)
    request = json.loads(one.request_body)
    (entry,) = read([path])
    assert entry.exchange is not None
    live = judge(Exchange(name, wire, request), kit)
    verdicts = [judge(e, kit) for e in (entry.exchange, Exchange(name, body, request))]
    found.count("recorded", True, name)
    found.count("identical", (status, body, one.body) == (200, wire, wire), name)
    found.count("played", not complaints and not tried, name)
    found.count("same_verdict", verdicts == [live, live], name)
    found.counts[live.name] += 1
    truth = sampled(path.stem)[: len(live.ids.ids)]
    kept = [i for i, mask in zip(live.ids.ids, live.loss_mask, strict=True) if mask]
    right = [i for i, mask in zip(truth, live.loss_mask, strict=False) if mask]
    found.counts["wrong"] += kept != right
    if kept != right:
        found.trouble.append(f"{name}: accepted with an id that was not sampled")


def _look(found: Round, folder: Path) -> None:
    """Every byte of every file, in lower case."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        text = path.read_bytes().lower()
        hits = sum(text.count(word.encode()) for word in SECRET)
        found.counts["files_scanned"] += 1
        found.counts["secrets_found"] += hits
        if hits:
            found.trouble.append(f"{path.relative_to(folder)}: {hits} planted secrets")
