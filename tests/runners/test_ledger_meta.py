"""runners.ledger_meta: what a ledger says of its run is what a run writes, or damage."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners import ledger_meta
from runners import ledger_writes as w
from runners.ledger import Ledger
from runners.summary import Asked
from tests.runners.ledger_kit import made


def test_values_come_back(tmp_path: Path) -> None:
    """As they were written; a ledger that does not say has none."""
    with made(tmp_path) as ledger:
        nothing = ledger_meta.asked(ledger), ledger_meta.price(ledger), ledger_meta.dropped(ledger)
        assert nothing == ({}, {}, [])
        asked = '{"a": {"n_prompts": 5, "tokens": null}, "b": {"n_prompts": 2, "tokens": 99}}'
        ledger.commit([w.meta(asked=asked, price='{"prompt": "0.0000006"}', dropped='["Chutes"]')])
        assert ledger_meta.asked(ledger) == {"a": Asked(5), "b": Asked(2, 99)}
        assert ledger_meta.price(ledger) == {"prompt": "0.0000006"}
        assert ledger_meta.dropped(ledger) == ["Chutes"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("asked", text) for text in ('{"a"', "[]", '{"a": 1}', '{"a": {"N_prompts": 1}}', '{"a": {}}')),
        *(("asked", text) for text in ('{"a": {"n_prompts": "1"}}', '{"a": {"n_prompts": 1, "tokens": true}}')),
        *(("price", text) for text in ("", "7", '{"prompt": "0.x"}', '{"prompt": null}', '{"prompt": "NaN"}')),
        *(("dropped", text) for text in ("{}", '["a", 1]', "[" * 100_000)),
    ],
)
def test_what_no_run_writes_is_damage(tmp_path: Path, key: str, text: str) -> None:
    """Told by the file and the word, whatever stands there."""
    read: dict[str, Callable[[Ledger], object]] = {
        "asked": ledger_meta.asked,
        "price": ledger_meta.price,
        "dropped": ledger_meta.dropped,
    }
    with made(tmp_path) as ledger:
        ledger.commit([w.meta(**{key: text})])
        said = rf"ledger\.sqlite3: what it says of its run \({key}\) cannot be read: .*the file is damaged"
        with pytest.raises(SetupError, match=said):
            read[key](ledger)
