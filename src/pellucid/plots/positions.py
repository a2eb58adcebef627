"""The vectors of positions: as colours, by wavelength, by similarity, and the curves of a right and a wrong table."""

from pathlib import Path
from typing import Any

import numpy as np

from pellucid.plots.figure import BLUE, VERMILION, empty_figure, tidy_axes, write_figure
from pellucid.plots.heatmap import draw_matrix


def draw_positions(
    values: np.ndarray,
    similarity: np.ndarray,
    path: str | Path,
    *,
    wavelengths: np.ndarray | None = None,
    curves: tuple[np.ndarray, np.ndarray] | None = None,
    position: int = 3,
) -> None:
    """Draw a table (positions by dimensions) and its similarities; `curves` are the right and the wrong vector."""
    figure = empty_figure(12.0, 9.0)
    [[table, alike], [waves, both]] = figure.subplots(2, 2)
    draw_matrix(table, values, signed=True)
    label_axes(table, "what each position is given", "dimension", "position")
    draw_matrix(alike, similarity, signed=True, high=1.0)
    label_axes(alike, "similarity of positions (cosine)", "position", "position")
    if wavelengths is None:
        waves.set_axis_off()
    else:
        waves.semilogy(2 * np.arange(len(wavelengths)), wavelengths, color=BLUE)
        label_axes(waves, "wavelength of each pair of dimensions", "dimension", "positions")
        tidy_axes(waves)
    if curves is None:
        both.set_axis_off()
    else:
        for vector, colour, line, label in (
            (curves[0], BLUE, "-", "10000^(i/d), as the paper has it"),
            (curves[1], VERMILION, "--", "10000^(2i/d), i even already"),
        ):
            sines = vector[0::2]
            both.plot(2 * np.arange(len(sines)), sines, color=colour, linewidth=1.4, linestyle=line, label=label)
        label_axes(both, f"sines of position {position}: the paper, and a doubled exponent", "dimension i", "value")
        both.legend(frameon=False)
        tidy_axes(both)
    write_figure(figure, path)


def label_axes(axes: Any, title: str, across: str, up: str) -> None:
    """What is drawn."""
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
