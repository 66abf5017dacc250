"""runners.golden: prompts in, goldens out, over a loopback socket; a chat answer is stored only where it is proven."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from harness.flow import judge
from harness.inputs import golden_text
from harness.store import read_golden
from harness.vocab import VOCAB_SHA256
from runners.engines import Told
from runners.golden import capture, expected, label_of, provider_of
from runners.golden_files import Row
from tests.corpus import kit
from tests.runners.capture_kit import CHAT, PLAIN, SGLANG, VLLM, asks, captured, changed, generate, meta, plan, statuses
from tests.runners.standin import Dialogue, StandIn, asking, sse


def test_a_prompt_gives_three_goldens(tmp_path: Path) -> None:
    """The ids of /generate, and the chat answer whole and streamed, each with all that says where it comes from."""
    rows = captured(StandIn([PLAIN]), asks(tmp_path, PLAIN.line()), plan(tmp_path, "create"))

    assert statuses(rows) == {"e-generate/plain": "created", "e/plain.chat": "created", "e/plain.stream": "created"}
    assert {row.n_ids for row in rows} == {21}
    for name in statuses(rows):
        text = (tmp_path / f"{name}.json").read_text()
        value = json.loads(text)
        assert text == golden_text(value)
        assert value["true_ids"] == PLAIN.output_ids
        assert value["prompt_ids"] == PLAIN.prompt_ids
        assert value["pieces"][:3] == ["The", " user", " asks"]
        assert (value["engine"], value["version"], value["served_model"]) == ("SGLang 0.5.23", "0.5.23", "kimi-k2.5")
        assert (value["flags"], value["vocab_sha256"]) == ({"tp_size": 1}, VOCAB_SHA256)
        assert value["sampling"] == {"temperature": 0, "max_tokens": 400}
        assert read_golden(tmp_path / f"{name}.json").source == "Replayed by a test."
    assert json.loads((tmp_path / "e-generate/plain.json").read_text())["generate"]["default"] == PLAIN.generate
    assert json.loads((tmp_path / "e/plain.stream.json").read_text())["response"] == PLAIN.stream


def test_what_is_sent(tmp_path: Path) -> None:
    """Ids, greedy, one length for all; the chat asks for ids, and says only where it must that thinking is off."""
    off = SGLANG["thinking_false"]
    engine = StandIn([PLAIN, off])

    captured(engine, asks(tmp_path, PLAIN.line(), off.line()), plan(tmp_path, "create"))

    bodies = [body for _, body in engine.asked]
    assert [path for path, _ in engine.asked] == ["/generate", CHAT, CHAT] * 2
    sampling = {"temperature": 0, "max_new_tokens": 400}
    assert bodies[0] == {"input_ids": PLAIN.prompt_ids, "sampling_params": sampling}
    ids = {"return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True}
    common = {"model": "kimi-k2.5", "messages": PLAIN.messages, "temperature": 0, "max_tokens": 400, **ids}
    assert bodies[1] == common
    assert bodies[2] == common | {"stream": True, "stream_options": {"include_usage": True}}
    assert bodies[4]["chat_template_kwargs"] == {"thinking": False}


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(("engine", "dialogues"), [("sglang", SGLANG), ("vllm", VLLM)])
def test_every_recorded_dialogue_is_captured(
    tmp_path: Path, engine: str, dialogues: dict[str, Dialogue], bare: bool
) -> None:
    """24 dialogues an engine, odd ones among them: 72 goldens whose ids are the recorded ones."""
    told = Told(engine, {"sglang": "0.5.23", "vllm": "0.32.0"}[engine], "kimi-k2.5", {})
    wanted = asks(tmp_path, *[d.line() for d in dialogues.values()])

    rows = captured(StandIn(list(dialogues.values()), engine), wanted, plan(tmp_path, "create", told=told, bare=bare))

    assert [row for row in rows if row.status != "created"] == []
    assert len(rows) == expected(wanted) == 72
    for row in rows:
        name = row.name.partition("/")[2].removesuffix(".chat").removesuffix(".stream")
        golden = read_golden(tmp_path / f"{row.name}.json")
        assert golden.true_ids == tuple(dialogues[name].output_ids)


def test_stored_goldens_are_judged_right(tmp_path: Path) -> None:
    """What is stored is an input of `check`: judged blind it is verified with the true ids."""
    captured(StandIn([PLAIN]), asks(tmp_path, PLAIN.line()), plan(tmp_path, "create"))
    golden = read_golden(tmp_path / "e/plain.chat.json")
    assert golden.exchange is not None

    verdict = judge(golden.exchange, kit(), blind=True)

    assert (verdict.name, verdict.provider) == ("verified", "sglang-0.5.23")
    assert tuple(verdict.ids.ids) == golden.true_ids


def test_ids_alone_give_one_golden(tmp_path: Path) -> None:
    """A prompt that came as ids is no chat request: /generate alone is asked."""
    engine = StandIn([PLAIN])

    rows = captured(engine, asks(tmp_path, {"name": "x", "prompt_ids": PLAIN.prompt_ids}), plan(tmp_path, "create"))

    assert statuses(rows) == {"e-generate/x": "created"}
    assert [path for path, _ in engine.asked] == ["/generate"]


def usage(**more: Any) -> dict[str, Any]:
    """The recorded chat body with another bill."""
    return changed(PLAIN.chat, usage=PLAIN.chat["usage"] | more)


def content(text: str) -> dict[str, Any]:
    """The recorded chat body with another content."""
    body = changed(PLAIN.chat)
    body["choices"][0]["message"]["content"] = text
    return body


def reporting(ids: list[int], prompt: list[int]) -> dict[str, Any]:
    """The recorded chat body with ids in it."""
    return changed(PLAIN.chat, sglext={"output_ids": [ids], "input_ids": prompt})


MOVED = [*PLAIN.output_ids[:3], 13, *PLAIN.output_ids[4:]]
OTHER_PROMPT = [*PLAIN.prompt_ids[:-1], 163607]
DOUBTS = [
    (usage(completion_tokens=20, total_tokens=35), "another generation: usage says 20 completion tokens, 21 ids"),
    (usage(prompt_tokens=33), "template made another prompt: 33 prompt tokens, 15 were rendered"),
    (content("The answer is 5."), "another text than the ids make: content"),
    (reporting(MOVED, PLAIN.prompt_ids), "another generation: sampled and reported ids part at 3: 220 ' ' and 13 '.'"),
    (reporting(PLAIN.output_ids, OTHER_PROMPT), "another prompt: rendered and read ids part at 14: 163606 '<think>'"),
    (changed(PLAIN.chat, usage=None), "neither prompt ids nor prompt_tokens"),
    (usage(completion_tokens=None), "neither ids nor usage"),
    ({"error": {"message": "out of memory", "code": 500}}, "no chat answer: "),
]


@pytest.mark.parametrize(("body", "words"), DOUBTS, ids=[words[:40] for _, words in DOUBTS])
def test_another_generation_is_not_stored(tmp_path: Path, body: dict[str, Any], words: str) -> None:
    """A bill, a prompt, a text or ids that disagree: said, and not stored; the ids themselves still are."""
    engine = StandIn([PLAIN], faults={CHAT: lambda asked: None if asked.get("stream") else body})

    rows = captured(engine, asks(tmp_path, PLAIN.line()), plan(tmp_path, "create"))

    assert [row.status for row in rows] == ["created", "refused", "created"]
    assert words in rows[1].reason
    assert rows[1].reason.endswith("; not stored")
    assert not (tmp_path / "e/plain.chat.json").exists()


def test_ids_in_the_answer_decide(tmp_path: Path) -> None:
    """With the ids of the very answer a text that an engine rewrote in a way not known is stored, and it says so."""
    body = reporting(PLAIN.output_ids, PLAIN.prompt_ids)
    body["choices"][0]["message"]["content"] = "the answer is four"
    engine = StandIn([PLAIN], faults={CHAT: lambda asked: None if asked.get("stream") else body})

    captured(engine, asks(tmp_path, PLAIN.line()), plan(tmp_path, "create"))

    shown = [json.loads((tmp_path / f"e/plain.{kind}.json").read_text())["shown_by"] for kind in ("chat", "stream")]
    assert shown == ["ids", "text"]


def test_tools_that_the_template_ignores_are_another_prompt(tmp_path: Path) -> None:
    """The recorded engine's template declares no tools: what it answers is to another prompt than the rendered one."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    (ask,) = asks(tmp_path, PLAIN.line(tools=[tool]))
    declared = replace(PLAIN, prompt_ids=list(ask.prompt_ids))
    declared.generate = changed(PLAIN.generate)
    declared.generate["meta_info"]["prompt_tokens"] = len(ask.prompt_ids)
    engine = StandIn([declared])

    rows = captured(engine, [ask], plan(tmp_path, "create"))

    assert [row.status for row in rows] == ["created", "refused", "refused"]
    assert f"15 prompt tokens, {len(ask.prompt_ids)} were rendered" in rows[1].reason
    assert engine.asked[1][1]["tools"] == [tool]


