"""SGLang's numbers of layers, translated into layers by value (`runners.states`).

Its default takes the input of layers 2, L//2 and L-3 in every model, which is the output of as many layers. Numbers
that are typed mean something else, and not the same in every model: measured for a Llama of 8 layers, where 1, 3, 5
gave the output of 2, 4 and 6 layers; for DeepSeek-V2 style models, of which K2.5 is one, read from SGLang 0.5.23.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, SetupError
from harness.response import loads
from runners.model_folder import ModelFolder, read_model_folder
from runners.states import eagle3_layers

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Style:
    """How one family of models reads `--return-aux-hidden-state-layer-ids`.

    Attributes:
        taken: Typed ids -> layers by value.
    """

    name: str
    text: str
    taken: Callable[[Ids], Ids]


LLAMA = Style("llama", "llama: id k is the output of layer k, counted from 0: k + 1", lambda ids: _more(ids))
DEEPSEEK = Style(
    "deepseek",
    "deepseek: id k is the input of layer k; all one more where the first is 1",
    lambda ids: _more(ids) if ids[0] == 1 else ids,
)
STYLES: Mapping[str, Style] = {
    "LlamaForCausalLM": LLAMA,
    "DeepseekV2ForCausalLM": DEEPSEEK,
    "DeepseekV3ForCausalLM": DEEPSEEK,
    "KimiK25ForConditionalGeneration": DEEPSEEK,
}


def _more(ids: Ids) -> Ids:
    return tuple(k + 1 for k in ids)


def style_of(architecture: str) -> Style:
    """The style of an architecture, as config.json names it.

    Raises:
        SetupError: Nobody has looked at it.
    """
    if architecture not in STYLES:
        raise SetupError(
            f"how SGLang numbers the layers of {architecture} is not known (known: {', '.join(STYLES)}); use its "
            "default with --layers eagle3"
        )
    return STYLES[architecture]


def layers_taken(style: Style | None, ids: Ids | None, n_layers: int) -> Ids:
    """The layers by value that a server gives which was started with these ids; None for its default."""
    return style.taken(ids) if style and ids else eagle3_layers(n_layers)


def layer_ids_for(style: Style, layers: Ids, n_layers: int) -> str:
    """What to type so that a server gives these layers.

    Raises:
        SetupError: Nothing gives them.
    """
    if layers == eagle3_layers(n_layers):
        return "no --return-aux-hidden-state-layer-ids"
    for ids in (tuple(k - 1 for k in layers), layers):
        if style.taken(ids) == layers:
            return f"--return-aux-hidden-state-layer-ids {' '.join(map(str, ids))}"
    raise SetupError(f"no ids make SGLang give layers {layers} of a model of the style {style.text}")


DEPTH = ("num_hidden_layers", "hidden_size", "vocab_size")
UNTOLD = "not told by the server: taken from --model's config.json"


def depth_told(url: str, info: Mapping[str, Any], about: ModelFolder) -> str:
    """Hold the served model against --model's configuration; gives how its number of layers is known.

    A server tells it seldom: in an override of the configuration, or by its model_path, where that is a folder here.

    Raises:
        SetupError: The server serves a model of another architecture or size.
    """
    served, how = {**info, **_overrides(info)}, "told by the server"
    if "num_hidden_layers" not in served:
        config = _config_at(info.get("model_path"))
        served, how = {**config, **served}, "of config.json in the served model_path" if config else UNTOLD
    for key in DEPTH:
        if type(served.get(key)) is int and served[key] != about.number(key):
            raise SetupError(
                f"{url} serves a model whose {key} is {served[key]}, --model {about.path} has {about.number(key)}; "
                "give the folder of the model that is served"
            )
    kinds = info.get("architectures")
    if isinstance(kinds, list) and kinds and about.architecture not in kinds:
        raise SetupError(f"{url} serves {kinds[0]!r:.80}, --model {about.path} is a {about.architecture}")
    return how


def _overrides(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `--json-model-override-args` put in the place of values of the configuration."""
    text = info.get("json_model_override_args")
    try:
        value = loads(text.encode()) if isinstance(text, str) else {}
    except HarnessError:
        return {}
    return value if isinstance(value, dict) else {}


def _config_at(path: Any) -> Mapping[str, Any]:
    """The configuration in a folder of this machine, by the absolute path that a server named; {} for none."""
    try:
        here = isinstance(path, str) and Path(path).is_absolute()
        return read_model_folder(path).config if here else {}
    except (SetupError, ValueError):
        return {}
