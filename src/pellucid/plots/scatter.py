"""Words on a plane."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, empty, plain, save, tidy

NAMED = 250
"""Points up to which each has its word beside it."""


def scatter(
    places: np.ndarray,
    labels: Sequence[str],
    path: str | Path,
    *,
    title: str = "",
    axes_names: Sequence[str] = ("", ""),
) -> None:
    """Draw the first two numbers of each row as a point; of many points only some, spread evenly, are named."""
    figure = empty(9.0, 7.0)
    axes = figure.subplots()
    axes.scatter(places[:, 0], places[:, 1], s=9, color=BLUE, alpha=0.6, linewidths=0)
    for number in range(0, len(labels), -(-len(labels) // NAMED)):
        axes.annotate(plain(labels[number]), places[number, :2], fontsize=7, xytext=(2, 2), textcoords="offset points")
    axes.set_title(plain(title))
    axes.set_xlabel(plain(axes_names[0]))
    axes.set_ylabel(plain(axes_names[1]))
    tidy(axes)
    save(figure, path)
