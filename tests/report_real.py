"""Real answers, judged with shipped habits and with habits learned elsewhere: `make real`.

Needs the optional folder of extra recordings; without it every figure is null. The answers belong to their publishers
and are no part of the project.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.calibrate import evidence
from harness.flow import judge
from harness.habits import Habits
from harness.inputs import exchange
from harness.learn import learn
from harness.response import parse
from harness.types import Exchange, Verdict
from tests.conftest import shared_folder
from tests.corpus import kit, lines, shipped_habits

FIGURES = (
    "shipped",
    "plain_text",
    "crush_to_others",
    "others_to_crush",
    "distinct",
    "long",
    "planted_rejected",
    "blank_edges",
)
CRUSH = "charmbracelet/crush"


class Row(NamedTuple):
    """One real answer."""

    exchange: Exchange
    repo: str
    kind: str  # "text" or "tools"
    text: str  # what is compared to find distinct answers


def load(path: Path) -> list[Row]:
    """The answers of one file; Kimi K3's, whose format is unknown, included."""
    rows = []
    for k, line in enumerate(lines(path), 1):
        turn = parse(line["response"])
        calls = [(c.name, c.arguments) for c in turn.tool_calls]
        text = json.dumps([turn.provider, turn.reasoning, turn.content, calls])
        rows.append(Row(exchange(f"{path.name}:{k}", line), line["source"]["repo"], "tools" if calls else "text", text))
    return rows


def verdicts(rows: Iterable[Row], habits: Habits) -> list[tuple[Row, Verdict]]:
    """Each answer of a known format with its verdict."""
    told = [(row, judge(row.exchange, kit(habits))) for row in rows]
    return [(r, v) for r, v in told if not any(f.code == "unknown-format" for f in v.findings)]


def share(told: Sequence[tuple[Row, Verdict]]) -> float | None:
    """The share of accepted answers, rounded down to a tenth of a percent."""
    return int(1000 * sum(v.accepted for _, v in told) / len(told)) / 1000 if told else None


def plain_of_known(told: Sequence[tuple[Row, Verdict]]) -> list[tuple[Row, Verdict]]:
    """Plain-text answers of providers with five answers or more."""
    n = Counter(v.provider for _, v in told)
    return [(r, v) for r, v in told if r.kind == "text" and n[v.provider] >= 5]


def learned(rows: Iterable[Row]) -> Habits:
    """Habits from these answers alone; only the spellings of names are taken from the shipped file."""
    bare = replace(shipped_habits(), lines=())
    found = (evidence(row.exchange, kit(bare)) for row in rows)
    return replace(bare, lines=tuple(learn(e for e in found if e is not None)[0]))


def no_evidence(verdict: Verdict) -> bool:
    """Whether the bill was silent because nothing is known of the provider's equation."""
    return any(t.witness == "bill" and t.says == "silent" and "not known" in t.reason for t in verdict.witnesses)


def crossed(rows: Sequence[Row], train: Sequence[Row], title: str) -> dict[str, Any]:
    """Habits learned on one part and scored on the other; answers whose key has no evidence counted apart."""
    names = {id(r) for r in train}
    told = verdicts([r for r in rows if id(r) not in names], learned(train))
    spoke = [(r, v) for r, v in told if not no_evidence(v)]
    print(f"\n{title}: learned on {len(train)}, scored on {len(told)}; without evidence {len(told) - len(spoke)}")
    table(spoke)
    return {"verified": share(spoke), "scored": len(spoke), "no_evidence": len(told) - len(spoke)}


def table(told: Sequence[tuple[Row, Verdict]]) -> None:
    """One line a provider and kind: answers, accepted, and the findings of the others."""
    groups: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for row, verdict in told:
        groups[verdict.provider or "?", row.kind].append(verdict)
    for (provider, kind), group in sorted(groups.items(), key=lambda g: -len(g[1])):
        reasons = Counter(reason(v) for v in group if not v.accepted)
        why = ", ".join(f"{code} {n}" for code, n in reasons.most_common())
        print(f"  {provider:40} {kind:5} {sum(v.accepted for v in group):4} of {len(group):4}  {why}")


def reason(verdict: Verdict) -> str:
    """The finding that names why an answer was not accepted."""
    return next((f.code for f in verdict.findings if f.fatal), next((f.code for f in verdict.findings), "no reason"))


