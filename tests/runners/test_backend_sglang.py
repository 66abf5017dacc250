"""The SGLang back end, fed recorded answers over loopback; every trap is refused with its name."""

import gzip
import json
from array import array
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import ProviderError, SetupError
from tests.runners.hidden_standin import ALL_IDS, CONFIG, FLAGS, TRAPS, Trap, read_alone, recorded, servers

IDS = array("q", ALL_IDS)


def test_recorded_rows_come_as_they_were_sent(tmp_path: Path) -> None:
    """Every row in order: the last state as it is, the auxiliary one split into three layers of 64."""
    with servers() as pair:
        backend = pair.opened(tmp_path)
        (found,) = backend.states([IDS])
        backend.close()

    last, aux = torch.tensor(read_alone("last")), torch.tensor(read_alone("aux"))
    assert (last.shape, aux.shape) == ((36, 64), (36, 192))
    assert found.last.equal(last)
    assert found.aux.shape == (36, 3, 64)
    for k in range(3):
        assert found.aux[:, k].equal(aux[:, 64 * k : 64 * k + 64])
    assert (found.last_norm, found.last.dtype) == ("post", torch.float32)


def test_servers_are_asked_as_they_must_be(tmp_path: Path) -> None:
    """All ids as the prompt, one new token, greedily, states asked for; ids go in, never text."""
    with servers() as pair:
        pair.opened(tmp_path).states([IDS])
        asked = [[body for path, body in server.asked if path == "/generate"] for server in (pair.last, pair.aux)]

    expected = {
        "input_ids": ALL_IDS,
        "sampling_params": {"temperature": 0, "max_new_tokens": 1},
        "return_hidden_states": True,
    }
    assert asked == [[expected], [expected]]


def test_a_batch_keeps_its_order(tmp_path: Path) -> None:
    """Many under way at a time, each of another length, answered in any order."""
    lengths = [3, 36, 1, 20, 7, 36, 2, 11]
    with servers() as pair:
        found = pair.opened(tmp_path, concurrency=4).states([IDS[:n] for n in lengths])

    whole = torch.tensor(read_alone("last"))
    assert [len(one.last) for one in found] == lengths
    assert all(one.last.equal(whole[:n]) and len(one.aux) == n for one, n in zip(found, lengths, strict=True))


def test_states_are_kept_in_the_dtype_of_the_run(tmp_path: Path) -> None:
    """Rounded once, to nearest."""
    with servers() as pair:
        (found,) = pair.opened(tmp_path, dtype="bf16").states([IDS])
    assert found.last.equal(torch.tensor(read_alone("last")).bfloat16())


def test_facts_state_layers_style_and_what_is_proven(tmp_path: Path) -> None:
    """For the manifest: by value, beside what the server was started with."""
    flags = {"aux": {"return_aux_hidden_state_layer_ids": [1, 3, 5]}}
    with servers(flags=flags) as pair:
        facts = pair.opened(tmp_path, layers="2,4,6").facts

    assert (facts.backend, facts.version, facts.aux_layers, facts.last_norm) == ("sglang", "0.5.23", (2, 4, 6), "post")
    assert facts.told["aux_layer_ids"] == [1, 3, 5]
    assert facts.told["layer_style"].startswith("llama: id k is the output of layer k")
    assert facts.told["flags"]["aux"]["speculative_algorithm"] == "EAGLE3"
    assert facts.told["proven"] == "of every sample: prompt_tokens is T, cached_tokens 0, one element of T rows"
    assert facts.weights_sha256 is None


@pytest.mark.shared
def test_the_goldens_are_the_recordings(shared: Path) -> None:
    """The bodies that ship are those of the recordings, to the last digit."""
    for role, name in (("last", "full"), ("aux", "aux_eagle3")):
        with gzip.open(shared / f"recordings/hidden_states/hidden_states_{name}.json.gz") as file:
            told = json.load(file)
        assert recorded(role)["generate"] == {"prefill": told["prefill_only"], "cached": told["True_warm"]}


