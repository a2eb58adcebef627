"""Word alignment: the matrix of one sentence pair, and how well each layer aligns."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, VERMILION, empty_figure, tidy_axes, write_figure
from pellucid.plots.heatmap import draw_matrix, name_axes

STYLES = (
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
    """Left a row for each target word and a column for each source word; right a line for each way to read.

    A dot is a link that was drawn, a circle one that gold has; both are pairs of a source and a target word.
    """
    wide, tall = len(source_words), len(target_words)
    figure = empty_figure(min(0.36 * wide + 7.5, 30.0), min(max(0.34 * tall + 1.5, 3.5), 24.0))
    left, right = figure.subplots(1, 2, width_ratios=(0.36 * wide + 2.0, 4.5))
    if values.size:
        draw_matrix(left, values)
        name_axes(left, target_words, source_words, "", "")
    for pairs, size, inside in ((gold or (), 130, "none"), (links, 16, VERMILION)):
        if pairs:
            columns, rows = zip(*sorted(pairs), strict=True)
            left.scatter(columns, rows, s=size, facecolors=inside, edgecolors=VERMILION)
    left.set_title("dots: links" + ("; circles: gold" if gold is not None else ""), fontsize=9)
    for (name, numbers), style in zip(lines.items(), STYLES, strict=True):
        right.plot(range(len(numbers)), numbers, label=name, linewidth=1.4, markersize=4, **style)
    right.set_xticks(range(max((len(each) for each in lines.values()), default=0)))
    right.set_xlabel("decoder layer")
    right.set_ylabel(measure)
    right.set_ylim(bottom=0)
    right.legend(frameon=False, fontsize=8)
    tidy_axes(right)
    write_figure(figure, path)
