"""`pellucid convert --cluster`: many files of pairs converted by the workers of a cluster, one file each at a time."""

import os.path
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.cluster_work import expand_files, expand_pairs, plan_workers, run_on_cluster
from pellucid.cli.pair_conversion import convert_files

if TYPE_CHECKING:
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work

Languages = tuple[str | None, str | None]


def convert_on_cluster(inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, Any]) -> None:
    """Convert each file that the patterns `inputs` name, or each pair of files, as `outputs` say.

    Raises ValueError for patterns that do not say one output for each input.
    """
    from pellucid.cluster.made_files import forget_changed_files
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.parts import Work, refuse_equal_names
    from pellucid.cluster.results import fingerprint

    if options["places"] is not None:
        raise ValueError("--places cannot be had with --cluster; leave out one of them")
    files = _list_files(inputs)
    _require_stars(outputs, len(files))

    works: list[Work] = []
    written: dict[str, list[str]] = {}
    for matched, names in files.items():
        # The name of the account; a pattern may reach into folders of folders.
        name = f"{matched.replace(os.sep, '_') or Path(names[0]).name}.json"
        works.append(Work(names, name, are_left_to_worker=True))
        written[name] = [os.path.abspath(output.replace("*", matched)) for output in outputs]
    refuse_equal_names(works)

    languages = options["source_language"], options["target_language"]
    identity = {"outputs": list(map(os.path.abspath, outputs)), "languages": list(languages)}
    folder = Path(outputs[0].partition("*")[0] + "*").absolute().parent
    job = Job(
        works=tuple(works),
        folder=folder / "converted",
        start_worker=partial(partial, convert_part, written, languages),
        made_by=fingerprint(identity),
        lines_per_part=1,
        made_in=folder,
    )
    forget_changed_files(job.folder, works)
    run_on_cluster(job, options["cluster"], plan_workers(options), identity, ConversionAccount)


def _list_files(inputs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the one file or the two files of each conversion, by the text in place of the star."""
    if len(inputs) == 2:
        return dict(expand_pairs(*inputs))
    return {matched: (file,) for matched, file in expand_files(inputs[0]).items()}


def _require_stars(outputs: Sequence[str], count: int) -> None:
    """Raise ValueError for outputs that do not name one file for each of so many inputs."""
    for output in outputs:
        if output == "-":
            raise ValueError("--cluster writes files; name one, not standard output")
        if output.count("*") > 1 or ("*" not in output and count > 1):
            reason = f"{output} is to name {count:,} file{'s' * (count > 1)}"
            raise ValueError(f"{reason}; put one star in it, as in 'train/*.en'")


def convert_part(
    written: Mapping[str, Sequence[str]], languages: Languages, work: "Work", part: "Part"
) -> "PartResult":
    """Convert the file or the two files of some work into those that `written` has for its name."""
    from pellucid.cluster.made_files import describe_files
    from pellucid.cluster.part_worker import PartResult

    outputs = list(written[work.name])
    for output in outputs:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
    kept, said = convert_files(list(work.files), outputs, languages)
    return PartResult(describe_files(list(map(Path, outputs))), kept, {"said": said})


class ConversionAccount:
    """The account of a file, which is one part: what one process says of it."""

    def __init__(self) -> None:
        """Begin an account."""
        self.said = list[str]()

    def add_later(self, values: Mapping[str, Any]) -> None:
        """Add what is said of the file."""
        self.said += [line.removeprefix(": ").strip() for line in values["said"]]

    def lines(self) -> Iterator[str]:
        """Yield what is said of the file."""
        yield from self.said
