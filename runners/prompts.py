"""Files of prompts -> what to ask an engine: JSONL, a line a prompt, as `messages` to be rendered or as `prompt_ids`.

Everything is read and checked before anything is asked. Knows nothing of HTTP, engines or goldens.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, SetupError
from harness.formats import Format, find_format
from harness.inputs import Unusable
from harness.json_keys import loads_once
from harness.prompt import render
from harness.store import MAX_BYTES, Lines, opened
from harness.types import Encode
from harness.vocab import N_IDS, is_ids

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
FIELDS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "messages": (list,),
    "tools": (list, type(None)),
    "thinking": (bool, type(None)),
    "prompt_ids": (list,),
    "model": (str,),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt.

    Attributes:
        name: Its own, and what its files are called.
        prompt_ids: What the model reads, shape [P].
        messages: As in a chat request; () for a prompt that came as ids alone, which no chat request can ask.
        thinking: The switch; None where only ids came.
        findings: Codes that say why a host may render these messages otherwise.
    """

    name: str
    prompt_ids: tuple[int, ...]
    messages: tuple[Mapping[str, Any], ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    thinking: bool | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a prompts file, as far as it can be known without a format: its fields are of the right kinds.

    Attributes:
        place: PATH:LINE.
        name: Its own, or from its number; no two lines share one.
        given: Its `prompt_ids`.
    """

    place: str
    name: str
    value: Mapping[str, Any]
    given: list[int] | None


def read_lines(paths: Iterable[str]) -> list[Line]:
    """Every line of every file that is not blank.

    Raises:
        SetupError: All lines that cannot be asked of any model, each with its place and reason.
    """
    found: dict[str, Line] = {}
    wrong: list[str] = []
    n_lines = 0
    for path in paths:
        for number, text in lines(path):
            n_lines += 1
            try:
                line = parse_line(text, f"{path}:{number}", f"p{n_lines:04}")
                if line.name in found:
                    raise SetupError(f"the name {line.name!r} is taken by an earlier line; each names its own files")
                found[line.name] = line
            except SetupError as error:
                wrong.append(f"{path}:{number}: {error}")
    _refuse(wrong)
    if not found:
        raise SetupError(f'no prompt in the files; expected lines such as {{"messages": [...], {_THINKING}}}')
    return list(found.values())


def asks_of(lines: Iterable[Line], fmt: Format, thinking: bool | None, encode: Encode) -> list[Ask]:
    """The prompts of these lines as a format has them.

    Args:
        thinking: For lines that do not say it themselves.

    Raises:
        SetupError: All lines that cannot be asked, each with its place and reason.
    """
    asks: list[Ask] = []
    wrong: list[str] = []
    for line in lines:
        try:
            asks.append(_ask(line, fmt, thinking, encode))
        except HarnessError as error:
            wrong.append(f"{line.place}: {error}")
    _refuse(wrong)
    return asks


def _refuse(wrong: list[str]) -> None:
    if wrong:
        more = f"; and {len(wrong) - 5} lines more" if len(wrong) > 5 else ""
        raise SetupError(f"nothing was asked: {'; '.join(wrong[:5])}{more}")


_THINKING = '"thinking": true'


def lines(path: str) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line) of each line that is not blank, unpacked where gzip's magic is in front.

    Raises:
        SetupError: The file cannot be read, or a line is too long.
    """
    try:
        with opened(path) as file:
            for number, line in Lines(file):
                if line is None:
                    raise SetupError(f"{path}:{number}: a line of more than {MAX_BYTES >> 20} MiB")
                yield number, line
    except (OSError, EOFError, zlib.error, Unusable) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SetupError(f"{path} cannot be read: {reason}; expected JSONL, a prompt a line") from error


def parse_line(text: bytes, place: str, name: str) -> Line:
    """One line, its fields checked; `name` is for a line that has none.

    Raises:
        SetupError: What came, what was expected.
    """
    value = json_object(text)
    for key, item in value.items():
        kinds = FIELDS.get(key)
        if kinds is None:
            raise SetupError(f"the field {key[:40]!r} is unknown; the fields are {', '.join(FIELDS)}")
        if not isinstance(item, kinds):
            raise SetupError(f"the field {key!r} is {type(item).__name__}, expected {kinds[0].__name__}")
    name = value.get("name", name)
    if not NAME.fullmatch(name):
        raise SetupError(f"the name {name[:60]!r} cannot be a file's; expected letters, digits, `.`, `_` and `-`")
    if "messages" not in value and "prompt_ids" not in value:
        raise SetupError("neither `messages` nor `prompt_ids`; expected one of them")
    if "messages" not in value and value.get("tools"):
        raise SetupError("`tools` without `messages`: ids alone declare no tools; leave them out")
    return Line(place, name, value, _given_ids(value.get("prompt_ids")))


def _ask(line: Line, fmt: Format, thinking: bool | None, encode: Encode) -> Ask:
    name, value, given = line.name, line.value, line.given
    told = find_format(value["model"], [fmt]) if "model" in value else fmt
    if told is None:
        raise SetupError(f"the line is for model {value['model'][:60]!r}, asked is format {fmt.name}; see --model")
    if "messages" not in value:
        return Ask(name, tuple(given or ()), thinking=value.get("thinking"))
    mode = value.get("thinking")
    mode = thinking if mode is None else mode
    if mode is None and len(fmt.thinking_modes) > 1:
        raise SetupError(f"thinking is not said, and every id depends on it; add {_THINKING}, or give --thinking")
    messages, tools = value["messages"], value.get("tools") or []
    prompt = render(messages, tools, format=fmt, thinking=mode, encode=encode)
    if given is not None and given != prompt.ids:
        at = next((k for k, (a, b) in enumerate(zip(given, prompt.ids, strict=False)) if a != b), None)
        where = f"differ first at {at}" if at is not None else f"have {len(given)} and {len(prompt.ids)} ids"
        raise SetupError(f"prompt_ids and the messages rendered {where}; leave one of the two out")
    codes = sorted({finding.code for finding in prompt.findings})
    thinks = fmt.thinking_modes[0] if mode is None else mode
    return Ask(name, tuple(prompt.ids), tuple(messages), tuple(tools), thinks, tuple(codes))


def json_object(line: bytes | str, expected: str = "`messages` or `prompt_ids`") -> dict[str, Any]:
    """The object that a line is.

    Raises:
        SetupError: No JSON, an object in it with a key twice, or another value.
    """
    try:
        value = loads_once(line)
    except UnicodeDecodeError:
        raise SetupError("no UTF-8 text, as in a binary file; expected JSON") from None
    except (ValueError, RecursionError) as error:
        raise SetupError(f"no JSON: {error!s:.120}") from None
    if not isinstance(value, dict):
        raise SetupError(f"a {type(value).__name__}; expected an object with {expected}")
    return value


def _given_ids(ids: Sequence[Any] | None) -> list[int] | None:
    if ids is None:
        return None
    if not ids or not is_ids(ids):
        raise SetupError(f"prompt_ids is {str(ids)[:60]}; expected integers in 0..{N_IDS - 1}, at least one")
    return list(ids)
