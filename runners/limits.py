"""What a run asks of its endpoints beyond what they say that they do.

Pure. Knows nothing of budgets and of disks.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from harness.catalog import Endpoint
from runners.data_sets import Surveyed
from runners.runfile import RunFile

PER_MILLION = Decimal(1_000_000)


def limits(run: RunFile, surveyed: Sequence[Surveyed], endpoints: Sequence[Endpoint]) -> Iterator[str]:
    """Limits of the endpoints that requests of a run would break, a line each."""
    longest = max(surveyed, key=lambda told: told.longest)
    for e in endpoints:
        if e.max_completion_tokens is not None and run.max_tokens > e.max_completion_tokens:
            yield f"{e.tag} answers with at most {e.max_completion_tokens:,} tokens; max_tokens is {run.max_tokens:,}"
        if e.context_length is not None and longest.longest + run.max_tokens > e.context_length:
            yield (
                f"{e.tag} holds {e.context_length:,} tokens; the longest prompt of {longest.name} has "
                f"{longest.longest:,}, and max_tokens is {run.max_tokens:,}"
            )
        missing = _missing({*run.sampling, "max_tokens", "reasoning"}, e)
        if missing and run.provider.get("require_parameters"):
            yield f"{e.tag} does not take {missing}, and the run requires it: nobody would answer"


def unheard(run: RunFile, endpoints: Sequence[Endpoint]) -> Iterator[str]:
    """Sampling that endpoints do not list, a line each: without `require_parameters` they answer, and leave it out."""
    for e in endpoints:
        missing = _missing(set(run.sampling), e)
        if missing and not run.provider.get("require_parameters"):
            yield (
                f"{e.tag} does not list {missing}, and may answer without; `require_parameters = true` in [provider] "
                "keeps it from answering then"
            )


def _missing(asked: set[str], endpoint: Endpoint) -> str:
    """What of it an endpoint does not list; "" also where it lists nothing."""
    return ", ".join(sorted(asked - endpoint.supported_parameters)) if endpoint.supported_parameters else ""


def above_max_price(most: Mapping[str, Any], endpoints: Sequence[Endpoint]) -> Iterator[str]:
    """Prices above the block's max_price, which is in USD a million tokens, and USD a request."""
    for e in endpoints:
        for name, usd, of in (
            ("prompt", e.prompt_usd * PER_MILLION, "a million prompt tokens"),
            ("completion", e.completion_usd * PER_MILLION, "a million completion tokens"),
            ("request", e.request_usd, "a request"),
        ):
            if name in most and usd > Decimal(str(most[name])):
                yield f"{e.tag} takes ${usd:f} {of}, above max_price ${most[name]}"
