"""Draws how good translations are, by the length of their source."""

from collections.abc import Sequence
from pathlib import Path

from pellucid.plots.figure import BLACK, BLUE, VERMILION, empty_figure, tidy_axes, write_figure


def draw_by_length(
    lengths: Sequence[float],
    loss: Sequence[float],
    chrf: Sequence[float],
    path: str | Path,
    *,
    longest_seen: int | None,
) -> None:
    """Draw loss and chrF against source pieces; a line stands at the longest source that training has seen."""
    figure = empty_figure(7.0, 6.0)
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(lengths, loss, color=BLUE, marker="o")
    above.set_ylabel("loss, nats a piece")
    below.plot(lengths, chrf, color=VERMILION, marker="s")
    below.set_ylabel("chrF")
    below.set_ylim(0, 100)
    below.set_xlabel("pieces of the source")
    for axes in (above, below):
        if longest_seen is not None:
            axes.axvline(longest_seen, color=BLACK, linestyle=":", label="longest seen in training")
            axes.legend(frameon=False)
        tidy_axes(axes)
    write_figure(figure, path)
