"""What the trials of the gate share: a small checkout with the package as it is and a few required tests, cassettes of
emulated providers, and the command run in it.

The cassettes are what the emulator said, and say so; the gate takes them for that emulator's URL alone. The kill rate
is written as `make mutants` would write it, for the content that is there.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.cassette_text import cassette_text
from harness.emulator import Emulator, Truth
from harness.encoder import encode_prompt_text
from harness.formats import find_format, formats
from harness.hashes import content_hash, hash_of_tests
from harness.openrouter_lists import Endpoint
from harness.preset_table import PRESETS
from harness.prompt import render
from harness.recording import Interaction, Provenance, Recording, pair_of
from harness.required_tests import Ran, listed
from tests import emulator_kit
from tests.conftest import ROOT
from tests.drift_kit import SCENARIOS, Scenario, sampled
from tests.emulator_kit import MODEL
from tests.harness.test_checkout import git

URL = "http://127.0.0.1:9/api/v1"
"""Where the emulated providers are said to be; nothing calls it."""
CAST = ("chutes/int4", "atlas-cloud/int4")
PLAYED = tuple(s for s in SCENARIOS if s.name in ("plain 0", "plain 1", "plain 2", "thinking off 0", "one call 0"))
TESTS = {
    "tests/__init__.py": "",
    "tests/test_small.py": '''"""Two required tests."""

import pytest

pytestmark = pytest.mark.required


def test_one() -> None:
    """One."""
    assert 1 + 1 == 2


@pytest.mark.parametrize("k", [1, 2])
def test_two(k: int) -> None:
    """Two."""
    assert k in (1, 2)
''',
    "tests/required.txt": "tests/test_small.py::test_one\ntests/test_small.py::test_two\n",
    ".gitignore": "build/\n__pycache__/\n/gate.json\n",
}


def recording(scenario: Scenario, tag: str, at: datetime, answered_by: str = "", **changes: Any) -> Recording:
    """One scenario at one emulated provider; `changes` are members of its provenance that were set otherwise."""
    offers = [Endpoint(f"{name}/int4", preset) for name, preset in PRESETS.items()]
    request = scenario.request(tag)
    truth = _truth(scenario, request)
    app = Emulator(
        lambda _: truth, emulator_kit.load_vocab().token_bytes, lambda: at.timestamp(), _rng(tag), endpoints=offers
    )
    body = json.dumps(request, ensure_ascii=False).encode()
    asked = json.dumps(scenario.request(answered_by or tag)).encode()
    reply = emulator_kit.chat(app, asked)
    one = Interaction(
        "POST", f"{URL}/chat/completions", body, reply.status, emulator_kit.whole(reply), reason="OK",
        headers={"content-type": ["application/json"]},
    )  # fmt: skip
    name = PRESETS[tag.partition("/")[0]].provider
    made = Provenance(
        "emulator", at.strftime("%Y-%m-%dT%H:%M:%SZ"), URL, MODEL, scenario.name.replace(" ", "-"), tag, name, "int4"
    )
    return Recording("", (one,), replace(made, pairs=(pair_of(one),), **changes))


def _rng(tag: str) -> Any:
    import random

    return random.Random(tag)


def _truth(scenario: Scenario, request: Mapping[str, Any]) -> Truth:
    """The scenario's ids, behind the prompt that really is rendered for it."""
    fmt = find_format(MODEL, formats())
    assert fmt is not None
    prompt = render(
        request["messages"], request.get("tools"), format=fmt, thinking=scenario.thinking, encode=encode_prompt_text
    )
    return replace(sampled(scenario, _rng(scenario.name)), prompt_ids=prompt.ids, prompt_tokens=None)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of its own."""

    root: Path
    now: datetime

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Files with these contents."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    def edit(self, name: str, old: str, new: str) -> None:
        """One text of a file exchanged; it must stand there."""
        text = (self.root / name).read_text()
        assert old in text, f"{name} has no {old!r}"
        (self.root / name).write_text(text.replace(old, new))

    def record(self, days_old: float = 1.0, **changes: Any) -> None:
        """Every scenario at every provider of the cast."""
        at = self.now - timedelta(days=days_old)
        for tag in CAST:
            for k, scenario in enumerate(PLAYED):
                made = recording(scenario, tag, at + timedelta(seconds=k), **changes)
                self.write({self.cassette(tag, scenario): cassette_text(made)})

    @staticmethod
    def cassette(tag: str, scenario: Scenario = PLAYED[0]) -> str:
        """Where a cassette lies."""
        return f"cassettes/{tag.partition('/')[0]}/{scenario.name.replace(' ', '-')}.yaml"

    def commit(self) -> None:
        """All of it, with a kill rate that belongs to it."""
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "x", "--allow-empty")
        self.measure()

    def measure(self, **changes: Any) -> None:
        """A kill rate as `make mutants` writes it."""
        figures = {
            "mutants": 1, "killed": 1, "kill_rate": 1.0, "survivors": [],
            "content_hash": content_hash(self.root), "tests_hash": hash_of_tests(self.root),
        }  # fmt: skip
        self.write({"build/kill_rate.json": json.dumps(figures | changes)})

    def gate(self, *arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
        """Exit code and the JSON of `tokenproof gate` run in it, as a person would."""
        command = [sys.executable, "-m", "harness.cli", "gate", "--model", MODEL, "--base-url", URL, "--json"]
        command += [part for tag in CAST for part in ("--provider", tag)]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        done = subprocess.run(
            [*command, *arguments], cwd=self.root, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        last = (done.stdout.strip().splitlines() or ["{}"])[-1]
        return done.returncode, json.loads(last) if last.startswith("{") else {"reasons": [done.stderr]}


def passing(root: Path, junit: Path | None = None) -> Ran:
    """Stands in for the run of the required tests where a test is about something else: it costs seconds."""
    return Ran(dict.fromkeys(listed(root), "passed"), ())


def checkout(place: Path, now: datetime | None = None) -> Checkout:
    """A clean one whose gate opens."""
    made = Checkout(place, now or datetime.now(UTC).replace(microsecond=0))
    for name in ("harness", "runners"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    made.write(TESTS)
    made.record()
    git(place, "init", "-q")
    made.commit()
    return made


Plant = Callable[[Checkout], Mapping[str, Any]]
"""Makes a checkout falsely green; gives the environment and, as `arguments`, the flags of the call."""
