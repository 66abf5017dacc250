"""Verdicts for eyes and for programs: JSON rows, lines, tables, tokens in colour, progress.

Owns rich, which is imported only where a terminal looks at a table, at tokens or at progress: it costs as much time as
judging a hundred answers. Knows nothing of files and judges nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness.inputs import Entry
from harness.types import ORIGIN_NAMES, Origin, Verdict
from harness.vocab import Vocab

ANSI = {"exact": "\x1b[1;32m", "verified": "\x1b[32m", "unverified": "\x1b[33m", "rejected": "\x1b[31m", "": "\x1b[0m"}
EXIT_OK, EXIT_REJECTED, EXIT_UNUSABLE, EXIT_UNVERIFIED = 0, 1, 2, 3
HEADERS = ("model", "provider", "answers", "exact", "verified", "unverified", "rejected", "ids", "masked", "findings")
ORIGIN_STYLES = {
    Origin.REPORTED: "green",
    Origin.MATCHED: "cyan",
    Origin.TEMPLATE: "bold reverse magenta",
    Origin.CANONICAL: "default",
    Origin.INFERRED: "bold underline red",
}
SHADES = ("on grey15", "on grey27")  # neighbours differ, so that every token boundary can be seen
VISIBLE = {" ": "·", "\n": "↵\n", "\t": "⇥", "\r": "␍"}


def row(name: str, verdict: Verdict, habits_sha256: str) -> dict[str, Any]:
    """What `--json` says of one answer; loss_mask, origins and ids are of one length."""
    mask = verdict.loss_mask
    return {
        "name": name,
        "model": verdict.model,
        "provider": verdict.provider,
        "verdict": verdict.name,
        "ids": verdict.ids.ids,
        "origins": [ORIGIN_NAMES[o] for o in verdict.ids.origins],
        "loss_mask": mask,
        "n_ids": len(mask),
        "n_inferred": mask.count(0),
        "completion_tokens": verdict.completion_tokens,
        "premise": verdict.premise,
        "truncated": verdict.truncated,
        "witnesses": [{"witness": t.witness, "says": t.says, "reason": t.reason} for t in verdict.witnesses],
        "assumptions": list(verdict.assumptions),
        "findings": [{"code": f.code, "where": f.where, "text": f.text} for f in verdict.findings],
        "format": verdict.format,
        "thinking": verdict.thinking,
        "prompt": verdict.prompt,
        "habits_sha256": habits_sha256,
        "error": None,
    }


def trouble_row(entry: Entry, habits_sha256: str) -> dict[str, Any]:
    """The same keys for an input that is no answer: nothing known, `verdict` null, `error` says why."""
    unknown = row(entry.name, Verdict("rejected"), habits_sha256)
    return unknown | {"verdict": None, "prompt": None, "error": entry.trouble}


def printable(text: str) -> str:
    """Text of any origin, safe for a terminal: control characters and line breaks as escapes."""
    if text.isprintable():
        return text
    with suppress(UnicodeEncodeError):  # in the C locale a path comes byte for byte
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def line(name: str, verdict: Verdict, colour: bool) -> str:
    """One answer on one line."""
    said = f"{ANSI[verdict.name]}{verdict.name:<10}{ANSI['']}" if colour else f"{verdict.name:<10}"
    bill = "no bill" if verdict.completion_tokens is None else f"bill {verdict.completion_tokens}"
    mask = verdict.loss_mask
    parts = [f"{len(mask)} ids", bill] if verdict.accepted else [bill]
    if masked := mask.count(0):
        parts.append(f"{masked} masked")
    if verdict.premise:
        parts.append(f"premise {verdict.premise}")
    if verdict.truncated:
        parts.append("cut")
    return f"{said} {printable(f'{name}: ' + ', '.join(parts) + _why(verdict))}"


def _why(verdict: Verdict) -> str:
    """The first reason, shortly: a finding, else what a witness says; of an accepted answer its tags alone."""
    if verdict.accepted:
        tags = sorted({f.code for f in verdict.findings})
        return f" - {', '.join(tags)}" if tags else ""
    reasons = [f"{f.code}: {f.text}" for f in verdict.findings if f.fatal]
    reasons = reasons or [f"{t.witness}: {t.reason}" for t in verdict.witnesses if t.says != "supports"]
    more = f" (+{len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f" - {reasons[0][:160]}{more}" if reasons else ""


@dataclass(slots=True)
class Tally:
    """What a run has seen, per (model, provider)."""

    groups: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    n_unusable: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one verdict."""
        key = (printable(verdict.model or "?"), printable(verdict.provider or "?"))
        group = self.groups.setdefault(key, Counter())
        group.update(("answers", verdict.name))
        group["ids"] += len(verdict.ids.ids)
        group["masked"] += verdict.ids.origins.count(Origin.INFERRED)
        group.update({f"!{f.code}" for f in verdict.findings})

    @property
    def exit_code(self) -> int:
        """2: an input was unusable; 1: an answer rejected; 3: one unverified; 0: all exact or verified."""
        if self.n_unusable:
            return EXIT_UNUSABLE
        seen: Counter[str] = sum(self.groups.values(), Counter())
        return EXIT_REJECTED if seen["rejected"] else EXIT_UNVERIFIED if seen["unverified"] else EXIT_OK

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells, a row a group; `findings` names the commonest three."""
        found = []
        for key, group in sorted(self.groups.items()):
            codes = sorted(((-n, code[1:]) for code, n in group.items() if code[0] == "!"))[:3]
            cells = [str(group[name]) for name in HEADERS[2:-1]]
            found.append((*key, *cells, ", ".join(f"{code} {-n}" for n, code in codes)))
        return found


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns for anything that is no terminal; the first two to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for cells in (headers, *rows):
        sides = (c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(cells[:-1], widths, strict=False)))
        yield f"{'  '.join(sides)}  {cells[-1]}".rstrip()


def rich_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The same table on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    for k, header in enumerate(headers):
        table.add_column(header, justify="right" if 2 <= k < len(headers) - 1 else "left")
    for cells in rows:
        table.add_row(*map(Text, cells))  # Text: no cell is read as markup
    Console().print(table)


def token_rows(verdict: Verdict, vocab: Vocab) -> Iterator[str]:
    """A token a line: place, id, origin, piece."""
    for k, (token, origin) in enumerate(zip(verdict.ids.ids, verdict.ids.origins, strict=True)):
        yield f"{k:>6}  {token:>6}  {ORIGIN_NAMES[origin]:<9}  {piece(vocab, token)}"


def piece(vocab: Vocab, token: int) -> str:
    """A control id's name; of any other id the bytes as Python writes them, text where they are text."""
    if vocab.is_control(token):
        return vocab.control_name(token)
    data = vocab.token_bytes(token)
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)


