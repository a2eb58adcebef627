"""Draws words as points on a plane."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, empty_figure, escape_dollars, tidy_axes, write_figure

MOST_NAMED_POINTS = 250
"""Most points that are named; of more, only some are."""


def draw_scatter(
    points: np.ndarray,
    labels: Sequence[str],
    path: str | Path,
    *,
    title: str = "",
    axes_names: Sequence[str] = ("", ""),
) -> None:
    """Draw the first two numbers of each row as a point; of many points only some, spread evenly, are named."""
    figure = empty_figure(9.0, 7.0)
    axes = figure.subplots()
    axes.scatter(points[:, 0], points[:, 1], s=9, color=BLUE, alpha=0.6, linewidths=0)
    # Every n-th point is named, n rounded up so that the names stay within the limit.
    for number in range(0, len(labels), -(-len(labels) // MOST_NAMED_POINTS)):
        axes.annotate(
            escape_dollars(labels[number]), points[number, :2], fontsize=7, xytext=(2, 2), textcoords="offset points"
        )
    axes.set_title(escape_dollars(title))
    axes.set_xlabel(escape_dollars(axes_names[0]))
    axes.set_ylabel(escape_dollars(axes_names[1]))
    tidy_axes(axes)
    write_figure(figure, path)