FAULTS: list[tuple[str, Any, str]] = [
    ("/generate", {"text": "4"}, "answered without output ids (got ['text'])"),
    ("/generate", generate(output_ids=[1, "2"]), "gave [1, '2'] as output ids"),
    ("/generate", generate(output_ids=[163840]), "expected integers in 0..163839"),
    ("/generate", generate(output_ids=[]), "sampled nothing"),
    ("/generate", meta(prompt_tokens=3), "read a prompt of 3 ids, 15 were sent"),
    ("/generate", meta(finish_reason={"type": "abort"}), "ended with 'abort'"),
    (
        "/generate",
        (400, b'{"error": {"message": "too long"}}'),
        'answered HTTP 400: {"error": {"message": "too long"}}',
    ),
    ("/generate", (200, b"<html>"), "did not answer as an engine does: no JSON"),
    ("/generate", (302, b""), "answered HTTP 302: an empty body"),
    (CHAT, (200, sse(PLAIN.stream)), "did not answer as an engine does: no JSON"),
    (CHAT, (200, b"[]"), "answered list; expected a chat-completion object"),
    (CHAT, (422, b"no"), "answered HTTP 422: no"),
]


@pytest.mark.parametrize(("path", "answer", "words"), FAULTS)
def test_a_prompt_without_an_answer_ends_nothing_else(tmp_path: Path, path: str, answer: Any, words: str) -> None:
    """It is named with what came and what was expected, and the next prompt is asked."""
    other = SGLANG["thinking_false"]

    def fault(body: dict[str, Any]) -> Any:
        mine = body.get("input_ids") == PLAIN.prompt_ids or body.get("messages") == PLAIN.messages
        return answer if mine else None

    rows = captured(
        StandIn([PLAIN, other], faults={path: fault}), asks(tmp_path, PLAIN.line(), other.line()), plan(tmp_path)
    )

    failed = [row for row in rows if row.status == "failed"]
    assert [row.name for row in failed] == ["e/plain"]
    assert words in failed[0].reason
    assert sum("thinking_false" in row.name for row in rows) == 3


