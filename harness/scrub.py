"""What is secret in an exchange goes before anything is written, and a scan says whether any is left.

Headers pass by a list of those that are kept, so no new name of a cookie or an organisation can slip through. In bodies
a member whose name says account, user or key loses its value, wherever it stands outside of the conversation itself
(messages, tools, answers); keys and tokens go everywhere. All else stays byte for byte. Pure.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import AnyStr, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from harness.recording import Headers, Interaction

REMOVED = "[removed]"
KEPT_HEADERS = frozenset({"accept", "content-type", "retry-after"})
NAMES = frozenset(  # letters alone, in lower case: user_id, userId and User-ID are one name
    {
        *("user", "userid", "creatoruserid", "externaluser", "endusers", "enduserid", "safetyidentifier", "email"),
        *("org", "orgid", "organization", "organizationid", "organisation", "organisationid", "tenantid", "teamid"),
        *("account", "accountid", "customerid", "workspace", "workspaceid", "sessionid", "session"),
        *("apikey", "xapikey", "authorization", "proxyauthorization", "cookie", "cookies", "setcookie"),
        *("accesstoken", "refreshtoken", "bearertoken", "secret", "clientsecret", "password", "key", "keyid"),
    }
)
ASKED = frozenset({"messages", "tools", "tool_choice", "response_format", "prompt", "stop"})
ANSWERED = frozenset({"message", "delta", "logprobs", "text"})
"""Members of a request, and of a reply's `choices`, that hold the conversation: what stands there was said."""
ANYWHERE = re.compile(
    r"sk-or-[\w-]+"
    r"|\bsk-(?=[\w-]*\d)[\w-]{16,}"
    r"|\bbearer\s+(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,}"
    r"|\bbearer\s+[\w.~+/=-]{24,}"
    r"|\b(?:user|org)[-_](?=[a-z]*\d)[a-z0-9]{20,}"
    r"|\b(?:__cf_bm|cf_clearance|__cflb|_cfuvid)=[^\s;\"'\\]+"
    r"|\beyj[\w-]{8,}\.eyj[\w-]{8,}\.[\w-]+",
    re.IGNORECASE | re.ASCII,
)
APART = re.compile(  # in what is no conversation: error texts and what stands around an answer
    r"\b(?:user|org)[-_](?!id\b)[a-z0-9]{3,}"
    r"|\b(?:set-)?cookie:\s*[^\s\"\\]+"
    r"|[\w.+-]+@[\w-]+\.[\w.-]*\w",
    re.IGNORECASE | re.ASCII,
)
BLANKS = " \t\r\n\ufeff"
SSE_LINE = re.compile(r"[^\r\n]+")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
ESCAPES = ("\\u", "\\/", "%", "&#")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
IN_NAMES = re.compile(r"sk-|user|org|bearer|cookie|eyj", re.IGNORECASE)
"""What ANYWHERE and APART look for begins with one of these, or needs a sign that no such name has."""
SHORTEST_KEY = 8
"""Characters of a key that is removed from replies: a shorter one is a word, that a model may say."""
MAX_DEPTH = 4
"""JSON within strings within JSON: gateways wrap the words of the host in this way."""


