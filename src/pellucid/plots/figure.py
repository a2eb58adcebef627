"""Empty figures and their files: what every drawing begins and ends with."""

from io import BytesIO
from pathlib import Path
from typing import Any

from pellucid.store.atomic import atomic_file

# Okabe and Ito 2008: colours that people with any kind of colour vision can tell apart.
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#000000",
)


def empty_figure(width: float, height: float) -> Any:
    """Return a figure of this size in inches, which no window and no global state knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # it attaches itself; pyplot would do the same, but keep every figure
    return figure


def write_figure(figure: Any, path: str | Path) -> None:
    """Write a figure into a .png, .svg or .pdf file; the same drawing gives the same bytes."""
    from matplotlib import rc_context

    # Drawn in memory first, so that the file is there whole or not at all.
    kind, image = Path(path).suffix.lstrip(".") or "png", BytesIO()
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    # Without a fixed salt the ids in an SVG differ each time; "none" keeps its text as text.
    with rc_context({"svg.hashsalt": "pellucid", "svg.fonttype": "none"}):
        figure.savefig(image, format=kind, metadata=dateless)
    with atomic_file(path) as write:
        write(image.getvalue())


def tidy_axes(axes: Any) -> None:
    """Draw a light grid, and no frame above and on the right."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def escape_dollars(text: str) -> str:
    """Return text that matplotlib takes literally: it would read whatever stands between dollars as a formula.

    >>> print(escape_dollars("5 $ a"))
    5 \\$ a
    """
    return text.replace("$", r"\$")
