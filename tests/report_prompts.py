"""`python -m tests.report_prompts`: rendered prompts against the prompt_tokens of real answers.

Of the real answers in the optional folder of extra recordings, those whose whole request is known are rendered and
compared with the bill after the provider's committed offset. A line an answer, each miss with its reason; the last
line is one JSON object. `--require-shared` makes the folder's absence a failure.
"""

import copy
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.asked import asked_thinking
from harness.encoder import encode_prompt_text
from harness.errors import HarnessError
from harness.formats import Format, find_format, formats
from harness.inputs import exchange
from harness.prompt import render
from harness.response import parse
from tests.conftest import shared_folder
from tests.corpus import lines

OUTCOMES = ("agree", "agree_if", "attributed", "unexplained", "no_committed_offset")
FIGURES = ("answers", "whole_requests", *OUTCOMES, "by_format")
NAMES = {"api.avian.io": "avian", "api.groq.com": "Groq", "opencode.ai": "opencode zen"}


@dataclass(frozen=True, slots=True)
class Host:
    """What is committed about one host and format: billed minus rendered, and whether it adds a default system."""

    offset: int
    default_system: bool = True


COMMITTED: Mapping[tuple[str, str], Host] = {
    **{("kimi-k2.5", p): Host(0) for p in ("Chutes", "Inceptron", "ModelRun", "avian", "opencode zen")},
    **{("kimi-k2.5", p): Host(-1) for p in ("AtlasCloud", "Moonshot AI")},  # <think> is billed as completion
    **{("kimi-k2", p): Host(1) for p in ("Chutes", "BaseTen", "SiliconFlow", "Together", "AtlasCloud")},
    **{("kimi-k2", p): Host(0) for p in ("WandB", "Groq")},
    ("kimi-k2", "Moonshot AI"): Host(0, default_system=False),
}
"""From the measured table of providers. A host that is not here has no offset, and none is taken from its answers."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as it can be rendered."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    format: Format
    thinking: bool | None

    def n_ids(self) -> int:
        """Length of the rendered prompt."""
        made = render(self.messages, self.tools, format=self.format, thinking=self.thinking, encode=encode_prompt_text)
        return len(made.ids)

    @property
    def features(self) -> tuple[str, ...]:
        """What hosts write in forms of their own; () is a prompt that all should render alike."""
        has = {
            "tools": bool(self.tools),
            "a tool history": any(m["role"] == "tool" for m in self.messages),
            "a default system message": bool(self.format.default_system) and self.messages[0]["role"] != "system",
        }
        return tuple(name for name, present in has.items() if present)


@dataclass(frozen=True, slots=True)
class Row:
    """One answer beside its render; `miss` is billed minus rendered minus offset, None without an offset."""

    name: str
    provider: str
    model: str
    ask: Ask
    n_rendered: int
    billed: int
    offset: int | None

    @property
    def key(self) -> tuple[str, str]:
        """Whom the answer is compared with."""
        return self.ask.format.name, self.provider

    @property
    def miss(self) -> int | None:
        """0 where the bill agrees."""
        return None if self.offset is None else self.billed - self.n_rendered - self.offset


def native_ids(ask: Ask) -> Ask:
    """The history's call ids as the model writes them, counted over the conversation."""
    messages = copy.deepcopy(ask.messages)
    new: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or []:
            old, call["id"] = call["id"], f"functions.{call['function']['name']}:{len(new)}"
            new[old] = call["id"]
        if message["role"] == "tool":
            message["tool_call_id"] = new.get(message["tool_call_id"], message["tool_call_id"])
    return replace(ask, messages=messages)


def in_typescript(ask: Ask) -> Ask:
    """The tools declared in the form of K2.5."""
    return replace(ask, format=replace(ask.format, tool_declaration="typescript"))


def without_reasoning(ask: Ask) -> Ask:
    """The history without its reasoning."""
    fields = ("reasoning", "reasoning_content", "reasoning_details")
    return replace(ask, messages=[{k: v for k, v in m.items() if k not in fields} for m in ask.messages])


IDS, TYPESCRIPT = (
    "the host rewrites the history's call ids to functions.NAME:IDX",
    "it declares tools in TypeScript form",
)
WHAT_IF: tuple[tuple[str, Callable[[Ask], Ask]], ...] = (
    (IDS, native_ids),
    ("the history's reasoning did not reach the prompt", without_reasoning),
    ("thinking was off", lambda ask: replace(ask, thinking=False) if False in ask.format.thinking_modes else ask),
    (
        "the host adds no default system message",
        lambda ask: replace(ask, format=replace(ask.format, default_system=None)),
    ),
    (TYPESCRIPT, in_typescript),
    (f"{IDS} and {TYPESCRIPT}", lambda ask: in_typescript(native_ids(ask))),
)
"""Changes under which a bill may agree. One pair alone, whose halves other answers show: with enough tries every bill
agrees with something."""


