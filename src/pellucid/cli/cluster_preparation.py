"""`pellucid prepare --cluster`: the corpora of a run, each prepared by a worker of a cluster."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.cluster_work import SilentAccount, plan_workers, run_on_cluster
from pellucid.cli.files import write_lines
from pellucid.store.atomic import MANIFEST

if TYPE_CHECKING:
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work
    from pellucid.training.config import RunConfig


def prepare_on_cluster(run: "RunConfig", folder: Path, numbers: range | None, options: Mapping[str, Any]) -> None:
    """Prepare the corpora of a run, or some of them, each into a directory of its own inside a folder.

    Raises ValueError for a folder that holds shards itself, and for all that one process refuses.
    """
    from pellucid.cluster.made_files import forget_changed_files
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.parts import Work
    from pellucid.cluster.results import fingerprint
    from pellucid.training.data import (
        describe_dev_text,
        describe_tokenizer_files,
        read_shards_manifest,
        shard_settings,
        training_files,
    )
    from pellucid.training.initial_model import initial_tokenizer

    folder, initial = folder.resolve(), initial_tokenizer(run)
    if (folder / MANIFEST).exists():
        raise ValueError(f"{folder} holds shards that one process made; choose another --out")
    identity: dict[str, Any] = {
        "settings": shard_settings(run, initial),
        "dev_text": describe_dev_text(run.data),
    }
    tokenizer = _find_tokenizer(run, folder, options["tokenizer"])
    if tokenizer is not None:
        identity["tokenizer"] = describe_tokenizer_files(read_shards_manifest(tokenizer))

    numbers = numbers or range(1, len(run.data.corpora) + 1)
    works: list[Work] = []
    for number in numbers:
        files = map(str, training_files(run.data, range(number, number + 1)))
        works.append(Work(tuple(files), f"{number}.json", are_left_to_worker=True))
    job = Job(
        works=tuple(works),
        folder=folder / "prepared",
        start_worker=partial(partial, prepare_part, run, folder, tokenizer, options["cores"]),
        made_by=fingerprint(identity),
        lines_per_part=1,
        made_in=folder,
    )
    _forget_damaged_shards(job, folder)
    forget_changed_files(job.folder, works)
    run_on_cluster(job, options["cluster"], plan_workers(options), identity, SilentAccount)
    write_lines([json.dumps([str(folder / str(number)) for number in numbers])])


def _find_tokenizer(run: "RunConfig", folder: Path, named: str | None) -> Path | None:
    """Return the shards whose tokenizer all parts take, learned now if need be; None where a model has one."""
    from pellucid.training.shard_writing import prepare_tokenizer

    if named is not None:
        return Path(named).resolve()
    if run.model.start is not None:
        return None

    prepare_tokenizer(run, folder / "tokenizer", lambda message: typer.echo(message, err=True))
    return folder / "tokenizer"


def _forget_damaged_shards(job: Any, folder: Path) -> None:
    """Forget the results whose shards are not there any more, or were cut, so that they are made anew."""
    from pellucid.cluster.results import Results
    from pellucid.training.data import read_shards_manifest

    for work in job.works:
        try:
            read_shards_manifest(folder / Path(work.name).stem)
        except ValueError:
            Results(job.folder, work.name).forget()


def prepare_part(
    run: "RunConfig", folder: Path, tokenizer: Path | None, cores: int, work: "Work", part: "Part"
) -> "PartResult":
    """Prepare the corpus whose number is the name of some work."""
    from pellucid.cluster.made_files import describe_files
    from pellucid.cluster.part_worker import PartResult
    from pellucid.training.data import read_shards_manifest
    from pellucid.training.shard_writing import prepare_shards

    number = int(Path(work.name).stem)
    shards = folder / str(number)
    numbers = range(number, number + 1)
    prepare_shards(run, shards, cores, lambda message: None, numbers, tokenizer)
    [corpus] = read_shards_manifest(shards)["corpora"]
    return PartResult(describe_files([shards / MANIFEST]), corpus["pairs"], {})
