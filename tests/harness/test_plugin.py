"""harness.plugin: in a user's own test suite, by the entry point that an installed tokenproof has."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cassette_files import read_recording
from harness.cassette_text import cassette_text
from harness.recording import Provenance, Recording, pair_of
from tests.conftest import ROOT
from tests.harness.test_tape import one
from tests.scenario_truths import recording_app
from tests.served import Served

pytest_plugins = ["pytester"]
MODEL = "moonshotai/kimi-k2.5"
BASE = "https://host.ai/api/v1"
ANSWER = {
    "id": "gen-1",
    "provider": "Chutes",
    "model": MODEL,
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"content": "The capital of Norway is Oslo.", "reasoning": "I think."},
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
}


def made(prompt: str = "A", name: str = "chutes/hello") -> Recording:
    """A recording of one answer."""
    found = one(prompt, json.dumps(ANSWER).encode(), f"{BASE}/chat/completions")
    return Recording(f"cassettes/{name}.yaml", (found,), Provenance("emulator", base_url=BASE, pairs=(pair_of(found),)))


def put(suite: pytest.Pytester, *recordings: Recording) -> None:
    """Write cassettes into a suite."""
    for recording in recordings:
        path = suite.path / recording.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cassette_text(recording))


ASKS = """
    import httpx, pytest
    @pytest.mark.cassette("chutes/hello")
    def test_hello(cassette):
        reply = httpx.post(cassette.target.base_url + "/chat/completions", json={"prompt": "A"})
        assert reply.json()["choices"][0]["message"]["content"] == "The capital of Norway is Oslo."
        assert reply.status_code == 200
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty suite of a user."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    """passed, failed ..., without words that say nothing here."""
    return {k: n for k, n in result.parseoutcomes().items() if k != "warnings"}


# --- costs nothing ---------------------------------------------------------------------------------------------------


def test_a_session_without_it_loads_nothing(suite: pytest.Pytester) -> None:
    """No vocabulary, HTTP client, YAML or recorder is loaded, and no socket is guarded."""
    suite.makepyfile(
        """
        import sys
        def test_x():
            heavy = ("splintr", "vcr", "httpx", "yaml", "typer", "msgspec", "harness.encoder", "harness.sockets")
            assert "harness.plugin" in sys.modules
            assert [name for name in heavy if name in sys.modules] == []
        """
    )

    assert outcomes(suite.runpytest_subprocess("-p", "no:asyncio", "-p", "no:hypothesispytest", "-p", "no:anyio")) == {
        "passed": 1
    }


def test_flags_and_marks_are_told(suite: pytest.Pytester) -> None:
    """--help lists the flags, --markers the marks, --fixtures what each gives."""
    told = suite.runpytest("--help").stdout.str()
    marks = suite.runpytest("--markers").stdout.str()
    fixtures = suite.runpytest("--fixtures").stdout.str()

    for flag in ("--record", "--live", "--golden-update", "--require-shared", "--budget", "tokenproof_cassettes"):
        assert flag in told
    assert "@pytest.mark.cassette(name): plays cassettes/NAME.yaml" in marks
    for fixture in (
        "cassette",
        "every_cassette",
        "every_golden",
        "golden",
        "judge",
        "play",
        "vocabulary",
        "live_target",
    ):
        assert f"\n{fixture}" in fixtures


def test_names_that_another_plugin_has_taken_are_left_to_it(suite: pytest.Pytester) -> None:
    """A session whose conftest or plugin has a --live of its own runs; ours is reached under a longer name."""
    adds = "parser.addoption('--live', action='store_true', dest='theirs')"
    suite.makepyfile(other=f"def pytest_addoption(parser): {adds}")
    suite.makepyfile(
        """
        import pytest
        @pytest.mark.live
        def test_x(): pass
        def test_y(request): assert request.config.getoption("theirs")
        """
    )
    suite.syspathinsert()

    result = suite.runpytest_subprocess("-p", "other", "--live")

    assert outcomes(result) == {"passed": 1, "skipped": 1}
    assert "--tokenproof-live" in suite.runpytest_subprocess("-p", "other", "--help").stdout.str()


# --- playing ---------------------------------------------------------------------------------------------------------


def test_a_marked_test_gets_its_answers_from_the_cassette(suite: pytest.Pytester) -> None:
    """Sync, async and unnamed fixture: the client is answered, and the judge knows the recorded answer."""
    put(suite, made())
    suite.makepyfile(
        ASKS
        + """
    @pytest.mark.asyncio
    @pytest.mark.cassette("chutes/hello")
    async def test_async(cassette):
        async with httpx.AsyncClient() as client:
            reply = await client.post(cassette.target.base_url + "/chat/completions", json={"prompt": "A"})
        assert reply.json()["id"] == "gen-1"
    @pytest.mark.cassette("chutes/hello")
    def test_mark_alone():
        httpx.post("https://host.ai/api/v1/chat/completions", json={"prompt": "A"})
    def test_judge(judge, every_cassette, play):
        with play(every_cassette) as tape:
            reply = httpx.post("https://host.ai/api/v1/chat/completions", json={"prompt": "A"})
        assert judge(reply.content) == judge(every_cassette.interactions[0])
        found = judge(every_cassette)
        assert (found.name, found.provider) == ("verified", "Chutes")
        assert judge(reply.json(), provider="unknown").name == "unverified"
        """
    )

    assert outcomes(suite.runpytest("-p", "no:cacheprovider")) == {"passed": 4}


def test_a_missing_cassette_is_a_failure(suite: pytest.Pytester) -> None:
    """With the command that records it; never a skip, never a call."""
    suite.makepyfile(ASKS)

    result = suite.runpytest()

    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(["*no cassette*chutes/hello.yaml (No such file*", "*test_hello*--record --budget USD*"])
    assert result.ret == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('json={"prompt": "B"}', 'nearest is interaction 1, which differs in body.prompt: recorded "A", asked "B"'),
        ('json={"prompt": "A", "seed": 1}', "differs in body.seed: recorded nothing, asked 1"),
    ],
)
def test_a_miss_fails_though_the_client_swallows_it(suite: pytest.Pytester, body: str, words: str) -> None:
    """The nearest recorded request and the first other field; an `except` in the code under test hides nothing."""
    put(suite, made())
    suite.makepyfile(
        f"""
        import contextlib, httpx, pytest
        @pytest.mark.cassette("chutes/hello")
        def test_x(cassette):
            httpx.post(cassette.target.base_url + "/chat/completions", json={{"prompt": "A"}})
            with contextlib.suppress(Exception):
                httpx.post(cassette.target.base_url + "/chat/completions", {body})
        """
    )

    result = suite.runpytest()

    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["*the cassette chutes/hello was not played as recorded*"])
    assert words in result.stdout.str()


def test_what_was_not_played_is_a_failure(suite: pytest.Pytester) -> None:
    """Play counts: a test that asks nothing has tested nothing."""
    put(suite, made())
    suite.makepyfile(
        """
        import pytest
        @pytest.mark.cassette("chutes/hello")
        def test_x(cassette): pass
        def test_y(play, every_cassette):
            with play(every_cassette): pass
        """
    )

    result = suite.runpytest()

    assert outcomes(result) == {"failed": 2}
    assert (
        result.stdout.str().count("interaction 1 (POST https://host.ai/api/v1/chat/completions) was never asked for")
        >= 2
    )


def test_a_cassette_that_no_test_uses_is_a_failure(suite: pytest.Pytester) -> None:
    """In a whole run; of a part nobody can say, and a test of every cassette uses each."""
    put(suite, made(), made("B", "chutes/old"), made("C", "novita/older"))
    suite.makepyfile(test_a=ASKS)

    whole = suite.runpytest()
    assert (outcomes(whole), whole.ret) == ({"passed": 1, "failed": 1}, 1)
    whole.stdout.fnmatch_lines(["*no test uses these cassettes: chutes/old, novita/older; use them or remove them*"])
    assert outcomes(suite.runpytest(".")) == {"passed": 1, "failed": 1}
    assert outcomes(suite.runpytest("test_a.py")) == {"passed": 1}
    assert outcomes(suite.runpytest("-k", "hello")) == {"passed": 1, "deselected": 1}
    suite.makepyfile(test_b="def test_all(every_cassette): assert every_cassette.provenance.kind == 'emulator'")
    assert outcomes(suite.runpytest()) == {"passed": 4}


def test_cassettes_of_others_do_not_concern_it(suite: pytest.Pytester) -> None:
    """A suite that uses no fixture of ours may keep what it likes in a folder of that name."""
    (suite.path / "cassettes").mkdir()
    (suite.path / "cassettes" / "x.yaml").write_text("[")
    suite.makepyfile("def test_x(): pass")

    assert outcomes(suite.runpytest()) == {"passed": 1}


def test_nothing_to_test_is_a_failure(suite: pytest.Pytester) -> None:
    """A test of every cassette, or of every golden, where there is none."""
    suite.makepyfile("def test_a(every_cassette): pass\ndef test_b(every_golden): pass")

    result = suite.runpytest()

    assert outcomes(result) == {"errors": 2}
    result.stdout.fnmatch_lines(["*no cassette in *would test nothing*", "*no golden file in *would test nothing*"])


def test_an_edited_cassette_is_a_failure(suite: pytest.Pytester) -> None:
    """Bodies that were swapped, and a file that would build Python objects."""
    good = made()
    put(suite, replace(good, interactions=(replace(good.interactions[0], body=b"{}"),)))
    (suite.path / "cassettes" / "chutes" / "tag.yaml").write_text("interactions: [!!python/object:os.x {}]")
    suite.makepyfile(test_a=ASKS, test_b="def test_all(every_cassette): pass")

    result = suite.runpytest()

    assert outcomes(result) == {"errors": 3}
    assert result.stdout.str().count("the reply of interaction 1 is not the one that was recorded") >= 2
    result.stdout.fnmatch_lines(["*python/object:os.x*"])


@pytest.mark.parametrize("name", ["../x/y", "hello", "", "/a/b"])
def test_a_name_that_leads_elsewhere_is_a_failure(suite: pytest.Pytester, name: str) -> None:
    """Before any file is opened."""
    suite.makepyfile(f"import pytest\n@pytest.mark.cassette({name!r})\ndef test_x(cassette): pass")

    result = suite.runpytest()

    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(["*expected PROVIDER/SCENARIO*"])


def test_the_fixture_needs_its_mark(suite: pytest.Pytester) -> None:
    """What was expected is told."""
    suite.makepyfile("def test_x(cassette): pass")

    suite.runpytest().stdout.fnmatch_lines(
        ['*the fixture `cassette` needs @pytest.mark.cassette("PROVIDER/SCENARIO")*']
    )


def test_a_way_past_the_cassette_is_blocked_and_fails(suite: pytest.Pytester) -> None:
    """The canary: a transport of one's own opens a socket, swallows the error, and the test fails all the same."""
    put(suite, made())
    suite.makepyfile(
        ASKS
        + """
        with pytest.MonkeyPatch.context():
            import contextlib, socket
            with contextlib.suppress(Exception):
                socket.create_connection(("192.0.2.1", 80), 1)
        """
    )

    result = suite.runpytest()

    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["*something reached for 192.0.2.1, past the cassette*"])