def test_a_stream_that_was_cut_is_no_answer(tmp_path: Path) -> None:
    """Without [DONE] nobody knows what would have come."""
    cut = (200, sse(PLAIN.stream[:4], end=b""))
    engine = StandIn([PLAIN], faults={CHAT: lambda asked: cut if asked.get("stream") else None})

    rows = captured(engine, asks(tmp_path, PLAIN.line()), plan(tmp_path, "create"))

    assert [row.status for row in rows] == ["created", "created", "failed"]
    assert "the stream ended after 4 events without [DONE]" in rows[2].reason


def test_overload_again_and_again_ends_the_run(tmp_path: Path) -> None:
    """Three prompts in a row without an answer: the fourth is not asked, and what was written stays."""
    four = list(SGLANG.values())[:4]
    engine = StandIn(four, faults={"/generate": lambda _: (503, b"busy")})
    rows: list[Row] = []

    with asking(engine) as server, pytest.raises(SetupError, match="3 prompts in a row"):
        rows.extend(capture(asks(tmp_path, *[d.line() for d in four]), server, plan(tmp_path), kit()))

    assert engine.n_asked("/generate") == 3
    engine.asked.clear()
    engine.faults["/generate"] = lambda body: (503, b"busy") if body["input_ids"] != four[2].prompt_ids else None
    rows = captured(engine, asks(tmp_path, *[d.line() for d in four]), plan(tmp_path))
    assert [row.status for row in rows].count("failed") == 3  # but not in a row


def test_labels_and_providers() -> None:
    """The folder names engine, version and model; the provider is the name under which habits know the engine."""
    assert label_of(Told("sglang", "0.5.23", "moonshotai/Kimi-K2.5", {})) == "sglang-0.5.23-kimi-k2.5"
    assert label_of(Told("vllm", "0.33.0.dev1+g1a", "/models/?", {})) == "vllm-0.33.0.dev1-g1a"
    names = [provider_of(Told(engine, version, "m", {}), kit()) for engine, version in
             (("sglang", "0.5.23"), ("vllm", "0.32.0"), ("vllm", "0.99.1"))]  # fmt: skip
    assert names == ["sglang-0.5.23", "vllm-0.32", "vllm-0.99.1"]


@pytest.mark.shared
def test_the_recordings_of_sglang_replayed(tmp_path: Path, shared: Path) -> None:
    """All 48 recorded /generate bodies of both set-ups, and the chat answers beside them, asked for no ids: every ids
    golden is stored; a chat answer is stored with the true ids, or refused because the set-up threw text away."""
    chats = {}
    with gzip.open(shared / "recordings/sglang-0.5.23.jsonl.gz") as file:
        for row in map(json.loads, file):
            chats[row["server"], row["dialogue"], row["variant"]] = row["response"]
    stored = {}
    with gzip.open(shared / "recordings/sglang-0.5.23-generate.jsonl.gz") as file:
        recorded = list(map(json.loads, file))
    for server in ("A_allspecial", "B_realflags"):
        dialogues = [
            Dialogue(
                r["dialogue"], r["messages"], r["thinking"], r["prompt_ids"], r["output_ids"], r["generate"]["default"],
                *(chats[server, r["dialogue"], f"{kind}_notools"] for kind in ("chat", "stream")),
            )
            for r in recorded if r["server"] == server
        ]  # fmt: skip
        out = tmp_path / server
        out.mkdir()
        rows = captured(StandIn(dialogues), asks(out, *[d.line() for d in dialogues]), plan(out, "create", bare=True))
        assert sum(row.status == "created" for row in rows if row.name.startswith("e-generate/")) == 24
        assert {row.status for row in rows} <= {"created", "refused"}
        stored[server] = sum(row.status == "created" for row in rows)
        for row in rows:
            if row.status == "created":
                truth = next(
                    d for d in dialogues if f"/{d.name}" in row.name and row.name.split("/")[1].split(".")[0] == d.name
                )
                assert read_golden(out / f"{row.name}.json").true_ids == tuple(truth.output_ids)
    assert stored["B_realflags"] == 72
    assert stored["A_allspecial"] < 72  # its answers hold reasoning and content in one
