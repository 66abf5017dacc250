"""runners.progress: what a run says at its end."""

import pytest

from runners.backoff import KINDS
from runners.progress import Stop


@pytest.mark.parametrize("why", ["done", "budget", "bill", "quality", "interrupted", "ledger", "data-set", *KINDS])
def test_only_a_run_that_is_done_ended_well(why: str) -> None:
    """Every other reason leaves prompts open."""
    assert Stop(why, "").good == (why == "done")
