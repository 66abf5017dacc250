"""What `make bench-extract` rests on: the batches that it times are those that a run computes."""

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from runners.backend_transformers import TransformersBackend
from runners.examining import Examiner
from tests import report_bench_extract as bench
from tests.runners.states_kit import samples_file, tiny


def test_the_bare_loop_has_the_batches_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ids together in the same order, forward for forward."""
    seen: list[list[array[int]]] = []
    forward = TransformersBackend._forward

    def spying(self: TransformersBackend, batch: "Sequence[array[int]]") -> object:
        seen.append(list(batch))
        return forward(self, batch)

    samples = bench.made(12)
    for sample in samples:
        sample.ids[:] = array("q", (i % 500 for i in sample.ids))
    backend = TransformersBackend(tiny("llama"), bench.Loading(dtype="fp32", batch_tokens=bench.BATCH_TOKENS))
    file = samples_file(tmp_path / "s.parquet", samples)
    run = bench.Run(tmp_path, tiny("llama"), file, backend)
    monkeypatch.setattr(TransformersBackend, "_forward", spying)

    bench.done(run, "out", Examiner())

    assert seen == run.batches()
    assert len(seen) > 3
