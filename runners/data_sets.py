"""Data sets -> prompts, checked, rendered and ready to be sent; one row in memory at a time.

`survey` reads everything once before the first request and tells every fault with its file and line; `prompts` reads it
again while the run goes on. Knows nothing of HTTP, money or the ledger.
"""

import hashlib
import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import HarnessError, SetupError
from harness.json_keys import loads_once
from harness.prompt import render
from harness.types import Encode
from runners import tables
from runners.jobs import Prompt
from runners.prompts import json_object, lines
from runners.row_faults import Faults
from runners.runfile import DataSet, RunFile

FIELDS = ("id", "messages", "prompt", "tools")
RESTORE = 'restore it, choose another output folder, or name the change with --amend "REASON"'
SHARD_IDS = 100_000  # of which a set of hashes is made at a time


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a data set asks for.

    Attributes:
        prompt_tokens, longest: Ids of all prompts together, and of the longest one.
        sha256: Of the ids and requests in their order: another one is another data set.
        marks: 8 bytes of each prompt's own hash, in their order.
    """

    name: str
    n_prompts: int
    prompt_tokens: int
    longest: int
    body_bytes: int
    sha256: str
    marks: "array[int]" = field(default_factory=lambda: array("Q"), repr=False, compare=False)


def survey(run: RunFile, encode: Encode, tick: Callable[[], None] = lambda: None) -> tuple[Surveyed, ...]:
    """Every data set of a run, read and rendered once.

    Args:
        encode: Prompt text -> ids (`encoder.encode_prompt_text`).
        tick: Called once a prompt, for whoever waits.

    Raises:
        SetupError: All that may not be sent, a line a fault, with its file and line; nothing is asked then.
    """
    faults = Faults()
    found = tuple(_surveyed(run, data, encode, faults, tick) for data in run.data_sets)
    faults.end()
    return found


def prompts(run: RunFile, data: DataSet, encode: Encode) -> Iterator[Prompt]:
    """The prompts of one data set in the order of its file, up to its limit.

    Raises:
        SetupError: A row that may not be sent, which `survey` would have told.
    """
    for place, prompt in _prompts(run, data, encode):
        if isinstance(prompt, HarnessError):
            raise SetupError(f"{place}: {prompt}")
        yield prompt


def surveyed_prompts(run: RunFile, data: DataSet, told: Surveyed, encode: Encode) -> Iterator[Prompt]:
    """As `prompts`, each the one that was surveyed at its place: what was put into a file since is never sent.

    Raises:
        SetupError: The file has other prompts by now.
    """
    said = f"data set {data.name}: {data.shown} changed while it was read"
    marks = iter(told.marks)
    for prompt in prompts(run, data, encode):
        if _hash(_framed(prompt)) != next(marks, None):
            raise SetupError(f"{said}: prompt {prompt.id!r:.100} was not there before; {RESTORE}")
        yield prompt
    if next(marks, None) is not None:
        raise SetupError(f"{said}: its last prompts are gone; {RESTORE}")


def _surveyed(run: RunFile, data: DataSet, encode: Encode, faults: Faults, tick: Callable[[], None]) -> Surveyed:
    digest, ids, marks = hashlib.sha256(), array("Q"), array("Q")
    n = tokens = longest = n_bytes = 0
    try:
        for place, prompt in _prompts(run, data, encode):
            tick()
            if isinstance(prompt, HarnessError):
                faults.add(place, prompt)
                continue
            n, tokens, longest = n + 1, tokens + prompt.n_prompt, max(longest, prompt.n_prompt)
            n_bytes += len(prompt.body)
            ids.append(_hash(prompt.id.encode("utf-8", "replace")))
            framed = _framed(prompt)
            marks.append(_hash(framed))
            digest.update(framed)
        _same_ids(data, ids, faults)
    except SetupError as error:  # the file itself
        faults.add(data.shown, error)
    if not n and not faults.n:
        faults.add(data.shown, "no prompt in it; expected rows with `messages` or `prompt`")
    return Surveyed(data.name, n, tokens, longest, n_bytes, digest.hexdigest(), marks)


def _prompts(run: RunFile, data: DataSet, encode: Encode) -> Iterator[tuple[str, Prompt | HarnessError]]:
    for index, (place, row) in enumerate(_rows(data)):
        if data.limit is not None and index >= data.limit:
            return
        try:
            if isinstance(row, SetupError):
                raise row
            yield place, _prompt(run, data, index, row, encode)
        except HarnessError as error:
            yield place, error


def _rows(data: DataSet) -> Iterator[tuple[str, Mapping[str, Any] | SetupError]]:
    """(FILE:LINE, the row's fields) of each row; a line that is no object as the error that it is."""
    if data.path.name.endswith(".parquet"):
        known = [name for name in tables.columns(data.path) if name not in data.ignore]
        _known_fields(known)
        if twice := [name for name in FIELDS if known.count(name) > 1]:
            raise SetupError(f"the column {twice[0]!r} comes twice; expected it once")
        for number, row in enumerate(tables.read_rows(data.path, known), 1):
            yield f"{data.shown}: row {number}", {key: _whole(value) for key, value in row.items()}
        return
    for number, line in lines(str(data.path)):
        yield f"{data.shown}:{number}", _object(line, data.ignore)


def _object(line: bytes, ignore: Collection[str]) -> Mapping[str, Any] | SetupError:
    try:
        row = json_object(line, "`messages` or `prompt`")
        return {key: value for key, value in row.items() if key not in ignore}
    except SetupError as error:
        return error


def _whole(value: Any) -> Any:
    """A Parquet value without the members that stand there only because another row has them."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items() if item is not None}
    return value


def _known_fields(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        said = ", ".join(repr(name[:40]) for name in unknown)
        raise SetupError(
            f"unknown: {said}; known are {', '.join(FIELDS)}; what says nothing of the prompt goes into the data set's "
            "`ignore`"
        )


def _prompt(run: RunFile, data: DataSet, index: int, row: Mapping[str, Any], encode: Encode) -> Prompt:
    _known_fields(row)
    messages, tools = _messages(row), _tools(row.get("tools"))
    try:
        rendered = render(messages, tools, format=run.format, thinking=run.thinking, encode=encode)
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise SetupError(f"cannot be rendered: {type(error).__name__}: {error!s:.120}") from None
    if not rendered.payable:
        finding = rendered.findings[0]
        more = f" (and {len(rendered.findings) - 1} more)" if len(rendered.findings) > 1 else ""
        raise SetupError(f"{finding.code}: {finding.where}: {finding.text}{more}; leave this prompt out of paid runs")
    body = request_body(run, messages, tools)
    return Prompt(data.name, _id(row.get("id"), index), index, body, len(rendered.ids), run.max_tokens)


def request_body(run: RunFile, messages: list[Any], tools: list[Any] | None) -> bytes:
    """The request as canonical JSON, without the provider block (`jobs.request_bytes` puts it in).

    Raises:
        SetupError: Text or numbers that no JSON can hold.
    """
    body = {
        "model": run.model,
        "messages": messages,
        "max_tokens": run.max_tokens,
        "reasoning": {"enabled": run.thinking},
        "usage": {"include": True},
        **run.sampling,
    }
    return canonical(body | ({"tools": tools} if tools else {}))


_canonical = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no blanks, UTF-8: one value, one spelling.

    Raises:
        SetupError: Text or numbers that no JSON can hold.
    """
    try:
        return _canonical(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise SetupError(f"cannot be written as JSON: {error!s:.120}") from None


def _messages(row: Mapping[str, Any]) -> list[Any]:
    messages, prompt = _parsed(row.get("messages")), row.get("prompt")
    if (messages is None) == (prompt is None):
        both = "both `messages` and `prompt`" if prompt is not None else "neither `messages` nor `prompt`"
        raise SetupError(f"{both}; expected one of them")
    if prompt is not None:
        if not isinstance(prompt, str) or not prompt:
            raise SetupError(f"`prompt` is {str(prompt)[:60]!r}, expected the text of one user message")
        return [{"role": "user", "content": prompt}]
    if not isinstance(messages, list):
        raise SetupError(f"`messages` is {type(messages).__name__}, expected a list")
    return messages


def _tools(value: Any) -> list[Any] | None:
    tools = _parsed(value)
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise SetupError(
            "`tools` is no list of objects (in Parquet: JSON text, since a struct column adds null members)"
        )
    return tools or None


def _parsed(value: Any) -> Any:
    """Data sets often hold these fields as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return loads_once(value)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"text that is no JSON: {error!s:.120}") from None


def _id(value: Any, index: int) -> str:
    if value is None:
        return str(index)
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise SetupError(f"`id` is {str(value)[:60]!r}, expected text or a whole number")
    canonical(value)  # what has no UTF-8 is no id
    return str(value)


def _framed(prompt: Prompt) -> bytes:
    """Id and request, so that no two pairs of them are the same bytes."""
    return b"".join(b"%d:%s" % (len(part), part) for part in (prompt.id.encode(), prompt.body))


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _same_ids(data: DataSet, ids: "array[int]", faults: Faults) -> None:
    """Ids that come twice, found by 8 bytes an id; only then is the file read again for their places."""
    twice: set[int] = set()
    n_shards = len(ids) // SHARD_IDS + 1
    for shard in range(n_shards):
        seen: set[int] = set()
        for found in ids:
            if found % n_shards == shard:
                (twice if found in seen else seen).add(found)
    if not twice:
        return
    places: defaultdict[str, list[str]] = defaultdict(list)
    for index, (place, row) in enumerate(_rows(data)):
        if isinstance(row, SetupError) or (data.limit is not None and index >= data.limit):
            continue
        name = str(index) if row.get("id") is None else str(row["id"])
        if _hash(name.encode("utf-8", "replace")) in twice:
            places[name].append(place)
    for name, found_at in places.items():
        for place in found_at[1:]:
            faults.add(place, f"the id {name[:60]!r} is that of {found_at[0]}; each prompt has an id of its own")
