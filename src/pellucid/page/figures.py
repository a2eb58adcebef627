"""Figures as self-contained HTML pages, with no script from elsewhere: a table of numbers, and a map of words."""

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from pellucid.page.html import script_json

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy: the browser loads nothing, even if something were to slip through the escapes."""

_STYLE = """\
:root { color-scheme: light dark; --ink: #1c1b1a; --ground: #fdfcfa; --cell: 0 114 178; --low: 213 94 0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eceae6; --ground: #1a1a1c; --cell: 86 180 233; --low: 230 159 0; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 2rem; }
h1 { font-size: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .55rem; text-align: right; font-weight: normal; white-space: pre; }
thead th, tbody th { font-weight: 600; }
tbody th { text-align: left; }
td { border: 1px solid rgb(127 127 127 / .25); }
td.up { background: rgb(var(--cell) / var(--share)); }
td.down { background: rgb(var(--low) / var(--share)); }
td.none { background: repeating-linear-gradient(135deg, transparent 0 5px, rgb(127 127 127 / .3) 5px 6px); }
td.sum { border: 0; opacity: .75; }
"""


def table_html(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    says: Sequence[str],
    corner: str = "",
    sums: bool = False,
    digits: int = 3,
) -> str:
    """Return the page; None or NaN is an entry that cannot exist, and is hatched. `says` are paragraphs above."""
    sizes = [abs(value) for row in values for value in row if value is not None and math.isfinite(value)]
    largest = max(sizes, default=0.0) or 1.0  # colours are shares of it: a table of zeros must not divide by 0
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in [*columns, *(["sum"] if sums else [])])
    body = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(_cell_html(value, largest, digits) for value in row)
        + (f'<td class="sum">{math.fsum(x for x in row if x and math.isfinite(x)):.{digits}f}</td>' if sums else "")
        + "</tr>"
        for name, row in zip(rows, values, strict=True)
    )
    paragraphs = "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in says)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{paragraphs}
<div class="wide" role="region" aria-label="the table" tabindex="0"><table>
<thead><tr><th scope="col">{escape(corner)}</th>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
</main>
</body>
</html>
"""


def _cell_html(value: float | None, largest: float, digits: int) -> str:
    """Return a cell with a number: the larger, the darker; the colour shows the sign."""
    if value is None or not math.isfinite(value):
        return '<td class="none"></td>'
    share = round(0.8 * abs(value) / largest, 3)  # opacity of the colour, 0.8 for the largest number
    return f'<td class="{"down" if value < 0 else "up"}" style="--share:{share}">{value:.{digits}f}</td>'


_TEMPLATE = Path(__file__).with_name("scatter.html")


def scatter_html(coordinates: np.ndarray, labels: Sequence[str], *, title: str, says: str) -> str:
    """Return the page: points of two or three numbers with their labels; `says` stands under the title."""
    assert coordinates.shape in ((len(labels), 2), (len(labels), 3))
    # Seven digits are what a float32 has; a position on a map needs fewer.
    points = [[float(f"{number:.7g}") for number in point] for point in coordinates.tolist()]
    values = {
        "title": escape(title),
        "says": escape(says),
        "data": script_json({"labels": list(labels), "points": points}),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], _TEMPLATE.read_text(encoding="utf-8"))
