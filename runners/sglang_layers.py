"""SGLang's numbers of layers, translated into layers by value (`runners.states`).

Its default takes the input of layers 2, L//2 and L-3 in every model, which is the output of as many layers. Numbers
that are typed mean something else, and not the same in every model: measured for a Llama of 8 layers, where 1, 3, 5
gave the output of 2, 4 and 6 layers; for DeepSeek-V2 style models, of which K2.5 is one, read from SGLang 0.5.23.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.errors import SetupError
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
