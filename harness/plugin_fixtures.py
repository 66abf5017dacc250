"""The fixtures of the pytest plugin, and what a session knows. Each imports what it needs when a test asks for it.

Part of `plugin`, which holds the hooks.
"""

import difflib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import HarnessError
from harness.settings import settings

if TYPE_CHECKING:
    from harness.inputs import Golden
    from harness.recording import Recording
    from harness.session_tapes import Tolls, Use
    from harness.tape import Tape
    from harness.transport import Target
    from harness.types import Exchange, Verdict
    from harness.vocab import Vocab


@dataclass(slots=True)
class State:
    """What a session knows.

    Attributes:
        tolls: Prices and budget, None where nothing goes out.
        changed: Golden files that were written, with their diffs.
    """

    cassettes: Path
    goldens: Path
    tolls: "Tolls | None" = None
    record: bool = False
    live: bool = False
    update: bool = False
    changed: list[str] = field(default_factory=list)


STATE = pytest.StashKey[State]()
USE = pytest.StashKey["list[Use]"]()


@contextmanager
def told() -> Iterator[None]:
    """Our errors are failures with their words and no traceback."""
    try:
        yield
    except HarnessError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> "Iterator[Use]":
    """The cassette that the test's mark names, in use: played, or with --record taken.

    Its `target` says where a client is to call; `recording` what is in it, None while recording.
    """
    marker = request.node.get_closest_marker("cassette")
    if marker is None or len(marker.args) != 1 or marker.kwargs or not isinstance(marker.args[0], str):
        pytest.fail('the fixture `cassette` needs @pytest.mark.cassette("PROVIDER/SCENARIO")', pytrace=False)
    state, name = request.config.stash[STATE], marker.args[0]
    from harness.session_tapes import played, recorded

    with ExitStack() as stack:
        try:
            if state.record and state.tolls is not None:
                use = stack.enter_context(recorded(state.cassettes, name, state.tolls))
            else:
                use = stack.enter_context(played(state.cassettes, name))
        except HarnessError as error:
            again = f"pytest {request.node.nodeid!r} --record --budget USD"
            pytest.fail(f"{error}; to record it: {again}", pytrace=False)
        request.node.stash.setdefault(USE, []).append(use)
        yield use


@pytest.fixture
def play(request: pytest.FixtureRequest) -> "Callable[[Recording], AbstractContextManager[Tape]]":
    """`with play(recording) as tape:` plays any recording; leaving it fails unless every interaction was played."""

    @contextmanager
    def playing_it(recording: "Recording") -> "Iterator[Tape]":
        from harness.sockets import only_loopback
        from harness.tape import playing

        with told(), only_loopback() as blocked, playing(recording) as tape:
            yield tape
        problems = [*tape.complaints(), *(f"something reached for {host}, past the cassette" for host in blocked)]
        if problems:
            pytest.fail(f"{recording.path} was not played as recorded: {'; '.join(problems)}", pytrace=False)

    return playing_it


@pytest.fixture
def every_cassette(request: pytest.FixtureRequest) -> "Recording":
    """Each cassette of the folder in its turn, whole, and as it was recorded."""
    from harness.cassette_files import read_recording
    from harness.recording import complaints

    path = _found(request, request.config.stash[STATE].cassettes, "cassette")
    with told():
        recording = read_recording(path)
    if wrong := complaints(recording):
        pytest.fail(f"{path}: {'; '.join(wrong)}", pytrace=False)
    return recording


@pytest.fixture
def every_golden(request: pytest.FixtureRequest) -> "Golden":
    """Each golden file of the folder in its turn."""
    from harness.store import read_golden

    path = _found(request, request.config.stash[STATE].goldens, "golden file")
    with told():
        return read_golden(path)


def _found(request: pytest.FixtureRequest, folder: Path, what: str) -> Path:
    if request.param is None:
        pytest.fail(f"no {what} in {folder}: a test of every one of them would test nothing", pytrace=False)
    return Path(request.param)