@dataclass(frozen=True, slots=True)
class Scrubber:
    """Removes what is secret.

    Attributes:
        known: Secrets that are known as they are, such as the key in use; they go wherever they stand.
    """

    known: Collection[str] = field(default=(), repr=False)

    def reply(self, status: int, body: bytes) -> tuple[bytes, bool]:
        """A reply's body without them, and whether a known one stood in an answer; before anything reads it.

        An answer loses what is known alone, since its text is what will be judged; any other reply is scrubbed.
        """
        if status != 200:
            return self.body(body, "", []), False
        clean, lower = body, body.lower() if self.known else b""
        for secret in self.known:
            if _may_hold(lower, secret, str.encode):  # the search takes as long as all else that is done with a reply
                clean = _spellings(secret).of_bytes.sub(REMOVED.encode(), clean)
        return clean, clean != body

    def headers(self, status: int, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        """A reply's headers without them, names in lower case; as much is removed as from its body."""
        found = {name.lower(): value for name, value in pairs}
        if status == 200 and self._known(joined := "\n".join((*found, *found.values()))) == joined:
            return found
        clean = self._known if status == 200 else self.said
        return {clean(name): clean(value) for name, value in found.items()}

    def said(self, text: str) -> str:
        """A message without them, JSON or a page inside it included."""
        if PLAIN_NAME.fullmatch(text):  # an id of an answer, of which every answer has one: no JSON and no page
            return self._apart(text) if self.known or IN_NAMES.search(text) else text
        return self.body(text.encode("utf-8", "surrogateescape"), "", []).decode("utf-8", "backslashreplace")

    def interaction(self, one: Interaction) -> tuple[Interaction, tuple[str, ...]]:
        """The interaction without them, and the places from which something went."""
        removed: list[str] = []
        request_headers = self._headers(one.request_headers, "request.headers", removed)
        headers = self._headers(one.headers, "response.headers", removed)
        uri = self.uri(one.uri, removed)
        sent = self.body(one.request_body, "request.body", removed)
        body = self.body(one.body, "response.body", removed)
        clean = replace(
            one, request_headers=request_headers, headers=headers, uri=uri, request_body=sent, body=body,
            reason=self._talk(one.reason),
        )  # fmt: skip
        return clean, tuple(dict.fromkeys(removed))

    def uri(self, uri: str, removed: list[str]) -> str:
        """A URL without user, password and secret parameters."""
        parts = urlsplit(uri)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        kept = [(k, REMOVED if _is_secret_name(k) else self._talk(v)) for k, v in pairs]
        query = urlencode(kept) if kept != pairs else parts.query
        clean = parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, path=self._talk(parts.path))
        if clean == parts:
            return uri
        removed.append("request.uri")
        return clean.geturl()

    def body(self, body: bytes, where: str, removed: list[str]) -> bytes:
        """A body, JSON or SSE or anything else."""
        text = body.decode("utf-8", "surrogateescape")
        if text.lstrip(BLANKS)[:1] in ("{", "["):
            clean = self._json(text, where, removed, 0)
        elif re.match(r"\s*(?:data|event|id|retry)?:", text):
            clean = SSE_LINE.sub(lambda line: self._sse_line(line[0], where, removed), text)
        else:
            clean = self._apart(self._json(text, where, removed, 0))  # a page of HTML may have JSON in it
        clean = self._talk(clean)  # what no JSON string showed whole
        if clean != text and not any(place.startswith(where) for place in removed):
            removed.append(where)
        return clean.encode("utf-8", "surrogateescape")

    def _headers(self, headers: Headers, where: str, removed: list[str]) -> dict[str, list[str]]:
        kept = {}
        for name, values in headers.items():
            if name.lower() in KEPT_HEADERS:
                kept[name.lower()] = [self._talk(value) for value in values]
            elif _is_secret_name(name) or any(self._talk(value) != value for value in values):
                removed.append(f"{where}.{name.lower()}")
        return kept

    def _sse_line(self, line: str, where: str, removed: list[str]) -> str:
        head, colon, rest = line.partition(":")
        if head.strip() == "data" and rest.lstrip()[:1] in ("{", "["):
            return head + colon + self._json(rest, where, removed, 0)
        return self._apart(line)

    def _json(self, text: str, where: str, removed: list[str], depth: int) -> str:
        """JSON text with secret values replaced; whatever else stands in it stays as it was written."""
        parts, last = [], 0
        for path, start, end in scalars(text):
            token = text[start:end]
            clean = self._value(token, path, where, removed, depth)
            if clean != token:
                place = ".".join((where, *path))
                removed.append(place if self._talk(place) == place else where)
                parts += [text[last:start], clean]
                last = end
        return "".join([*parts, text[last:]])

    def _value(self, token: str, path: Sequence[str], where: str, removed: list[str], depth: int) -> str:
        talk = bool(path) and (path[0] in ASKED or (path[0] == "choices" and not ANSWERED.isdisjoint(path[1:2])))
        secret = not talk and any(map(_is_secret_name, path))  # {"user": {"id": ...}} too
        if not token.startswith('"'):
            known = token in ("null", "true", "false")
            return token if known or not secret else json.dumps(REMOVED)
        try:
            said = json.loads(token, strict=False)
        except ValueError:
            return token
        if secret:
            return json.dumps(REMOVED) if said not in ("", REMOVED) else token
        clean = self._talk(said)
        if not talk:
            nested = depth < MAX_DEPTH and clean.lstrip()[:1] in ("{", "[")
            clean = self._apart(self._json(clean, where, removed, depth + 1) if nested else clean)
        return token if clean == said else json.dumps(clean, ensure_ascii=False)

    def _talk(self, text: str) -> str:
        return ANYWHERE.sub(REMOVED, self._known(text))

    def _known(self, text: str) -> str:
        for secret in filter(None, self.known):
            if _may_hold(text.lower(), secret, str):
                text = _spellings(secret).of_text.sub(REMOVED, text)
        return text

    def _apart(self, text: str) -> str:
        return APART.sub(REMOVED, self._talk(text))