def planted(rows: Sequence[Row]) -> list[tuple[str, Verdict]]:
    """Eight misses of one or two tokens, in the bill or in the text, planted in long answers that are verified."""
    out = []
    for k, (where, by) in enumerate((w, b) for w in ("bill", "text") for b in (-2, -1, 1, 2)):
        source = rows[k].exchange
        body = json.loads(json.dumps(source.response))
        if where == "bill":
            body["usage"]["completion_tokens"] += by
            body["usage"]["total_tokens"] += by
        else:
            message = body["choices"][0]["message"]
            message["content"] = spoiled(message["content"], by)
            message.pop("reasoning_details", None)
        out.append((f"{where} {by:+}", judge(replace(source, response=body), kit())))
    return out


def spoiled(text: str, by: int) -> str:
    """The text with `by` tokens doubled (by > 0) or taken out (by < 0), at the first place from the middle on where the
    text then has `by` tokens more: elsewhere the neighbours merge.
    """
    vocab, ids = kit().vocab, kit().encode(text)
    for at in range(len(ids) // 2, len(ids) - 2):
        row = ids[:at] + ids[at - by :] if by < 0 else ids[: at + by] + ids[at:]
        new = vocab.decode(row).decode("utf-8", "replace")
        if "\ufffd" not in new and len(kit().encode(new)) == len(ids) + by:
            return new
    raise AssertionError("no place in this text changes its number of tokens")


def main(shared: Path | None) -> int:
    if shared is None:
        print("the optional folder of extra recordings is absent (TOKENPROOF_SHARED, default ../shared)")
        print(json.dumps(dict.fromkeys(FIGURES)))
        return 0
    rows, long_rows = load(shared / "real" / "responses.jsonl.gz"), load(shared / "real" / "long_responses.jsonl.gz")
    told = verdicts(rows, shipped_habits())
    print("shipped habits")
    table(told)
    crush, others = [r for r in rows if r.repo == CRUSH], [r for r in rows if r.repo != CRUSH]
    distinct = list({row.text: (row, verdict) for row, verdict in told}.values())
    whole = [r for r in long_rows if "openrouter.ai" in str(r.exchange.response) or is_openrouter(r)]
    long_told = verdicts(whole, shipped_habits())
    converted = verdicts([r for r in long_rows if r not in whole], shipped_habits())
    print("\nlong answers; the converted ones apart")
    table(long_told)
    table(converted)
    misses = planted(whole)
    for name, verdict in misses:
        print(f"  planted {name}: {verdict.name}, {reason(verdict)}")
    figures = (
        {"verified": share(told), "answers": len(told)},
        {"verified": share(plain_of_known(told)), "answers": len(plain_of_known(told))},
        crossed(rows, crush, "learned on crush"),
        crossed(rows, others, "learned on all others"),
        {"verified": share(distinct), "answers": len(distinct)},
        {"verified": share(long_told), "answers": len(long_told), "converted": share(converted)},
        f"{sum(v.name == 'rejected' for _, v in misses)} of {len(misses)}",
        blank_edges(told),
    )
    print(json.dumps(dict(zip(FIGURES, figures, strict=True))))
    return 0


def is_openrouter(row: Row) -> bool:
    """Whether a long answer came from OpenRouter as it is, not converted from a log."""
    return bool(str(row.exchange.response.get("id", "")).startswith("gen-")) and row.repo != "Sophanos/circulatio"


IN_QUOTES = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
INNER = re.compile(r"[^\s:,] (?!\s)")


def blank_edges(told: Iterable[tuple[Row, Verdict]]) -> dict[str, str]:
    """Per format, what its `blank_free` rests on: contents that begin with white space, and arguments that have it at
    an edge, or a single blank where no colon and comma is, at hosts that pass arguments as sampled.
    """
    n: Counter[str] = Counter()
    blank: Counter[str] = Counter()
    as_sampled = {h.provider for h in shipped_habits().lines if (h.trait, h.value) == ("argument_edges", "kept")}
    for row, verdict in told:
        turn = parse(row.exchange.response)
        texts = [("content_start", turn.content[:1])] if turn.content else []
        if verdict.provider in as_sampled:
            texts += [("argument_edges", c.arguments[:1] + c.arguments[-1:]) for c in turn.tool_calls]
            texts += [
                ("argument_inner", " " * bool(INNER.search(IN_QUOTES.sub("x", c.arguments)))) for c in turn.tool_calls
            ]
        for edge, text in texts if verdict.format else ():
            n[f"{verdict.format} {edge}"] += 1
            blank[f"{verdict.format} {edge}"] += any(map(str.isspace, text))
    return {name: f"{blank[name]} of {count}" for name, count in sorted(n.items())}


if __name__ == "__main__":
    sys.exit(main(shared_folder()))
