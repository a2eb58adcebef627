"""`pellucid prepare --cluster`: the corpora of a run, whose lines are encoded by the workers of a cluster."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.cluster_work import SilentAccount, plan_workers, require_sentences, run_on_cluster
from pellucid.cli.files import write_lines
from pellucid.store.atomic import MANIFEST

if TYPE_CHECKING:
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work
    from pellucid.data.corpus import SentencePairs
    from pellucid.data.shards import PartContent
    from pellucid.training.config import RunConfig

# The work on a corpus: its lines, range by range; and all of it, for what must be known of the whole.
_RANGES, _WHOLE = ".ranges", ".whole"


def prepare_on_cluster(run: "RunConfig", folder: Path, numbers: range | None, options: Mapping[str, Any]) -> None:
    """Prepare the corpora of a run, or some of them, each into a directory of its own inside a folder.

    Raises ValueError for a folder that holds shards itself, and for all that one process refuses.
    """
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.results import Results, fingerprint
    from pellucid.training import shard_writing
    from pellucid.training.data import (
        describe_dev_text,
        describe_tokenizer_files,
        draw_dev_pairs,
        read_shards_manifest,
        shard_settings,
    )
    from pellucid.training.initial_model import initial_tokenizer

    folder = folder.resolve()
    if (folder / MANIFEST).exists():
        raise ValueError(f"{folder} holds shards that one process made; choose another --out")
    tokenizer = _find_tokenizer(run, folder, options["tokenizer"])
    identity: dict[str, Any] = {
        "settings": shard_settings(run, initial_tokenizer(run)),
        "dev_text": describe_dev_text(run.data),
    }
    if tokenizer is not None:
        identity["tokenizer"] = describe_tokenizer_files(read_shards_manifest(tokenizer))
    dev = draw_dev_pairs(run.data, run.seed)
    if dev is not None:
        identity["held_out"] = [list(dev.lines), dev.sources, dev.targets]

    numbers = numbers or range(1, len(run.data.corpora) + 1)
    missing: list[int] = []
    for number in numbers:
        shards = folder / str(number)
        if not shard_writing.are_prepared(run, shards, range(number, number + 1), tokenizer):
            missing.append(number)

    job = Job(
        works=tuple(work for number in missing for work in _list_works(run, number)),
        folder=folder / "prepared",
        start_worker=partial(PartPreparation, run, folder, tokenizer, dev, options["cores"]),
        made_by=fingerprint(identity),
        lines_per_part=shard_writing.PAIRS_PER_PART,
        context=run.data.context,
        made_in=folder,
    )
    if missing:
        run_on_cluster(job, options["cluster"], plan_workers(options), identity, SilentAccount)
    for number in missing:
        _join_ranges(run, folder, number, tokenizer, job.folder)
    # Of all corpora, because the command may have been stopped here before.
    for number in numbers:
        for kind in (_RANGES, _WHOLE):
            Results(job.folder, f"{number}{kind}").forget()

    write_lines([json.dumps([str(folder / str(number)) for number in numbers])])


def _list_works(run: "RunConfig", number: int) -> "list[Work]":
    """Return the work on a corpus: a file of pairs as a whole; of two files of sentences the ranges, too."""
    from pellucid.cluster.parts import Work
    from pellucid.training.data import training_files

    files = tuple(map(str, training_files(run.data, range(number, number + 1))))
    works = [Work(files, f"{number}{_WHOLE}", are_left_to_worker=True)]
    if len(files) > 1:
        require_sentences(files)
        works.append(Work(files, f"{number}{_RANGES}"))
    return works


def _find_tokenizer(run: "RunConfig", folder: Path, named: str | None) -> Path | None:
    """Return the shards whose tokenizer all parts take, learned now if need be; None where a model has one."""
    from pellucid.training.shard_writing import prepare_tokenizer

    if named is not None:
        return Path(named).resolve()
    if run.model.start is not None:
        return None

    prepare_tokenizer(run, folder / "tokenizer", lambda message: typer.echo(message, err=True))
    return folder / "tokenizer"


class PartPreparation:
    """A worker's tokenizer, which encodes ranges of lines; whole corpora the worker reads itself."""

    def __init__(
        self, run: "RunConfig", folder: Path, tokenizer: Path | None, dev: "SentencePairs | None", cores: int
    ) -> None:
        """Load the tokenizer; `dev` are the pairs that the run holds out."""
        from pellucid.training.range_encoding import RangeEncoder

        self.run, self.folder, self.tokenizer, self.cores = run, folder, tokenizer, cores
        self.encoder = RangeEncoder(run, tokenizer, dev)

    def __call__(self, work: "Work", part: "Part") -> "PartResult":
        """Encode a range, write the shards of a file of pairs, or read a corpus for what concerns all of it."""
        from pellucid.cluster.part_worker import PartResult
        from pellucid.training.shard_writing import prepare_facts, prepare_shards, say_nothing

        number = int(work.name.partition(".")[0])
        if not work.are_left_to_worker:
            sources, targets = part.lines(0), part.lines(1)
            content = self.encoder.encode(number, part.first_line, sources, targets, part.before)
            return PartResult(content, len(sources), {})

        shards, numbers = self.folder / str(number), range(number, number + 1)
        if len(work.files) > 1:
            prepare_facts(self.run, shards, numbers, self.tokenizer)
        else:
            prepare_shards(self.run, shards, self.cores, say_nothing, numbers, self.tokenizer)
        return PartResult(b"", 0, {})


def _join_ranges(run: "RunConfig", folder: Path, number: int, tokenizer: Path | None, made_in: Path) -> None:
    """Write the shards of a corpus from its ranges; a worker has written the shards of a file of pairs."""
    from pellucid.cluster.results import Results
    from pellucid.data.shards import load_part
    from pellucid.training.data import training_files
    from pellucid.training.shard_writing import prepare_shards, say_nothing

    results, numbers = Results(made_in, f"{number}{_RANGES}"), range(number, number + 1)
    if len(training_files(run.data, numbers)) == 1:
        return

    def read_ranges() -> "Iterator[PartContent]":
        with results.open() as made:
            for part in range(len(made)):
                yield load_part(BytesIO(made.read(part)[1]), str(results.joined))

    shards = folder / str(number)
    prepare_shards(run, shards, 1, say_nothing, numbers, tokenizer, read_ranges())
