"""Draws vectors of several kinds as arrows from one origin, each with its word."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, GREEN, VERMILION, empty_figure, escape_dollars, tidy_axes, write_figure

ARROW_COLOURS = (BLUE, VERMILION, GREEN)


def draw_arrows(
    groups: Mapping[str, tuple[np.ndarray, Sequence[str]]],
    path: str | Path,
    *,
    title: str = "",
    marked: Mapping[str, int] | None = None,
) -> None:
    """Draw the rows of each group (vectors of two numbers) with their labels; row `marked` of each group is bold."""
    figure = empty_figure(8.0, 7.0)
    axes = figure.subplots()
    for colour, (kind, (vectors, labels)) in zip(ARROW_COLOURS, groups.items(), strict=False):
        bold = (marked or {}).get(kind)
        for number, (vector, label) in enumerate(zip(vectors, labels, strict=True)):
            strong = number == bold
            axes.annotate(
                "",
                xy=(vector[0], vector[1]),
                xytext=(0.0, 0.0),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "linewidth": 2.4 if strong else 1.0,
                    "alpha": 1.0 if strong or bold is None else 0.45,
                    # Arrows would otherwise keep two points away from both of their ends.
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
            axes.annotate(
                escape_dollars(label),
                vector,
                fontsize=10 if strong else 8,
                fontweight="bold" if strong else "normal",
                color=colour,
                xytext=(3, 3),
                textcoords="offset points",
            )
            # Annotations do not widen the limits of axes; a dot at the tip does; the first makes the legend's entry.
            axes.plot(vector[0], vector[1], ".", markersize=2, color=colour, label=kind if number == 0 else None)
    axes.axhline(0.0, color="0.6", linewidth=0.6)
    axes.axvline(0.0, color="0.6", linewidth=0.6)
    # Angles are what the picture is about, so both axes have one scale.
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.legend(frameon=False, markerscale=6)
    axes.set_title(escape_dollars(title))
    tidy_axes(axes)
    write_figure(figure, path)
