"""The picture of an encoder and a decoder: boxes from the bottom up, layers framed, the encoder's output fed across."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pellucid.plots.figure import BLACK, empty_figure, escape_dollars, write_figure

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
WIDE, HIGH, GAP = 3.4, 0.6, 0.26
LEFT, BETWEEN = 1.1, 2.2
"""In inches: of a box, between two of them, left of the encoder, and between the two columns."""


class BoxLike(Protocol):
    """A rectangle with two lines of text."""

    @property
    def title(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def parameters(self) -> int: ...


class LayersLike(Protocol):
    """Rectangles that stand there so many times; each group of them has a way around it."""

    @property
    def times(self) -> int: ...
    @property
    def parts(self) -> Sequence[Sequence[BoxLike]]: ...
    @property
    def norm_first(self) -> bool: ...


def draw_architecture(
    encoder: Sequence[Any],
    decoder: Sequence[Any],
    path: str | Path,
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Draw the two stacks, of `BoxLike` and `LayersLike`; the title stands above, notes below."""
    below, tall = 0.5 + 0.2 * len(notes), max(column_height(encoder), column_height(decoder)) + 1.1
    wide = LEFT + 2 * WIDE + BETWEEN + 0.5
    figure = empty_figure(wide, tall + below)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, wide), ylim=(-below, tall))
    axes.set_axis_off()
    right = LEFT + WIDE + BETWEEN
    top, _ = draw_column(axes, encoder, LEFT, "source pieces")
    end, crosses = draw_column(axes, decoder, right, "target pieces so far")
    draw_arrow(axes, right + WIDE / 2, end, end + GAP)
    axes.text(right + WIDE / 2, end + GAP + 0.04, "next piece", ha="center", va="bottom", fontsize=9)
    draw_memory(axes, LEFT + WIDE / 2, top, right, crosses)
    axes.text(wide / 2, tall - 0.15, escape_dollars(title), fontsize=11, ha="center", va="top")
    for number, note in enumerate(notes):
        axes.text(LEFT - 0.6, -0.42 - 0.2 * number, escape_dollars(note), fontsize=7.5, va="top")
    write_figure(figure, path)


def column_height(parts: Sequence[Any]) -> float:
    """How tall a column is."""
    boxes = sum(sum(map(len, part.parts)) if is_frame(part) else 1 for part in parts)
    inside = sum(2 * GAP + GAP * len(part.parts) for part in parts if is_frame(part))
    return boxes * (HIGH + GAP) + inside


def is_frame(part: Any) -> bool:
    """Whether it is a group of layers."""
    return hasattr(part, "parts")


def draw_column(axes: Any, parts: Sequence[Any], left: float, reads: str) -> tuple[float, list[float]]:
    """One stack: how high it ends, and the heights at which it reads the other one."""
    axes.text(left + WIDE / 2, -0.05, reads, ha="center", va="top", fontsize=9)
    up, crosses = 0.0, []
    for part in parts:
        up = draw_layers(axes, part, left, up, crosses) if is_frame(part) else draw_box(axes, part, left, up)
    return up, crosses


def draw_layers(axes: Any, layers: LayersLike, left: float, up: float, crosses: list[float]) -> float:
    """The parts of a layer, each with the way around it, and a line around all."""
    from matplotlib.patches import FancyBboxPatch

    middle, start = left + WIDE / 2, up + GAP * 0.5
    draw_arrow(axes, middle, up, up + GAP, head=False)
    up += GAP
    for part in layers.parts:
        begin = up
        for drawn in part:
            up = draw_box(axes, drawn, left, up)
            if drawn.kind == "cross":
                crosses.append(up - HIGH / 2)
        if layers.norm_first:
            draw_residual(axes, left, begin + GAP * 0.35, up + GAP * 0.75, middle - 0.07)
            axes.text(middle, up + GAP * 0.75, "+", ha="center", va="center", fontsize=9, bbox=CIRCLE)
        else:
            draw_residual(axes, left, begin + GAP * 0.35, up - HIGH / 2, left)
        draw_arrow(axes, middle, up, up + GAP, head=False)
        up += GAP
    rounded = FancyBboxPatch(
        (left - 0.42, start),
        WIDE + 0.6,
        up + GAP * 0.5 - start,
        boxstyle="round,pad=0,rounding_size=0.12",
        fill=False,
        edgecolor=GREY,
        linewidth=1.0,
    )
    axes.add_patch(rounded)
    axes.text(left - 0.52, (start + up) / 2, f"{layers.times} ×", ha="right", va="center", fontsize=12)
    draw_arrow(axes, middle, up, up + GAP, head=False)
    return up + GAP


CIRCLE = {"boxstyle": "circle,pad=0.1", "facecolor": "white", "edgecolor": BLACK, "linewidth": 0.8}


def draw_box(axes: Any, drawn: BoxLike, left: float, up: float) -> float:
    """One rectangle with the arrow into it; where its top is."""
    from matplotlib.patches import FancyBboxPatch

    middle, bottom = left + WIDE / 2, up + GAP
    draw_arrow(axes, middle, up, bottom)
    rounded = FancyBboxPatch(
        (left, bottom),
        WIDE,
        HIGH,
        boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=FILL_COLOURS[drawn.kind],
        edgecolor=BLACK,
        linewidth=0.8,
    )
    axes.add_patch(rounded)
    count = f"; {drawn.parameters:,} parameters" if drawn.parameters else ""
    axes.text(middle, bottom + HIGH * 0.68, escape_dollars(drawn.title), ha="center", va="center", fontsize=9.5)
    axes.text(
        middle, bottom + HIGH * 0.27, escape_dollars(drawn.detail + count), ha="center", va="center", fontsize=7.5
    )
    return bottom + HIGH


def draw_residual(axes: Any, left: float, start: float, end: float, into: float) -> None:
    """The residual: from below a part to above it."""
    out = left - 0.22
    axes.plot([left + WIDE / 2, out, out], [start, start, end], color=GREY, linewidth=1.0)
    axes.annotate(
        "", (into, end), (out, end), arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 0, "shrinkB": 0}
    )


def draw_memory(axes: Any, middle: float, top: float, right: float, heights: Sequence[float]) -> None:
    """What the encoder made, into every cross-attention."""
    if not heights:
        return
    across, over = right - 1.1, top + 0.3
    axes.plot([middle, middle, across], [top, over, over], color=BLACK, linewidth=1.2)
    axes.text((middle + across) / 2, over + 0.06, "memory: keys and values", ha="center", va="bottom", fontsize=8)
    axes.plot([across, across], [min(over, *heights), max(over, *heights)], color=BLACK, linewidth=1.2)
    for up in heights:
        axes.annotate("", (right, up), (across, up), arrowprops=LINE | {"arrowstyle": "->"})


LINE = {"linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}


def draw_arrow(axes: Any, across: float, start: float, end: float, head: bool = True) -> None:
    """A line upwards."""
    axes.annotate("", (across, end), (across, start), arrowprops=LINE | {"arrowstyle": "->" if head else "-"})
