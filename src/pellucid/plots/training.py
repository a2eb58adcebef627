"""Draws the course of a training run: loss and dev scores against minutes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.plots.figure import BLACK, BLUE, GREEN, VERMILION, empty_figure, tidy_axes, write_figure


def draw_training_curve(log: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the reports of a run (the objects of `log.jsonl`) into a file: .png, .svg or .pdf.

    Above, the loss of training (label smoothing included) and of dev (without); below, BLEU and chrF of dev. A report
    with "model", such as that of the averaged model, is a point of its own.
    """
    figure = empty_figure(7.0, 6.0)
    losses, scores = figure.subplots(2, 1, sharex=True)
    # The kinds of line differ too, for print without colour.
    draw_curve(losses, log, "loss", "training, smoothed labels", color=BLUE, linewidth=1.2)
    draw_curve(losses, log, "dev_loss", "dev", color=VERMILION, linewidth=1.5, linestyle="--", marker="o", markersize=4)
    draw_curve(scores, log, "bleu", "BLEU", color=GREEN, linewidth=1.5, marker="o", markersize=4)
    draw_curve(scores, log, "chrf", "chrF", color=BLACK, linewidth=1.5, linestyle="--", marker="s", markersize=4)
    losses.set_ylabel("loss, nats a piece")
    scores.set_ylabel("dev score, per cent")
    scores.set_xlabel("minutes of training")
    scores.set_ylim(0, 100)
    for axes in (losses, scores):
        tidy_axes(axes)
        # A short run may have no dev scores yet, and matplotlib warns of a legend without entries.
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    write_figure(figure, path)


def draw_curve(axes: Any, log: Sequence[Mapping[str, Any]], key: str, label: str, **style: Any) -> None:
    """Draw one number of the reports as a line, that of other models as open points; the legend has the last values."""
    during, other = (
        [(row["seconds"] / 60, row[key]) for row in log if key in row and ("model" in row) == of_other_model]
        for of_other_model in (False, True)
    )
    if during:
        axes.plot(*zip(*during, strict=True), label=f"{label}: {during[-1][1]:.3g}", **style)
    if other:
        points = {"markeredgecolor": style["color"], "markerfacecolor": "none", "markersize": 9, "linestyle": "none"}
        last = f"{label}, averaged model: {other[-1][1]:.3g}"
        axes.plot(*zip(*other, strict=True), marker="D", label=last, **points)
