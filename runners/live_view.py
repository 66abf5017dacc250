"""A bulk run for a person who watches: bars and sums on a terminal, plain lines in a log.

Fed with `Progress` values. The owner of rich in runners. Knows nothing of requests and of the ledger.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.report import printable
from runners.budget import NANO
from runners.progress import Progress, SetProgress, Stop

LOG_EVERY_S = 10.0
TOP = 5


@dataclass(frozen=True, slots=True)
class Planned:
    """What a data set asks for: its prompts, and the completion tokens after which it ends; None for no such target."""

    n_prompts: int
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What follows from two moments of a run; None where nothing can be said yet.

    Attributes:
        share: Of what was asked for, the part that is done, 0 to 1, by data set.
        forecast_usd: What the whole run will have cost at the end.
        left_s: Seconds until then.
    """

    share: Mapping[str, float]
    tokens_per_s: float | None
    answers_per_s: float | None
    forecast_usd: float | None
    left_s: float | None


def figures(first: Progress, now: Progress, planned: Mapping[str, Planned]) -> Figures:
    """Speed and forecast since `first`, the moment at which this run began."""
    elapsed_s = now.at_s - first.at_s
    tokens = sum(s.n_tokens for s in now.sets.values()) - sum(s.n_tokens for s in first.sets.values())
    ended = {name: _n_ended(s) - _n_ended(first.sets.get(name)) for name, s in now.sets.items()}
    n_ended = sum(ended.values())
    left = {name: _left(now.sets[name], planned[name]) for name in now.sets if name in planned}
    share = {name: _share(now.sets[name], planned[name], n) for name, n in left.items()}
    if elapsed_s <= 0 or not n_ended:
        return Figures(share, None, None, None, None)
    cost = {name: s.cost_nano for name, s in now.sets.items()}
    mean = sum(cost.values()) / n_ended
    more = sum(n * (cost[name] / ended[name] if ended[name] else mean) for name, n in left.items())
    rate = n_ended / elapsed_s
    return Figures(share, tokens / elapsed_s, rate, (now.spent_nano + more) / NANO, sum(left.values()) / rate)


def _n_ended(told: SetProgress | None) -> int:
    return sum(told.n_ended.values()) if told else 0


def _left(now: SetProgress, planned: Planned) -> float:
    """Prompts that are still to be asked; with a target of tokens, as many as it will take."""
    if now.stopped:
        return 0
    done = _n_ended(now)
    left = max(0, planned.n_prompts - done)
    if planned.tokens is None or not now.n_tokens:
        return left
    return min(left, max(0.0, planned.tokens - now.n_tokens) * done / now.n_tokens)


def _share(now: SetProgress, planned: Planned, left: float) -> float:
    done = _n_ended(now)
    return done / (done + left) if done + left else 1.0


def line(first: Progress, now: Progress, planned: Mapping[str, Planned]) -> str:
    """One moment on one line."""
    told = figures(first, now, planned)
    n_ended, n_all = sum(map(_n_ended, now.sets.values())), sum(p.n_prompts for p in planned.values())
    n_bad = sum(one.n_rejected for one in now.providers.values())
    gone = {name: p.n_rejected for name, p in now.providers.items() if p.dropped}
    parts = [
        f"{n_ended:,} of {n_all:,} prompts",
        money(now, told),
        speed(now, told),
        counts("verdicts", _verdicts(now)),
        counts("findings", now.findings),
        counts("failures", now.failures),
        f"{n_bad:,} answers left out of the samples" if n_bad else "",
        f"dropped {now.dropped_why}" if now.dropped_why else counts("dropped", gone),
        f"{now.settling:,} costs asked for" if now.settling else "",
        f"held for {now.held_s:.0f} s" if now.held_s > 0 else "",
        f"stop: {said(now.stop)}" if now.stop else "",
    ]
    return printable("; ".join(part for part in parts if part))


def said(stop: Stop) -> str:
    """Why a run ends, in words."""
    return f"{stop.why}: {stop.text}" if stop.text else stop.why


def money(now: Progress, told: Figures) -> str:
    """Dollars that are spent, held and forecast, of the cap."""
    forecast = "" if told.forecast_usd is None or now.stop else f", forecast ${told.forecast_usd:.2f}"
    return (
        f"${now.spent_nano / NANO:.4f} of ${now.cap_nano / NANO:.2f} (${now.reserved_nano / NANO:.4f} held{forecast})"
    )


