"""What a bulk run says of itself while it goes on: frozen values, for whoever shows them.

Values only. Knows nothing of terminals.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run sends nothing more.

    Attributes:
        why: "done", "data-set" (done but for data sets that were stopped), "budget", "bill", "quality", "price-list",
            "interrupted", "input", "judge", "ledger", or the name of a kind in `backoff.KINDS`.
        text: What came and what to do, for a person.
    """

    why: str
    text: str

    @property
    def good(self) -> bool:
        """Whether everything that was asked for is there."""
        return self.why == "done"

    @property
    def lasting(self) -> bool:
        """Whether the same command, run again, would stop at once: something has to change first."""
        return self.why in ("budget", "quality", "price-list")


@dataclass(frozen=True, slots=True)
class SetProgress:
    """One data set.

    Attributes:
        n_ended: Prompts by their end: "answered" or a name of `backoff.ENDS`; earlier runs counted too.
        n_verdicts: Answers by their verdict.
        n_tokens: Completion tokens of all its answers, as billed.
        cost_nano: Of all its settled attempts, in this run.
        stopped: Why nothing more is asked of it, "" while it goes on.
    """

    n_ended: Mapping[str, int] = field(default_factory=dict)
    n_verdicts: Mapping[str, int] = field(default_factory=dict)
    n_tokens: int = 0
    cost_nano: int = 0
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class ProviderProgress:
    """One provider's answers in this run; `dropped` where too many were rejected."""

    n_answers: int = 0
    n_rejected: int = 0
    n_tokens: int = 0
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """The run at one moment.

    Attributes:
        at_s: On the run's clock, in seconds: differences count.
        sets: By the name of the data set, in the run's order.
        spent_nano, reserved_nano, cap_nano: Money over all resumes.
        in_flight: Requests under way; limit of them now; ceiling as the run file has it.
        waiting: Prompts that wait to be tried again; unjudged: answers that wait for the judge.
        held_s: Seconds until anything is sent again, 0 where nothing holds the run.
        n_requests: Sent in this run; failures: of these, by the kind of `backoff.KINDS`.
        findings: Codes of what speaks against answers of this run and how often.
        dropped_why: Of providers that were dropped, in this run or before; "" where none was.
        settling: Answers and failures whose cost is being asked for.
        stop: Why the run ends, None while it goes on.
    """

    at_s: float
    sets: Mapping[str, SetProgress]
    spent_nano: int
    reserved_nano: int
    cap_nano: int
    in_flight: int
    limit: int
    ceiling: int
    waiting: int = 0
    unjudged: int = 0
    held_s: float = 0.0
    n_requests: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    findings: Mapping[str, int] = field(default_factory=dict)
    providers: Mapping[str, ProviderProgress] = field(default_factory=dict)
    stop: Stop | None = None
    dropped_why: str = ""
    settling: int = 0


Watch = Callable[[Progress], None]
"""Is given the run a few times a second, and once at its end."""
