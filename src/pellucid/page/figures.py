"""Map of words as a self-contained HTML page, with search and no script from elsewhere."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from pellucid.page.html import script_json

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
