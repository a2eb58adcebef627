"""Draws what remains of a model with fewer heads: a line for each order of removal, a band for chance."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import GREEN, empty_figure, escape_dollars, tidy_axes, write_figure
from pellucid.plots.heads import STYLES


def draw_pruning_curves(
    heads_kept: Sequence[int],
    curves: Mapping[str, Mapping[str, Sequence[float]]],
    path: str | Path,
    *,
    title: str = "",
    heads: str = "heads",
    learned: tuple[int, Mapping[str, float]] | None = None,
) -> None:
    """Draw one picture for each score ("BLEU": {order: values}) against heads kept, all of them first.

    Orders that begin with "random" are drawn as the band between the least and the largest of them, and their mean.
    `learned` is one more model: how many heads it has, and its scores.
    """
    figure = empty_figure(5.2 * len(curves), 4.0)
    for axes, (score, values_of_orders) in zip(
        figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True
    ):
        chance = np.array([values for name, values in values_of_orders.items() if name.startswith("random")])
        if len(chance):
            axes.fill_between(heads_kept, chance.min(axis=0), chance.max(axis=0), color="0.85", linewidth=0)
            mean = f"mean of {len(chance)} random orders"
            axes.plot(heads_kept, chance.mean(axis=0), color="0.5", linestyle="--", linewidth=1.0, label=mean)
        for name, values in values_of_orders.items():
            if not name.startswith("random"):
                axes.plot(heads_kept, values, **{"label": name, "markersize": 4, **STYLES.get(name, {})})
        if learned is not None:
            axes.plot([learned[0]], [learned[1][score]], color=GREEN, marker="*", markersize=11, ls="", label="l0")
        axes.invert_xaxis()
        axes.set_xlabel(f"{escape_dollars(heads)} kept")
        axes.set_ylabel(escape_dollars(score))
        axes.legend(frameon=False)
        tidy_axes(axes)
    figure.suptitle(escape_dollars(title))
    write_figure(figure, path)
