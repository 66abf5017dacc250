"""Every cassette that ships, through the plugin as a user's suite has it."""

from collections.abc import Callable

from harness.recording import Recording
from harness.scrub import leaks
from harness.types import Verdict


def test_every_cassette_is_safe(every_cassette: Recording, judge: Callable[..., Verdict]) -> None:
    """It says where it came from, holds no secret, stands where its provider is, and no hand-made one is believed."""
    origin = every_cassette.provenance
    assert origin.kind != "unstated"
    assert [leaks(one) for one in every_cassette.interactions] == [()] * len(every_cassette.interactions)
    if origin.scenario:
        assert every_cassette.name == f"{origin.provider.partition('/')[0]}/{origin.scenario}"
    assert origin.kind != "hand-made" or not judge(every_cassette).accepted
