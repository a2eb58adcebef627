"""Draws vectors as bars, one for each dimension, one panel under the other."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pellucid.plots.figure import BLUE, VERMILION, empty_figure, escape_dollars, tidy_axes, write_figure


def draw_spectrum(panels: Mapping[str, np.ndarray], path: str | Path, *, title: str = "") -> None:
    """Draw each vector under its name; bars below zero have another colour."""
    figure = empty_figure(10.0, 1.7 * len(panels) + 0.8)
    for axes, (name, vector) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels.items(), strict=True):
        axes.bar(range(len(vector)), vector, width=0.9, color=[VERMILION if value < 0.0 else BLUE for value in vector])
        axes.axhline(0.0, color="0.4", linewidth=0.6)
        axes.margins(x=0.01)
        axes.set_title(escape_dollars(name), fontsize=9)
        tidy_axes(axes)
    figure.supxlabel("dimension")
    figure.suptitle(escape_dollars(title))
    write_figure(figure, path)
