"""A recording -> the YAML of its cassette: for eyes, and byte for byte what was recorded.

Bodies stand as literal blocks, line by line, wherever YAML keeps every byte of them; else in double quotes, and bytes
that are no UTF-8 as base64. Any VCR.py (version 1) reads it. Pure, and no YAML library: those fold, escape or
normalise.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.recording import SHA256, Interaction, Recording, metadata_of

PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9 _./:;=+-]*[A-Za-z0-9/]")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# YAML takes these for line ends, or forbids them
ODD = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def cassette_text(recording: Recording) -> bytes:
    """The file."""
    lines = ["interactions:"]
    for interaction in recording.interactions:
        lines += _interaction(interaction)
    lines += ["metadata:", *_members(metadata_of(recording.provenance), 2), "version: 1", ""]
    return "\n".join(lines).encode()


def _interaction(one: Interaction) -> Iterator[str]:
    yield "- request:"
    yield f"    method: {_scalar(one.method)}"
    yield f"    uri: {_scalar(one.uri)}"
    yield from _headers(one.request_headers)
    yield from _body("    body:", one.request_body, 6)
    yield "  response:"
    yield f"    status: {{code: {one.status}, message: {_scalar(one.reason)}}}"
    yield from _headers(one.headers)
    yield "    body:"
    yield from _body("      string:", one.body, 8)


def _headers(headers: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "    headers:" + ("" if headers else " {}")
    for name, values in headers.items():
        yield f"      {_scalar(name)}: [{', '.join(map(_scalar, values))}]"


def _members(fields: Mapping[str, Any], indent: int) -> Iterator[str]:
    """Plain values, lists of texts, and lists of objects."""
    pad = " " * indent
    for key, value in fields.items():
        if not isinstance(value, list):
            yield f"{pad}{key}: {_scalar(value)}"
        elif value and isinstance(value[0], dict):
            yield f"{pad}{key}:"
            for item in value:
                first, *rest = _members(item, indent + 2)
                yield from (f"{pad}- {first.lstrip()}", *rest)
        else:
            yield f"{pad}{key}: [{', '.join(map(_scalar, value))}]"


def _scalar(text: str) -> str:
    """Text on one line: bare where YAML cannot mistake it, else in double quotes."""
    bare = PLAIN.fullmatch(text) and text.lower() not in WORDS and ": " not in text and not SHA256.fullmatch(text)
    return text if bare else _quoted(text)


def _quoted(text: str) -> str:
    """Double quotes as JSON writes them, which YAML reads; what YAML forbids is escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return ODD.sub(lambda m: f"\\u{ord(m[0]):04x}", quoted)


def _body(key: str, body: bytes, indent: int) -> Iterator[str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield f"{key} !!binary |"
        packed = base64.b64encode(body).decode()
        yield from (" " * indent + packed[k : k + 100] for k in range(0, len(packed), 100))
        return
    if not text.strip("\n ") or ODD.search(text.replace("\t", "")) or text[0] == "\t":
        yield f"{key} {_quoted(text)}"
        return
    # "+" keeps every line end, "-" stands for none; the number says how deep the text stands where it cannot be seen
    ending = "+" if text.endswith("\n") else "-"
    seen = "" if text[0] not in " \n" else "2"
    yield f"{key} |{seen}{ending}"
    lines = text.removesuffix("\n").split("\n")
    yield from (" " * indent + line if line else "" for line in lines)