@dataclass(frozen=True, slots=True)
class Goldens:
    """Golden files by name."""

    state: State

    def read(self, name: str) -> "Golden":
        """The golden `engine/case`."""
        from harness.store import read_golden

        with told():
            return read_golden(self._path(name))

    def check(self, name: str, value: Any) -> None:
        """Fails, with the difference, unless the file holds this value; with --golden-update writes it."""
        from harness.inputs import golden_text
        from harness.store import write_atomic

        path = self._path(name)
        new, old = golden_text(json.loads(json.dumps(value))), path.read_text("utf-8") if path.exists() else ""
        if new == old:
            return
        diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), "golden", "now", lineterm="", n=2))
        if not self.state.update:
            said = "differs" if old else "does not exist"
            pytest.fail("\n".join([f"{path} {said}; --golden-update writes it", *diff]), pytrace=False)
        with told():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, new.encode())
        self.state.changed += [f"golden {'rewritten' if old else 'created'}: {path}", *diff]

    def _path(self, name: str) -> Path:
        from harness.cassette_files import cassette_path

        with told():
            return cassette_path(self.state.goldens, name, ".json")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Goldens:
    """`golden.read(name)`, and `golden.check(name, value)`, which --golden-update turns into writing."""
    return Goldens(request.config.stash[STATE])


@pytest.fixture(scope="session")
def vocabulary() -> "Vocab":
    """The pinned vocabulary, loaded once where a test asks for it."""
    from harness.encoder import load_vocab

    with told():
        return load_vocab(settings().vocab)


@pytest.fixture(scope="session")
def judge() -> "Callable[..., Verdict]":
    """`judge(answer)`: what it stands for and how sure that is.

    `answer` is a body (bytes or parsed), an Exchange, an interaction, or a recording of one chat answer. Of `request`,
    `provider`, `model` and `blind` see `harness.flow.judge`.
    """
    from harness.cli_base import judging
    from harness.flow import judge as judged

    with told():
        kit = judging(None, None, False, None).kit

    def verdict(answer: Any, *, request: Any = None, **how: Any) -> "Verdict":
        with told():
            return judged(_exchange(answer, request), kit, **how)

    return verdict


def _exchange(answer: Any, request: Any) -> "Exchange":
    from harness.cassette import exchange_of
    from harness.recording import Interaction, Recording
    from harness.types import Exchange

    if isinstance(answer, Recording):
        chats = [one for one in answer.interactions if one.method.upper() == "POST"]
        if len(chats) != 1:
            pytest.fail(f"{answer.path} holds {len(chats)} answers; give judge one of its interactions", pytrace=False)
        return exchange_of(answer.name, chats[0])
    if isinstance(answer, Interaction):
        return exchange_of(answer.uri, answer)
    return answer if isinstance(answer, Exchange) else Exchange("answer", answer, request or {})


@pytest.fixture
def live_target(request: pytest.FixtureRequest) -> "Iterator[Target]":
    """Where a test marked `live` may call, with the key; each call must be pinned and fit the budget."""
    tolls = request.config.stash[STATE].tolls
    if tolls is None or not request.config.stash[STATE].live:
        pytest.skip("calls a provider; needs --live and --budget USD")
    from harness.session_tapes import live

    with live(tolls) as target:
        yield target


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Path:
    """The optional folder of extra recordings: TOKENPROOF_SHARED, else `shared` beside the root.

    Without it the test is skipped; with --require-shared it fails.
    """
    folder = Path(settings().shared or request.config.rootpath.parent / "shared")
    if folder.is_dir():
        return folder
    said = f"the optional folder of extra recordings is absent: {folder} (TOKENPROOF_SHARED)"
    if request.config.getoption("tokenproof_require_shared"):
        pytest.fail(f"--require-shared: {said}", pytrace=False)
    pytest.skip(said)
