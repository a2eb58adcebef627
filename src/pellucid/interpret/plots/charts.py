"""Charts of trainings and of what `pellucid inspect` measures: points, bars, arrows, curves, matrices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from pellucid.interpret.plots.figure import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    draw_matrix,
    empty_figure,
    escape_dollars,
    name_axes,
    tidy_axes,
    write_figure,
)


def draw_step_strengths(blocks: Sequence[Any], path: str | Path, *, title: str = "") -> None:
    """Draw the singular values of gradient and step, strongest first, each as a share of the largest.

    Of a matrix in blocks, all are drawn, over each other.
    """
    figure = empty_figure(6.0, 3.4)
    axes = figure.subplots()
    for number, block in enumerate(blocks):
        for name, strengths, colour in (
            ("gradient", block.gradient, BLUE),
            ("step", block.step, VERMILION),
        ):
            shares = np.array(strengths) / (strengths[0] or 1.0)
            axes.semilogy(shares, color=colour, linewidth=1.0, label=name if number == 0 else None)

    axes.set(
        title=title,
        xlabel="direction, strongest first",
        ylabel="strength, as a share of the largest",
    )
    axes.set_ylim(1e-4, 2.0)
    tidy_axes(axes)
    write_figure(figure, path)


def draw_training_curve(log: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the reports of a run (the objects of `log.jsonl`) into a file: .png, .svg or .pdf.

    Above, the loss of training (label smoothing included) and of dev (without); below, BLEU and
    chrF of dev. A report with "model", such as the report on the averaged model, is a point of its
    own.
    """
    figure = empty_figure(7.0, 6.0)
    losses, scores = figure.subplots(2, 1, sharex=True)
    # The kinds of line differ too, for print without colour.
    _draw_curve(losses, log, "loss", "training, smoothed labels", color=BLUE, linewidth=1.2)
    _draw_curve(
        losses,
        log,
        "dev_loss",
        "dev",
        color=VERMILION,
        linewidth=1.5,
        linestyle="--",
        marker="o",
        markersize=4,
    )
    _draw_curve(scores, log, "bleu", "BLEU", color=GREEN, linewidth=1.5, marker="o", markersize=4)
    _draw_curve(
        scores,
        log,
        "chrf",
        "chrF",
        color=BLACK,
        linewidth=1.5,
        linestyle="--",
        marker="s",
        markersize=4,
    )
    losses.set_ylabel("loss, nats a piece")
    scores.set(xlabel="minutes of training", ylabel="dev score, per cent", ylim=(0, 100))
    for axes in (losses, scores):
        tidy_axes(axes)
    write_figure(figure, path)


def _draw_curve(
    axes: Any,
    log: Sequence[Mapping[str, Any]],
    key: str,
    label: str,
    **style: Any,
) -> None:
    """Draw one number of the reports as a line, for other models as open points.

    The legend has the last values.
    """
    during, other = [], []
    for row in log:
        if key in row:
            points = other if "model" in row else during
            points.append((row["seconds"] / 60, row[key]))

    if during:
        axes.plot(*zip(*during, strict=True), label=f"{label}: {during[-1][1]:.3g}", **style)
    if other:
        marker = {"markeredgecolor": style["color"], "markerfacecolor": "none", "markersize": 9}
        last = f"{label}, averaged model: {other[-1][1]:.3g}"
        axes.plot(*zip(*other, strict=True), marker="D", linestyle="none", label=last, **marker)


