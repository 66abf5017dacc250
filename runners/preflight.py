"""What can be refused before a model is loaded or a server asked: by its configuration, the samples and the folder.

The plan of a run comes of the same, so that it refuses what the run would. Shards that stand there are believed unread.
"""

from contextlib import suppress
from pathlib import Path

from harness.errors import SetupError
from runners.extract_job import Job, limits_of, refuse_moving, run_of
from runners.extract_plan import ExtractPlan, demand_room, free_bytes, state_bytes, survey
from runners.manifests import Manifest, read_manifest
from runners.model_folder import read_model_folder
from runners.out_folder import locked
from runners.sample_rows import read_samples
from runners.shards import manifests
from runners.standing import demand_run, done_of, outdated
from runners.state_layouts import check_layout, refuse_foreign
from runners.states import Facts, LastNorm, choose_layers

LATER = ("version", "weights_sha256", "told", "agreement", "max_length")
"""Members of a run that only the back end knows; the last where a server takes less than the model."""


def facts_before(
    folder: Path, backend: str, layers: str, dtype: str, last_norm: LastNorm, revision: str | None = None
) -> Facts:
    """What is known of a back end before there is one.

    Raises:
        SetupError: No such model or layers.
    """
    about = read_model_folder(folder)
    n_layers = about.number("num_hidden_layers")
    return Facts(
        backend=backend,
        version="",
        model=about.name,
        revision=revision or about.revision,
        architecture=about.architecture,
        config_sha256=about.config_sha256,
        weights_sha256=None,
        n_layers=n_layers,
        hidden_size=about.number("hidden_size"),
        vocab_size=about.number("vocab_size"),
        max_length=about.max_length,
        dtype=dtype,
        aux_layers=choose_layers(layers, n_layers),
        last_norm=last_norm,
    )


def plan_job(job: Job, facts: Facts, tokens_per_s: float | None) -> ExtractPlan:
    """What the job will take.

    Raises:
        SetupError: The run would be refused: its layout, its samples, or shards of another run that stand there.
    """
    check_layout(job.layout, facts)
    limits = limits_of(job, facts)
    size = state_bytes(len(facts.aux_layers), facts.hidden_size, facts.dtype)
    whole = listed(job.out)
    run = {key: value for key, value in run_of(job, facts, {}).items() if key not in LATER}
    for manifest in whole:
        demand_run({key: manifest.run[key] for key in run if key in manifest.run}, run, str(job.out))
    told = survey(read_samples(job.samples, facts.vocab_size), limits, done_of(whole))
    if told.changed:
        refuse_moving(job, told.changed)
        told = survey(read_samples(job.samples, facts.vocab_size), limits, done_of(outdated(whole, told.changed)[0]))
    return ExtractPlan(told, size, job.layout, tokens_per_s, free_bytes(job.out))


def refuse_early(job: Job, facts: Facts) -> None:
    """Whatever can be said against the run by now.

    Raises:
        SetupError: As `plan_job`, the disk does not hold the states, or the folder is somebody else's or in use.
    """
    if job.out.exists():
        with locked(job.out, job.layout) as held:
            if not held.known:
                refuse_foreign(job.layout, job.out)
    demand_room(plan_job(job, facts, None), job.out)


def listed(folder: Path) -> list[Manifest]:
    """The manifests of a folder, nothing else being read; one that is none is left out."""
    found: list[Manifest] = []
    for path in manifests(folder) if folder.is_dir() else ():
        with suppress(SetupError):
            found.append(read_manifest(path))
    return found
