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
from pellucid.cli.options import DOCUMENT, JSON, LANGUAGE_TO_WRITE, MODEL, PLOT, SOURCE, TRANSLATIONS, file_option, flag
from pellucid.cli.terminal import table_lines
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    from pellucid.evaluate.alignment_rates import AlignmentRates
    from pellucid.interpret.studies.alignment_readings import EncodedPair, LinkCounts, Reading, ReadingResult
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
    apart: Annotated[bool, flag("--apart", "count punctuation marks as words, as gold links often do")] = False,
    links: Annotated[
        str | None, file_option("write the links into this file, as `translate --alignments` does")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Read word alignments from cross-attention in every way.

    On the output side a target word is linked by the rows of the decoder that write it, on the input side by those that
    read it, one further. "Weights" are the attention, "norms" how far a source piece moves the row. "One each" links
    each target word with its best source word, as papers do; "mutual" links pairs of words that are each other's best,
    by shares of both. The layer is chosen without gold links, by how little its two directions disagree. --gold adds
    alignment error rate (AER, lower is better), precision and recall, in per cent.
    --plot draws the matrix of the first pair, and the layers.
    """
    from pellucid.api import load
    from pellucid.decode.translator import inference_only
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
    spaced = [list(map(_separate_punctuation, texts)) if apart else texts for texts in (sources, targets)]
    gold_links = None
    if gold is not None:
        with name_file_in_errors(gold):
            gold_links = read_links(read_parallel_lines(gold, source))
            # Gold that counts punctuation as words names words beyond the end: the hint says what to do.
            require_inside(
                gold_links, *([text.split() for text in texts] for texts in spaced), hint="" if apart else APART_HINT
            )
    loaded = load(model, engine="torch", target_language=language)
    bundle = loaded.bundle
    sources = loaded.translator.join_document(sources) if document else sources
    pairs = encode_alignment_pairs(bundle.tokenizer, sources, targets, *spaced)
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
    chosen_readings = tuple(result.reading for result in choose_readings(results))
    if links is not None:
        # The links are the same as with `translate --alignments`; the reading chosen above does not matter.
        with inference_only(bundle.model):
            lines = [" ".join(f"{i}-{j}" for i, j in pair_links) for pair_links in default_links(bundle.model, pairs)]
        write_text_whole(links, "".join(f"{line}\n" for line in lines))
    if plot is not None:
        words = spaced[0][0].split(), spaced[1][0].split()
        _draw_alignment(plot, bundle, pairs[0], words, results, gold_links.sure[0] if gold_links else None)
    has_gold = gold_links is not None
    lines = [
        f"{len(pairs):,} sentence pairs; everything but the mean norm of a layer in per cent",
        "",
        *_reading_lines(results, chosen_readings, has_gold),
    ]
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
        reading = {**asdict(result.reading), "disagreement": result.disagreement, "mean_norm": result.mean_norm}
        rates = (
            {
                "one_each": asdict(_rates_of_links(result.best_source_word)),
                "mutual": asdict(_rates_of_links(result.mutually_best)),
            }
            if has_gold
            else {}
        )
        yield {**reading, **rates}
    # The first two are choices that need no gold; the last is what translations are aligned by.
    names = ("least_disagreement", "largest_norm", "used")
    yield dict(zip(names, map(asdict, (*chosen_readings, DEFAULT_READING)), strict=True))


def _reading_lines(
    results: "Sequence[ReadingResult]", chosen_readings: "Sequence[Reading]", has_gold: bool
) -> Iterator[str]:
    """Yield the tables: layers, then the best heads, then which reading was chosen and which is used."""
    from pellucid.interpret.studies.alignment_readings import DEFAULT_READING, SIDES

    by_name = {result.reading: result for result in results}
    head = ["reading", "disagree", "norm", *(["AER one each", "AER mutual", "precision", "recall"] if has_gold else [])]
    alignment = "l" + "r" * (len(head) - 1)
    layers = [_reading_row(result, has_gold) for result in results if result.reading.head is None]
    yield from table_lines([head, *layers], alignment)
    for side in SIDES:
        heads = [result for result in results if result.reading.side == side and result.reading.head is not None]
        # No AER, for lack of links, is not an AER of 0: such a head comes last, a perfect one first.
        heads.sort(key=lambda result: reading_error(result, result.best_source_word, has_gold, missing=inf))
        yield from ("", f"best heads, {side} side{', by AER' if has_gold else ', by disagreement'}")
        yield from table_lines([head, *(_reading_row(result, has_gold) for result in heads[:HEADS_SHOWN])], alignment)
    yield ""
    for why, name in (
        ("least disagreement, no gold needed", chosen_readings[0]),
        ("largest mean norm", chosen_readings[1]),
        ("used", DEFAULT_READING),
    ):
        yield f"{why}: {name}{_describe_error_rates(by_name[name]) if has_gold else ''}"


def reading_error(result: "ReadingResult", links: "LinkCounts", has_gold: bool, missing: float) -> float:
    """Return the AER of links where there is gold, `missing` if they have none; otherwise the disagreement."""
    if not has_gold:
        return result.disagreement
    aer = _rates_of_links(links).aer
    return missing if aer is None else aer


def _reading_row(result: "ReadingResult", has_gold: bool) -> list[str]:
    """Return the result of one reading as cells of a table."""
    norm = "" if result.mean_norm is None else f"{result.mean_norm:.2f}"
    cells = [str(result.reading), f"{100 * result.disagreement:.1f}", norm]
    if has_gold:
        one_each, mutual = _rates_of_links(result.best_source_word), _rates_of_links(result.mutually_best)
        cells += [_format_percent(rate) for rate in (one_each.aer, mutual.aer, mutual.precision, mutual.recall)]
    return cells


def _describe_error_rates(result: "ReadingResult") -> str:
    best, mutual = _rates_of_links(result.best_source_word).aer, _rates_of_links(result.mutually_best).aer
    return (
        f"; AER {_format_percent(best)} with one link for each target word, {_format_percent(mutual)} with mutual ones"
    )


def _format_percent(share: float | None) -> str:
    """Return a share of 1 in per cent, or a dash for None."""
    return "-" if share is None else f"{100 * share:.1f}"


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
    # A layer without AER leaves a gap in the curve: 0 would say that it is perfect.
    lines = {
        f"{side} side, {kind}": [
            100 * reading_error(result, result.mutually_best, has_gold, missing=nan)
            for result in results
            if (result.reading.side, result.reading.kind) == (side, kind)
            and result.reading.layer is not None
            and result.reading.head is None
        ]
        for side in SIDES
        for kind in KINDS
    }
    # Without gold there is no error to draw: the disagreement of the two directions stands in for it.
    name = "AER of mutual links, per cent" if has_gold else "disagreement of two directions, per cent"
    save_figure(path, draw_alignment_figure, values.numpy(), *words, links=links, gold=gold, lines=lines, measure=name)
