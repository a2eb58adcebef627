"""`pellucid inspect align`: word alignment read from cross-attention in every way, compared with gold links."""

from collections.abc import Iterator, Sequence
from math import inf, nan
from typing import TYPE_CHECKING, Annotated, Any

from pellucid.cli.files import (
    FIGURES,
    name_file_in_errors,
    read_file_pair,
    read_parallel_lines,
    save_figure,
    show_progress,
    write_report,
)
from pellucid.cli.inspecting.study_views import MISSING, Column, column_lines
from pellucid.cli.options import (
    DOCUMENT,
    JSON,
    LANGUAGE_TO_WRITE,
    MODEL,
    PLOT,
    SOURCE,
    TRANSLATIONS,
    file_option,
    flag,
)
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    from pellucid.evaluate.alignment_rates import AlignmentRates
    from pellucid.interpret.studies.alignment_readings import (
        EncodedPair,
        LinkCounts,
        Reading,
        ReadingResult,
    )
    from pellucid.store.directory import Bundle

WORD_ALIGN_EXAMPLES = """\
  pellucid inspect align runs/demo/best --source test.en --target test.es
  pellucid inspect align runs/demo/best --source runs/demo/data/test.en --target runs/demo/data/test.es \\
    --gold runs/demo/data/test.align --apart --plot align.png
  pellucid inspect align runs/mine/best --source book.en.gz --target book.es.gz --links book.align"""

HEADS_SHOWN = 3
"""Heads of each side that the tables show, the best first."""

APART_HINT = "; if these links count punctuation marks as words, pass --apart"