# --- traps in answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["last", "aux"])
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_trap_answers_are_refused(tmp_path: Path, role: str, trap: Trap) -> None:
    """Whichever of the two servers gives them; the message says which, and what to do where that is known."""
    with servers(**{role: lambda body: trap.answer(role, body)}) as pair:
        backend = pair.opened(tmp_path)
        with pytest.raises(ProviderError, match=trap.said) as caught:
            backend.states([IDS[: trap.n_ids]])
    assert f"({role})" in str(caught.value)


def test_rows_of_tokens_that_were_sampled_are_refused(tmp_path: Path) -> None:
    """A server that sampled on gives a row more for each; the first element alone would pass for the prompt's."""

    def sampled(body: Any) -> Any:
        body["meta_info"]["hidden_states"].append(body["meta_info"]["hidden_states"][0][0])
        return body

    with servers(last=sampled) as pair, pytest.raises(ProviderError, match="2 elements of states; expected one"):
        pair.opened(tmp_path).states([IDS])


def test_swapped_servers_are_refused(tmp_path: Path) -> None:
    """Where they tell nothing of themselves, by the width of the rows."""
    nothing = {"last": dict.fromkeys(FLAGS["last"], ...), "aux": dict.fromkeys(FLAGS["aux"], ...)}
    with servers(flags=nothing) as pair:
        pair.last, pair.aux = pair.aux, pair.last
        backend = pair.opened(tmp_path, aux_layer_ids="default")
        with pytest.raises(ProviderError, match=r"row 0 has (192 numbers; expected 64|64 numbers; expected 192)"):
            backend.states([IDS])


# --- traps in what a server was started with ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "flag", "value", "said"),
    [
        ("last", "disable_radix_cache", False, "start it with --disable-radix-cache"),
        ("aux", "disable_radix_cache", False, "start it with --disable-radix-cache"),
        ("last", "enable_return_hidden_states", False, "start it with --enable-return-hidden-states"),
        ("last", "enable_return_aux_hidden_states", True, "it replaces the last state"),
        ("aux", "enable_return_aux_hidden_states", False, "start it with --enable-return-aux-hidden-states"),
        ("aux", "speculative_algorithm", None, "start it with --speculative-algorithm EAGLE3"),
        ("aux", "dtype", "bfloat16", "not one model: dtype is 'float32' .last. and 'bfloat16' .aux."),
        ("last", "version", "0.5.22", "not one model: version is '0.5.22'"),
        ("aux", "model_path", "/home/jane/other", "not one model: model_path is"),
        ("aux", "return_aux_hidden_state_layer_ids", [1, 3, 5], r"gives layers \(2, 4, 6\), --layers asks for \(2, 4,"),
        ("aux", "return_aux_hidden_state_layer_ids", ["1"], "expected numbers or null"),
        ("aux", "return_aux_hidden_state_layer_ids", ..., "does not tell its layers .*--aux-layer-ids"),
    ],
)
def test_a_server_that_was_not_started_as_it_must_be_is_refused(
    tmp_path: Path, role: str, flag: str, value: Any, said: str
) -> None:
    """Before anything is asked of it; the message says what to type."""
    with servers(flags={role: {flag: value}}) as pair:
        with pytest.raises(SetupError, match=said):
            pair.opened(tmp_path)
        assert pair.last.n_asked("/generate") + pair.aux.n_asked("/generate") == 0


@pytest.mark.parametrize(
    ("tells", "said"),
    [
        ({"num_hidden_layers": 10}, "num_hidden_layers is 10, --model .* has 8"),
        ({"json_model_override_args": '{"num_hidden_layers": 4}'}, "num_hidden_layers is 4, --model .* has 8"),
        ({"hidden_size": 128}, "hidden_size is 128"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "serves 'Qwen3ForCausalLM', --model .* is a LlamaForCausalLM"),
        ("folder", "num_hidden_layers is 10, --model .* has 8"),
    ],
)
@pytest.mark.parametrize("role", ["last", "aux"])
def test_a_served_model_of_another_size_is_refused(tmp_path: Path, role: str, tells: Any, said: str) -> None:
    """By what it tells, or by the configuration in the folder that it serves, where that is here."""
    served = tmp_path / "served"
    served.mkdir()
    (served / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 10}))
    flags: Any = {role: tells}
    if tells == "folder":
        flags = {one: {"model_path": str(served)} for one in ("last", "aux")}
    with servers(flags=flags) as pair, pytest.raises(SetupError, match=said):
        pair.opened(tmp_path)