def leaks(one: Interaction, known: Collection[str] = ()) -> tuple[str, ...]:
    """Places of an interaction that still hold a secret; () for none."""
    clean, removed = Scrubber(known).interaction(one)
    dropped = [f"headers.{name}" for name in (*one.request_headers, *one.headers) if name.lower() not in KEPT_HEADERS]
    return tuple(dict.fromkeys((*removed, *dropped))) if clean != one else ()


def leaks_in_text(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) of anything in a text file that looks like a key, a token, a cookie or an account's id."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in ANYWHERE.finditer(line):
            yield number, f"{found[0][:8]}... ({len(found[0])} characters)"


def scalars(text: str) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """(path, start, end) of each string, number and word of a JSON text; broken JSON gives what can be seen."""
    stack, key = list[str](), ""
    waiting: tuple[int, int] | None = None  # a string that may still turn out to be a member's name

    def scalar(span: tuple[int, int]) -> tuple[tuple[str, ...], int, int]:
        return tuple(name for name in (*stack, key) if name), *span

    for found in TOKEN.finditer(text):
        token = found[0]
        if token == ":" and waiting is not None:
            key, waiting = _name(text[slice(*waiting)]), None
            continue
        if waiting is not None:
            yield scalar(waiting)
            waiting = None
        if token in "{[":
            stack.append(key)
            key = ""
        elif token in "}]":
            key = ""
            if stack:
                stack.pop()
        elif token == ",":
            key = ""
        elif token != ":":
            waiting = found.span()
    if waiting is not None:
        yield scalar(waiting)


class _Spellings(NamedTuple):
    """What finds a secret, however text, JSON, a URL or HTML may write it; `plain` is in lower case."""

    plain: str
    of_text: re.Pattern[str]
    of_bytes: re.Pattern[bytes]


@lru_cache(maxsize=8)
def _spellings(secret: str) -> _Spellings:
    def one(c: str) -> str:
        forms = "|".join(map(re.escape, dict.fromkeys((c, quote(c, safe=""), json.dumps(c)[1:-1]))))
        n = ord(c)
        return rf"(?:{forms}|\\+(?:u{n:04x}|{re.escape(c)})|%{n:02x}|&#(?:0*{n}|x0*{n:x});)"

    pattern = "".join(map(one, secret))
    found = re.compile(pattern, re.IGNORECASE), re.compile(pattern.encode(), re.IGNORECASE)
    return _Spellings(secret.lower(), *found)


def _may_hold(lower: AnyStr, secret: str, kind: Callable[[str], AnyStr]) -> bool:
    """Whether a search may find it: it stands there plain, or something there is spelled in another way."""
    return any(kind(mark) in lower for mark in (_spellings(secret).plain, *ESCAPES))


def of_key(key: str | None) -> Scrubber:
    """For the replies to calls that carry this key."""
    return Scrubber((key,) if key and len(key) >= SHORTEST_KEY else ())


def _name(token: str) -> str:
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token


def _is_secret_name(name: str) -> bool:
    return re.sub(r"[^a-z]", "", name.lower()) in NAMES