def ask_of(request: Mapping[str, Any], fmt: Format, host: Host | None, has_reasoning: bool) -> Ask:
    """The request as this host would render it; thinking as asked, else on where reasoning came or nothing is known."""
    fmt = fmt if host is None or host.default_system else replace(fmt, default_system=None)
    asked = asked_thinking(request)
    mode = True if has_reasoning or asked is None else asked
    return Ask(request["messages"], request.get("tools"), fmt, mode if len(fmt.thinking_modes) > 1 else None)


def row_of(line: Mapping[str, Any]) -> Row | str:
    """One answer's row, or why it has none."""
    request = line["request"]
    tools = request.get("tools")
    if not isinstance(request.get("messages"), list):
        return "messages are left out of the recording"
    if tools and not isinstance(tools[0], dict):
        return "tools are recorded by name alone"
    try:
        found = exchange("", line)
        turn = parse(found.response)
        fmt = find_format(turn.model, formats())
        if fmt is None:
            return f"no format covers {turn.model}"
        if turn.usage is None or turn.usage.prompt_tokens is None:
            return "the answer has no prompt_tokens"
        spelt = (turn.provider or found.provider or "unknown").removeprefix("OR/")
        provider = NAMES.get(spelt, spelt)
        host = COMMITTED.get((fmt.name, provider))
        ask = ask_of(request, fmt, host, bool(turn.reasoning))
        billed, offset = turn.usage.prompt_tokens, host.offset if host else None
        return Row(line["name"], provider, turn.model or "", ask, ask.n_ids(), billed, offset)
    except HarnessError as error:
        return f"cannot be rendered: {error}"


def under(row: Row) -> str:
    """The single change under which the bill agrees, "" for none."""
    for text, change in WHAT_IF:
        changed = change(row.ask)
        if changed != row.ask and row.offset is not None and row.billed - changed.n_ids() == row.offset:
            return text
    return ""


def outcome_of(row: Row, peers: Sequence[Row]) -> tuple[str, str]:
    """(outcome, what is printed) of an answer beside all others of its host and format."""
    if row.miss is None:
        return "no_committed_offset", f"no committed offset; billed - rendered = {row.billed - row.n_rendered}"
    if row.miss == 0:
        return "agree", "agree"
    if text := under(row):
        return "agree_if", f"miss {row.miss:+d}: agrees if {text}"
    plain = [peer.miss == 0 for peer in peers if not peer.ask.features]
    known = {name for peer in peers if peer.miss == 0 or under(peer) for name in peer.ask.features}
    own = [name for name in row.ask.features if name not in known]
    if own and plain and all(plain):
        text = f"the host's own form of {' and '.join(own)}: no prompt with it agrees, all {len(plain)} plain ones do"
        return "attributed", f"miss {row.miss:+d}: {text}"
    return "unexplained", f"miss {row.miss:+d}: unexplained"


def measure(shared: Path) -> tuple[list[Row], Counter[str], int]:
    """Rows, the reasons of the answers that have none, and the number of answers."""
    made = [row_of(line) for line in lines(shared / "real" / "responses.jsonl.gz")]
    return [r for r in made if isinstance(r, Row)], Counter(r for r in made if isinstance(r, str)), len(made)


def printed(row: Row, said: str) -> str:
    """One line of the table."""
    offset = "?" if row.offset is None else f"{row.offset:+d}"
    host = f"{row.provider[:14]:14} {row.model[-28:]:28} {row.ask.format.name:9}"
    return f"{host} {row.n_rendered:6} {row.billed:6} {offset:>3}  {said}  [{row.name}]"


def main(arguments: list[str]) -> int:
    """Prints the table; 1 where the folder is required and absent."""
    shared = shared_folder()
    if shared is None:
        print("the optional folder of extra recordings is absent (TOKENPROOF_SHARED, default ../shared)")
        print(json.dumps(dict.fromkeys(FIGURES)))
        return int("--require-shared" in arguments)
    rows, missing, n_answers = measure(shared)
    by_format: dict[str, Counter[str]] = defaultdict(Counter)
    print(f"{'provider':14} {'model':28} {'format':9} {'render':>6} {'billed':>6} off")
    for row in sorted(rows, key=lambda r: (r.ask.format.name, r.provider, r.name)):
        outcome, said = outcome_of(row, [r for r in rows if r.key == row.key])
        by_format[row.ask.format.name][outcome] += 1
        print(printed(row, said))
    print(
        "\nwithout a whole request, or not rendered:", *(f"  {n:4} {why}" for why, n in missing.most_common()), sep="\n"
    )
    total = sum(by_format.values(), Counter[str]())
    figures = {"answers": n_answers, "whole_requests": len(rows), **{k: total[k] for k in OUTCOMES}}
    print(json.dumps({**figures, "by_format": by_format}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
