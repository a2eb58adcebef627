"""What each head reads of each word, a panel for each probe; heads that do as wished are marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import numpy as np

from pellucid.plots.figure import VERMILION, empty_figure, escape_dollars, write_figure
from pellucid.plots.heatmap import draw_matrix, name_axes

PANELS_ACROSS = 3
"""Panels in a row."""


@dataclass(frozen=True)
class ProbePanel:
    """A row for each head, a column for each word; `wished` says which heads do so, `ranks` are the words of
    the order, most wanted first.
    """

    title: str
    heads: Sequence[str]
    words: Sequence[str]
    values: Sequence[Sequence[float]]
    wished: Sequence[bool]
    ranks: Sequence[Sequence[int]]


def draw_probe_panels(panels: Sequence[ProbePanel], path: str | Path) -> None:
    """Draw all panels; a tick stands before heads that do as wished, its rank behind a word of the order."""
    across = min(PANELS_ACROSS, len(panels))
    down = -(-len(panels) // across)
    tall = max(len(panel.heads) for panel in panels)
    figure = empty_figure(5.2 * across, (0.17 * tall + 1.9) * down)
    every = figure.subplots(down, across, squeeze=False).ravel()
    for axes, panel in zip(every, panels, strict=False):
        values = np.array(panel.values)
        draw_matrix(axes, values, low=0.0)
        heads = [f"{'✓ ' if does else ''}{head}" for head, does in zip(panel.heads, panel.wished, strict=True)]
        names = list(panel.words)
        of_ranks = [(rank, place) for rank, some in enumerate(panel.ranks, start=1) for place in some]
        for rank, place in of_ranks:
            names[place] = f"{names[place]} ({rank})"
        name_axes(axes, heads, names, "", "")
        axes.tick_params(labelsize=6)
        for _, place in of_ranks:
            axes.get_xticklabels()[place].set_color(VERMILION)
        axes.set_title(escape_dollars("\n".join(wrap(panel.title, 46))), fontsize=8)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    write_figure(figure, path)
