"""`pellucid check`: says what is wrong with parallel text, where, how often, and how to take it out."""

import os.path
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    read_sentences,
    require_file,
    set_language,
    show_progress,
    write_report,
)
from pellucid.cli.options import (
    CLUSTER,
    CORES,
    DEVICE,
    JSON,
    LANGUAGE_OF_TRANSLATIONS,
    LINES_PER_PART,
    PART_LINES,
    SOURCE_LANGUAGE,
    TEXT_OR_PAIRS,
    TEXT_TARGET,
    WORKERS,
    file_option,
    option,
)
from pellucid.cli.terminal import Terminal, escape_controls, shorten_text, wrap_text
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    from pellucid.data.links import Floats
    from pellucid.workflows.check.evidence import ScorePairs
    from pellucid.workflows.check.examine import CorpusReport, Example

CHECK_EXAMPLES = """\
  pellucid check my.en my.es --html report.html
  pellucid check my.en my.es --against test.en --against test.es --fix clean
  pellucid check my.en my.es --model runs/mine/best --fix clean
  pellucid check memory.tmx --from en --to es --json > memory.json
  pellucid check my.en my.es --fix clean --remove number --keep duplicate
  pellucid check my.en my.es --out checked --cluster auto"""


def run_check(
    source: Annotated[str, TEXT_OR_PAIRS],
    target: Annotated[str | None, TEXT_TARGET] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, LANGUAGE_OF_TRANSLATIONS] = None,
    against: Annotated[
        list[str] | None,
        file_option("sentences of a dev or test set that must not be in the text; repeatable"),
    ] = None,
    model: Annotated[
        str | None,
        option("model directory; its scores then decide which pairs are no translations", "MODEL"),
    ] = None,
    device: Annotated[str, DEVICE] = "cpu",
    fix: Annotated[
        str | None,
        option("write PREFIX.source, PREFIX.target and PREFIX.removed.tsv", "PREFIX"),
    ] = None,
    remove: Annotated[
        list[str] | None,
        option("a fault that --fix takes out, too; repeatable", "FAULT"),
    ] = None,
    keep: Annotated[
        list[str] | None,
        option("a fault that --fix leaves in; repeatable", "FAULT"),
    ] = None,
    html: Annotated[str | None, file_option("also write the report as an HTML page")] = None,
    examples: Annotated[int, option("examples of each fault to show", min=0)] = 5,
    out: Annotated[
        str | None,
        option("with --cluster, the folder of what the workers find", "FOLDER"),
    ] = None,
    cluster: Annotated[str | None, CLUSTER] = None,
    workers: Annotated[int | None, WORKERS] = None,
    cores: Annotated[int, CORES] = 1,
    part_lines: Annotated[int, PART_LINES] = LINES_PER_PART,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Check parallel text for faults.

    It says what is wrong, where, how often, and how to take it out. It finds lines that have
    shifted (from which line, by how much), pairs that are no translations of each other, copies,
    wrong languages, duplicates, boilerplate, sentences of your test set, and a dozen smaller
    faults. Nothing is downloaded: which words and letters belong together is learned from the text
    itself, which takes a few hundred pairs. In a small text --model finds more, and takes longer: a
    pair is then no translation if the model expects its target no more from its source than from
    another source. --fix takes whole pairs out and never moves a line. It removes faults that do
    harm and are found surely; the others are listed, and --remove takes them out, too.

    With --cluster, the faults of single pairs, their languages and the scores of a model are found
    by workers, and what concerns the whole text is done here, with about a third of a kilobyte of
    memory for each pair. --out is the folder of what the workers find. All else is as in `pellucid
    translate --cluster`.
    """
    options = locals()
    from pellucid.data.corpus import SkippedPairs, read_rows
    from pellucid.data.formats.units import Sides
    from pellucid.data.lines import is_read_once
    from pellucid.workflows.check.examine import (
        examine_corpus,
        faults_removed,
        report_as_object,
        write_fixed,
    )

    faults = faults_removed(remove or (), keep or ())
    if (remove or keep) and fix is None:
        raise ValueError("--remove and --keep say what --fix takes out; name a prefix: --fix PREFIX")
    files = [source] if target is None else [source, target]
    for path in (*files, *(against or ())):
        require_file(path)
    if cluster is None and out is not None:
        raise ValueError("--out is for --cluster; the report is written to standard output")
    require_writable(html)
    require_writable(fix and f"{fix}.source")
    sides = Sides(source_language, target_language)
    skipped = SkippedPairs()

    # Standard input and pipes can be read only once.
    held = list(read_rows(source, target, sides, skipped)) if any(map(is_read_once, files)) else None

    def read() -> Iterator[tuple[int, str, str]]:
        if held is None:
            # The text is read several times, and what holds
            # no pair is counted each time from the beginning.
            skipped.counts.clear()
            skipped.examples.clear()
        return show_progress(held if held is not None else read_rows(source, target, sides, skipped))

    held_out = (line for path in against for line in read_sentences(path)) if against else None
    score = work = None
    if model is not None:
        # Mistakes are reported before the text is read; a GPU may be elsewhere only.
        score = make_pair_scores(model, target_language, device if cluster is None else "cpu")
    if cluster is not None:
        from pellucid.cli.cluster_checking import ClusterBlocks

        make_score = None
        if model is not None:
            make_score = partial(make_pair_scores, os.path.abspath(model), target_language, device)
        score = None  # its memory is for the workers
        work = ClusterBlocks(options, make_score)
    report = examine_corpus(read, held_out, examples, score, work)
    report.reasons = dict(skipped.counts)
    if skipped:
        typer.echo(f"{source}: {skipped}", err=True)
    if html is not None:
        from pellucid.workflows.check.check_page import report_as_html

        write_text_whole(html, report_as_html(report, files))

    if fix is not None:
        kept, removed = write_fixed(report, read(), fix, faults)
        typer.echo(
            f"{kept:,} pairs kept in {fix}.source and {fix}.target, {removed:,} removed: {fix}.removed.tsv",
            err=True,
        )

    write_report(
        json,
        [report_as_object(report, files)],
        _report_lines(report, files, Terminal.of_stdout()),
    )


def make_pair_scores(directory: str, language: str | None, device: str) -> "ScorePairs":
    """Load a model, and return the function that scores pairs with it.

    The targets are in `language`.
    """
    import numpy as np

    from pellucid.api import load

    model = set_language(load(directory, device=device), language, is_of_file=True)
    tokenizer, longest = model.translator.tokenizer, model.translator.lengths.longest

    def score(sources: Sequence[str], targets: Sequence[str]) -> "Floats":
        pieces = zip(
            tokenizer.encode_source(sources),
            tokenizer.encode_target(targets),
            strict=True,
        )
        # With one piece, EOS, a side is empty.
        chosen = [i for i, (a, b) in enumerate(pieces) if min(len(a), len(b)) > 1 and max(len(a), len(b)) <= longest]
        scores = model.score([sources[i] for i in chosen], [targets[i] for i in chosen])
        by_piece = np.full(len(sources), np.nan)
        by_piece[chosen] = [pair.log_prob / len(pair.per_piece) for pair in scores]
        return by_piece

    return score


def _report_lines(
    report: "CorpusReport",
    files: Iterable[str],
    terminal: Terminal,
) -> Iterator[str]:
    from pellucid.workflows.check.examine import removing_option
    from pellucid.workflows.check.pair_faults import FAULTS

    share = f"{report.faulty:,} of {report.pairs:,} pairs ({report.faulty / report.pairs:.1%})"
    yield terminal.bold(f"{' and '.join(files)}: {share} have a fault that --fix takes out")
    for name, finding in report.findings.items():
        fault = FAULTS[name]
        yield ""
        counted = f"{finding.pairs:,} pair{'s' if finding.pairs > 1 else ''}, {finding.pairs / report.pairs:.2%}"
        yield f"{terminal.bold(fault.title)}: {counted} ({removing_option(name)})"
        for sentence in fault.sentences:
            yield from wrap_text(sentence, terminal.width, "  ")
        for detail in report.details_of(name):
            yield from wrap_text(escape_controls(detail), terminal.width, "  ")
        for example in finding.examples:
            yield from _example_lines(example, terminal)

    for note in report.notes:
        yield ""
        yield from wrap_text(f"Not looked for: {note}.", terminal.width)


def _example_lines(example: "Example", terminal: Terminal) -> Iterator[str]:
    number = f"{example.line:>9,}  "
    room = terminal.width - len(number)
    yield number + shorten_text(escape_controls(example.source), room)
    yield " " * len(number) + shorten_text(escape_controls(example.target), room)
    if example.right_target is not None:
        belongs = shorten_text(f"belongs to it: {escape_controls(example.right_target)}", room)
        yield " " * len(number) + terminal.dim(belongs)
