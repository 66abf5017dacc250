"""What the tests of samples share: a run answered by the emulator into a ledger, without sockets."""

import json
import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.asked import thinking_of
from harness.emulator import Emulator, Truth
from harness.encoder import encode_prompt_text, load_vocab
from harness.flow import judge
from harness.formats import find_format
from harness.hashes import hashes
from harness.prompt import render
from harness.types import Exchange
from harness.vocab import CONTROL_IDS
from runners import ledger_writes as w
from runners.data_sets import prompts
from runners.jobs import request_bytes
from runners.ledger import Ledger, open_ledger
from runners.runfile import RunFile
from runners.verdicts import Facts, pack
from tests.corpus import kit, shipped_habits
from tests.emulator_kit import chat, ids, whole

FACTS = Facts(**asdict(hashes(shipped_habits())), ticket_id="t" * 64)
END, CLOSE = CONTROL_IDS["<|im_end|>"], CONTROL_IDS["</think>"]


def truth_of(request: Mapping[str, Any]) -> Truth:
    """What the model samples for a request of ours: a thought and an answer about its last message."""
    said, thinking = request["messages"][-1]["content"], bool(thinking_of(Exchange("", {}, request)))
    fmt = find_format(request["model"], kit().formats)
    assert fmt is not None
    prompt = render(request["messages"], request.get("tools"), format=fmt, thinking=thinking, encode=encode_prompt_text)
    thought = (f"They said {said}", CLOSE) if thinking else ()
    return Truth(ids(*thought, f"You said: {said}!", END), thinking, prompt.ids)


def emulator(**how: Any) -> Emulator:
    """An emulator that answers any prompt of a run; its clock stands still."""
    settings: dict[str, Any] = {"clock": lambda: 1_800_000_000.0, "rng": random.Random(7), **how}
    return Emulator(truth_of, load_vocab().token_bytes, **settings)


def answered(
    folder: Path, run: RunFile, faults: Mapping[int, str] | None = None, *, facts: Facts = FACTS, judged: bool = True
) -> Ledger:
    """The ledger of a run whose every prompt was asked once; `faults` by the place of the prompt in the run.

    What is no answer with status 200 ends as `gave-up`.
    """
    ledger, app, number = open_ledger(folder / "ledger.sqlite3"), emulator(), 0
    block = json.dumps(dict(run.provider), separators=(",", ":")).encode()
    for data in run.data_sets:
        ds, b = ledger.named("dataset", data.name), ledger.named("block", block)
        for prompt in prompts(run, data, encode_prompt_text):
            number += 1
            request = request_bytes(prompt.body, block)
            ledger.commit([w.job(number, ds, prompt), w.reserved(number, number, b, 9_000_000, 10.0 * number)])
            reply = chat(app, request, (faults or {}).get(number - 1, ""))
            body, at = whole(reply), 10.0 * number + 2
            if reply.status != 200:
                failed = w.failed(number, at, "http-500", "the host's words", status=reply.status, provider="Chutes")
                ledger.commit([failed, w.settled(number, 0, "none"), w.ended(number, "gave-up", "3 tries")])
                continue
            came = json.loads(body)
            names, usage = {"provider": came.get("provider"), "generation": came.get("id")}, came.get("usage", {})
            told = w.answered(number, number, body, at, **names, n_tokens=usage.get("completion_tokens"))
            cost = round(usage.get("cost", 0) * 1e9)
            ledger.commit([told, w.settled(number, cost, "usage")])
            if judged:
                verdict = judge(Exchange(f"{data.name}/{prompt.id}", body, json.loads(request)), kit())
                ledger.commit([w.judged(number, verdict.name, pack(verdict, facts))])
    return ledger
