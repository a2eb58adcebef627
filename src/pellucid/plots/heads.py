"""Draws a study of heads: the cost of silencing each, how alike they are, and what remains with few of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, VERMILION, empty_figure, escape_dollars, tidy_axes, write_figure
from pellucid.plots.heatmap import draw_matrix, name_axes

ORDER_STYLES = {"ablation": {"color": BLUE, "marker": "o"}, "gradient": {"color": VERMILION, "marker": "s"}}
"""Line styles of orders of removal; every other order is a random one, grey and dashed."""


def draw_head_study(
    attentions: Sequence[str],
    importance: Sequence[Sequence[float]],
    marks: Sequence[Sequence[str]],
    similarity: Sequence[Sequence[float | None]],
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    curve_name: str,
    path: str | Path,
) -> None:
    """Draw three pictures: the importance of each head with its marks, the similarity of heads, and the curves.

    Importance has a row for each attention and a column for each head. Similarity has the heads in the order of these
    rows; None is drawn as nothing. Curves are drawn against heads kept, all of them first.
    """
    widest = max(map(len, importance))
    cost = np.array([[*row, *[np.nan] * (widest - len(row))] for row in importance])  # some attentions may have fewer
    figure = empty_figure(15.0, max(4.5, 0.3 * len(attentions) + 1.5))
    cost_axes, similarity_axes, curve_axes = figure.subplots(1, 3)
    image = draw_matrix(cost_axes, cost, signed=True)
    if any(len(row) < widest for row in importance):
        # Heads that do not exist are NaN, and NaN would be magenta, as a mistake.
        image.set_cmap(image.cmap.with_extremes(bad="none"))
    name_axes(cost_axes, attentions, [str(n) for n in range(cost.shape[1])], "", "head")
    cost_axes.set_title("loss added by its silence, and roles")
    reach = image.get_clim()[1]
    for row, words in enumerate(marks):
        for column, word in enumerate(words):
            pale = abs(cost[row, column]) < 0.6 * reach  # the ends of the diverging scale are dark
            colour = "black" if pale else "white"
            cost_axes.text(column, row, escape_dollars(word), ha="center", va="center", fontsize=8, color=colour)

    rows = np.array([[np.nan if value is None else value for value in row] for row in similarity], dtype=float)
    image = draw_matrix(similarity_axes, rows, low=0.0, high=1.0)
    image.set_cmap(image.cmap.with_extremes(bad="none"))
    firsts = np.cumsum([0, *map(len, importance)])[:-1]  # an attention is named at its first head only
    similarity_axes.set_yticks(firsts.tolist(), [escape_dollars(name) for name in attentions], fontsize=7)
    similarity_axes.set_xticks([])
    similarity_axes.set_title("how alike heads read (1: the same)")

    for name, (heads_kept, values) in curves.items():
        grey = {"color": "0.6", "linestyle": "--", "linewidth": 1.0}
        curve_axes.plot(heads_kept, values, **{"label": name, "markersize": 4, **ORDER_STYLES.get(name, grey)})
    curve_axes.invert_xaxis()
    curve_axes.set_xlabel("heads kept")
    curve_axes.set_ylabel(escape_dollars(curve_name))
    curve_axes.legend(frameon=False)
    curve_axes.set_title("heads taken away in these orders")
    tidy_axes(curve_axes)
    write_figure(figure, path)
