"""`pellucid score --cluster`: scores of many pairs, given by the workers of a cluster, as in one process."""

import os.path
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.cluster_work import (
    SilentAccount,
    expand_files,
    expand_pairs,
    plan_workers,
    require_folder,
    require_sentences,
    run_on_cluster,
)
from pellucid.cli.files import read_pair_rows, score_lines, set_language

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work

# Options that decide which text is scored, where, and not what the scores are.
_INDIFFERENT = ("model", "source", "target", "out", "cluster", "workers", "cores", "part_lines")


def score_on_cluster(options: Mapping[str, Any]) -> None:
    """Score the pairs of the files that patterns name into a folder, by the workers of a cluster."""
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.results import fingerprint
    from pellucid.decode.corpus_sources import require_context

    folder, workers = require_folder(options["out"]), plan_workers(options)
    works = _name_works(options)
    # What is wrong with the model or the options is said before Ray is started.
    options = {**options, "model": os.path.abspath(options["model"])}
    loaded = _load({**options, "device": "cpu"})
    if options["document"]:
        require_context(loaded.translator, "document (--document)")
    assert loaded.load_request
    identity: dict[str, Any] = {"models": loaded.load_request.models}
    for name, value in options.items():
        if name not in _INDIFFERENT:
            identity[name] = value

    job = Job(
        works=works,
        folder=folder,
        start_worker=partial(PartScorer, options),
        made_by=fingerprint(identity),
        context=loaded.translator.context if options["document"] else 0,
        lines_per_part=options["part_lines"],
    )
    del loaded  # its memory is for the workers
    run_on_cluster(job, options["cluster"], workers, identity, SilentAccount)


def _name_works(options: Mapping[str, Any]) -> "tuple[Work, ...]":
    """Return the files to read: two side by side, or one of pairs, which a worker reads itself."""
    from pellucid.cluster.parts import Work, refuse_equal_names
    from pellucid.data.lines import strip_compression

    works: list[Work] = []
    if options["target"] is None:
        for file in expand_files(options["source"]).values():
            works.append(Work((file,), Path(file).name, are_left_to_worker=True))
    else:
        for pair in expand_pairs(options["source"], options["target"]).values():
            require_sentences(pair)
            works.append(Work(pair, strip_compression(Path(pair[0]).name)))

    refuse_equal_names(works)
    return tuple(works)


def _load(options: Mapping[str, Any]) -> "Model":
    """Load the model for the language to write."""
    from pellucid.api import load

    model = load(options["model"], device=options["device"])
    is_of_file = options["target"] is None
    return set_language(model, options["target_language"], is_of_file)


class PartScorer:
    """A worker's model, which scores the pairs of a part."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Load the model."""
        self.options, self.model = options, _load(options)

    def __call__(self, work: "Work", part: "Part") -> "PartResult":
        """Return the scores of a part, as `pellucid score` writes them."""
        from pellucid.cluster.part_worker import PartResult
        from pellucid.decode.scoring import score_pairs

        if work.are_left_to_worker:
            languages = self.options["source_language"], self.options["target_language"]
            sources, targets = read_pair_rows(work.files[0], *languages)
        else:
            sources, targets = part.lines(0), part.lines(1)
        if not sources and part.number == 0:
            raise ValueError("there is no line in it")

        scores = score_pairs(
            self.model.translator,
            sources,
            targets,
            batch=0,
            document=self.options["document"],
            first_line=part.first_line,
            before=part.before,
        )
        lines = score_lines(scores, self.options["json"])
        text = "".join(f"{line}\n" for line in lines)
        return PartResult(text.encode(), len(sources), {})
