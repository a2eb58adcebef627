"""An empty figure and the file it ends in; what every drawing begins with."""

from io import BytesIO
from pathlib import Path
from typing import Any

from pellucid.atomic import atomic_file

# Okabe and Ito 2008: told apart by everyone.
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
    """A figure of so many inches, which no window and no global state knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: Any, path: str | Path) -> None:
    """Into a .png, .svg or .pdf file; the same drawing gives the same bytes."""
    from matplotlib import rc_context

    kind, drawn = Path(path).suffix.lstrip(".") or "png", BytesIO()
    told = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with rc_context({"svg.hashsalt": "pellucid", "svg.fonttype": "none"}):
        figure.savefig(drawn, format=kind, metadata=told)
    with atomic_file(path) as write:
        write(drawn.getvalue())


def tidy_axes(axes: Any) -> None:
    """A light grid, and no frame above and on the right."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def escape_dollars(text: str) -> str:
    """Text that matplotlib takes literally: it would read what stands between dollars as a formula.

    >>> print(escape_dollars("5 $ a"))
    5 \\$ a
    """
    return text.replace("$", r"\$")
