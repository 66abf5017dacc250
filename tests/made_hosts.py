"""Hosts that no preset stands for: the mildest stack, and on top of it what real hosts have been seen to do to text and
bills. Traits that no preset has (lost edges, inserted spaces, other call ids) are attacked here.

Knows what is true of such a host, in the words of habits; knows nothing of judging.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from harness import presets
from harness.presets import Answer, dumped
from harness.stacks import CallDelta, Step
from harness.types import ToolCall

EDGES = ("reasoning_start", "reasoning_end", "content_start", "content_end", "argument_edges")


@dataclass(frozen=True, slots=True)
class Twist:
    """What the host does.

    Attributes:
        lost: Edges at which white space is stripped.
        spaces: Whether the detokenizer puts one space at each side of reasoning, content and arguments.
        call_id: Key of CALL_IDS.
        arguments: Key of ARGUMENTS.
        bill_off: Tokens that usage says too many: a mistake, which counts as a deviation of the host.
    """

    lost: frozenset[str] = frozenset()
    spaces: bool = False
    call_id: str = "native"
    arguments: str = "as-sampled"
    bill_off: int = 0


def draw_twist(rng: Random) -> Twist:
    """A host of one to all of these ways."""
    lost = rng.choice((0.0, 0.3, 0.7, 1.0))
    return Twist(
        frozenset(edge for edge in EDGES if rng.random() < lost),
        rng.random() < 0.3,
        rng.choice(("native", "native", *CALL_IDS)),
        rng.choice(("as-sampled", "as-sampled", *ARGUMENTS)),
        rng.choice((0,) * 12 + (-2, -1, 1, 2, 3)),
    )


# (call, its place) -> id
CALL_IDS: Mapping[str, Callable[[ToolCall, int], str]] = {
    "native": lambda call, _: call.id,
    "short": lambda call, _: call.id.removeprefix("functions."),
    "bare": lambda call, k: _index(call, k),
    "underscored": lambda call, k: f"{call.name}_{_index(call, k)}",
    "minted": lambda _, k: f"call_{k}a8f33c",
    "renumbered": lambda call, k: f"functions.{call.name}:{k}",
}
ARGUMENTS: Mapping[str, Callable[[str], str]] = {"as-sampled": str, "spaced": dumped, **presets.ARGUMENTS}


def _index(call: ToolCall, k: int) -> str:
    return call.id.rpartition(":")[2] if ":" in call.id else str(k)


def traits(twist: Twist) -> dict[str, str]:
    """What is true of the host beside what is true of its stack."""
    rewritten = twist.arguments != "as-sampled"
    lost = twist.lost | ({"argument_edges"} if rewritten else frozenset())
    ways = {"native": "as-sent", "renumbered": "renumbered", "minted": "minted"}
    return {
        **{edge: "lost" if edge in lost else "kept" for edge in EDGES},
        "spaces": "inserted" if twist.spaces else "none",
        "call_id": ways.get(twist.call_id, "prefixed"),
        "call_index": "rewritten" if twist.call_id in ("renumbered", "minted") else "kept",
        "arguments": "spaced" if rewritten else "as-sent",
        "argument_keys": "sorted" if twist.arguments == "sorted" else "kept",
        "chunks_arguments": "merged" if rewritten or twist.spaces else "tokens",
    }


def settled(said: Answer, twist: Twist) -> Twist:
    """The twist for one answer: between raw markers no space is put, so that a host that shows them inserts none."""
    shown = said.reasoning + said.content
    return replace(twist, spaces=False) if "<|" in shown or "think>" in shown else twist


def twisted(said: Answer, twist: Twist) -> Answer:
    """The answer as the host sends it."""
    cut_in_reasoning = said.finish_reason == "length" and not (said.content or said.calls)
    pads = {"reasoning": (" ", "" if cut_in_reasoning else " "), "content": (" ", " " if said.calls else "")}
    texts = {c: _text(getattr(said, c), c, pads[c], twist) for c in pads}
    calls = tuple(_call(call, k, twist) for k, call in enumerate(said.calls))
    usage = said.usage
    if usage.completion_tokens and usage.total_tokens:
        billed = max(0, usage.completion_tokens + twist.bill_off)
        total = usage.total_tokens - usage.completion_tokens + billed
        usage = replace(usage, completion_tokens=billed, total_tokens=total)
    made = replace(said, reasoning=texts["reasoning"], content=texts["content"], calls=calls, usage=usage)
    return replace(made, steps=tuple(_steps(said, made))) if said.steps else made


def _text(text: str, channel: str, pads: tuple[str, str], twist: Twist) -> str:
    if text and twist.spaces:
        text = pads[0] + text + pads[1]
    text = text.lstrip() if f"{channel}_start" in twist.lost else text
    return text.rstrip() if f"{channel}_end" in twist.lost else text


def _call(call: ToolCall, k: int, twist: Twist) -> ToolCall:
    text = ARGUMENTS[twist.arguments](call.arguments)
    text = f" {text} " if twist.spaces else text
    return ToolCall(
        CALL_IDS[twist.call_id](call, k), call.name, text.strip() if "argument_edges" in twist.lost else text
    )


def _steps(said: Answer, made: Answer) -> list[Step]:
    """The chunks of the stream, where they are, with the texts that the host makes of them."""
    rows = {c: [t for step in said.steps if (t := getattr(step, c))] for c in ("reasoning", "content")}
    steps = [Step(reasoning=t) for t in rechunked(rows["reasoning"], made.reasoning)]
    steps += [Step(content=t) for t in rechunked(rows["content"], made.content)]
    for k, call in enumerate(made.calls):
        steps.append(Step(calls=(CallDelta(k, "", call.id, call.name),)))
        sent = [d.arguments for step in said.steps for d in step.calls if d.index == k and d.arguments]
        steps += [Step(calls=(CallDelta(k, t),)) for t in rechunked(sent, call.arguments)]
    return steps


def rechunked(pieces: Sequence[str], text: str) -> list[str]:
    """Chunks of a text that differs from the old one in its edges only; one chunk where more of it differs."""
    old = "".join(pieces)
    core = old.strip()
    if not core or core != text.strip():
        return [text] if text else []
    start, at, made = old.index(core), 0, []
    for piece in pieces:
        first, at = at, at + len(piece)
        part = old[max(first, start) : min(at, start + len(core))] if at > start else ""
        made += [part] if part else []
    made[0] = text[: text.index(core)] + made[0]
    made[-1] += text[text.index(core) + len(core) :]
    return made
