"""`tokenproof shards`: are the states on disk what was written, what is there, and one sample of it.

Part of the command: it may print. The work is in `runners`, imported inside the functions. Nothing of a file is
executed, and no torch is needed.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report
from harness.cli_base import JsonOption, clean_ends, complain
from harness.encoder import load_vocab
from harness.errors import SetupError
from harness.settings import settings

if TYPE_CHECKING:
    from runners.manifests import Manifest
    from runners.shard_reading import Found

shards = typer.Typer(
    name="shards",
    help="Hidden states on disk: verify them, list them, look at a sample.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FolderPath = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `tokenproof extract` wrote to.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a shard, and nothing else.")]
HEADERS = ("shard", "back end", "samples", "tokens", "bytes", "dtype and layers")


@shards.command()
def verify(folder: FolderPath, as_json: JsonLines = False) -> None:
    """Read every byte and hold it against the manifests: headers, counts, checksums, the ids and masks of each sample.

    And the folder against the list of what must stand there (contents.jsonl): every sample of the run, and every file
    of a trainer's data set.

    \b
    exit code 0  every shard is what was written, and all are there
              1  something is not, or is missing: named on its line
              2  wrong call, or no shard there

    \b
    examples:
      tokenproof shards verify states
      tokenproof shards verify states --json | jq -c 'select(.problems != []) | [.shard, .problems]'
    """
    with clean_ends():
        from runners.shard_reading import folder_problems, unfinished
        from runners.shard_reading import verify as checked

        seen, bad = [], 0
        with report.Progress(sys.stderr.isatty() and not sys.stdout.isatty()) as tick:
            for path, manifest, found in checked(folder):
                tick()
                seen.append((path, manifest, found))
                bad += bool(found)
                _print_checked(path.stem, manifest, found, as_json)
        between = list(folder_problems(folder, seen))
        for text in between:
            print(json.dumps({"shard": None, "problems": [text]}) if as_json else report.printable(f"bad   {text}"))
        for name in unfinished(folder):
            complain(f"{name} has no manifest: a run did not come to its end; it counts for nothing")
        if not as_json:
            n_samples = sum(len(manifest.samples) for _, manifest, _ in seen if manifest)
            print(f"{len(seen)} shards, {n_samples} samples: {bad} shards bad, {len(between)} faults between shards")
        raise typer.Exit(report.EXIT_REJECTED if bad or between else 0)


def _print_checked(name: str, manifest: "Manifest | None", found: list[str], as_json: bool) -> None:
    n_samples, n_tokens = (len(manifest.samples), manifest.n_tokens) if manifest else (0, 0)
    if as_json:
        print(json.dumps({"shard": name, "samples": n_samples, "tokens": n_tokens, "problems": found}))
        return
    print(report.printable(f"{'bad ' if found else 'good'}  {name}: {n_samples} samples, {n_tokens:,} tokens"))
    for text in found:
        print(f"      {report.printable(text)}")


@shards.command()
def ls(
    folder: FolderPath,
    samples: Annotated[bool, typer.Option("--samples", help="A line a sample.")] = False,
    as_json: JsonLines = False,
) -> None:
    """List the shards by their manifests, without reading the states.

    \b
    exit code 0  done
              1  a manifest cannot be read: named on stderr, the others are listed
              2  wrong call, or no shard there

    \b
    examples:
      tokenproof shards ls states
      tokenproof shards ls states --samples
      tokenproof shards ls states --json | jq '.run.layers'
    """
    with clean_ends():
        from runners.manifests import read_manifest
        from runners.shards import manifests

        rows, bad = [], 0
        if not (paths := manifests(folder)):
            raise SetupError(f"{folder}: no shard in it; expected files such as shard-000000.json")
        for path in paths:
            try:
                manifest = read_manifest(path)
            except SetupError as error:
                complain(str(error))
                bad += 1
                continue
            if as_json:
                told: dict[str, Any] = {"shard": path.stem, "run": manifest.run, "samples_file": manifest.samples_file}
                told |= {"samples": list(manifest.samples), "set_aside": list(manifest.set_aside)}
                print(json.dumps(told, ensure_ascii=False))
            elif samples:
                for line in manifest.samples:
                    counts = (
                        f"{line['n_tokens']} tokens, {line['n_prompt']} of the prompt, {line['n_unmasked']} unmasked"
                    )
                    print(report.printable(f"{path.stem}  {line['id']}: {counts}"))
            else:
                rows.append(_shard_row(path.stem, manifest))
        if rows:
            print(*report.plain_table(HEADERS, rows), sep="\n")
        if bad:
            raise typer.Exit(report.EXIT_REJECTED)


def _shard_row(name: str, manifest: "Manifest") -> tuple[str, ...]:
    run = manifest.run
    layers = (
        f"{run['dtype']}, {', '.join(map(str, run['layers']['aux']))} and {run['last_norm']} {run['layers']['last']}"
    )
    counts = (str(len(manifest.samples)), str(manifest.n_tokens), str(manifest.n_bytes))
    return (name, report.printable(str(run["backend"])), *counts, layers)


@shards.command()
def sample(
    folder: FolderPath,
    name: Annotated[str, typer.Argument(metavar="ID", help="Of the sample, as `ls --samples` lists it.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Its tensors as a safetensors file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show one sample: its ids with their pieces and mask, where its rows are, and the shapes of its states.

    \b
    exit code 0  done
              2  wrong call, no such sample, or one whose ids are not those of its hash

    \b
    examples:
      tokenproof shards sample states chat/17
      tokenproof shards sample states chat/17 --json | jq .input_ids
      tokenproof shards sample states chat/17 --out one.safetensors
    """
    with clean_ends():
        from runners.shard_reading import find_sample

        found = find_sample(folder, name)
        if out is not None:
            found.save(out)
        told = _sample_json(found)
        if as_json:
            print(json.dumps(told, ensure_ascii=False))
            return
        vocab = load_vocab(settings().vocab)
        print(report.printable(f"{name}: rows {told['rows'][0]} to {told['rows'][1]} of {told['shard']}"))
        for key, value in told["tensors"].items():
            print(f"{key}: {value['dtype']} {value['shape']}")
        for k, (token, mask) in enumerate(zip(found.ids, found.loss_mask, strict=True)):
            print(f"{k:>6}  {token:>6}  {mask}  {report.piece(vocab, token)}")


def _sample_json(found: "Found") -> dict[str, Any]:
    n_tokens = len(found.ids)
    return {
        **found.line,
        "shard": found.path.stem,
        "rows": [found.start, found.start + n_tokens],
        "side_file": found.side_file,
        "tensors": {c.name: {"dtype": c.dtype, "shape": list(c.shape)} for c in found.columns},
        "input_ids": list(found.ids),
        "loss_mask": list(found.loss_mask),
    }
