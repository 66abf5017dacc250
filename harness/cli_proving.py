"""What `tokenproof extract` says of proof and of what is to come: the plan, agreement, spot checks.

Part of the command: it may print. The work is in `runners`, imported inside the functions.
"""

import json
from collections.abc import Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report
from harness.cli_backends import Typed
from harness.cli_base import finite

if TYPE_CHECKING:
    from runners.examining import Examiner
    from runners.extract_job import Job
    from runners.manifests import Manifest
    from runners.proof import Spot
    from runners.spot_check import SpotChecked
    from runners.states import Backend, Facts

AgreementOption = Annotated[
    bool, typer.Option("--agreement/--no-agreement", help="Hold the ids against the model's own argmax, by lm_head.")
]
MinAgreementOption = Annotated[
    float | None,
    typer.Option(
        "--min-agreement",
        metavar="X",
        min=0.0,
        max=1.0,
        help="Set samples aside that agree less (0 to 1).",
        callback=finite,
    ),
]
SpotOption = Annotated[
    int,
    typer.Option(
        "--spot-check", metavar="N", min=0, help="Compute N samples again, each alone; a shard that fails is put aside."
    ),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Say what it will take, and do nothing.")]
RateOption = Annotated[
    float | None,
    typer.Option("--rate", metavar="R", min=0.001, help="Tokens a second, for the hours of --plan.", callback=finite),
]


def examiner_typed(typed: Typed, backend: "Backend") -> "Examiner":
    """What looks at the states of this run.

    Raises:
        SetupError: --min-agreement, and no agreement can be had.
    """
    from runners.examining import Examiner, examiner

    if typed.agreement:
        device = getattr(backend, "device", typed.device)
        return examiner(typed.model, backend.facts, typed.min_agreement, device)
    return Examiner()


class Agreeing:
    """Sums what manifests say of agreement, over the samples that stayed."""

    def __init__(self) -> None:
        self._n, self._hits = 0, 0.0

    def add(self, manifest: "Manifest") -> None:
        """Count one shard."""
        for line in manifest.samples:
            if (found := line.get("agreement")) and found["share"] is not None:
                self._n += found["n"]
                self._hits += found["n"] * found["share"]

    @property
    def told(self) -> dict[str, Any]:
        """n ids compared, and the share of them that is the model's argmax; null for none."""
        return {"n": self._n, "share": self._hits / self._n if self._n else None}

    def __str__(self) -> str:
        return f"agreement {self._hits / self._n:.4f} of {self._n:,} ids" if self._n else ""


def spots_told(found: "SpotChecked") -> dict[str, Any]:
    """What the spot check found, for --json, which has no number for what is not finite: null."""
    return {
        "n": len(found.spots),
        "worst": _finite(max((spot.worst for spot in found.spots), key=_order, default=None)),
        "failed": [{"id": spot.id, "worst": _finite(spot.worst), "over": spot.over, "where": spot.where}
                   for spot in found.spots if not spot.holds],
        "set_apart": list(found.set_apart),
    }  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _order(value: float) -> float:
    return value if isfinite(value) else inf


def print_spots(spots: "Sequence[Spot]", dtype: str) -> None:
    """A line in all, and one for each sample that does not hold."""
    from runners.proof import TOLERANCES

    held, tolerance = sum(spot.holds for spot in spots), TOLERANCES[dtype]
    worst = max((spot.worst for spot in spots), key=_order, default=0.0)
    print(f"spot check: {held} of {len(spots)} samples hold; worst row {worst:.2g} off, {tolerance.row:g} allowed")
    for spot in spots:
        if not spot.holds:
            print(report.printable(f"  {spot.id}: {spot.where} is {spot.worst:.2g} off, {spot.over:.1%} of its rows"))


def print_plan(job: "Job", facts: "Facts", rate: float | None, as_json: bool) -> int:
    """The plan; gives the exit code: 1 where the disk does not hold it."""
    from runners.preflight import plan_job

    plan = plan_job(job, facts, rate)
    told, free = plan.survey, plan.free_bytes
    if as_json:
        counts = {"samples": told.samples, "tokens": told.tokens, "done": told.done, "over_long": told.over_long}
        counts["dropped"] = told.dropped
        size = {"state_bytes_per_token": plan.state_bytes_per_token, "n_bytes": plan.n_bytes, "files": plan.files}
        print(json.dumps({**counts, **size, "hours": plan.hours, "free_bytes": free, "fits": plan.fits}))
        return int(not plan.fits)
    over_long = f"{told.over_long:,} over-long, {told.dropped:,} of them left out"
    print(f"{told.samples:,} samples, {told.tokens:,} tokens; {told.done:,} stand there, {over_long}")
    print(
        f"{plan.n_bytes / 1e9:,.3f} GB in {plan.files:,} files: {plan.state_bytes_per_token:,} bytes a token of states"
    )
    hours = "unknown; --rate R tells" if plan.hours is None else f"{plan.hours:,.1f} at {rate:,.0f} tokens/s"
    print(f"hours: {hours}")
    room = "unknown" if free is None else f"{free / 1e9:,.3f} GB free"
    print(report.printable(f"{job.out}: {room}; {'it fits' if plan.fits else 'it does NOT fit'}"))
    return int(not plan.fits)
