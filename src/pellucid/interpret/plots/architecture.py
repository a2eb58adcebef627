"""Draws the architecture of a model: boxes from the bottom up, layers framed, the encoder's output fed across."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.interpret.plots.figure import BLACK, empty_figure, escape_dollars, write_figure

FILL_COLOURS = {
    "embedding": "#F6D7C8",
    "positions": "#F3E6B3",
    "self": "#CFE3F2",
    "cross": "#D8CDE8",
    "ffn": "#CDE8DC",
    "norm": "#EFEFEF",
    "output": "#F2D4DE",
}
GREY = "#777777"
# Width and height of a box, and the gap between two boxes, in inches.
WIDE = 3.4
HIGH = 0.6
GAP = 0.26
LEFT, BETWEEN = 1.1, 2.2  # space left of the encoder, and between the two columns, in inches


def draw_architecture(
    encoder: Sequence[Any],
    decoder: Sequence[Any],
    path: str | Path,
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Draw the two stacks, the title above and notes below.

    `interpret/studies/anatomy.py` has the boxes and layers.
    """
    below = 0.5 + 0.2 * len(notes)
    tall = max(_column_height(encoder), _column_height(decoder)) + 1.1
    wide = LEFT + 2 * WIDE + BETWEEN + 0.5
    figure = empty_figure(wide, tall + below)

    # One unit is one inch, so boxes have the same size
    # in every figure; a layout engine would shrink them.
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, wide), ylim=(-below, tall))
    axes.set_axis_off()
    right = LEFT + WIDE + BETWEEN
    top, _ = _draw_column(axes, encoder, LEFT, "source pieces")
    end, crosses = _draw_column(axes, decoder, right, "target pieces so far")
    _draw_arrow(axes, right + WIDE / 2, end, end + GAP)
    axes.text(
        right + WIDE / 2,
        end + GAP + 0.04,
        "next piece",
        ha="center",
        va="bottom",
        fontsize=9,
    )
    _draw_memory(axes, LEFT + WIDE / 2, top, right, crosses)
    axes.text(wide / 2, tall - 0.15, escape_dollars(title), fontsize=11, ha="center", va="top")
    for number, note in enumerate(notes):
        axes.text(LEFT - 0.6, -0.42 - 0.2 * number, escape_dollars(note), fontsize=7.5, va="top")
    write_figure(figure, path)


def _column_height(parts: Sequence[Any]) -> float:
    boxes = sum(sum(map(len, part.parts)) if _is_frame(part) else 1 for part in parts)
    gaps = sum(2 * GAP + GAP * len(part.parts) for part in parts if _is_frame(part))
    return boxes * (HIGH + GAP) + gaps


def _is_frame(part: Any) -> bool:
    return hasattr(part, "parts")


def _draw_column(
    axes: Any,
    parts: Sequence[Any],
    left: float,
    reads: str,
) -> tuple[float, list[float]]:
    """Draw one stack; return its height, and the heights at which it reads the other stack."""
    axes.text(left + WIDE / 2, -0.05, reads, ha="center", va="top", fontsize=9)
    up, crosses = 0.0, []
    for part in parts:
        up = _draw_layers(axes, part, left, up, crosses) if _is_frame(part) else _draw_box(axes, part, left, up)
    return up, crosses