# --- recording and live ----------------------------------------------------------------------------------------------

CALLS = """
    import httpx, pytest
    BODY = {"model": "moonshotai/kimi-k2.5", "messages": [{"role": "user", "content": "Say hello in 3 words"}],
            "max_tokens": 512, "provider": {"only": ["chutes/int4"], "allow_fallbacks": False}}
    def ask(target, **fields):
        headers = {"authorization": f"Bearer {target.key}"}
        url = target.base_url + "/chat/completions"
        return httpx.post(url, json={**BODY, **fields}, headers=headers, trust_env=False).json()
"""
RECORDS = (
    CALLS
    + """
    @pytest.mark.cassette("chutes/greeting")
    def test_greeting(cassette):
        assert ask(cassette.target)["provider"] == "Chutes"
"""
)
KEY = "sk-made-up-key"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An emulator whose base URL and key stand in the environment."""
    with Served(recording_app(["chutes", "novita"], keys=frozenset({KEY}))) as base:
        monkeypatch.setenv("TOKENPROOF_BASE_URL", base)
        monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
        # the scenario's bodies are told apart by their whole request
        yield base


def test_record_then_play(suite: pytest.Pytester, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """--record writes the cassette after the test has passed; then it plays without server, key or flag."""
    suite.makepyfile(RECORDS)

    first = suite.runpytest("--record", "--budget", "0.01")
    made = read_recording(suite.path / "cassettes" / "chutes" / "greeting.yaml")
    monkeypatch.setenv("TOKENPROOF_BASE_URL", "")
    monkeypatch.setenv("OPENROUTER_API_KEY", "")
    second = suite.runpytest()

    assert (outcomes(first), outcomes(second)) == ({"passed": 1}, {"passed": 1})
    first.stdout.fnmatch_lines(["*recorded chutes/greeting: 1 interactions, $0.0000*", "*cost $0.0000* of $0.010000*"])
    found = made.provenance
    assert (found.kind, found.base_url, found.scenario, found.provider, found.provider_name, found.quantization) == (
        *("emulator", url, "greeting", "chutes/int4", "Chutes", "int4"),
    )
    assert KEY not in (suite.path / "cassettes" / "chutes" / "greeting.yaml").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('ask(cassette.target, provider={"order": ["chutes"]})', "the request is not pinned; expected `provider`"),
        ('ask(cassette.target, provider={"only": ["chutes"]})', "the request is not pinned"),
        ('ask(cassette.target, max_tokens=100000)', "of $0.01"),
        ('ask(cassette.target, provider={"only": ["novita"], "allow_fallbacks": False})', "the cassette novita/"),
        ("None", "the test sent no chat request; nothing was recorded"),
        ('ask(cassette.target) and pytest.fail("no")', "no"),
    ],
)  # fmt: skip
def test_what_may_not_be_recorded_is_not(suite: pytest.Pytester, url: str, change: str, words: str) -> None:
    """Unpinned, too dear, another provider's folder, nothing sent, a test that failed: no file, and the reason."""
    code = RECORDS.replace('assert ask(cassette.target)["provider"] == "Chutes"', change)
    suite.makepyfile(code)

    result = suite.runpytest("--record", "--budget", "0.01")

    assert outcomes(result) == {"failed": 1}
    assert words in result.stdout.str()
    assert not (suite.path / "cassettes").exists()


