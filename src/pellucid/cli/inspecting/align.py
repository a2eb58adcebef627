"""`pellucid inspect align`: word alignment read from cross-attention in every way, beside gold links."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import name_file_in_errors, open_output, read_file_pair, read_parallel_lines, write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects, write_table
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.evaluate.alignment import AlignmentRates, GoldLinks
    from pellucid.inspect.alignment import EncodedPair, LinkCounts, Reading, ReadingResult

EXAMPLES = """\
  pellucid inspect align runs/demo/best --source test.en --target test.es
  pellucid inspect align runs/demo/best --source runs/demo/data/test.en --target runs/demo/data/test.es \\
    --gold runs/demo/data/test.align --apart --plot align.png
  pellucid inspect align runs/mine/best --source book.en.gz --target book.es.gz --links book.align"""

APART_HINT = "; if these links count punctuation marks as words, pass --apart"


def run(
    model: Annotated[str, MODEL],
    source: Annotated[str, typer.Option(metavar="FILE", help="sentences, one a line, plain or .gz")],
    target: Annotated[str, typer.Option(metavar="FILE", help="a translation of each, line by line")],
    gold: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="known links, line by line: i-j is sure, ipj possible; i a source word, j a target word, from 0",
        ),
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="count punctuation marks as words, as gold often does")
    ] = False,
    dev_source: Annotated[
        str | None, typer.Option(metavar="FILE", help="choose the layer on these sentences, not on those measured")
    ] = None,
    dev_target: Annotated[str | None, typer.Option(metavar="FILE", help="and their translations")] = None,
    heads: Annotated[int, typer.Option(min=0, help="heads shown of each side, the best first")] = 3,
    links: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the links, as `translate --alignments` does")
    ] = None,
    sentence: Annotated[int, typer.Option(min=1, help="the line whose matrix is drawn")] = 1,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Word alignments from cross-attention, read in every way.

    On the output side a target word is linked by the rows of the decoder that write it, on the input side by those that
    read it, one further. Weights are attention, norms how far a source piece moves the row. One link for each target
    word (its largest) is what papers draw; "mutual" are the pairs of which either is the other's best, by shares of
    both. The layer is chosen without gold, by how little its two directions disagree. With --gold come alignment error
    rate (AER, lower is better), precision and recall, in per cent.
    """
    from pellucid.bundle import load_bundle
    from pellucid.evaluate.alignment import read_links, require_inside
    from pellucid.inspect.alignment import choose_readings

    require_figure(plot)
    if (dev_source is None) != (dev_target is None):
        raise ValueError("--dev-source and --dev-target belong together; give both or none")
    sources, targets = read_file_pair(source, target)
    if sentence > len(sources):
        raise ValueError(f"--sentence {sentence}: {source} has {len(sources):,} lines")
    spaced = [list(map(separate_punctuation, texts)) if apart else texts for texts in (sources, targets)]
    known = None
    if gold is not None:
        with name_file_in_errors(gold):
            known = read_links(read_parallel_lines(gold, source))
            require_inside(
                known, *([text.split() for text in texts] for texts in spaced), hint="" if apart else APART_HINT
            )
    found = load_bundle(model)
    pairs, reads = read_with_progress(found, sources, targets, spaced, known, f"{source} and {target}")
    chosen_on = reads
    if dev_source is not None and dev_target is not None:
        texts = read_file_pair(dev_source, dev_target)
        parts = [list(map(separate_punctuation, each)) if apart else each for each in texts]
        chosen_on = read_with_progress(found, *texts, parts, None, f"{dev_source} and {dev_target}")[1]
    chosen = tuple(each.reading for each in choose_readings(chosen_on))
    if links is not None:
        write_links(links, found, pairs)
    if plot is not None:
        words = spaced[0][sentence - 1].split(), spaced[1][sentence - 1].split()
        sure = known.sure[sentence - 1] if known else None
        draw_alignment(plot, found, pairs[sentence - 1], words, reads, sure)
    if json:
        write_objects(alignment_objects(reads, chosen, known is not None))
    else:
        write_alignment_tables(reads, chosen, heads, known is not None, len(pairs))


def separate_punctuation(text: str) -> str:
    """The text with spaces around its marks.

    >>> separate_punctuation("«No», dijo.")
    '« No » , dijo .'
    """
    from pellucid.data.phrasebook import split_into_words

    return " ".join(split_into_words(text))


def read_with_progress(
    found: "Bundle",
    sources: Sequence[str],
    targets: Sequence[str],
    spaced: Sequence[Sequence[str]],
    gold: "GoldLinks | None",
    where: str,
) -> "tuple[list[EncodedPair], list[ReadingResult]]":
    """The pairs, and every reading of them; a bar for whoever looks on."""
    from pellucid.cli.progress import show_progress
    from pellucid.inspect.alignment import encode_alignment_pairs, measure_readings

    pairs = encode_alignment_pairs(found.tokenizer, sources, targets, *spaced)
    bar = show_progress(range(len(pairs)), len(pairs))
    with name_file_in_errors(where):
        reads = measure_readings(
            found.model,
            pairs,
            gold.sure if gold else None,
            gold.possible if gold else None,
            lambda number: [next(bar, None) for _ in range(number)],
        )
    next(bar, None)
    return pairs, reads


