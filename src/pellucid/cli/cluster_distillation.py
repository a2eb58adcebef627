"""`pellucid distill --cluster`: the teacher's translations, written by the workers of a cluster."""

import os.path
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.cluster_work import SilentAccount, plan_workers, run_on_cluster

if TYPE_CHECKING:
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work


def write_translations_on_cluster(
    options: Mapping[str, Any], data: Path, identity: Mapping[str, Any], search: Mapping[str, Any]
) -> None:
    """Write a teacher's translations of the sources that the options of the command name, unless all are there.

    Raises ValueError, as in one process, for translations of another teacher or text; exits with code
    1 where any are missing at the end.
    """
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.parts import Work
    from pellucid.cluster.results import fingerprint
    from pellucid.workflows.distillation import count_translations, join_translations, read_text

    files: Sequence[str] = options["source"]
    if count_translations(data, identity) == sum(1 for _ in read_text(files)):
        return

    works: list[Work] = []
    for number, file in enumerate(files):
        works.append(Work((os.path.abspath(file),), f"{number:03}.jsonl"))
    teachers = list(map(os.path.abspath, options["teachers"]))
    made_by = {name: value for name, value in identity.items() if name != "text"}
    job = Job(
        works=tuple(works),
        folder=(data / "translated").absolute(),
        start_worker=partial(PartTeacher, teachers, options["language"], search, options["cores"]),
        made_by=fingerprint(made_by),
        lines_per_part=options["part_lines"],
    )
    run_on_cluster(job, options["cluster"], plan_workers(options), identity, SilentAccount)
    join_translations((job.folder / work.name for work in works), data, identity)
    shutil.rmtree(job.folder)


class PartTeacher:
    """A worker's teacher, which writes the lines of the file of translations."""

    def __init__(
        self,
        teachers: Sequence[str],
        language: str | None,
        search: Mapping[str, Any],
        cores: int,
    ) -> None:
        """Load the teacher, which translates a batch on each of so many cores."""
        from pellucid.api import load

        first, *others = teachers
        self.teacher = load(first, others=others, target_language=language, workers=cores)
        self.search = search

    def __call__(self, work: "Work", part: "Part") -> "PartResult":
        """Return a row for each line of a part."""
        from pellucid.cluster.part_worker import PartResult
        from pellucid.workflows.distillation import translation_row

        lines = part.lines()
        rows: list[bytes] = []
        for translation in self.teacher.translate_stream(lines, **self.search, scores=False):
            rows.append(translation_row(translation.text, translation.stop))
        return PartResult(b"".join(rows), len(lines), {})
