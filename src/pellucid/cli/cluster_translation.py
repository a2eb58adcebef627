"""`pellucid translate --cluster`: lines and documents translated by workers, as in one process."""

import os.path
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.cluster_work import (
    expand_files,
    plan_workers,
    require_folder,
    run_on_cluster,
)
from pellucid.cli.document_translation import say_account, translate_content
from pellucid.cli.files import LINE_BREAKERS
from pellucid.cli.translation_grades import describe_grades
from pellucid.cli.translation_lines import LeftToPeople, translation_lines
from pellucid.cli.translation_notes import NoteSummary, name_lines
from pellucid.cli.translation_setup import (
    TranslationSetup,
    choose_search,
    holds_document,
    load_for_translation,
    refuse_unfit_options,
    set_up_translation,
)
from pellucid.store.atomic import MANIFEST, file_sha256

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.cluster.part_worker import PartResult
    from pellucid.cluster.parts import Part, Work
    from pellucid.decode.translation import Translation
    from pellucid.decode.usability import Grade

# Options that name files: of these the content decides, and not the name.
_FILES_OF_OPTIONS = ("terms", "memory")
_PATHS = ("model", "others", "exported")
# Options that decide where a translation is made and written, and not what it is.
_INDIFFERENT = ("file", "out", "cluster", "workers", "cores", "part_lines", "prefix", "alignments")
_NAMED_FAILURES = 20  # lines of a part that could not be translated, and are named with the reason


def translate_on_cluster(options: Mapping[str, Any]) -> None:
    """Translate the files that a pattern names into a folder, by the workers of a cluster."""
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.parts import name_works
    from pellucid.cluster.results import fingerprint

    folder, files = require_folder(options["out"]), list(expand_files(options["file"]).values())
    _refuse_unfit(options, files)
    workers = plan_workers(options)
    documents = frozenset(file for file in files if holds_document(file))
    for file in files:
        refuse_unfit_options(options, file, file in documents)
    works = name_works(files, documents)
    options = {**options, **_absolute_paths(options)}

    # What is wrong with the model or the options is said before Ray is started. A GPU may be
    # elsewhere only.
    loaded = load_for_translation({**options, "device": "cpu"}, workers=1)
    for is_document in {work.is_document for work in works}:
        set_up_translation(loaded, options, is_document)
    identity = _identity(options, loaded)
    job = Job(
        works=works,
        folder=folder,
        start_worker=partial(PartTranslator, options),
        made_by=fingerprint(identity),
        context=loaded.translator.context if options["document"] else 0,
        lines_per_part=options["part_lines"],
    )
    del loaded  # its memory is for the workers

    begin_account = partial(LineAccount, options["only_above"], not options["json"])
    run_on_cluster(job, options["cluster"], workers, identity, begin_account)


def _refuse_unfit(options: Mapping[str, Any], files: Sequence[str]) -> None:
    """Raise ValueError for options that are not possible in parts."""
    used = [f"--{name}" for name in ("prefix", "alignments") if options[name] is not None]
    if options["json"] and any(map(holds_document, files)):
        used.append("--json of documents")
    if used:
        names = " and ".join(used)
        raise ValueError(f"{names} cannot be had with --cluster; leave out one of them")


