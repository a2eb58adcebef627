"""`pellucid check --cluster`: what is found in single blocks of pairs, found by the workers of a cluster."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.cluster_work import (
    SilentAccount,
    expand_files,
    plan_workers,
    require_folder,
    require_sentences,
    run_on_cluster,
)
from pellucid.store.atomic import installed_version

if TYPE_CHECKING:
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work
    from pellucid.data.links import Floats
    from pellucid.workflows.check.block_work import BlockFaults
    from pellucid.workflows.check.evidence import BlockScores, OtherSources, ScorePairs
    from pellucid.workflows.check.language_model import LanguageModel

_LENGTH_BYTES = 8  # before each of several results of a part


class ClusterBlocks:
    """The work on the blocks of a corpus by the workers of a cluster, in parts of two files of sentences."""

    def __init__(self, options: Mapping[str, Any], make_score: "Callable[[], ScorePairs] | None") -> None:
        """Raise ValueError for options that are not possible in parts; `make_score` loads a model in a worker."""
        if options["target"] is None:
            source = options["source"]
            advice = f"make them of it: pellucid convert {source} source.txt target.txt"
            raise ValueError(f"--cluster shares two files of sentences; {advice}")

        reason = "--cluster writes down what the workers find"
        self.folder = require_folder(options["out"], reason)
        self.options, self.workers = options, plan_workers(options)
        files: list[str] = []
        for name in (options["source"], options["target"]):
            files += expand_files(name).values()
        require_sentences(files)
        self.files, self.make_score = tuple(files), make_score

    @property
    def has_model(self) -> bool:
        """Whether workers can score pairs."""
        return self.make_score is not None

    def find_faults(self) -> "Iterator[BlockFaults]":
        """Yield what single pairs show, and what is needed to compare pairs."""
        from pellucid.workflows.check.block_work import BlockFaults

        for content in self._run("faults", lambda: find_part_faults, {}):
            yield from map(BlockFaults.from_bytes, _split_results(content))

    def find_wrong_languages(self, language: "LanguageModel") -> "Iterator[Floats]":
        """Yield how strange the stranger side of each pair is for its language."""
        import numpy as np

        start = partial(partial, find_part_languages, language)
        identity = {"language": language.fingerprint()}
        for content in self._run("languages", start, identity):
            yield np.frombuffer(content, "<f8")

    def score_pairs(self, pairs: int, others: "OtherSources") -> "Iterator[BlockScores]":
        """Yield the scores of a model for so many pairs, and for shuffled ones."""
        from pellucid.store.atomic import MANIFEST, file_sha256
        from pellucid.workflows.check.block_work import unpack_arrays
        from pellucid.workflows.check.evidence import BlockScores

        assert self.make_score
        start = partial(PartScores, self.make_score, pairs, others)
        sources = "".join(f"{source}\n" for source in others.sources)
        identity = {
            "model": file_sha256(Path(self.options["model"]) / MANIFEST),
            "language": self.options["target_language"],
            "device": self.options["device"],
            "pairs": pairs,
            "others": hashlib.sha256(sources.encode()).hexdigest(),
        }
        for content in self._run("scores", start, identity):
            for block in _split_results(content):
                yield BlockScores(**unpack_arrays(block))

    def _run(self, name: str, start_worker: "Callable[[], Any]", identity: Mapping[str, Any]) -> Iterator[bytes]:
        """Let workers work on all parts, and yield the result of each."""
        from pellucid.cluster.part_worker import Job
        from pellucid.cluster.parts import Work
        from pellucid.cluster.results import Results, fingerprint

        identity = {"version": installed_version("pellucid"), **identity}
        work = Work(self.files, name)
        job = Job(
            works=(work,),
            folder=self.folder,
            start_worker=start_worker,
            made_by=fingerprint(identity),
            lines_per_part=self.options["part_lines"],
        )
        run_on_cluster(job, self.options["cluster"], self.workers, identity, SilentAccount)
        with Results(self.folder, name).open() as results:
            for number in range(len(results)):
                yield results.read(number)[1]


def _read_blocks(part: "Part") -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the number of pairs before each block of a part, and its sources and targets, as `read_rows` reads them."""
    from pellucid.data.corpus import one_line
    from pellucid.workflows.check.block_work import BLOCK

    sources, targets = (list(map(one_line, part.lines(side))) for side in (0, 1))
    for start in range(0, len(sources), BLOCK):
        block = slice(start, start + BLOCK)
        yield part.first_line - 1 + start, sources[block], targets[block]


def _join_results(results: list[bytes]) -> bytes:
    """Return the results of the blocks of a part as one, which `_split_results` takes apart."""
    return b"".join(len(result).to_bytes(_LENGTH_BYTES) + result for result in results)


def _split_results(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        first = start + _LENGTH_BYTES
        start = first + int.from_bytes(content[start:first])
        yield content[first:start]


def find_part_faults(work: "Work", part: "Part") -> "PartResult":
    """Find what the pairs of a part show by themselves."""
    from pellucid.cluster.part_worker import PartResult
    from pellucid.workflows.check.block_work import find_block_faults

    results: list[bytes] = []
    count = 0
    for _, sources, targets in _read_blocks(part):
        results.append(find_block_faults(sources, targets).as_bytes())
        count += len(sources)
    return PartResult(_join_results(results), count, {})


def find_part_languages(language: "LanguageModel", work: "Work", part: "Part") -> "PartResult":
    """Find how strange the pairs of a part are for the languages of the text."""
    from pellucid.cluster.part_worker import PartResult

    strange: list[Floats] = []
    for _, sources, targets in _read_blocks(part):
        strange.append(language.find_wrong_languages(sources, targets))
    numbers = b"".join(values.astype("<f8").tobytes() for values in strange)
    return PartResult(numbers, sum(map(len, strange)), {})


class PartScores:
    """A worker's model, which scores the pairs of a part, and shuffled ones."""

    def __init__(self, make_score: "Callable[[], ScorePairs]", pairs: int, others: "OtherSources") -> None:
        """Load the model."""
        self.score, self.pairs, self.others = make_score(), pairs, others

    def __call__(self, work: "Work", part: "Part") -> "PartResult":
        """Return the scores of each block."""
        from pellucid.cluster.part_worker import PartResult
        from pellucid.workflows.check.block_work import pack_arrays
        from pellucid.workflows.check.evidence import score_block

        results: list[bytes] = []
        count = 0
        for start, sources, targets in _read_blocks(part):
            scores = score_block(start, sources, targets, self.pairs, self.others, self.score)
            results.append(pack_arrays(scores._asdict()))
            count += len(sources)
        return PartResult(_join_results(results), count, {})
