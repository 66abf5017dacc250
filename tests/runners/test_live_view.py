"""runners.live_view: the same figures on a terminal and in a log, right to the number, and safe for both."""

import io
from dataclasses import replace
from typing import Any

import pytest

from runners.budget import NANO
from runners.live_view import Figures, LiveView, LogView, Planned, duration, figures, line
from runners.progress import Progress, ProviderProgress, SetProgress, Stop

PLANNED = {"a": Planned(100), "b": Planned(1000, tokens=4000)}


def moment(at_s: float = 0.0, a: int = 0, b: int = 0, **more: Any) -> Progress:
    """A run at a moment: answers of two data sets, each of 100 tokens and half a cent."""
    sets = {
        name: SetProgress({"answered": n} if n else {}, {"verified": n} if n else {}, 100 * n, 5_000_000 * n)
        for name, n in (("a", a), ("b", b))
    }
    spent = 5_000_000 * (a + b)
    return replace(Progress(at_s, sets, spent, 20_000_000, 3_000_000_000, 8, 16, 32), **more)


def test_nothing_is_said_before_there_is_an_answer() -> None:
    """No speed and no forecast from nothing."""
    told = figures(moment(), moment(5.0), PLANNED)

    assert told == Figures({"a": 0.0, "b": 0.0}, None, None, None, None)


def test_speed_and_forecast() -> None:
    """40 answers in 10 s; 60 prompts are left of a, and 40 - 20 of b by its target of tokens."""
    told = figures(moment(), moment(10.0, a=20, b=20), PLANNED)

    assert (told.tokens_per_s, told.answers_per_s) == (400.0, 4.0)
    assert told.share == {"a": 0.2, "b": 0.5}
    assert told.left_s == pytest.approx((80 + 20) / 4)
    assert told.forecast_usd == pytest.approx((40 + 80 + 20) * 0.005)


def test_a_resumed_run_forecasts_from_its_own_answers() -> None:
    """What earlier runs answered is done and paid, and says nothing of today's speed."""
    first = moment(100.0, a=50)
    today = {"a": replace(moment(a=60).sets["a"], cost_nano=10 * 7_000_000), "b": SetProgress(stopped="tokens")}
    now = replace(moment(110.0, a=60), sets=today, spent_nano=320_000_000)

    told = figures(first, now, PLANNED)

    assert (told.answers_per_s, told.left_s) == (1.0, 40.0)
    assert told.forecast_usd == pytest.approx(0.32 + 40 * 0.007)
    assert told.share == {"a": 0.6, "b": 1.0}


def test_a_line_tells_all() -> None:
    """Prompts, dollars, speed, verdicts, findings, failures, dropped hosts, holds and the end."""
    stop = Stop("quality", "every provider was dropped")
    dropped = {"Chutes": ProviderProgress(200, 20, 9, dropped=True), "Novita": ProviderProgress(3, 0, 1)}
    now = moment(
        10.0, a=20, findings={"bill-mismatch": 3, "lost-text": 7}, failures={"429": 2}, providers=dropped, held_s=2.0,
        waiting=4,
    )  # fmt: skip

    assert line(moment(), now, PLANNED) == (
        "20 of 1,100 prompts; $0.1000 of $3.00 ($0.0200 held, forecast $5.50); 8 of 16 in flight, 4 wait, "
        "200 tokens/s, 2.0 answers/s, 9 min left; verdicts verified 20; findings lost-text 7, bill-mismatch 3; "
        "failures 429 2; 20 answers left out of the samples; dropped Chutes 20; held for 2 s"
    )
    before = replace(now, providers={}, dropped_why="Chutes: 9 of its last 9 answers")
    assert "; dropped Chutes: 9 of its last 9 answers; " in line(moment(), before, PLANNED)
    ended = line(moment(), replace(now, stop=stop), PLANNED)
    assert ended.endswith("held for 2 s; stop: quality: every provider was dropped")
    assert "forecast" not in ended


def test_text_of_a_host_cannot_move_the_cursor() -> None:
    """Names and words from outside are printed as escapes."""
    nasty = {"\x1b[2J": ProviderProgress(1, 1, 1, dropped=True)}
    now = moment(1.0, a=1, providers=nasty, stop=Stop("bill", "x\r\ny"))

    assert not {"\x1b", "\r", "\n"} & set(line(moment(), now, PLANNED))
    screen = io.StringIO()
    with LiveView({"[red]\x1b[2J": Planned(1)}, screen, width=100) as view:
        view(replace(now, sets={"[red]\x1b[2J": now.sets["a"]}))
    assert "\x1b[2J" not in screen.getvalue()
    assert "[red]" in screen.getvalue()


def test_the_log_has_few_lines() -> None:
    """The first moment, one every ten seconds, the last."""
    lines: list[str] = []
    view = LogView(PLANNED, lines.append)
    for k in range(100):
        view(moment(k / 4, a=k))
    view(moment(25.1, a=100, stop=Stop("done", "")))

    assert [text.partition(" ")[0] for text in lines] == ["0", "40", "80", "100"]
    assert lines[-1].endswith("stop: done")


def test_a_run_that_drains_is_told_shortly() -> None:
    """When it stops sending, every ten seconds while the rest comes in, and when it has come."""
    lines: list[str] = []
    view, stop = LogView(PLANNED, lines.append), Stop("interrupted", "")
    view(moment())
    for k in range(100):
        view(moment(5 + k / 8, a=k, stop=stop))
    for k in range(3):
        view(moment(18 + k, a=100, stop=stop, in_flight=0))

    assert [text.partition(" ")[0] for text in lines] == ["0", "0", "80", "100"]


def test_the_terminal_shows_every_part() -> None:
    """Bars with their data sets, providers, dollars and speed; what was drawn last stays."""
    screen = io.StringIO()
    providers = {"Chutes": ProviderProgress(40, 1, 4000), "Novita": ProviderProgress(1, 1, 10, dropped=True)}
    with LiveView(PLANNED, screen, width=120) as view:
        view(moment())
        view(moment(10.0, a=20, b=20, providers=providers, findings={"lost-text": 1}, held_s=3.0))
        view(moment(11.0, a=20, b=20, providers=providers, stop=Stop("done", "all answered")))

    shown = screen.getvalue()
    for part in (
        "20 of 100, 2,000 tokens, $0.1000", "20 of 1,000, 2,000 of 4,000 tokens", "Chutes", "dropped", "━",
        "400 tokens/s", "findings lost-text 1", "held for 3 s", "forecast $0.70", "done: all answered",
    ):  # fmt: skip
        assert part in shown, part
    assert shown.rindex("all answered") > shown.rindex("tokens/s")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5000, "83 min"), (7200, "2.0 h")]
)
def test_durations(seconds: float, said: str) -> None:
    """In the unit that a person would use."""
    assert duration(seconds) == said


def test_the_last_line_has_every_cost() -> None:
    """While costs are asked for the log says so, and its last line comes when they are known."""
    lines: list[str] = []
    view, stop = LogView(PLANNED, lines.append), Stop("done", "")
    for n in (12, 3, 0):
        view(replace(moment(1.0, a=20, stop=stop), in_flight=0, settling=n, spent_nano=(12 - n) * NANO))

    assert len(lines) == 2
    assert "$0.0000 of $3.00" in lines[0]
    assert lines[0].endswith("; 12 costs asked for; stop: done")
    assert "$12.0000 of $3.00" in lines[1]
    assert "asked for" not in lines[1]
