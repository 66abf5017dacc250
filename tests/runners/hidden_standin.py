"""Two SGLang servers on loopback sockets: one gives last states, one auxiliary ones.

The bodies of `/generate` are recorded ones (golden/sglang-0.5.23-hidden-states). Made by hand: what `/v1/models` and
`/get_server_info` tell, and every body that a test changes or cuts.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.backend_sglang import Asking, SGLangBackend
from tests.conftest import ROOT
from tests.runners.standin import StandIn, serving

Json = dict[str, Any]
Change = Callable[[Json], Any]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 8, "hidden_size": 64,
    "vocab_size": 163_840, "max_position_embeddings": 4096,
}  # fmt: skip
FLAGS: Mapping[str, Json] = {
    "last": {"disable_radix_cache": True, "chunked_prefill_size": -1, "enable_return_hidden_states": True},
    "aux": {
        "disable_radix_cache": True,
        "chunked_prefill_size": 8192,
        "enable_return_aux_hidden_states": True,
        "speculative_algorithm": "EAGLE3",
        "return_aux_hidden_state_layer_ids": None,
    },
}


def recorded(role: str) -> Json:
    """The golden of a role: prompt_ids, true_ids, and the bodies `prefill` and `cached`."""
    value: Json = json.loads((ROOT / f"golden/sglang-0.5.23-hidden-states/{role}.json").read_bytes())
    return value


def read_alone(role: str, body: str = "prefill") -> list[list[float]]:
    """The rows of a recorded body, by the simplest reading there is."""
    rows: list[list[float]] = recorded(role)["generate"][body]["meta_info"]["hidden_states"][0]
    return rows


ALL_IDS: list[int] = recorded("last")["prompt_ids"] + recorded("last")["true_ids"]


def body_for(role: str, ids: list[int]) -> Json:
    """What a sound server says of the first ids of the recorded sequence: causal, so the recorded rows, cut by hand."""
    body: Json = copy.deepcopy(recorded(role)["generate"]["prefill"])
    assert ids == ALL_IDS[: len(ids)]
    meta = body["meta_info"]
    meta["prompt_tokens"], meta["hidden_states"] = len(ids), [meta["hidden_states"][0][: len(ids)]]
    return body


def _meta(**changes: Any) -> Change:
    def change(body: Json) -> Json:
        body["meta_info"].update(changes)
        return body

    return change


def _rows(change: Callable[[list[Any]], list[Any]]) -> Change:
    def changed(body: Json) -> Json:
        states = body["meta_info"]["hidden_states"]
        states[0] = change(states[0])
        return body

    return changed


@dataclass(frozen=True, slots=True)
class Trap:
    """An answer that must be refused.

    Attributes:
        change: Of a sound body, by hand; None for the body that was recorded with 14 of 15 ids in the cache.
        said: What the error says, as a pattern.
        n_ids: How many ids are asked for.
    """

    name: str
    change: Change | None
    said: str
    n_ids: int = 36

    def answer(self, role: str, body: Json) -> Any:
        """What the server of this role sends."""
        return self.change(body) if self.change else recorded(role)["generate"]["cached"]


CUT = "those of cached ids and all chunks but the last are missing: start it with --disable-radix-cache"
TRAPS = (
    Trap("cached rows, recorded", None, "14 of 15 ids came from its cache.*--disable-radix-cache", 15),
    Trap(
        "cached rows, count not told", lambda _: _meta(cached_tokens=None)(_cached()), f"1 rows for 15 ids; {CUT}", 15
    ),
    Trap("last chunk only", _rows(lambda rows: rows[-4:]), f"4 rows for 36 ids; {CUT}"),
    Trap("one row less", _rows(lambda rows: rows[:-1]), "35 rows for 36 ids"),
    Trap("one row more", _rows(lambda rows: [*rows, rows[-1]]), "37 rows for 36 ids"),
    Trap("no row", _rows(lambda rows: []), "0 rows for 36 ids"),
    Trap("ragged", _rows(lambda rows: [*rows[:5], rows[5][:-1], *rows[6:]]), r"row 5 has \d+ numbers; expected"),
    Trap("null row", _rows(lambda rows: [*rows[:5], None, *rows[6:]]), "row 5 has NoneType numbers"),
    Trap("text", _rows(lambda rows: [["x"] * len(rows[0]), *rows[1:]]), "states that are no numbers"),
    Trap("nulls", _rows(lambda rows: [[None] * len(rows[0]), *rows[1:]]), "states that are no numbers"),
    Trap("prompt cut", _meta(prompt_tokens=35), "it read 35 ids, 36 were sent"),
    Trap("cached ids told", _meta(cached_tokens=3), "3 of 36 ids came from its cache"),
    Trap("max_new_tokens 0", _meta(hidden_states=[]), "0 elements of states"),
    Trap("states not enabled", _meta(hidden_states=None), "no meta_info.hidden_states; start the server with"),
    Trap("error body", lambda body: {"error": "invalid type"}, "no meta_info.hidden_states"),
    Trap("no object", lambda body: (200, b"[]"), "no meta_info.hidden_states"),
)
"""All but the first are made by hand."""


def _cached() -> Json:
    """The recorded cached body of the last states, cut to its prompt's element."""
    body: Json = recorded("last")["generate"]["cached"]
    body["meta_info"]["hidden_states"] = body["meta_info"]["hidden_states"][:1]
    return body


@dataclass
class Pair:
    """Both servers."""

    last: StandIn
    aux: StandIn

    def opened(self, folder: Path, config: Json | None = None, **how: Any) -> SGLangBackend:
        """The back end over both; `folder` gets the model's configuration."""
        (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
        return SGLangBackend(folder, Asking(self.last.url, self.aux.url, **{"dtype": "fp32", **how}))


@contextmanager
def servers(
    last: Change | None = None, aux: Change | None = None, flags: Mapping[str, Json] | None = None
) -> Iterator[Pair]:
    """Both servers; `last` and `aux` change a body before it is sent, `flags` what they tell of themselves."""
    made = []
    for role, change in (("last", last), ("aux", aux)):
        told = {"model_path": "/home/jane/small", "dtype": "float32", "version": "0.5.23", **FLAGS[role]}
        told |= (flags or {}).get(role, {})
        told = {key: value for key, value in told.items() if value is not ...}

        def generate(asked: Json, role: str = role, change: Change | None = change) -> Any:
            body = body_for(role, asked["input_ids"])
            return change(body) if change else body

        faults = {"/get_server_info": lambda _, told=told: told, "/generate": generate}
        made.append(StandIn([], faults=faults))  # type: ignore[arg-type]
    with serving(made[0]), serving(made[1]):
        yield Pair(*made)
