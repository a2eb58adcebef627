"""Tables and small pictures by which traces, accounts and tensors show themselves in a notebook, without a script."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

MOST_SHOWN = 40  # rows and columns of a table, and of a picture, that are shown; a note says how many there are
MOST_PICTURES = 8  # pictures of a tensor with more than two axes that stand side by side
_LARGEST_SHARE = 0.75  # opacity of the colour of the largest number, so that the text on it can be read in either theme

_CELL = "padding:2px 7px;text-align:right;font-variant-numeric:tabular-nums;white-space:pre"
_SIDE = 12  # pixels of a cell in a picture


def numbers_table(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: np.ndarray,
    corner: str = "",
) -> str:
    """Return a table of a matrix with coloured cells.

    Blue is above 0, orange below, and NaN an empty cell.
    """
    shown = values[:MOST_SHOWN, :MOST_SHOWN]
    head = "".join(_heading(name, "col") for name in columns[: shown.shape[1]])
    largest = _largest(values)
    lines = []
    for name, row in zip(rows, shown, strict=False):
        cells = "".join(_number_cell(float(value), largest) for value in row)
        lines.append(f"<tr>{_heading(name, 'row')}{cells}</tr>")

    note = ""
    if shown.shape != values.shape:
        note = _note(f"the first {' × '.join(map(str, shown.shape))} numbers")
    table = _table(_heading(corner, "col") + head, "".join(lines))
    return f"{_title(title)}{table}{note}"


def _pictures(title: str, names: Sequence[str], matrices: Sequence[np.ndarray]) -> str:
    """Return small pictures of matrices side by side, on one scale, each with its name below."""
    largest = max((_largest(matrix) for matrix in matrices), default=1.0)
    drawn = []
    for name, matrix in zip(names[:MOST_PICTURES], matrices[:MOST_PICTURES], strict=True):
        caption = f"<figcaption>{escape(name)}</figcaption>"
        picture = f"{_picture(matrix, largest)}{caption}"
        drawn.append(f"<figure style='display:inline-block;margin:0 14px 6px 0'>{picture}</figure>")

    left_out = len(matrices) - MOST_PICTURES
    note = _note(f"{left_out} more are not drawn") if left_out > 0 else ""
    return f"{_title(title)}<div>{''.join(drawn)}</div>{note}"


def bars_table(title: str, bars: Iterable[tuple[str, float]], notes: Sequence[str] = ()) -> str:
    """Return a table of named numbers, each with a bar of its length."""
    bars = list(bars)
    largest = max((abs(value) for _, value in bars), default=0.0) or 1.0
    rows = []
    for name, value in bars:
        style = f"height:12px;width:{100 * abs(value) / largest:.1f}%;background:{_colour(value, abs(value))}"
        number = f"<td style='{_CELL}'>{value:+.3f}</td>"
        bar = f"<td style='width:220px;text-align:left'><div style='{style}'></div></td>"
        rows.append(f"<tr>{_heading(name, 'row')}{number}{bar}</tr>")

    table = f"<table><tbody>{''.join(rows)}</tbody></table>"
    return f"{_title(title)}{table}{''.join(map(_note, notes))}"


def texts_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts; the first of each row is its heading."""
    head = "".join(_heading(name, "col") for name in columns)
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td style={_CELL!r}>{escape(text)}</td>" for text in rest)
        lines.append(f"<tr>{_heading(first, 'row')}{cells}</tr>")
    return f"{_title(title)}{_table(head, ''.join(lines))}"


def tensor_html(
    name: str,
    values: np.ndarray,
    dims: Sequence[str],
    labels: Mapping[str, Sequence[str]],
) -> str:
    """Return a tensor as a table, or as a picture for each position of its first axes where it has more than two."""
    axes = list(zip(dims, values.shape, strict=True))
    sizes = " × ".join(f"{dim} {size}" for dim, size in axes)
    title = f"{name} ({sizes or 'one number'})"
    numbers = values.astype(np.float64)
    if values.ndim < 2:
        names = _position_names(dims[0], values.shape[0], labels) if values.ndim else [""]
        return numbers_table(title, [""], names, numbers.reshape(1, -1), "".join(dims))
    if values.ndim == 2:
        rows, columns = (_position_names(dim, size, labels) for dim, size in axes)
        return numbers_table(title, rows, columns, numbers, " \\ ".join(dims))

    names, matrices = [], []
    for position in np.ndindex(*values.shape[:-2]):
        places = [f"{dim} {at}" for dim, at in zip(dims, position, strict=False)]
        names.append(", ".join(places))
        matrices.append(numbers[position])

    return _pictures(title, names, matrices)


def _position_names(dim: str, size: int, labels: Mapping[str, Sequence[str]]) -> list[str]:
    named = labels.get(dim, ())
    return list(named) if len(named) == size else [str(position) for position in range(size)]


def _picture(matrix: np.ndarray, largest: float) -> str:
    shown = matrix[:MOST_SHOWN, :MOST_SHOWN]
    height, width = shown.shape
    squares = []
    for (row, column), value in np.ndenumerate(shown):
        if not math.isfinite(value):
            continue
        place = f"x='{column * _SIDE}' y='{row * _SIDE}' width='{_SIDE}' height='{_SIDE}'"
        colour = _colour(value, abs(value) / largest)
        squares.append(f"<rect {place} fill='{colour}'><title>{value:.3g}</title></rect>")

    size = f"width='{width * _SIDE}' height='{height * _SIDE}'"
    frame = f"<rect {size} fill='none' stroke='currentColor' opacity='.3'/>"
    return f"<svg {size} role='img'>{''.join(squares)}{frame}</svg>"


def _largest(values: np.ndarray) -> float:
    """Return the largest size of the finite numbers, at least something: colours are shares of it."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _number_cell(value: float, largest: float) -> str:
    if not math.isfinite(value):
        return f"<td style='{_CELL}'></td>"
    colour = _colour(value, abs(value) / largest)
    return f"<td style='{_CELL};background:{colour}' title='{value!r}'>{value:.3g}</td>"


def _colour(value: float, share: float) -> str:
    """Return blue for a number above 0 and orange for one below, the stronger the larger its share of the largest."""
    channels = "213 94 0" if value < 0 else "0 114 178"
    return f"rgb({channels} / {_LARGEST_SHARE * min(1.0, share):.3f})"


def _heading(text: str, scope: str) -> str:
    return f"<th scope='{scope}' style='{_CELL};font-weight:600'>{escape(text)}</th>"


def _table(head: str, body: str) -> str:
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _title(text: str) -> str:
    return f"<p><b>{escape(text)}</b></p>"


def _note(text: str) -> str:
    return f"<p style='opacity:.75'>{escape(text)}</p>"
