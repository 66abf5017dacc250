"""harness.store: any file -> entries, in order, in bounded memory; goldens; atomic writing."""

import contextlib
import gzip
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import store
from harness.encoder import load_vocab
from harness.errors import SetupError
from harness.inputs import Entry, Golden, golden_text
from harness.store import path_trouble, read, read_golden, write_atomic
from tests.conftest import ROOT

BODY: dict[str, Any] = {"choices": [{"message": {"content": "Hi\u2028there"}}]}
LINE = json.dumps(BODY, ensure_ascii=False).encode()
SSE = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n'
BOM = b"\xef\xbb\xbf"


def told(entries: list[Entry]) -> list[tuple[int, Any]]:
    """(line, response or trouble) of each entry."""
    return [(e.line, e.exchange.response if e.exchange else e.trouble) for e in entries]


def file(tmp_path: Path, name: str, data: bytes) -> str:
    """A file with this content."""
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


PRETTY = json.dumps(BODY, indent=2).encode()
KINDS = [
    pytest.param("a.json", LINE, [(1, BODY)], id="one-line"),
    pytest.param("a.json", PRETTY, [(1, BODY)], id="pretty"),
    pytest.param("a", b"\r\n  \n" + PRETTY, [(3, BODY)], id="keep-alive-blanks"),
    pytest.param("a.json", BOM + LINE, [(1, BODY)], id="byte-order-mark"),
    pytest.param("a.json", json.dumps([BODY["choices"][0], {}]).encode(), [(1, [BODY["choices"][0], {}])], id="events"),
    pytest.param("a.json", b"[\n" + b'{"id": 1}\n' + b"]\n", [(1, [{"id": 1}])], id="pretty-list-of-one"),
    pytest.param("a.jsonl", LINE + b"\n\r\n" + LINE + b"\r\n", [(1, BODY), (3, BODY)], id="jsonl-blank-and-crlf"),
    pytest.param("a.log", LINE + b"\n" + LINE, [(1, BODY), (2, BODY)], id="jsonl-under-another-name"),
    pytest.param("a.log", b'{"cut": \n' + LINE, [(1, "no JSON"), (2, BODY)], id="jsonl-with-broken-first-line"),
    pytest.param("a.sse", SSE, [(1, SSE)], id="sse"),
    pytest.param(
        "a", b": OPENROUTER PROCESSING\n\n" + SSE, [(1, b": OPENROUTER PROCESSING\n\n" + SSE)], id="sse-comment"
    ),
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(("name", "data", "expected"), KINDS)
def test_kinds_of_files(
    tmp_path: Path, name: str, data: bytes, expected: list[tuple[int, Any]], pack: Callable[[bytes], bytes]
) -> None:
    """Each kind gives its answers with their line numbers, packed or not; no line ends at U+2028."""
    got = told(list(read([file(tmp_path, name, pack(data))])))

    assert [line for line, _ in got] == [line for line, _ in expected]
    for (_, mine), (_, theirs) in zip(got, expected, strict=True):
        assert mine == theirs or (isinstance(theirs, str) and mine.startswith(theirs))


def test_default_name_is_path_and_line(tmp_path: Path) -> None:
    """An answer without a name is called PATH:LINE, the path as it was typed."""
    path = file(tmp_path, "a.jsonl", LINE + b"\n" + json.dumps({"name": "n", "response": BODY}).encode())

    assert [e.name for e in read([path])] == [f"{path}:1", "n"]


TROUBLE = [
    pytest.param("a.json", b"", 0, "empty; expected a chat-completion JSON", id="empty"),
    pytest.param("a.jsonl", b"\n \n", 0, "empty", id="blanks"),
    pytest.param("a.json", b"\x7fELF\0\1\2", 0, "binary data (it begins b'\\x7fELF", id="binary"),
    pytest.param("a.txt", b"Dear all,\n", 0, "text of no known kind (it begins b'Dear all", id="prose"),
    pytest.param("a.json", '{"ch'.encode("utf-16"), 0, "it begins b'\\xff\\xfe", id="utf-16"),
    pytest.param("a.json", b'{"choices": [', 1, "no JSON: Input data was truncated", id="cut"),
    pytest.param("a.jsonl", b"[" * 100_000, 1, "nested", id="deep-line"),
    pytest.param("a.json", b'{"a":' * 100_000, 1, "nested", id="deep-file"),
    pytest.param("a.jsonl", b'{"choices": "\xff"}', 1, "no JSON", id="not-utf-8"),
    pytest.param("a.json", b'{"text": "a", "meta_info": {}}', 1, "a body of /generate", id="generate"),
    pytest.param("a.jsonl.gz", gzip.compress(LINE)[:-9], 0, "cannot be read: ", id="cut-gzip"),
    pytest.param("a.jsonl.gz", b"\x1f\x8b\x08\x00garbage", 0, "cannot be read: ", id="broken-gzip"),
]


@pytest.mark.parametrize(("name", "data", "line", "words"), TROUBLE)
def test_unusable_files_are_named(tmp_path: Path, name: str, data: bytes, line: int, words: str) -> None:
    """One entry that says file and line, what came and what was expected; the next file is still read."""
    bad, good = file(tmp_path, name, data), file(tmp_path, "good", LINE)

    entries = list(read([bad, good]))

    assert [(e.path, e.line, e.exchange is None) for e in entries] == [(bad, line, True), (good, 1, False)]
    assert words in entries[0].trouble


def test_broken_lines_do_not_end_the_file(tmp_path: Path) -> None:
    """Every other line is still read, at its own number."""
    path = file(tmp_path, "a.jsonl", b"\n".join([LINE, b"{", b"\0\1", b"[1]", b'"x"', LINE]))

    assert [(e.line, bool(e.exchange)) for e in read([path])] == [
        (1, True), (2, False), (3, False), (4, False), (5, False), (6, True),
    ]  # fmt: skip


def test_lines_before_a_gzip_fault_are_read(tmp_path: Path) -> None:
    """What could be unpacked is judged, and the fault says after which line it came."""
    rng = [json.dumps({"response": BODY, "name": os.urandom(400).hex()}).encode() for _ in range(2000)]
    packed = gzip.compress(b"\n".join(rng))

    entries = list(read([file(tmp_path, "a.jsonl.gz", packed[: len(packed) // 2])]))

    assert len(entries) > 500
    assert all(e.exchange for e in entries[:-2])
    assert f"cannot be read after line {entries[-2].line}" in entries[-1].trouble


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_line_over_the_limit_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It is named, and its neighbours are read; the limit itself is still a line."""
    monkeypatch.setattr(store, "MAX_BYTES", 200)
    filled = LINE[:-1] + b" " * (200 - len(LINE)) + b"}"
    data = b"\n".join([LINE, b"x" * 5_000_000, filled, b'"' + b"y" * 200 + b'"', LINE])

    entries = list(read([file(tmp_path, name, data)]))

    assert [(e.line, bool(e.exchange)) for e in entries] == [(1, True), (2, False), (3, True), (4, False), (5, True)]
    assert "a line of more than" in entries[1].trouble


@pytest.mark.parametrize("data", [SSE * 9, PRETTY * 9, b"interactions:\n" + b"- x\n" * 99], ids=["sse", "json", "yaml"])
def test_a_file_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """A file that is one answer may be as long as a line may be."""
    monkeypatch.setattr(store, "MAX_BYTES", 300)

    (entry,) = read([file(tmp_path, "a", data)])

    assert "one answer of more than" in entry.trouble


def test_json_of_too_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short text can be much in memory; values are counted before they are made."""
    monkeypatch.setattr(store, "MAX_VALUES", 1000)
    lists = b"[" + b"[]," * 2000 + b"[]]"

    entries = list(read([file(tmp_path, "a.jsonl", LINE + b"\n" + lists)]))

    assert [bool(e.exchange) for e in entries] == [True, False]
    assert "JSON of more than 1,000 values" in entries[1].trouble


# The peak of this process alone, in MB: ru_maxrss of a child begins at its parent's peak.
PEAK = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
"""
MEMORY = (
    PEAK
    + """
import sys
from harness.store import read
n = sum(1 for _ in read(sys.argv[1:]))
print(n, peak())
"""
)


def test_a_line_of_one_gigabyte_stays_on_disk(tmp_path: Path) -> None:
    """A 1 GB line costs no more memory than the limit on a line; the line after it is read."""
    path = tmp_path / "a.jsonl"
    with path.open("wb") as out:
        out.truncate(1 << 30)
        out.seek(1 << 30)
        out.write(b"\n" + LINE)

    out = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, cwd=ROOT, check=True
    )

    n, peak_mb = map(int, out.stdout.split())
    assert n == 2
    assert peak_mb < 200


def test_folders_are_walked_in_order(tmp_path: Path) -> None:
    """Files below a folder come in order of name; hidden ones and other endings are passed over."""
    for name in ("b/2.json", "b/1.jsonl", "a.json", ".hidden/c.json", "b/.x.json", "README.md", "z.json.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(LINE)

    assert [e.path[len(str(tmp_path)) + 1 :] for e in read([tmp_path])] == [
        "a.json",
        "z.json.gz",
        "b/1.jsonl",
        "b/2.json",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", "a folder without a file to check"),
        ("none.json", "No such file"),
        ("/dev/null", "neither a file nor"),
    ],
)
def test_paths_without_files(tmp_path: Path, name: str, words: str) -> None:
    """An empty folder, a path that is none and a device are named; nothing is raised."""
    (tmp_path / "folder").mkdir()

    (entry,) = read([tmp_path / name])

    assert entry.line == 0
    assert words in entry.trouble


def test_a_pipe_is_read(tmp_path: Path) -> None:
    """What a shell's <(...) gives can be checked too."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(gzip.compress(LINE),))
    writer.start()

    assert [bool(e.exchange) for e in read([tmp_path / "pipe"])] == [True]
    writer.join()


def test_a_pipe_in_a_folder_is_named_and_not_opened(tmp_path: Path) -> None:
    """Nobody writes to it, so reading it would never end; the files beside it are read."""
    for name in ("a.yaml", "g.json"):
        os.mkfifo(tmp_path / name)
    file(tmp_path, "b.json", LINE)

    found = [(Path(e.path).name, e.trouble.partition(";")[0]) for e in read([tmp_path])]
    assert found == [("a.yaml", "a named pipe"), ("b.json", ""), ("g.json", "a named pipe")]
    with pytest.raises(SetupError, match="a named pipe"):
        read_golden(tmp_path / "g.json")


def test_write_atomic_replaces_whole(tmp_path: Path) -> None:
    """The file holds the new bytes, keeps its mode, a link stays a link, and nothing else is left."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    write_atomic(tmp_path / "link", b"new")

    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "link").is_symlink()


def test_write_atomic_leaves_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs nothing: old bytes, no part of the new ones, and an error that names the file."""
    (tmp_path / "a").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SetupError, match="a cannot be written: No space left on device"):
        write_atomic(tmp_path / "a", b"new")

    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_nothing_but_a_regular_file_is_replaced(tmp_path: Path) -> None:
    """A pipe, a socket, a device, and a link to one stay what they are and are not opened; a folder is named as one."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tmp_path):
        listening.bind("socket")  # by a short name: a socket's path has at most 108 bytes
    with contextlib.suppress(PermissionError):  # who may not make devices has the pipe and the socket
        os.mknod(tmp_path / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    (tmp_path / "folder").mkdir()
    before = {path.name: path.lstat() for path in tmp_path.iterdir()}
    for name in before:
        (tmp_path / f"to-{name}").symlink_to(name)

    for path in sorted(tmp_path.iterdir()):
        why = "Is a directory" if path.is_dir() else "it is a device, a pipe or a socket, and no regular file"
        with pytest.raises(SetupError) as error:
            write_atomic(path, b"new")
        assert str(error.value) == f"{path} cannot be written: {why}; choose another place"

    assert len(before) >= 3
    assert {path.name: path.lstat() for path in tmp_path.iterdir() if not path.is_symlink()} == before
    assert all((tmp_path / f"to-{name}").is_symlink() for name in before)


def test_what_became_a_pipe_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """The look is taken again before the new file takes the name; of the new one nothing is left."""

    def write() -> None:
        with store.atomic_file(tmp_path / "a") as file:
            file.write(b"new")
            os.mkfifo(tmp_path / "a")

    with pytest.raises(SetupError, match="a device, a pipe"):
        write()

    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]


def test_write_atomic_into_no_folder(tmp_path: Path) -> None:
    """A missing folder is our caller's fault and is named."""
    with pytest.raises(SetupError, match="cannot be written: No such file"):
        write_atomic(tmp_path / "none" / "a", b"new")


GOLDEN: dict[str, Any] = {
    "name": "e/c",
    "source": "made up",
    "engine": "E 1",
    "prompt_ids": [1, 2],
    "true_ids": list(range(100)),
    "thinking": True,
    "model": "kimi-k2.5",
    "provider": "p",
    "request": {"tools": [{"x": "y" * 100}]},
    "response": BODY,
}


def test_golden_files_are_for_eyes() -> None:
    """Reading the text back gives the same value; ids stand on one line, what is short too, what is long does not."""
    text = golden_text(GOLDEN)

    assert json.loads(text) == GOLDEN
    lines = text.splitlines()
    assert ' "prompt_ids": [1, 2],' in lines
    assert sum('"true_ids": [0, 1, 2,' in line and line.endswith("99],") for line in lines) == 1
    assert text.count("\n") > 12


def test_read_golden(tmp_path: Path) -> None:
    """A golden gives what check would judge, and beside it the truth."""
    golden = read_golden(file(tmp_path, "g.json", golden_text(GOLDEN).encode()))

    assert (golden.name, golden.engine, golden.source) == ("e/c", "E 1", "made up")
    assert (golden.true_ids, golden.prompt_ids) == (tuple(range(100)), (1, 2))
    assert golden.exchange is not None
    assert (golden.exchange.provider, golden.exchange.model, golden.exchange.thinking) == ("p", "kimi-k2.5", True)
    assert golden.exchange.response == BODY


@pytest.mark.parametrize(
    "change", [{"true_ids": ["1"]}, {"true_ids": None}, {"engine": ...}, {"response": 3}, {"prompt_ids": [True]}]
)
def test_a_golden_with_a_fault_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """The truth of the tests is checked when it is read."""
    value = {k: v for k, v in (GOLDEN | change).items() if v is not ...}

    with pytest.raises(SetupError, match=r"g\.json is no golden file"):
        read_golden(file(tmp_path, "g.json", json.dumps(value).encode()))


SHIPPED = sorted(p for p in (ROOT / "golden").glob("*/*.json") if not p.parent.name.endswith("-hidden-states"))


@pytest.mark.parametrize("engine", ["vllm-0.32.0", "sglang-0.5.23"])
def test_shipped_goldens_cover_the_recorded_set_ups(engine: str) -> None:
    """24 dialogues, streamed and not, with and without tools, each with its source and a bill of as many ids."""
    goldens: list[Golden] = [read_golden(path) for path in SHIPPED if path.parent.name == engine]

    assert len(goldens) == 96
    assert len({g.name.split("/")[1].split(".")[0] for g in goldens}) == 24
    assert sum(isinstance(g.exchange.response, list) for g in goldens if g.exchange) == 48
    for golden in goldens:
        assert golden.source.startswith("Recorded from ")
        assert golden.source.endswith(" on CPU with a small model trained to emit chosen ids.")
        assert golden.exchange is not None
        events = golden.exchange.response if isinstance(golden.exchange.response, list) else [golden.exchange.response]
        bills = {e["usage"]["completion_tokens"] for e in events if e.get("usage") and e["usage"]["completion_tokens"]}  # type: ignore[index, union-attr, call-overload]
        assert max(bills) == len(golden.true_ids)


def test_shipped_goldens_show_their_pieces() -> None:
    """The line for eyes is right: a piece an id, and of control ids the name."""
    vocab = load_vocab()
    assert len(SHIPPED) == 216
    for path in SHIPPED:
        value = json.loads(path.read_bytes())
        assert value["pieces"] == [vocab.token_bytes(i).decode("utf-8", "backslashreplace") for i in value["true_ids"]]


def test_shipped_goldens_are_laid_out_by_us() -> None:
    """Nobody edits a golden by hand: each file is exactly what the writer makes of its value, and all are small."""
    sizes = 0
    for path in SHIPPED:
        text = path.read_text()
        sizes += len(text)
        assert golden_text(json.loads(text)) == text
    assert sizes < 3_000_000


PIECES = st.sampled_from(
    [
        LINE,
        SSE,
        PRETTY,
        b"interactions:\n- request: {}\n  response: ",
        b"\n",
        b"- ",
        b"{",
        b"}",
        b"[",
        b'"',
        b":",
        b"\0",
        BOM,
    ]
)


@given(st.lists(PIECES | st.binary(max_size=8), max_size=12).map(b"".join), st.sampled_from(["a", "a.jsonl", "a.yaml"]))
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise(data: bytes, name: str) -> None:
    """Whatever lies in a file, each entry holds an exchange or trouble in words, and there is at least one."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        entries = list(read([Path(folder) / name]))

    assert entries
    assert all((e.exchange is None) == bool(e.trouble) for e in entries)


CHECK_MEMORY = (
    PEAK
    + """
import sys
from harness import cli
sys.argv = ["tokenproof", "check", sys.argv[1]]
try: cli.main()
except SystemExit: print(peak())
"""
)


def test_memory_is_bounded_for_any_file(tmp_path: Path) -> None:
    """Lines that cost the most memory for their size, one after the other, are checked in under 600 MB."""
    worst = b'{"response":[' + b",".join([b'{"a":1.5}'] * (store.MAX_VALUES // 2 - 10)) + b"]}"
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([worst] * 3))

    out = subprocess.run(
        [sys.executable, "-c", CHECK_MEMORY, str(tmp_path / "a.jsonl")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout

    assert out.count("rejected   ") == 3
    assert int(out.splitlines()[-1]) < 600


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("there", None),
        ("not-there/a", None),
        ("n" * 255, None),
        ("n" * 256, "File name too long"),
        ("not-there/" + "n" * 256, "File name too long"),
        ("é" * 128, "File name too long"),
        ("d/" * 2100, "File name too long"),
        ("there/a", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("a\0b", "a NUL or half a character in it"),
        ("a\ud800", "a NUL or half a character in it"),
    ],
)
def test_paths_at_which_no_file_can_stand(tmp_path: Path, name: str, why: str | None) -> None:
    """Told without an exception, whether anything stands there or not; and nothing is written there."""
    (tmp_path / "there").write_bytes(b"x")
    (tmp_path / "loop").symlink_to("loop")

    assert path_trouble(tmp_path / name) == why
    if why is not None:
        with pytest.raises(SetupError, match=f"cannot be written: {why}; choose another place"):
            write_atomic(tmp_path / name, b"")