def _draw_layers(axes: Any, layers: Any, left: float, up: float, crosses: list[float]) -> float:
    """Draw the boxes of a layer, with residual connections and a frame.

    Return the height above it.
    """
    from matplotlib.patches import FancyBboxPatch

    middle, start = left + WIDE / 2, up + GAP * 0.5
    _draw_arrow(axes, middle, up, up + GAP, head=False)
    up += GAP
    for sublayer in layers.parts:
        begin = up
        for box in sublayer:
            up = _draw_box(axes, box, left, up)
            if box.kind == "cross":
                crosses.append(up - HIGH / 2)
        # Pre-norm: the residual meets a plus above the sublayer.
        # Post-norm: it enters the box "add, norm" itself.
        if layers.norm_first:
            _draw_residual(axes, left, begin + GAP * 0.35, up + GAP * 0.75, middle - 0.07)
            axes.text(
                middle,
                up + GAP * 0.75,
                "+",
                ha="center",
                va="center",
                fontsize=9,
                bbox=CIRCLE,
            )
        else:
            _draw_residual(axes, left, begin + GAP * 0.35, up - HIGH / 2, left)
        _draw_arrow(axes, middle, up, up + GAP, head=False)
        up += GAP

    style = {
        "boxstyle": "round,pad=0,rounding_size=0.12",
        "fill": False,
        "edgecolor": GREY,
        "linewidth": 1.0,
    }
    axes.add_patch(FancyBboxPatch((left - 0.42, start), WIDE + 0.6, up + GAP * 0.5 - start, **style))

    # At the top, because the line with the memory comes in somewhere below.
    axes.text(left - 0.52, up - GAP, f"{layers.times} ×", ha="right", va="center", fontsize=12)
    _draw_arrow(axes, middle, up, up + GAP, head=False)
    return up + GAP


CIRCLE = {"boxstyle": "circle,pad=0.1", "facecolor": "white", "edgecolor": BLACK, "linewidth": 0.8}


def _draw_box(axes: Any, box: Any, left: float, up: float) -> float:
    """Draw one rectangle with the arrow into it; return the height of its top."""
    from matplotlib.patches import FancyBboxPatch

    middle, bottom = left + WIDE / 2, up + GAP
    _draw_arrow(axes, middle, up, bottom)
    style = {"boxstyle": "round,pad=0,rounding_size=0.06", "edgecolor": BLACK, "linewidth": 0.8}
    axes.add_patch(FancyBboxPatch((left, bottom), WIDE, HIGH, facecolor=FILL_COLOURS[box.kind], **style))
    count = f"; {box.parameters:,} parameters" if box.parameters else ""
    axes.text(
        middle,
        bottom + HIGH * 0.68,
        escape_dollars(box.title),
        ha="center",
        va="center",
        fontsize=9.5,
    )
    axes.text(
        middle,
        bottom + HIGH * 0.27,
        escape_dollars(box.detail + count),
        ha="center",
        va="center",
        fontsize=7.5,
    )
    return bottom + HIGH


def _draw_residual(axes: Any, left: float, start: float, end: float, into: float) -> None:
    """Draw a residual connection: from below a sublayer to above it."""
    out = left - 0.22
    axes.plot([left + WIDE / 2, out, out], [start, start, end], color=GREY, linewidth=1.0)
    axes.annotate(
        "",
        (into, end),
        (out, end),
        arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 0, "shrinkB": 0},
    )


def _draw_memory(
    axes: Any,
    middle: float,
    top: float,
    right: float,
    heights: Sequence[float],
) -> None:
    """Draw the lines from the encoder's output into every cross-attention."""
    if not heights:  # an architecture without cross-attention
        return
    across, over = right - 1.1, top + 0.3
    axes.plot([middle, middle, across], [top, over, over], color=BLACK, linewidth=1.2)
    axes.text(
        (middle + across) / 2,
        over + 0.06,
        "memory: keys and values",
        ha="center",
        va="bottom",
        fontsize=8,
    )

    # The column of the decoder may begin below or end above the encoder's top.
    axes.plot(
        [across, across],
        [min(over, *heights), max(over, *heights)],
        color=BLACK,
        linewidth=1.2,
    )
    for up in heights:
        axes.annotate("", (right, up), (across, up), arrowprops=LINE | {"arrowstyle": "->"})


LINE = {"linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}


def _draw_arrow(axes: Any, across: float, start: float, end: float, head: bool = True) -> None:
    axes.annotate(
        "",
        (across, end),
        (across, start),
        arrowprops=LINE | {"arrowstyle": "->" if head else "-"},
    )
