"""Empty figures, matrices as colours, and the files of figures: what every drawing is made with."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.store.atomic import atomic_file

# Okabe and Ito 2008: for any colour vision.
BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
ORANGE, SKY_BLUE, PURPLE, BLACK = "#E69F00", "#56B4E9", "#CC79A7", "#000000"
YELLOW = "#F0E442"


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
    """Draw a light grid, no frame above and on the right, and a legend where something has a label."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:  # matplotlib warns of a legend without entries
        axes.legend(frameon=False)


def escape_dollars(text: str) -> str:
    """Return text that matplotlib takes literally: it would read text between dollars as a formula.

    >>> print(escape_dollars("5 $ a"))
    5 \\$ a
    """
    return text.replace("$", r"\$")


def draw_heat_map(
    values: np.ndarray,
    path: str | Path,
    *,
    title: str = "",
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    row_name: str = "",
    column_name: str = "",
    signed: bool = False,
    high: float | None = None,
    cells: Sequence[Sequence[str]] | None = None,
    absent: bool = False,
) -> None:
    """Draw one matrix.

    `cells` are words to be written into its entries, which are drawn larger for them. With
    `absent`, NaN is an entry that cannot exist, and is hatched; otherwise it is a mistake, and
    magenta.
    """
    columns_across, rows_down = values.shape[1], values.shape[0]
    cell = (0.75, 0.3) if cells is not None else (0.32, 0.32)
    # In inches, and at most 24 either way, however large the matrix is.
    size = [
        min(max(cell[0] * columns_across + 2.0, 4.0), 24.0),
        min(max(cell[1] * rows_down + 1.4, 3.0), 24.0),
    ]
    figure = empty_figure(size[0], size[1])
    [[axes]] = figure.subplots(1, 1, squeeze=False)
    draw_matrix(axes, values, signed=signed, high=high)
    if absent:
        # NaN becomes transparent, so that the hatched ground shows through.
        axes.images[0].set_cmap(axes.images[0].cmap.with_extremes(bad="none"))
        axes.patch.set(hatch="///", edgecolor="0.8", facecolor="white")

    name_axes(axes, rows, columns, row_name, column_name)
    axes.set_title(escape_dollars(title))
    for row, words in enumerate(cells or ()):
        for column, word in enumerate(words):
            low, above = axes.images[0].get_clim()
            place_on_scale = (values[row, column] - low) / (above - low)
            shade = np.clip(place_on_scale, 0.0, 1.0)
            # The signed scale is dark at both ends, the other one at the lower end.
            dark = abs(shade - 0.5) > 0.3 if signed else shade < 0.55
            style = {
                "ha": "center",
                "va": "center",
                "fontsize": 7,
                "color": "white" if dark else "black",
            }
            axes.text(column, row, escape_dollars(word), **style)

    write_figure(figure, path)


def draw_matrix(
    axes: Any,
    values: np.ndarray,
    *,
    signed: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> Any:
    """Draw a matrix and its colour bar on these axes."""
    finite = np.asarray(values)[np.isfinite(np.asarray(values))]  # of a masked array too
    largest = float(finite.max(initial=0.0)) if high is None else high
    smallest = float(finite.min(initial=0.0)) if low is None else low

    # Zero in the middle, so that equal sizes of either sign look equally strong.
    if signed:
        largest = max(abs(largest), abs(smallest))
        smallest = -largest

    from matplotlib import colormaps

    image = axes.imshow(
        values,
        aspect="auto",
        interpolation="nearest",
        cmap=colormaps["RdBu_r" if signed else "cividis"].with_extremes(bad="magenta"),
        vmin=smallest,
        vmax=largest if largest > smallest else smallest + 1.0,  # a constant matrix would have an empty scale
    )
    axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    return image


def name_axes(
    axes: Any,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    row_name: str,
    column_name: str,
) -> None:
    """Write names beside the rows and below the columns."""
    axes.set_ylabel(escape_dollars(row_name))
    axes.set_xlabel(escape_dollars(column_name))
    if rows is not None:
        axes.set_yticks(range(len(rows)), [escape_dollars(row) for row in rows], fontsize=8)
    if columns is not None:
        axes.set_xticks(
            range(len(columns)),
            [escape_dollars(column) for column in columns],
            fontsize=8,
            rotation=90,
        )