def show_alignment(
    model: Annotated[str, MODEL],
    source: Annotated[str, SOURCE],
    target: Annotated[str, TRANSLATIONS],
    gold: Annotated[
        str | None,
        file_option("gold links, line by line: i-j is sure, ipj possible; i is a source word, j a target word, from 0"),
    ] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    document: Annotated[bool, DOCUMENT] = False,
    apart: Annotated[
        bool,
        flag("--apart", "count punctuation marks as words, as gold links often do"),
    ] = False,
    links: Annotated[
        str | None, file_option("write the links into this file, as `translate --alignments` does")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Read word alignments from cross-attention in every way.

    On the output side a target word is linked by the rows of the decoder that write it, on the
    input side by those that read it, one further. "Weights" are the attention, "norms" how far a
    source piece moves the row. "One each" links each target word with its best source word, as
    papers do; "mutual" links pairs of words that are each other's best, by shares of both. The
    layer is chosen without gold links, by how little its two directions disagree. --gold adds
    alignment error rate (AER, lower is better), precision and recall, in per cent. --plot draws the
    matrix of the first pair, and the layers.
    """
    from pellucid.api import load
    from pellucid.decode.corpus_sources import join_document
    from pellucid.decode.torch_models import inference_only
    from pellucid.evaluate.alignment_rates import read_links, require_inside
    from pellucid.interpret.studies.alignment_readings import (
        choose_readings,
        default_links,
        encode_alignment_pairs,
        measure_readings,
    )

    require_writable(plot, FIGURES)
    sources, targets = read_file_pair(source, target)
    # Only what counts as a word changes; the model reads the texts as they are.
    source_texts, target_texts = sources, targets
    if apart:
        source_texts = [_separate_punctuation(text) for text in sources]
        target_texts = [_separate_punctuation(text) for text in targets]

    gold_links = None
    if gold is not None:
        with name_file_in_errors(gold):
            gold_links = read_links(read_parallel_lines(gold, source))
            source_words = [text.split() for text in source_texts]
            target_words = [text.split() for text in target_texts]
            # Gold that counts punctuation as words names
            # words beyond the end: the hint says what to do.
            hint = "" if apart else APART_HINT
            require_inside(gold_links, source_words, target_words, hint=hint)

    loaded = load(model, engine="torch", target_language=language)
    bundle = loaded.bundle
    sources = join_document(loaded.translator, sources) if document else sources
    pairs = encode_alignment_pairs(bundle.tokenizer, sources, targets, source_texts, target_texts)
    bar = show_progress(range(len(pairs)), len(pairs))

    with name_file_in_errors(f"{source} and {target}"):
        results = measure_readings(
            bundle.model,
            pairs,
            gold_links.sure if gold_links else None,
            gold_links.possible if gold_links else None,
            # show_progress counts items that are taken from it: take as many as were read.
            lambda number: [next(bar, None) for _ in range(number)],
        )

    next(bar, None)  # one more than there are, which closes the bar

    if links is not None:
        # As with `translate --alignments`: the reading that is chosen below does not matter.
        with inference_only(bundle.model):
            lines = []
            for pair_links in default_links(bundle.model, pairs):
                lines.append(" ".join(f"{i}-{j}" for i, j in pair_links))
        write_text_whole(links, "".join(f"{line}\n" for line in lines))

    if plot is not None:
        words = source_texts[0].split(), target_texts[0].split()
        first_gold = gold_links.sure[0] if gold_links else None
        _draw_alignment(plot, bundle, pairs[0], words, results, first_gold)

    chosen_readings = tuple(result.reading for result in choose_readings(results))
    has_gold = gold_links is not None
    title = f"{len(pairs):,} sentence pairs; everything but the mean norm of a layer in per cent"
    lines = [title, "", *_reading_lines(results, chosen_readings, has_gold)]
    write_report(json, _alignment_objects(results, chosen_readings, has_gold), lines)


def _separate_punctuation(text: str) -> str:
    """Return the text with spaces around its punctuation marks.

    >>> _separate_punctuation("«No», dijo.")
    '« No » , dijo .'
    """
    from pellucid.demo.phrasebook import split_into_words

    return " ".join(split_into_words(text))


def _rates_of_links(counts: "LinkCounts") -> "AlignmentRates":
    from pellucid.evaluate.alignment_rates import rates_of_counts

    return rates_of_counts(counts.drawn, counts.right_sure, counts.right_possible, counts.sure)


def _alignment_objects(
    results: "Sequence[ReadingResult]", chosen_readings: "Sequence[Reading]", has_gold: bool
) -> Iterator[dict[str, Any]]:
    """Yield an object for each reading, and one that says which reading was chosen and which is used."""
    from dataclasses import asdict

    from pellucid.interpret.studies.alignment_readings import DEFAULT_READING

    for result in results:
        reading = asdict(result.reading)
        reading["disagreement"] = result.disagreement
        reading["mean_norm"] = result.mean_norm
        if has_gold:
            reading["one_each"] = asdict(_rates_of_links(result.best_source_word))
            reading["mutual"] = asdict(_rates_of_links(result.mutually_best))
        yield reading

    # The first two are choices that need no gold; the last is what translations are aligned by.
    names = ("least_disagreement", "largest_norm", "used")
    yield dict(zip(names, map(asdict, (*chosen_readings, DEFAULT_READING)), strict=True))


def _reading_lines(
    results: "Sequence[ReadingResult]", chosen_readings: "Sequence[Reading]", has_gold: bool
) -> Iterator[str]:
    """Yield the tables: layers, then the best heads, then which reading was chosen and which is used."""
    from pellucid.interpret.studies.alignment_readings import DEFAULT_READING, SIDES

    columns = [*READING_COLUMNS, *GOLD_COLUMNS] if has_gold else READING_COLUMNS
    layers = [result for result in results if result.reading.head is None]
    heads = [result for result in results if result.reading.head is not None]
    yield from column_lines(layers, columns)

    # No AER, for lack of links, is not an AER of 0: such a head comes last, a perfect one first.
    heads.sort(key=lambda head: reading_error(head, head.best_source_word, has_gold, missing=inf))
    for side in SIDES:
        best = [result for result in heads if result.reading.side == side][:HEADS_SHOWN]
        yield from ("", f"best heads, {side} side, by {'AER' if has_gold else 'disagreement'}")
        yield from column_lines(best, columns)

    yield ""

    results_of = {result.reading: result for result in results}
    choices = (
        ("least disagreement, no gold needed", chosen_readings[0]),
        ("largest mean norm", chosen_readings[1]),
        ("used", DEFAULT_READING),
    )
    for why, reading in choices:
        yield f"{why}: {reading}{_describe_error_rates(results_of[reading]) if has_gold else ''}"


def reading_error(
    result: "ReadingResult",
    links: "LinkCounts",
    has_gold: bool,
    missing: float,
) -> float:
    """Return the AER of links where there is gold, `missing` if they have none.

    Without gold, return the disagreement.
    """
    if not has_gold:
        return result.disagreement
    aer = _rates_of_links(links).aer
    return missing if aer is None else aer


def _mutual_rates(result: "ReadingResult") -> "AlignmentRates":
    return _rates_of_links(result.mutually_best)


def _one_each_rates(result: "ReadingResult") -> "AlignmentRates":
    return _rates_of_links(result.best_source_word)


READING_COLUMNS: "Sequence[Column[ReadingResult]]" = (
    Column("reading", lambda result: str(result.reading), side="l"),
    Column("disagree", lambda result: 100 * result.disagreement, ".1f"),
    Column("norm", lambda result: "" if result.mean_norm is None else result.mean_norm, ".2f"),
)

GOLD_COLUMNS: "Sequence[Column[ReadingResult]]" = (
    Column("AER one each", lambda result: _format_percent(_one_each_rates(result).aer)),
    Column("AER mutual", lambda result: _format_percent(_mutual_rates(result).aer)),
    Column("precision", lambda result: _format_percent(_mutual_rates(result).precision)),
    Column("recall", lambda result: _format_percent(_mutual_rates(result).recall)),
)


def _describe_error_rates(result: "ReadingResult") -> str:
    one_each = _format_percent(_one_each_rates(result).aer)
    mutual = _format_percent(_mutual_rates(result).aer)
    return f"; AER {one_each} with one link for each target word, {mutual} with mutual ones"


def _format_percent(share: float | None) -> str:
    """Return a share of 1 in per cent, or a dash for None."""
    return MISSING if share is None else f"{100 * share:.1f}"


def _draw_alignment(
    path: str,
    bundle: "Bundle",
    pair: "EncodedPair",
    words: tuple[list[str], list[str]],
    results: "Sequence[ReadingResult]",
    gold: set[tuple[int, int]] | None,
) -> None:
    """Draw the matrix of one pair, and AER or disagreement layer by layer."""
    from pellucid.interpret.plots.charts import draw_alignment_figure
    from pellucid.interpret.studies.alignment_readings import KINDS, SIDES, alignment_table

    values, links = alignment_table(bundle.model, pair)
    has_gold = gold is not None
    curves: dict[str, list[float]] = {}
    for side in SIDES:
        for kind in KINDS:
            curves[f"{side} side, {kind}"] = []
    for result in results:
        reading = result.reading
        if reading.layer is not None and reading.head is None:
            # A layer without AER leaves a gap in the curve: 0 would say that it is perfect.
            error = reading_error(result, result.mutually_best, has_gold, missing=nan)
            curves[f"{reading.side} side, {reading.kind}"].append(100 * error)

    # Without gold there is no error to draw: the disagreement of the two directions is drawn.
    measure = "disagreement of two directions, per cent"
    if has_gold:
        measure = "AER of mutual links, per cent"
    save_figure(
        path,
        draw_alignment_figure,
        values.numpy(),
        *words,
        links=links,
        gold=gold,
        lines=curves,
        measure=measure,
    )
