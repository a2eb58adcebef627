"""Draws named numbers as bars, one panel for each kind of number."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pellucid.plots.figure import BLUE, empty_figure, escape_dollars, tidy_axes, write_figure


def draw_bars(
    names: Sequence[str], panels: Mapping[str, Sequence[float]], path: str | Path, *, title: str = ""
) -> None:
    """Draw the numbers of each panel, one bar for each name, the first on top."""
    figure = empty_figure(4.5 * len(panels), 0.28 * len(names) + 1.4)
    for axes, (kind, numbers) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        bars = axes.barh(range(len(names)), numbers, color=BLUE)
        axes.bar_label(bars, [f"{number:.3g}" for number in numbers], fontsize=8, padding=2)
        axes.set_yticks(range(len(names)), [escape_dollars(name) for name in names])
        axes.invert_yaxis()  # matplotlib puts the first bar at the bottom
        axes.margins(x=0.18)  # room for the numbers at the ends of the bars
        axes.set_title(kind)
        tidy_axes(axes)
    figure.suptitle(escape_dollars(title))
    write_figure(figure, path)
