"""harness.transport: where a key may go."""

import pytest

from harness.errors import SetupError
from harness.transport import OPENROUTER, Target, target

KEY = "sk-made-up"
GOOD = [
    (None, KEY, (), OPENROUTER),
    ("https://openrouter.ai/api/v1/", KEY, (), OPENROUTER),
    ("http://127.0.0.1:8000/api/v1", KEY, (), "http://127.0.0.1:8000/api/v1"),
    ("http://localhost:8000", None, (), "http://localhost:8000"),
    ("http://[::1]:8000", None, (), "http://[::1]:8000"),
    ("https://proxy.example/v1", KEY, ("PROXY.example",), "https://proxy.example/v1"),
]
BAD = [
    ("https://openrouter.ai.example/api/v1", KEY, (), "--allow-host openrouter.ai.example"),
    ("https://proxy.example/v1", KEY, ("other.example",), "--allow-host proxy.example"),
    ("http://openrouter.ai/api/v1", KEY, (), "plain http goes to loopback only"),
    ("http://proxy.example", KEY, ("proxy.example",), "plain http goes to loopback only"),
    ("http://127.0.0.1.example", KEY, (), "plain http goes to loopback only"),
    ("https://sk-typed@openrouter.ai/api/v1", KEY, (), "no plain http"),
    ("https://openrouter.ai/api/v1?key=sk-typed", KEY, (), "no plain http"),
    ("ftp://openrouter.ai", KEY, (), "no plain http"),
    ("openrouter.ai/api/v1", KEY, (), "no plain http"),
    ("https://openrouter.ai:x/api", KEY, (), "expected one like"),
    (None, None, (), "OPENROUTER_API_KEY"),
    (None, "", (), "OPENROUTER_API_KEY"),
    (None, "sk-or\r\nx-evil: 1", (), "no header may carry"),
]


@pytest.mark.parametrize(("url", "key", "allowed", "expected"), GOOD)
def test_targets(url: str | None, key: str | None, allowed: tuple[str, ...], expected: str) -> None:
    """OpenRouter, loopback and hosts allowed by name are targets; loopback needs no key."""
    assert target(url, key, allowed) == Target(expected, key)


@pytest.mark.parametrize(("url", "key", "allowed", "said"), BAD)
def test_no_targets(url: str | None, key: str | None, allowed: tuple[str, ...], said: str) -> None:
    """Anything else is refused in words, and the words hold no key."""
    with pytest.raises(SetupError, match=said) as caught:
        target(url, key, allowed)
    assert "sk-or" not in str(caught.value)


def test_a_target_hides_its_key() -> None:
    """The key is in the header and nowhere else."""
    made = target(None, KEY)
    assert made.headers()["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in target("http://127.0.0.1:1", None).headers()
    assert KEY not in repr(made)
