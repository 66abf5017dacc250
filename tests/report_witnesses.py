"""Recordings with their witnesses left in: `make witnesses`.

Answers that carry ids or sound logprobs should be `exact`, none with a wrong id; and where a reported id is changed,
dropped, doubled or moved, that must be noticed whenever it can be seen. The last line is one JSON object.
"""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.flow import judge
from harness.replay import replay_of
from harness.response import parse
from harness.types import Exchange, Turn, Verdict
from tests.conftest import shared_folder
from tests.corpus import Recorded, differs, kit, recordings

PLANTED = 400
SEED = 20261129


def judged(row: Recorded, exchange: Exchange) -> Verdict:
    """With the habits of the stack where they ship, with none elsewhere."""
    return judge(exchange, kit(), model="kimi-k2.5", provider=row.stack or "unknown")


def carries(turn: Turn) -> bool:
    """Whether a host told single tokens of this answer: ids, or bytes that each have one vocabulary entry."""
    told = turn.reported
    if told is None or told.ids is not None:
        return told is not None
    names = kit().vocab
    return told.token_bytes is not None and all(names.find(b) is not None or b[:1] in b"<[" for b in told.token_bytes)


def fatal(verdict: Verdict) -> str:
    """Why an answer is not exact."""
    return next((f.text[:110] for f in verdict.findings if f.fatal), verdict.name)


def with_ids(response: Any, ids: Sequence[int]) -> Any:
    """A copy of a whole body whose reported ids are these."""
    body = json.loads(json.dumps(response))
    choice = body["choices"][0]
    for key in ("token_ids", "response_token_ids"):
        if choice.get(key):
            choice[key] = list(ids)
    if (body.get("sglext") or {}).get("output_ids"):
        body["sglext"]["output_ids"] = list(ids)
    for entry in (choice.get("logprobs") or {}).get("content") or ():
        if str(entry.get("token", "")).startswith("token_id:"):
            entry["token"] = f"token_id:{ids[0]}"
    return body


def spoiled(ids: Sequence[int], how: str, rng: random.Random) -> list[int]:
    """The ids with one of them changed, dropped, doubled or moved."""
    row, k = list(ids), rng.randrange(len(ids))
    if how == "changed":
        row[k] = rng.randrange(163_584)
    elif how == "dropped":
        del row[k]
    elif how == "doubled":
        row.insert(k, row[k])
    else:
        row.insert(rng.randrange(len(row)), row.pop(k))
    return row


def planted(rows: Sequence[Recorded]) -> Iterator[tuple[str, bool, bool]]:
    """(how, whether it could be seen, whether it was noticed) of PLANTED spoiled reports.

    It can be seen where the number of ids changes, or the text that the ids show.
    """
    rng = random.Random(SEED)
    whole = [r for r in rows if isinstance(r.exchange.response, dict) and parse(r.exchange.response).reported]
    exact = [(r, turn) for r in whole if (turn := parse(r.exchange.response)).reported and turn.reported.ids]
    exact = [(r, turn) for r, turn in exact if judged(r, r.exchange).name == "exact"]
    for n in range(PLANTED):
        (row, turn), how = rng.choice(exact), ("changed", "dropped", "doubled", "moved")[n % 4]
        ids = spoiled(row.true_ids, how, rng)
        seen = len(ids) != len(row.true_ids) or differ(row, ids, turn)
        verdict = judged(row, replace(row.exchange, response=with_ids(row.exchange.response, ids)))
        yield how, seen, not (verdict.accepted and verdict.ids.ids == ids)


def differ(row: Recorded, ids: Sequence[int], turn: Turn) -> bool:
    """Whether the wire would show that these are other ids: by the stack's transformations where they are known."""
    replay = replay_of(row.stack, row.exchange.request, bool(row.exchange.thinking), kit().vocab)
    if replay is not None:
        return replay(list(ids)) != replay(row.true_ids)
    return shown(ids, turn) != shown(row.true_ids, turn)


def shown(ids: Sequence[int], turn: Turn) -> str:
    """What the wire shows of these ids: their decoded text without control ids, and without tool sections where no call
    came: the stack dropped them. Where calls came, without their headers' numbers, which hosts write anew.
    """
    vocab, text, inside = kit().vocab, b"", False
    for i in ids:
        inside = (inside or i in (163595, 163597)) and i != 163596
        if not vocab.is_control(i) and (turn.tool_calls or not inside):
            text += vocab.token_bytes(i)
    return re.sub(r":\d+", ":N", text.decode("utf-8", "replace"))


def main(shared: Path | None) -> int:
    """Prints the table and the figures."""
    if shared is None:
        print("the optional folder of extra recordings is absent (TOKENPROOF_SHARED, default ../shared)")
        print(json.dumps(dict.fromkeys(("carrying", "exact", "wrong", "planted", "noticed"))))
        return 0
    rows = list(recordings(shared))
    names: Counter[tuple[str, str]] = Counter()
    wrong, why = [], Counter[str]()
    for row in rows:
        verdict = judged(row, row.exchange)
        fault = differs(verdict, row.true_ids)
        wrong += [f"{row.exchange.name} {row.dialogue} {row.variant}: {fault}"] if fault else []
        turn = parse(row.exchange.response)
        if "@" in row.variant or turn.finish_reason == "length" or not carries(turn):
            continue
        names[row.server, verdict.name] += 1
        if verdict.name != "exact":
            why[f"{row.server} {row.dialogue}: {fatal(verdict)}"] += 1
    for (server, name), count in sorted(names.items()):
        print(f"  {server:18} {name:10} {count:5}")
    for text, count in why.most_common(60):
        print(f"    {count:3}  {text}")
    print(*wrong, sep="\n")
    cases = list(planted(rows))
    seen = [noticed for _, could, noticed in cases if could]
    exact, total = sum(c for (_, n), c in names.items() if n == "exact"), sum(names.values())
    figures = {
        "carrying": total,
        "exact": exact,
        "share": int(1000 * exact / total) / 1000,
        "wrong": len(wrong),
        "planted": len(seen),
        "noticed": sum(seen),
        "unseeable": len(cases) - len(seen),
        "unseeable_noticed": sum(noticed for _, could, noticed in cases if not could),
    }
    print(json.dumps(figures))
    return int(bool(wrong) or sum(seen) != len(seen))


if __name__ == "__main__":
    sys.exit(main(shared_folder()))