def coloured_tokens(verdict: Verdict, vocab: Vocab) -> None:
    """The answer as running text on a terminal: a shade a token, a colour an origin, control ids with their number."""
    from rich.console import Console
    from rich.text import Text

    text = Text()
    for k, (token, origin) in enumerate(zip(verdict.ids.ids, verdict.ids.origins, strict=True)):
        style = f"{ORIGIN_STYLES[Origin(origin)]} {SHADES[k % 2]}"
        text.append(f" {token} {piece(vocab, token)} " if vocab.is_control(token) else seen(vocab, token), style)
    text.append("\n\norigins: ")
    for o in sorted(set(verdict.ids.origins)):
        text.append(ORIGIN_NAMES[o], ORIGIN_STYLES[Origin(o)]).append("  ")
    Console(force_terminal=True, color_system="256").print(text, soft_wrap=True)  # the caller has decided for colour


def seen(vocab: Vocab, token: int) -> str:
    """A token as running text: blanks that can be seen, line breaks that break, anything else unprintable escaped."""
    text = vocab.token_bytes(token).decode("utf-8", "backslashreplace")
    return "".join(VISIBLE.get(c) or (c if c.isprintable() else ascii(c)[1:-1]) for c in text)


def reasons(verdict: Verdict) -> Iterator[str]:
    """All that speaks for or against, a line each; for a rejected answer the first contradiction comes first."""
    against = [t for t in verdict.witnesses if t.says == "contradicts"]
    if against and not verdict.accepted:
        yield f"reading and witness part at: {printable(against[0].reason)} ({against[0].witness})"
    for f in verdict.findings:
        where = f" in {f.where}" if f.where else ""
        yield printable(f"finding {f.code}{where}: {f.text}")
    for t in verdict.witnesses:
        yield printable(f"witness {t.witness} {t.says}: {t.reason}")
    if verdict.assumptions:
        yield "assumed: " + ", ".join(verdict.assumptions)


class Progress:
    """A counter on stderr for a person who waits: call it once an answer, or once for each of `what`; it shows itself
    after the first second."""

    def __init__(self, enabled: bool, clock: Callable[[], float] = time.monotonic, *, what: str = "answers") -> None:
        self.n, self._what = 0, what
        self._clock = clock
        self._shown_from = clock() + 1 if enabled else float("inf")
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        return self

    def __call__(self) -> None:
        """One more answer."""
        self.n += 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.n)
        elif self._clock() > self._shown_from:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + self._what), TimeElapsedColumn())
            console = Console(stderr=True, force_terminal=True)
            # rich would take over stdout too, and rows meant for a file would land on the terminal
            self._bar = Progress(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._bar.add_task("", total=None, completed=self.n)
            self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def throughput(tokens: int, total: int, n_bytes: int, elapsed_s: float) -> str:
    """How far a run of `total` tokens is, how fast, and the time to its end; empty before anything was done."""
    if not tokens or elapsed_s <= 0:
        return ""
    eta_s = round((total - tokens) * elapsed_s / tokens)
    clock = f"{eta_s // 3600}:{eta_s // 60 % 60:02}:{eta_s % 60:02}"
    rate = f"{tokens / elapsed_s:,.0f} tokens/s, {n_bytes / elapsed_s / 1e9:.3f} GB/s"
    return f"{tokens:,} of {total:,} tokens, {rate}, {clock} to go"


class Throughput:
    """A bar on stderr for a person who waits; elsewhere a plain line now and then. Call it with what was done."""

    EVERY_S = 30.0

    def __init__(
        self, total: int, bar: bool, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tokens = self.n_bytes = 0
        self._total, self._say, self._clock = total, say, clock
        self._start = self._said = clock()
        self._bar: Any = _throughput_bar(total) if bar else None

    def __call__(self, tokens: int, n_bytes: int) -> None:
        """So many tokens and bytes more."""
        self.tokens, self.n_bytes = self.tokens + tokens, self.n_bytes + n_bytes
        now = self._clock()
        said = throughput(self.tokens, self._total, self.n_bytes, now - self._start)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.tokens, said=said)
        elif now - self._said >= self.EVERY_S:
            self._said = now
            self._say(said)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def _throughput_bar(total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True, force_terminal=True)
    bar = Progress(
        *(BarColumn(), TextColumn("{task.fields[said]}")),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=total, said=f"0 of {total:,} tokens")
    bar.start()
    return bar