def _absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that name files and folders, with paths that any process finds."""
    paths: dict[str, Any] = {}
    for name in (*_FILES_OF_OPTIONS, *_PATHS):
        value = options[name]
        if isinstance(value, list):
            paths[name] = list(map(os.path.abspath, value))
        elif value is not None:
            paths[name] = os.path.abspath(value)
    return paths


def _identity(options: Mapping[str, Any], loaded: "Model") -> dict[str, Any]:
    """Return all but the text that decides a translation: the models, and the options."""
    from pellucid.decode.request import SearchConfig

    assert loaded.load_request
    # Every setting of the search: those left out may have other defaults in another version.
    search = asdict(SearchConfig.from_options(choose_search(options)))
    identity = {"models": loaded.load_request.models, **search}
    if options["exported"] is not None:
        identity["exported"] = file_sha256(Path(options["exported"]) / MANIFEST)
    for name, value in options.items():
        if name in _FILES_OF_OPTIONS:
            identity[name] = None if value is None else file_sha256(Path(value))
        elif name not in (*_PATHS, *_INDIFFERENT):
            identity[name] = value
    return identity


class PartTranslator:
    """A worker's model, set up as `pellucid translate` sets it up, for lines and for documents."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Load the model."""
        self.options = options
        # A batch on each of its cores. Ray has set OMP_NUM_THREADS, so that a single one has no more.
        self.loaded = load_for_translation(options, workers=options["cores"])
        self.setups: dict[bool, TranslationSetup] = {}

    def __call__(self, work: "Work", part: "Part") -> "PartResult":
        """Return the translation of a part, as `pellucid translate` would write and tell it."""
        setup = self.setups.get(work.is_document)
        if setup is None:
            setup = set_up_translation(self.loaded, self.options, work.is_document)
            self.setups[work.is_document] = setup

        translate = self._translate_document if work.is_document else self._translate_lines
        return translate(work, part, setup)

    def _translate_document(self, work: "Work", part: "Part", setup: TranslationSetup) -> "PartResult":
        from pellucid.cluster.part_worker import PartResult

        [content], title = part.texts, work.title
        said = StringIO()
        with redirect_stderr(said):
            translated = translate_content(
                setup.model,
                title,
                content,
                setup.languages,
                setup.search,
                self.options["mark"],
                self.options["comments"],
            )
            say_account(title, translated)
        # What was said begins with the names of the program and of the file.
        lines = [line.removeprefix(f"pellucid: {title}: ") for line in said.getvalue().splitlines()]
        return PartResult(translated.content, len(translated.translations), {"said": lines})

    def _translate_lines(self, work: "Work", part: "Part", setup: TranslationSetup) -> "PartResult":
        from pellucid.cluster.part_worker import PartResult
        from pellucid.decode.request import BLOCK, SearchConfig

        search = dict(setup.search)
        aside = {name: search.pop(name) for name in ("terms", "translation_memory", "document")}
        lines = part.lines()

        stream = setup.model.translator.translate_stream(
            lines,
            SearchConfig.from_options(search),
            BLOCK,
            first_line=part.first_line,
            before=part.before,
            **aside,
        )
        n_best, json = self.options["n_best"], self.options["json"]
        account = LineAccount(self.options["only_above"], with_notes=not json)
        stream = account.take_all(stream, part.first_line)
        written = translation_lines(stream, n_best, json, first_number=part.first_line - 1)

        text = "".join(line.translate(LINE_BREAKERS) + "\n" for line in written)
        return PartResult(text.encode(), len(lines), account.as_values())


class LineAccount:
    """Notes, grades, lines left to people and failures among the translations of a file."""

    def __init__(self, least: float | None, with_notes: bool) -> None:
        """Begin an account; lines below the confidence `least` are left to people."""
        self.with_notes = with_notes
        self.documents = list[str]()
        self.notes = NoteSummary()
        self.grades: Counter[Grade | None] = Counter()
        self.left = LeftToPeople(least or 0.0)
        self.leaves_lines = least is not None
        self.failed: list[tuple[int, str]] = []
        self.count_failed = 0

    def take_all(self, translations: "Iterator[Translation]", first_line: int) -> "Iterator[Translation]":
        """Yield the translations, with an empty text for those left to people."""
        for number, translation in enumerate(translations, start=first_line):
            self.notes.add(number, translation)
            if translation.stop != "empty":
                self.grades[translation.grade] += 1
            if translation.stop == "failed":
                self.count_failed += 1
                if len(self.failed) < _NAMED_FAILURES:
                    self.failed.append((number, "; ".join(translation.notes)))

            yield self.left.take(number, translation) if self.leaves_lines else translation

    def as_values(self) -> dict[str, Any]:
        """Return the account as plain values, which can be written as JSON."""
        return {
            "notes": self.notes.as_values(),
            "grades": {grade or "": count for grade, count in self.grades.items()},
            "left": asdict(self.left),
            "failed": self.failed,
            "count_failed": self.count_failed,
        }

    def add_later(self, values: Mapping[str, Any]) -> None:
        """Add the account of lines that stand behind these, or of a document."""
        if "said" in values:
            self.documents += values["said"]
            return

        self.notes.add_later(NoteSummary.from_values(values["notes"]))
        self.grades.update({grade or None: count for grade, count in values["grades"].items()})
        self.left.add_later(LeftToPeople(**values["left"]))
        self.failed += [(number, reason) for number, reason in values["failed"]]
        self.count_failed += values["count_failed"]

    def lines(self) -> Iterator[str]:
        """Yield what is said of a file at its end."""
        yield from self.documents
        for number, reason in self.failed:
            yield f"line {number} is not translated and stays as it is: {reason}"
        if self.count_failed > len(self.failed):
            yield f"{self.count_failed - len(self.failed):,} more lines are not translated"

        if self.with_notes:
            yield from self.notes.lines(name_lines)
            grades = describe_grades(self.grades, "line")
            if grades:
                yield grades
        if self.leaves_lines:
            yield self.left.describe()