def test_an_answer_of_another_provider_is_not_recorded(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the test thinks of it."""
    suite.makepyfile(RECORDS.replace('assert ask(cassette.target)["provider"] == "Chutes"', "ask(cassette.target)"))
    with Served(recording_app(["chutes", "novita"], faults=["wrong-provider"])) as base:
        monkeypatch.setenv("TOKENPROOF_BASE_URL", base)
        result = suite.runpytest("--record", "--budget", "0.01")

    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["*'Novita' answered in the place of 'Chutes', which was pinned; not written*"])


def test_live_tests_run_with_the_flag_alone(suite: pytest.Pytester, url: str) -> None:
    """Skipped with the reason, or run within the budget; nothing is kept."""
    suite.makepyfile(
        CALLS
        + """
    @pytest.mark.live
    def test_live(live_target):
        assert ask(live_target)["provider"] == "Chutes"
    @pytest.mark.live
    def test_dear(live_target):
        ask(live_target, max_tokens=100000)
        """
    )

    without = suite.runpytest("-rs")
    with_it = suite.runpytest("--live", "--budget", "0.01")

    assert outcomes(without) == {"skipped": 2}
    without.stdout.fnmatch_lines(["*calls a provider; needs --live and --budget USD*"])
    assert outcomes(with_it) == {"passed": 1, "failed": 1}
    with_it.stdout.fnmatch_lines(["*the next request can cost $*", "*cost $0.0000* of $0.010000*"])
    assert not (suite.path / "cassettes").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--record"], "expected --budget USD beside them"),
        (["--live"], "expected --budget USD beside them"),
        (["--record", "--budget", "x"], "expected an amount in USD"),
    ],
)
def test_a_wrong_call_is_a_usage_error(suite: pytest.Pytester, url: str, args: list[str], words: str) -> None:
    """Before any test runs."""
    suite.makepyfile(RECORDS)

    result = suite.runpytest(*args)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()


def test_no_key_for_a_live_host_is_a_usage_error(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where to put it."""
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.delenv("TOKENPROOF_BASE_URL", raising=False)

    assert "expected it in OPENROUTER_API_KEY" in suite.runpytest("--live", "--budget", "1").stderr.str()


# --- goldens, vocabulary, shared -------------------------------------------------------------------------------------


def test_goldens_are_read_checked_and_updated(suite: pytest.Pytester) -> None:
    """A difference fails with the diff; --golden-update writes and shows it; then it stands."""
    suite.makepyfile("def test_x(golden): golden.check('engine/case', {'ids': [1, 2], 'name': 'n'})")

    missing = suite.runpytest()
    created = suite.runpytest("--golden-update")
    stands = suite.runpytest()
    suite.makepyfile("def test_x(golden): golden.check('engine/case', {'ids': [1, 3], 'name': 'n'})")
    differs = suite.runpytest()
    fixed = suite.runpytest("--golden-update")

    assert [outcomes(r) for r in (missing, created, stands, differs, fixed)] == [
        {"failed": 1}, {"passed": 1}, {"passed": 1}, {"failed": 1}, {"passed": 1}
    ]  # fmt: skip
    missing.stdout.fnmatch_lines(["*case.json does not exist; --golden-update writes it*"])
    created.stdout.fnmatch_lines(["golden created: *case.json"])
    differs.stdout.fnmatch_lines(["*case.json differs; --golden-update writes it*", '*- "ids": [[]1, 2[]],*'])
    fixed.stdout.fnmatch_lines(["golden rewritten: *case.json", '*+ "ids": [[]1, 3[]],*'])


def test_every_golden_and_the_vocabulary(suite: pytest.Pytester) -> None:
    """A real golden: its ids are decoded by the real vocabulary, and its answer judged exactly."""
    folder = suite.path / "golden" / "vllm-0.32.0"
    folder.mkdir(parents=True)
    name = "d07_tool1_spaced.tools.json"
    (folder / name).write_bytes((ROOT / "golden" / "vllm-0.32.0" / name).read_bytes())
    suite.makepyfile(
        """
        def test_x(every_golden, vocabulary, judge, golden):
            assert golden.read("vllm-0.32.0/d07_tool1_spaced.tools") == every_golden
            assert vocabulary.control_name(every_golden.true_ids[-1]) == "<|im_end|>"
            assert judge(every_golden.exchange).ids.ids == list(every_golden.true_ids)
        """
    )

    assert outcomes(suite.runpytest()) == {"passed": 1}


def test_the_shared_folder_may_be_required(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent it skips, with the flag it fails; where the variable points it is found."""
    scope = "asyncio_default_fixture_loop_scope = function"
    suite.makeini(f"[pytest]\n{scope}\nmarkers =\n    shared: needs the folder\n")
    suite.makepyfile(
        """
        import pytest
        @pytest.mark.shared
        def test_x(shared): assert shared.is_dir()
        @pytest.mark.shared
        def test_y(): pytest.skip("the file is not in the folder")
        def test_z(): pytest.skip("of no concern")
        """
    )
    monkeypatch.setenv("TOKENPROOF_SHARED", str(suite.path / "nowhere"))
    absent = suite.runpytest()
    required = suite.runpytest("--require-shared")
    monkeypatch.setenv("TOKENPROOF_SHARED", str(Path(suite.path)))
    there = suite.runpytest("--require-shared", "-k", "test_x")

    assert outcomes(absent) == {"skipped": 3}
    assert (required.ret, outcomes(required)["skipped"]) == (1, 1)
    required.stdout.fnmatch_lines(["*the optional folder of extra recordings is absent*"])
    required.stdout.fnmatch_lines(["*--require-shared: *the file is not in the folder*"])
    assert outcomes(there)["passed"] == 1
