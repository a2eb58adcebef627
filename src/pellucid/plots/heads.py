"""A study of heads in three pictures: what silence costs and roles, how alike heads are, what is left of few heads."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, VERMILION, empty_figure, escape_dollars, tidy_axes, write_figure
from pellucid.plots.heatmap import draw_matrix, name_axes

STYLES = {"ablation": {"color": BLUE, "marker": "o"}, "gradient": {"color": VERMILION, "marker": "s"}}
"""Every other order is a random one: grey and dashed."""


def draw_head_study(
    attentions: Sequence[str],
    importance: Sequence[Sequence[float]],
    marks: Sequence[Sequence[str]],
    similarity: Sequence[Sequence[float | None]],
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    curve_name: str,
    path: str | Path,
) -> None:
    """A row for each attention and a column for each head; marks stand in their cells.

    In the similarity of heads, which have the order of these rows, None is drawn as nothing. Curves are drawn against
    heads kept, all of them first.
    """
    widest = max(map(len, importance))
    cost = np.array([[*row, *[np.nan] * (widest - len(row))] for row in importance])  # some attentions may have fewer
    figure = empty_figure(15.0, max(4.5, 0.3 * len(attentions) + 1.5))
    silent, alike, left = figure.subplots(1, 3)
    image = draw_matrix(silent, cost, signed=True)
    if any(len(row) < widest for row in importance):
        image.set_cmap(image.cmap.with_extremes(bad="none"))
    name_axes(silent, attentions, [str(n) for n in range(cost.shape[1])], "", "head")
    silent.set_title("loss added by its silence, and roles")
    reach = image.get_clim()[1]
    for row, words in enumerate(marks):
        for column, word in enumerate(words):
            pale = abs(cost[row, column]) < 0.6 * reach
            colour = "black" if pale else "white"
            silent.text(column, row, escape_dollars(word), ha="center", va="center", fontsize=8, color=colour)

    rows = np.array([[np.nan if each is None else each for each in row] for row in similarity], dtype=float)
    image = draw_matrix(alike, rows, low=0.0, high=1.0)
    image.set_cmap(image.cmap.with_extremes(bad="none"))
    firsts = np.cumsum([0, *map(len, importance)])[:-1]
    alike.set_yticks(firsts.tolist(), [escape_dollars(name) for name in attentions], fontsize=7)
    alike.set_xticks([])
    alike.set_title("how alike heads read (1: the same)")

    for name, (kept, values) in curves.items():
        grey = {"color": "0.6", "linestyle": "--", "linewidth": 1.0}
        left.plot(kept, values, **{"label": name, "markersize": 4, **STYLES.get(name, grey)})
    left.invert_xaxis()
    left.set_xlabel("heads kept")
    left.set_ylabel(escape_dollars(curve_name))
    left.legend(frameon=False)
    left.set_title("heads taken away in these orders")
    tidy_axes(left)
    write_figure(figure, path)