def test_how_the_number_of_layers_is_known_is_noted(tmp_path: Path) -> None:
    """Told by a server, or not: the manifest says which."""
    with servers(flags={"aux": {"num_hidden_layers": 8}}) as pair:
        told = pair.opened(tmp_path).facts.told["n_layers"]
    assert told == {"last": "not told by the server: taken from --model's config.json", "aux": "told by the server"}


def test_a_chunk_shorter_than_the_prompt_is_refused(tmp_path: Path) -> None:
    """Before it is asked: of 36 ids in chunks of 35 only the last row would come."""
    with servers(flags={"aux": {"chunked_prefill_size": 35}}) as pair:
        backend = pair.opened(tmp_path)
        assert len(backend.states([IDS[:35]])) == 1
        with pytest.raises(SetupError, match=r"prefills 35 ids at a time .* for 36 ids; .*--chunked-prefill-size -1"):
            backend.states([IDS[:3], IDS])
        assert pair.aux.n_asked("/generate") == 1


@pytest.mark.parametrize(
    ("lengths", "expected"), [((None, None), 4096), ((1000, 500), 499), ((9000, None), 4096), ((True, "x"), 4096)]
)
def test_the_longest_sample_is_what_all_three_take(tmp_path: Path, lengths: tuple[Any, Any], expected: int) -> None:
    """The model's positions, and each server's context with one id left for the token that is sampled."""
    flags = {role: {"context_length": n} for role, n in zip(("last", "aux"), lengths, strict=True)}
    with servers(flags=flags) as pair:
        assert pair.opened(tmp_path).facts.max_length == expected


@pytest.mark.parametrize("typed", ["default", None])
def test_one_server_for_both_is_refused(tmp_path: Path, typed: str | None) -> None:
    """Its auxiliary rows replace the last state."""
    with servers() as pair:
        pair.aux = pair.last
        with pytest.raises(SetupError, match="are one server"):
            pair.opened(tmp_path, aux_layer_ids=typed)


@pytest.mark.parametrize(
    ("flag", "typed", "layers", "said"),
    [
        (..., "default", "eagle3", ""),
        (..., "1,3,5", "2,4,6", ""),
        (..., "1,3,5", "eagle3", "gives layers"),
        (None, "default", "eagle3", ""),
        (None, "1,3,5", "2,4,6", "--aux-layer-ids 1,3,5, but the server says"),
        ([1, 3, 5], "1,3,5", "2,4,6", ""),
        (..., "one", "eagle3", "neither `default` nor numbers"),
    ],
)
def test_layer_ids_that_are_typed(tmp_path: Path, flag: Any, typed: str, layers: str, said: str) -> None:
    """They count where the server is silent, and must agree where it is not."""
    with servers(flags={"aux": {"return_aux_hidden_state_layer_ids": flag}}) as pair:
        if said:
            with pytest.raises(SetupError, match=said):
                pair.opened(tmp_path, aux_layer_ids=typed, layers=layers)
        else:
            assert pair.opened(tmp_path, aux_layer_ids=typed, layers=layers).facts.last_norm == "post"


def test_the_same_ids_are_other_layers_in_another_family(tmp_path: Path) -> None:
    """2, 4, 6 typed: layers 3, 5, 7 of a Llama, 2, 4, 6 of a DeepSeek."""
    flags = {"aux": {"return_aux_hidden_state_layer_ids": [2, 4, 6]}}
    with servers(flags=flags) as pair:
        with pytest.raises(SetupError, match=r"gives layers \(3, 5, 7\).*start it with .*layer-ids 1 3 5"):
            pair.opened(tmp_path, layers="2,4,6")
        deepseek = pair.opened(tmp_path, {"architectures": ["DeepseekV3ForCausalLM"]}, layers="2,4,6")
    assert deepseek.facts.aux_layers == (2, 4, 6)
    assert deepseek.facts.told["layer_style"].startswith("deepseek")