def speed(now: Progress, told: Figures) -> str:
    """What is under way and how fast."""
    rates = ""
    if told.tokens_per_s is not None and told.answers_per_s is not None:
        rates = f", {told.tokens_per_s:,.0f} tokens/s, {told.answers_per_s:.1f} answers/s"
    left = "" if told.left_s is None or now.stop else f", {duration(told.left_s)} left"
    waits = f", {now.waiting} wait" if now.waiting else ""
    return f"{now.in_flight} of {now.limit} in flight{waits}{rates}{left}"


def duration(seconds: float) -> str:
    """Seconds for people."""
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def counts(name: str, found: Mapping[str, int]) -> str:
    """The commonest of them, most first; "" for none."""
    top = sorted(((-n, key) for key, n in found.items() if n))[:TOP]
    return f"{name} " + ", ".join(f"{key} {-n:,}" for n, key in top) if top else ""


def _verdicts(now: Progress) -> dict[str, int]:
    total: dict[str, int] = {}
    for told in now.sets.values():
        for name, n in told.n_verdicts.items():
            total[name] = total.get(name, 0) + n
    return total


class LogView:
    """Plain lines: at the start, every LOG_EVERY_S, when nothing more is sent, and when all of it has come in."""

    def __init__(self, planned: Mapping[str, Planned], write: Callable[[str], object]) -> None:
        self._planned, self._write = planned, write
        self._first: Progress | None = None
        self._told_s, self._stage = 0.0, 0

    def __call__(self, now: Progress) -> None:
        """Take one moment."""
        stage = 0 if now.stop is None else 2 if now.in_flight == now.unjudged == now.settling == 0 else 1
        new = self._first is None or stage > self._stage
        self._first, self._stage = self._first or now, stage
        if new or now.at_s - self._told_s >= LOG_EVERY_S:
            self._told_s = now.at_s
            self._write(line(self._first, now, self._planned))


class LiveView:
    """The terminal: redrawn with each moment, and left as it was at the end. Use it in a `with`."""

    def __init__(
        self, planned: Mapping[str, Planned], file: IO[str] | None = None, *, width: int | None = None
    ) -> None:
        self._planned = planned
        self._first: Progress | None = None
        console = Console(file=file, stderr=file is None, force_terminal=True, width=width)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> "LiveView":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # of a terminal that was closed
            self._live.stop()

    def __call__(self, now: Progress) -> None:
        """Take one moment; the first one begins the drawing."""
        self._first = self._first or now
        self._live.start()
        self._live.update(self.drawn(self._first, now), refresh=True)

    def drawn(self, first: Progress, now: Progress) -> Group:
        """What is shown."""
        told = figures(first, now, self._planned)
        words = [
            counts("verdicts", _verdicts(now)),
            counts("findings", now.findings),
            counts("failures", now.failures),
            f"held for {now.held_s:.0f} s" if now.held_s > 0 else "",
        ]
        lines = [money(now, told), speed(now, told), *filter(None, words)]
        end = [Text(printable(said(now.stop)), "green" if now.stop.good else "red")] if now.stop else []
        texts = (Text(printable(text), overflow="ellipsis", no_wrap=True) for text in lines)
        return Group(_bars(now, told, self._planned), _providers(now), *texts, *end)


def _bars(now: Progress, told: Figures, planned: Mapping[str, Planned]) -> Table:
    """A bar a data set."""
    table = Table.grid(padding=(0, 1))
    for name, one in now.sets.items():
        done, asked = _n_ended(one), planned.get(name, Planned(0))
        bar = ProgressBar(total=1.0, completed=told.share.get(name, 0.0), width=30)
        target = f" of {asked.tokens:,}" if asked.tokens else ""
        said = f"{done:,} of {asked.n_prompts:,}, {one.n_tokens:,}{target} tokens, ${one.cost_nano / NANO:.4f}"
        table.add_row(Text(printable(name)), bar, Text(printable(said + (f" - {one.stopped}" if one.stopped else ""))))
    return table


def _providers(now: Progress) -> Table:
    """A row a provider."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for header in ("provider", "answers", "rejected", "tokens", ""):
        table.add_column(header, justify="left" if header == "provider" else "right")
    for name, one in now.providers.items():
        cells = (printable(name), f"{one.n_answers:,}", f"{one.n_rejected:,}", f"{one.n_tokens:,}")
        table.add_row(*map(Text, cells), Text("dropped" if one.dropped else "", "red"))
    return table