def draw_stress(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw how far BLEU and chrF of lines with each kind of noise are below or above the scores of clean lines.

    `rows` are the objects of `evaluate --stress --json`; the first, of the clean lines, stands in
    the title.
    """
    clean, *noisy = rows
    figure = empty_figure(7.0, 1.3 + 0.36 * len(noisy))
    axes = figure.subplots()
    places = np.arange(len(noisy))

    for offset, name, label, colour in (
        (-0.2, "bleu", "BLEU", BLUE),
        (0.2, "chrf", "chrF", ORANGE),
    ):
        axes.barh(
            places + offset,
            [row[f"{name}_difference"] for row in noisy],
            0.38,
            color=colour,
            label=label,
        )

    axes.set_yticks(places, [row["kind"].replace("_", " ") for row in noisy])
    axes.invert_yaxis()
    axes.axvline(0, color=BLACK, linewidth=0.8)
    axes.set(
        title=f"clean lines: BLEU {clean['bleu']:.1f}, chrF {clean['chrf']:.1f}",
        xlabel="difference to clean lines",
    )
    tidy_axes(axes)
    write_figure(figure, path)


def draw_by_length(
    lengths: Sequence[float],
    loss: Sequence[float],
    chrf: Sequence[float],
    path: str | Path,
    *,
    longest_seen: int | None,
) -> None:
    """Draw loss and chrF against source pieces.

    A line stands at the longest source that training has seen.
    """
    figure = empty_figure(7.0, 6.0)
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(lengths, loss, color=BLUE, marker="o")
    above.set_ylabel("loss, nats a piece")
    below.plot(lengths, chrf, color=VERMILION, marker="s")
    below.set(xlabel="pieces of the source", ylabel="chrF", ylim=(0, 100))

    for axes in (above, below):
        if longest_seen is not None:
            axes.axvline(longest_seen, color=BLACK, linestyle=":", label="longest seen in training")
        tidy_axes(axes)

    write_figure(figure, path)


READING_STYLES = (
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": BLUE, "linestyle": "--", "marker": "s"},
    {"color": VERMILION, "linestyle": "-", "marker": "o"},
    {"color": VERMILION, "linestyle": "--", "marker": "s"},
)


def draw_alignment_figure(
    values: np.ndarray,
    source_words: Sequence[str],
    target_words: Sequence[str],
    path: str | Path,
    *,
    links: Collection[tuple[int, int]],
    gold: Collection[tuple[int, int]] | None,
    lines: Mapping[str, Sequence[float]],
    measure: str,
) -> None:
    """Draw the matrix of a sentence pair, with target words as rows, and a curve over layers for each way to align.

    A dot is a link, a circle a gold link; both are pairs of a source and a target word.
    """
    words_across, words_down = len(source_words), len(target_words)
    figure = empty_figure(min(0.36 * words_across + 7.5, 30.0), min(max(0.34 * words_down + 1.5, 3.5), 24.0))
    matrix, curves = figure.subplots(1, 2, width_ratios=(0.36 * words_across + 2.0, 4.5))
    if values.size:  # one of the sentences may be empty
        draw_matrix(matrix, values)
        name_axes(matrix, target_words, source_words, "", "")

    # Gold first and larger, so that the dots of the links stand inside its circles.
    for pairs, size, inside in ((gold or (), 130, "none"), (links, 16, VERMILION)):
        if pairs:
            columns, rows = zip(*sorted(pairs), strict=True)
            matrix.scatter(columns, rows, s=size, facecolors=inside, edgecolors=VERMILION)

    matrix.set_title("dots: links" + ("; circles: gold" if gold is not None else ""), fontsize=9)
    for (name, numbers), style in zip(lines.items(), READING_STYLES, strict=True):
        curves.plot(range(len(numbers)), numbers, label=name, linewidth=1.4, markersize=4, **style)
    curves.set_xticks(range(max((len(numbers) for numbers in lines.values()), default=0)))
    curves.set(xlabel="decoder layer", ylabel=measure)
    curves.set_ylim(bottom=0)
    tidy_axes(curves)
    curves.legend(frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_positions(
    values: np.ndarray,
    similarity: np.ndarray,
    path: str | Path,
    *,
    wavelengths: np.ndarray | None = None,
    curves: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Draw a table (positions by dimensions) and its similarities.

    `curves` are position 3, right and wrong.
    """
    figure = empty_figure(12.0, 9.0)
    [[table, similarities], [wavelength_axes, curve_axes]] = figure.subplots(2, 2)
    draw_matrix(table, values, signed=True)
    table.set(title="what each position is given", xlabel="dimension", ylabel="position")
    draw_matrix(similarities, similarity, signed=True, high=1.0)
    similarities.set(title="similarity of positions (cosine)", xlabel="position", ylabel="position")
    if wavelengths is None:
        wavelength_axes.set_axis_off()
    else:
        # Each pair of dimensions, a sine and a cosine, has one wavelength; they grow geometrically,
        # hence the log axis.
        wavelength_axes.semilogy(2 * np.arange(len(wavelengths)), wavelengths, color=BLUE)
        title = "wavelength of each pair of dimensions"
        wavelength_axes.set(title=title, xlabel="dimension", ylabel="positions")
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
            curve_axes.plot(
                2 * np.arange(len(sines)),
                sines,
                color=colour,
                linewidth=1.4,
                linestyle=line,
                label=label,
            )
        title = "sines of position 3: the paper, and a doubled exponent"
        curve_axes.set(title=title, xlabel="dimension i", ylabel="value")
        tidy_axes(curve_axes)

    write_figure(figure, path)


PANELS_ACROSS = 3  # most panels in a row


@dataclass(frozen=True)
class ProbePanel:
    """One probe: a row for each head and a column for each word.

    `wished` says which heads do as the probe wishes; `ranks` are the words of its order, most
    wanted first.
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
        heads = []
        for head, marked in zip(panel.heads, panel.wished, strict=True):
            heads.append(f"✓ {head}" if marked else head)
        names, ranked_words = list(panel.words), []
        for rank, words in enumerate(panel.ranks, start=1):
            for word in words:
                names[word] = f"{names[word]} ({rank})"
                ranked_words.append(word)
        name_axes(axes, heads, names, "", "")  # before the colours: it makes the tick labels
        axes.tick_params(labelsize=6)
        for word in ranked_words:
            axes.get_xticklabels()[word].set_color(VERMILION)
        axes.set_title(escape_dollars("\n".join(wrap(panel.title, 46))), fontsize=8)

    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    write_figure(figure, path)


# Line styles of orders of removal; any other order is a random one, grey and dashed.
ORDER_STYLES = {
    "ablation": {"color": BLUE, "marker": "o"},
    "gradient": {"color": VERMILION, "marker": "s"},
}


def draw_head_study(
    attentions: Sequence[str],
    importance: Sequence[Sequence[float]],
    marks: Sequence[Sequence[str]],
    similarity: Sequence[Sequence[float | None]],
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    curve_name: str,
    path: str | Path,
) -> None:
    """Draw three pictures: the importance of each head with its marks, the similarity of heads, and the curves.

    Importance has a row for each attention and a column for each head. Similarity has the heads in
    the order of these rows; None is drawn as nothing. Curves are drawn against heads kept, all of
    them first.
    """
    cost = np.array(importance)
    figure = empty_figure(15.0, max(4.5, 0.3 * len(attentions) + 1.5))
    cost_axes, similarity_axes, curve_axes = figure.subplots(1, 3)
    image = draw_matrix(cost_axes, cost, signed=True)
    name_axes(cost_axes, attentions, [str(n) for n in range(cost.shape[1])], "", "head")
    cost_axes.set_title("loss added by its silence, and roles")
    reach = image.get_clim()[1]

    for row, words in enumerate(marks):
        for column, word in enumerate(words):
            pale = abs(cost[row, column]) < 0.6 * reach  # the ends of the diverging scale are dark
            colour = "black" if pale else "white"
            cost_axes.text(
                column,
                row,
                escape_dollars(word),
                ha="center",
                va="center",
                fontsize=8,
                color=colour,
            )

    rows = np.array(similarity, dtype=float)  # None becomes NaN
    image = draw_matrix(similarity_axes, rows, low=0.0, high=1.0)
    image.set_cmap(image.cmap.with_extremes(bad="none"))
    firsts = np.cumsum([0, *map(len, importance)])[:-1]  # an attention is named at its first head only
    similarity_axes.set_yticks(
        firsts.tolist(),
        [escape_dollars(name) for name in attentions],
        fontsize=7,
    )
    similarity_axes.set_xticks([])
    similarity_axes.set_title("how alike heads read (1: the same)")

    for name, (heads_kept, values) in curves.items():
        grey = {"color": "0.6", "linestyle": "--", "linewidth": 1.0}
        curve_axes.plot(
            heads_kept,
            values,
            **{"label": name, "markersize": 4, **ORDER_STYLES.get(name, grey)},
        )

    curve_axes.invert_xaxis()
    title = "heads taken away in these orders"
    curve_axes.set(title=title, xlabel="heads kept", ylabel=escape_dollars(curve_name))
    tidy_axes(curve_axes)
    write_figure(figure, path)
