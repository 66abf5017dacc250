"""A VCR cassette's text -> entries, one a POST; and -> a recording, every interaction as it was, to be replayed.

Knows nothing of files, tokens or verdicts. YAML is read by the safe C loader, node by node: a Python tag in one
interaction is refused with its line while the others are still read. A recording is whole or refused.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from harness.errors import HarnessError, SetupError
from harness.inputs import Entry, Unusable, exchange, other_provider, shown
from harness.recording import Interaction, Recording, provenance_of
from harness.response import loads
from harness.types import Exchange

MAX_NODES = 200_000  # a parsed node costs about 1 KB; a cassette has some 40 an interaction
MAX_BODY_BYTES = 32 << 20
WHERE = "expected `interactions:`, a list with `request` and `response` each (VCR.py, version 1)"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FAULTS = (yaml.YAMLError, ValueError, RecursionError)


def read_cassette(path: str, text: bytes) -> Iterator[Entry]:
    """An entry a POST, in order; other methods ask for no answer and are passed over."""
    try:
        members, aliases = _members(text)
        interactions = _interactions(members)
    except FAULTS as error:
        yield Entry(path, _line(error), trouble=f"no readable YAML ({_said(error)}); {WHERE}")
        return
    n_posts = 0
    for node in interactions:
        line = node.start_mark.line + 1
        try:
            found = _entry(path, line, _value(node), aliases)
        except Unusable as error:
            found = Entry(path, line, trouble=str(error))
        if found is not None:
            n_posts += 1
            yield found
    if not n_posts:
        raise Unusable("a cassette without any POST; " + WHERE)


def load_recording(path: str, text: bytes) -> Recording:
    """A cassette as a recording: every interaction of every method, unpacked bodies, and where it came from.

    Raises:
        SetupError: No cassette, or one of which a part cannot be read: half a cassette is never replayed.
    """
    try:
        members, aliases = _members(text)
        if aliases:
            raise Unusable("YAML aliases; a cassette to be replayed states every value where it stands")
        found = [_interaction(_value(node)) for node in _interactions(members)]
        metadata = _value(members["metadata"]) if "metadata" in members else None
        return Recording(path, tuple(found), provenance_of(metadata))
    except FAULTS as error:
        raise SetupError(f"{path}: no readable YAML (line {_line(error)}: {_said(error)}); {WHERE}") from error
    except (Unusable, SetupError) as error:
        raise SetupError(f"{path}: refused: {error}") from error


def _interaction(value: Any) -> Interaction:
    request, response = (value.get(k) if isinstance(value, dict) else None for k in ("request", "response"))
    status = response.get("status") if isinstance(response, dict) else None
    code = status.get("code") if isinstance(status, dict) else None
    if not isinstance(request, dict) or not isinstance(response, dict) or type(code) is not int:
        raise Unusable(f"{shown(value)}; {WHERE}")
    method, uri = (_text(request.get(name), "") for name in ("method", "uri"))
    if not method or not uri.startswith(("http://", "https://")):
        raise Unusable(f"a request without method or http(s) uri ({uri!r:.60})")
    headers = _header_lists(response.get("headers"))
    return Interaction(
        method,
        uri,
        _bytes(request.get("body")),
        code,
        _body(response),
        _header_lists(request.get("headers")),
        {k: v for k, v in headers.items() if k != "content-encoding"},
        _text(status.get("message") if isinstance(status, dict) else "", ""),
    )


def _header_lists(headers: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers.items() if isinstance(headers, dict) else ():
        listed = value if isinstance(value, list) else [value]
        if not isinstance(name, str) or not all(isinstance(v, str) for v in listed):
            raise Unusable(f"a header that is no text: {shown(value)}; expected a name with a list of texts")
        found.setdefault(name.lower(), []).extend(listed)
    return found


def _members(text: bytes) -> tuple[dict[str, Any], bool]:
    """The document's members as nodes, and whether it uses aliases; events are counted before anything is kept."""
    aliases = False
    for n, event in enumerate(yaml.parse(text, Loader=Loader)):
        if n > MAX_NODES:
            raise Unusable(f"a cassette of more than {MAX_NODES} YAML nodes; split it")
        aliases = aliases or isinstance(event, yaml.AliasEvent)
    root = yaml.compose(text, Loader=Loader)
    _no_key_twice(root)
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    return {key.value: value for key, value in pairs if isinstance(key.value, str)}, aliases