def write_links(path: str, found: "Bundle", pairs: "Sequence[EncodedPair]") -> None:
    """A line for each pair, in the Pharaoh format."""
    from pellucid.decode.translate import inference_only
    from pellucid.inspect.alignment import default_links

    with open_output(path) as write, inference_only(found.model):
        assert write is not None
        for some in default_links(found.model, pairs):
            write(" ".join(f"{i}-{j}" for i, j in some) + "\n")


def rates_of_links(counts: "LinkCounts") -> "AlignmentRates":
    """The rates of what was counted."""
    from pellucid.evaluate.alignment import rates_of_counts

    return rates_of_counts(counts.drawn, counts.right_sure, counts.right_possible, counts.sure)


def alignment_objects(
    reads: "Sequence[ReadingResult]", chosen: "Sequence[Reading]", known: bool
) -> Iterator[dict[str, Any]]:
    """One for each reading, and one that says which was chosen and which is used."""
    from dataclasses import asdict

    from pellucid.inspect.alignment import DEFAULT_READING

    for each in reads:
        told = {**asdict(each.reading), "disagreement": each.disagreement, "mean_norm": each.mean_norm}
        scored = (
            {
                "one_each": asdict(rates_of_links(each.best_source_word)),
                "mutual": asdict(rates_of_links(each.mutually_best)),
            }
            if known
            else {}
        )
        yield {**told, **scored}
    names = ("least_disagreement", "largest_norm", "used")
    yield dict(zip(names, map(asdict, (*chosen, DEFAULT_READING)), strict=True))


def write_alignment_tables(
    reads: "Sequence[ReadingResult]", chosen: "Sequence[Reading]", heads: int, known: bool, count: int
) -> None:
    """The tables: layers, then the best heads, then what was chosen and what is used."""
    from pellucid.inspect.alignment import DEFAULT_READING, SIDES

    by_name = {each.reading: each for each in reads}
    head = ["reading", "disagree", "norm", *(["AER one each", "AER mutual", "precision", "recall"] if known else [])]
    sides = "l" + "r" * (len(head) - 1)
    write_lines([f"{count:,} sentence pairs; everything but the mean norm of a layer in per cent", ""])
    write_table([head, *(reading_row(each, known) for each in reads if each.reading.head is None)], sides)
    for side in SIDES if heads else ():
        of_side = [each for each in reads if each.reading.side == side and each.reading.head is not None]
        best = sorted(
            of_side, key=lambda each: (rates_of_links(each.best_source_word).aer or 1.0) if known else each.disagreement
        )
        write_lines(["", f"best heads, {side} side{', by AER' if known else ', by disagreement'}"])
        write_table([head, *(reading_row(each, known) for each in best[:heads])], sides)
    said = (
        ("least disagreement, no gold needed", chosen[0]),
        ("largest mean norm", chosen[1]),
        ("used", DEFAULT_READING),
    )
    write_lines(["", *(f"{why}: {name}{describe_error_rates(by_name[name]) if known else ''}" for why, name in said)])


def reading_row(read: "ReadingResult", known: bool) -> list[str]:
    """One reading as cells."""
    norm = "" if read.mean_norm is None else f"{read.mean_norm:.2f}"
    cells = [str(read.reading), f"{100 * read.disagreement:.1f}", norm]
    if known:
        one, mutual = rates_of_links(read.best_source_word), rates_of_links(read.mutually_best)
        cells += [format_percent(each) for each in (one.aer, mutual.aer, mutual.precision, mutual.recall)]
    return cells


def describe_error_rates(read: "ReadingResult") -> str:
    """Its error rates in words."""
    one, mutual = rates_of_links(read.best_source_word).aer, rates_of_links(read.mutually_best).aer
    return f"; AER {format_percent(one)} with one link for each target word, {format_percent(mutual)} with mutual ones"


def format_percent(share: float | None) -> str:
    """A share of 1 in per cent; a dash where there is none."""
    return "-" if share is None else f"{100 * share:.1f}"


def draw_alignment(
    path: str,
    found: "Bundle",
    pair: "EncodedPair",
    words: tuple[list[str], list[str]],
    reads: "Sequence[ReadingResult]",
    gold: set[tuple[int, int]] | None,
) -> None:
    """The matrix of one pair, and the layers beside each other."""
    from pellucid.inspect.alignment import KINDS, SIDES, alignment_table
    from pellucid.plots.alignment import draw_alignment_figure

    values, drawn = alignment_table(found.model, pair)
    known = gold is not None
    lines = {
        f"{side} side, {kind}": [
            100 * ((rates_of_links(each.mutually_best).aer or 0.0) if known else each.disagreement)
            for each in reads
            if (each.reading.side, each.reading.kind) == (side, kind)
            and each.reading.layer is not None
            and each.reading.head is None
        ]
        for side in SIDES
        for kind in KINDS
    }
    name = "AER of mutual links, per cent" if known else "disagreement of two directions, per cent"
    save_figure(
        path,
        lambda file: draw_alignment_figure(
            values.numpy(), *words, file, links=drawn, gold=gold, lines=lines, measure=name
        ),
    )
