"""Draws how strongly each head reads each word, a panel for each probe; heads that do as wished are marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import numpy as np

from pellucid.plots.figure import VERMILION, empty_figure, escape_dollars, write_figure
from pellucid.plots.heatmap import draw_matrix, name_axes

PANELS_ACROSS = 3
"""Most panels in a row."""


@dataclass(frozen=True)
class ProbePanel:
    """One probe: a row for each head and a column for each word.

    `wished` says which heads do as the probe wishes; `ranks` are the words of its order, most wanted first.
    """

    title: str
    heads: Sequence[str]
    words: Sequence[str]
    values: Sequence[Sequence[float]]
    wished: Sequence[bool]
    ranks: Sequence[Sequence[int]]


def draw_probe_panels(panels: Sequence[ProbePanel], path: str | Path) -> None:
    """Draw all panels, with a tick before heads that do as wished and its rank behind each word of the order."""
    across = min(PANELS_ACROSS, len(panels))
    down = -(-len(panels) // across)  # rounded up
    tall = max(len(panel.heads) for panel in panels)
    figure = empty_figure(5.2 * across, (0.17 * tall + 1.9) * down)
    all_axes = figure.subplots(down, across, squeeze=False).ravel()
    for axes, panel in zip(all_axes, panels, strict=False):
        values = np.array(panel.values)
        draw_matrix(axes, values, low=0.0)
        heads = [f"{'✓ ' if marked else ''}{head}" for head, marked in zip(panel.heads, panel.wished, strict=True)]
        names = list(panel.words)
        ranked_words = [(rank, word) for rank, words in enumerate(panel.ranks, start=1) for word in words]
        for rank, word in ranked_words:
            names[word] = f"{names[word]} ({rank})"
        name_axes(axes, heads, names, "", "")  # before the colours: it makes the tick labels
        axes.tick_params(labelsize=6)
        for _, word in ranked_words:
            axes.get_xticklabels()[word].set_color(VERMILION)
        axes.set_title(escape_dollars("\n".join(wrap(panel.title, 46))), fontsize=8)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    write_figure(figure, path)