def _no_key_twice(root: Any) -> None:
    """Refuses an object that states a member twice: YAML readers differ in which of them counts."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if not isinstance(node, yaml.MappingNode):
            waiting += node.value
            continue
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise Unusable(f"`{key.value:.40}` is stated twice (line {key.start_mark.line + 1}); expected it once")
            keys.add(str(key.value))
            waiting.append(value)


def _interactions(members: Mapping[str, Any]) -> list[Any]:
    """The interactions' nodes."""
    value = members.get("interactions")
    if isinstance(value, yaml.SequenceNode):
        nodes: list[Any] = value.value
        return nodes
    raise Unusable("YAML, but no cassette; " + WHERE)


def _value(node: Any) -> Any:
    try:
        return Loader("").construct_document(node)
    except Exception as error:  # PyYAML lets through whatever an odd scalar raises in it
        raise Unusable(f"refused at line {_line(error)}: {_said(error)}; expected plain YAML") from error


def _entry(path: str, line: int, interaction: Any, aliases: bool) -> Entry | None:
    request = interaction.get("request") if isinstance(interaction, dict) else None
    response = interaction.get("response") if isinstance(interaction, dict) else None
    if not (isinstance(request, dict) and isinstance(response, dict)):
        raise Unusable(f"{shown(interaction)}; {WHERE}")
    if _text(request.get("method"), "POST").upper() != "POST":
        return None
    if aliases and ("parsed_body" in response or "parsed_body" in request):
        raise Unusable("`parsed_body` in a file with YAML aliases; expected the body as `body: string:`")
    status = response.get("status")
    code = status.get("code") if isinstance(status, dict) else status
    sent = _bytes(request.get("body")) or _written(request.get("parsed_body"))
    uri = _text(request.get("uri"), "")
    found = Interaction("POST", uri, sent, code if isinstance(code, int) else 200, _body(response))
    return Entry(path, line, exchange_of(f"{path}:{line}", found))


def exchange_of(name: str, interaction: Interaction) -> Exchange:
    """What the judge sees of an interaction."""
    answer = _checked(interaction.body, interaction.status)
    sent = _json(interaction.request_body)
    request = sent if isinstance(sent, dict) else {}
    return Exchange(name, answer, request, other_provider(answer, {}, interaction.uri))


def _checked(body: bytes, code: int) -> bytes | dict[str, Any] | list[Any]:
    """The body, as JSON where it is JSON; a refused request stays an error even where its body does not say so."""
    value = _json(body)
    if code >= 400 and not (isinstance(value, dict) and value.get("error")):
        said = body[:2000].decode("utf-8", "replace")
        return {"error": {"code": code, "message": f"HTTP {code}", "metadata": {"raw": said}}}
    return body if value is None else exchange("", {"response": value}).response


def _json(body: bytes) -> Any:
    """JSON's value, None where it is none (SSE, HTML, nothing): then the judge says what it is."""
    try:
        return loads(body) if body.lstrip()[:1] in (b"{", b"[") else None
    except HarnessError:
        return None


def _bytes(value: Any) -> bytes:
    """Text or bytes as bytes, b"" for anything else: with aliases a small file can stand for a value without end."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else b""


def _text(value: Any, other: str) -> str:
    """`value` where it is text, else the other."""
    return value if isinstance(value, str) else other


def _written(value: Any) -> bytes:
    return json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _body(response: Mapping[str, Any]) -> bytes:
    body = response.get("body")
    body = body.get("string") if isinstance(body, dict) else body
    if body is None and "parsed_body" in response:
        return _written(response["parsed_body"])
    if not isinstance(body, str | bytes):
        raise Unusable(f"`response.body.string` is {shown(body)}; expected text or !!binary")
    return unpacked(_bytes(body), response.get("headers"))


def unpacked(body: bytes, headers: Any) -> bytes:
    """The body without its Content-Encoding, at most MAX_BODY_BYTES of it."""
    encoding = ""
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if _text(name, "").lower() == "content-encoding":
            encoding = _text(value[0] if isinstance(value, list) and value else value, "unknown").lower()
    if encoding in ("", "identity") or (encoding == "gzip" and body[:2] != b"\x1f\x8b"):
        return body
    if encoding != "gzip":
        raise Unusable(f"a body in the encoding {encoding!r}; record with decode_compressed_response=True")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(body, MAX_BODY_BYTES)
    except zlib.error as error:
        raise Unusable(f"a gzip body that does not unpack ({error}); record it again") from error
    if unpacker.unconsumed_tail:
        raise Unusable(f"a gzip body that unpacks to more than {MAX_BODY_BYTES >> 20} MiB")
    return plain


def _line(error: BaseException) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return mark.line + 1 if mark else 0


def _said(error: BaseException) -> str:
    return str(getattr(error, "problem", None) or error or type(error).__name__)[:200]
