"""Draws word alignment: the matrix of one sentence pair, and how well each layer aligns."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, VERMILION, empty_figure, tidy_axes, write_figure
from pellucid.plots.heatmap import draw_matrix, name_axes

READING_STYLES = (
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": BLUE, "linestyle": "--", "marker": "s"},
    {"color": VERMILION, "linestyle": "-", "marker": "o"},
    {"color": VERMILION, "linestyle": "--", "marker": "s"},
)


def draw_alignment_figure(
    values: np.ndarray,
    source_words: Sequence[str],
    target_words: Sequence[str],
    path: str | Path,
    *,
    links: Collection[tuple[int, int]],
    gold: Collection[tuple[int, int]] | None,
    lines: Mapping[str, Sequence[float]],
    measure: str,
) -> None:
    """Draw the matrix of a sentence pair, with target words as rows, and a curve over layers for each way to align.

    A dot is a link, a circle a gold link; both are pairs of a source and a target word.
    """
    words_across, words_down = len(source_words), len(target_words)
    figure = empty_figure(min(0.36 * words_across + 7.5, 30.0), min(max(0.34 * words_down + 1.5, 3.5), 24.0))
    matrix, curves = figure.subplots(1, 2, width_ratios=(0.36 * words_across + 2.0, 4.5))
    if values.size:  # one of the sentences may be empty
        draw_matrix(matrix, values)
        name_axes(matrix, target_words, source_words, "", "")
    # Gold first and larger, so that the dots of the links stand inside its circles.
    for pairs, size, inside in ((gold or (), 130, "none"), (links, 16, VERMILION)):
        if pairs:
            columns, rows = zip(*sorted(pairs), strict=True)
            matrix.scatter(columns, rows, s=size, facecolors=inside, edgecolors=VERMILION)
    matrix.set_title("dots: links" + ("; circles: gold" if gold is not None else ""), fontsize=9)
    for (name, numbers), style in zip(lines.items(), READING_STYLES, strict=True):
        curves.plot(range(len(numbers)), numbers, label=name, linewidth=1.4, markersize=4, **style)
    curves.set_xticks(range(max((len(numbers) for numbers in lines.values()), default=0)))
    curves.set_xlabel("decoder layer")
    curves.set_ylabel(measure)
    curves.set_ylim(bottom=0)
    curves.legend(frameon=False, fontsize=8)
    tidy_axes(curves)
    write_figure(figure, path)
