"""Hidden states of any causal language model in a local folder, by transformers; and random models for tests.

The owner of transformers. Nothing is downloaded: a model is a folder. Knows nothing of samples and shards.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from runners.tensors import dtype, seeded


def save_random(config: Mapping[str, Any], folder: Path, *, seed: int) -> None:
    """A model of this configuration with random weights, fp32, as a folder that loads like any other.

    Args:
        config: The values of a `config.json`; `model_type` says which architecture.
    """
    values = dict(config)
    made = AutoConfig.for_model(values.pop("model_type"), **values)
    with seeded(seed), _quiet():
        AutoModelForCausalLM.from_config(made, dtype=dtype("fp32")).save_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's own bars on stderr: the command has one of its own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
