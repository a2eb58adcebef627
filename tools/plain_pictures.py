"""Pictures of the page "The whole in ten minutes", which shows no code: each is drawn by one call."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from pellucid.interpret.plots.architecture import draw_architecture
from pellucid.interpret.plots.figure import BLUE, VERMILION, draw_matrix, empty_figure, name_axes, tidy_axes
from pellucid.interpret.studies.anatomy import read_architecture

PLAIN_WORDS = {
    "embedding": ("embedding", "each piece becomes a list of {width} numbers"),
    "positions": ("+ position", "its place in the sentence is added"),
    "self": ("self-attention", "pieces read the other pieces of their text"),
    "cross": ("cross-attention", "reads the memory: the English sentence"),
    "ffn": ("feed-forward", "computes on each piece by itself"),
    "output": ("logits", "a score for every piece that may come next"),
}
"""Title and detail of a box, by the kind of its part."""

SHOWN_NUMBERS = 48
"""Numbers of a vector that are drawn."""


def draw_stacks(network: Any) -> Any:
    """Draw the two stacks of a model, their boxes in plain words and without the norms."""
    from IPython.display import SVG

    drawn = read_architecture(network)
    path = f"{tempfile.mkdtemp()}/stacks.svg"
    width = network.config.d_model
    draw_architecture(describe_parts(drawn.encoder, width), describe_parts(drawn.decoder, width), path)
    return SVG(path)


def describe_parts(parts: Sequence[Any], width: int) -> tuple[Any, ...]:
    """Return boxes, and layers of sublayers, with words that need no explanation."""
    described = []
    for part in parts:
        if hasattr(part, "parts"):
            sublayers = tuple(describe_parts(sublayer, width) for sublayer in part.parts)
            described.append(replace(part, parts=sublayers))
        elif part.kind in PLAIN_WORDS:
            title, detail = PLAIN_WORDS[part.kind]
            described.append(replace(part, title=title, detail=detail.format(width=width), parameters=0))
    return tuple(described)


def draw_pieces(pieces: Sequence[str], ids: Sequence[int]) -> Any:
    """Draw pieces in boxes, each with its id below it."""
    figure = empty_figure(6.5, 0.9)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(-0.5, len(pieces) - 0.5)
    box = {"boxstyle": "round,pad=0.3", "facecolor": "#F6D7C8", "edgecolor": "0.4"}
    for place, (piece, token) in enumerate(zip(pieces, ids, strict=True)):
        axes.text(place, 0.65, piece, ha="center", fontsize=11, bbox=box)
        axes.text(place, 0.05, token, ha="center", fontsize=10, color="0.3")
    return figure


def draw_rows(values: np.ndarray, names: Sequence[str]) -> Any:
    """Draw the first numbers of some vectors as colours, a row for each vector."""
    figure = empty_figure(6.5, 0.6 + 0.24 * len(names))
    axes = figure.subplots()
    draw_matrix(axes, values[:, :SHOWN_NUMBERS], signed=True)
    name_axes(axes, names, None, "", "")
    axes.set_xticks([])
    return figure


def draw_heads(patterns: np.ndarray, pieces: Sequence[str]) -> Any:
    """Draw the patterns of four heads, (head, query, key)."""
    figure = empty_figure(6.5, 5.6)
    for head, axes in enumerate(figure.subplots(2, 2).flat):
        draw_matrix(axes, patterns[head], low=0.0, high=1.0)
        is_left = head % 2 == 0
        name_axes(axes, pieces if is_left else [""] * len(pieces), pieces, "reads" if is_left else "", "")
        axes.set_title(f"head {head}", fontsize=9)
    return figure


def draw_pattern(pattern: np.ndarray, rows: Sequence[str], columns: Sequence[str], names: tuple[str, str]) -> Any:
    """Draw one table of shares; `names` say what rows and columns are."""
    figure = empty_figure(4.6, 3.6)
    axes = figure.subplots()
    draw_matrix(axes, pattern, low=0.0, high=1.0)
    name_axes(axes, rows, columns, *names)
    return figure


def draw_choices(choices: Sequence[Any]) -> Any:
    """Draw the probabilities of pieces as bars, with their logits."""
    figure = empty_figure(6.0, 2.2)
    axes = figure.subplots()
    axes.barh([choice.piece for choice in choices], [choice.prob for choice in choices], color=BLUE)
    for row, choice in enumerate(choices):
        axes.text(choice.prob + 0.01, row, f"{choice.prob:.1%}, logit {choice.logit:.1f}", va="center", fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.3)
    axes.set_xlabel("probability")
    tidy_axes(axes)
    return figure


def draw_tree(nodes: Sequence[Any]) -> Any:
    """Draw the beginnings that a beam followed, in four rows, time to the right, and the one that won in blue."""
    figure = empty_figure(6.5, 2.6)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    axes.set_axis_off()
    places = {node.id: (node.step, -node.rank) for node in nodes if node.fate != "pruned" and node.rank <= 4}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    for node in nodes:
        if node.id not in places:
            continue
        color = BLUE if node.best else "0.5"
        if node.parent in places:
            axes.plot(*zip(places[node.parent], places[node.id], strict=True), color=color, linewidth=1.0, zorder=0)
        words = node.piece.lstrip("▁")
        axes.text(*places[node.id], words, ha="center", va="center", fontsize=8, color=color, bbox=box)
    axes.margins(0.05)
    return figure


def draw_losses(curve: Sequence[tuple[int, float]]) -> Any:
    """Draw losses, each with its number of updates, and the loss of a model that gives the right piece half."""
    figure = empty_figure(6.0, 2.6)
    axes = figure.subplots()
    updates, losses = zip(*curve, strict=True)
    axes.plot(updates, losses, marker="o", markersize=3, color=BLUE, label="on sentences it was not trained on")
    half = f"the right piece has 50 %: ln 2 = {log(2):.2f} nats"
    axes.axhline(log(2), color=VERMILION, linestyle="--", label=half)
    axes.set_xlabel("updates")
    axes.set_ylabel("loss, nats a piece")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    tidy_axes(axes)
    return figure
