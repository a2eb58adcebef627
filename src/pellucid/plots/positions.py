"""Draws position vectors: as colours, by similarity and wavelength, and curves of a right and a wrong table."""

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
    [[table, similarities], [wavelength_axes, curve_axes]] = figure.subplots(2, 2)
    draw_matrix(table, values, signed=True)
    label_axes(table, "what each position is given", "dimension", "position")
    draw_matrix(similarities, similarity, signed=True, high=1.0)
    label_axes(similarities, "similarity of positions (cosine)", "position", "position")
    if wavelengths is None:
        wavelength_axes.set_axis_off()
    else:
        # Each pair of dimensions, a sine and a cosine, has one wavelength; they grow geometrically, hence the log axis.
        wavelength_axes.semilogy(2 * np.arange(len(wavelengths)), wavelengths, color=BLUE)
        label_axes(wavelength_axes, "wavelength of each pair of dimensions", "dimension", "positions")
        tidy_axes(wavelength_axes)
    if curves is None:
        curve_axes.set_axis_off()
    else:
        for vector, colour, line, label in (
            (curves[0], BLUE, "-", "10000^(i/d), as the paper has it"),
            (curves[1], VERMILION, "--", "10000^(2i/d), i even already"),
        ):
            # Sines only: the cosines of the same dimensions would double every line.
            sines = vector[0::2]
            curve_axes.plot(2 * np.arange(len(sines)), sines, color=colour, linewidth=1.4, linestyle=line, label=label)
        label_axes(
            curve_axes, f"sines of position {position}: the paper, and a doubled exponent", "dimension i", "value"
        )
        curve_axes.legend(frameon=False)
        tidy_axes(curve_axes)
    write_figure(figure, path)


def label_axes(axes: Any, title: str, across: str, up: str) -> None:
    """Give axes a title, and names to their directions."""
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
