"""Check that every number in the prose of an executed page came out of one of its cells, or is marked as cited.

A number is checked if it has a decimal point, a percent sign, or three digits or more. It passes if some number in the
page's cells or their outputs is equal to it when rounded to as many decimals. `{cited}` marks those of others, such as
an article's or a paper's: {cited}`0.973`. A page without cells names the files its numbers are from:

    ---
    numbers: [../../benchmarks/results/train.md]
    ---
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NUMBER = re.compile(
    r"(?<![\w.,])[-−]?(?:\d{1,3}(?:[, \u202f]\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?![\w]|\.\d)", re.IGNORECASE
)
NOT_PROSE = (nodes.literal, nodes.FixedTextElement, nodes.math, nodes.math_block, nodes.raw, nodes.comment, nodes.image)

log = logging.getLogger(__name__)


def check_numbers(app: "Sphinx", doctree: nodes.document) -> None:
    """Warn of each number of this page that is in none of its cells (Sphinx turns warnings into errors)."""
    page = Path(app.env.doc2path(app.env.docname))
    metadata = app.env.metadata.get(app.env.docname, {})
    cells = [node for node in doctree.findall(nodes.container) if "cell" in node["classes"]]
    files = [page.parent / name for name in parse_file_list(metadata.get("numbers", []))]
    # A page without cells has nothing to check its numbers against.
    if not cells and not files:
        return
    texts = [cell_text(cell) for cell in cells] + [path.read_text(encoding="utf-8") for path in files]
    known_numbers = [parse_number(match) for text in texts for match in NUMBER.findall(loosen_numbers(text))]
    for text in find_prose(doctree):
        for match in NUMBER.finditer(text.astext()):
            number = match.group()
            # The sign may follow after a space, as in "12 %".
            percent = text.astext()[match.end() : match.end() + 2].strip().startswith("%")
            if (percent or "." in number or sum(map(str.isdigit, number)) >= 3) and not is_computed(
                number, known_numbers, percent
            ):
                line = text.parent.line or getattr(text.parent.parent, "line", None)
                log.warning(
                    "%s stands in the text and comes out of no cell of this page; compute it, or mark it {cited}",
                    number,
                    location=(app.env.docname, line),
                    type="book",
                    subtype="number",
                )


def parse_file_list(files: Any) -> list[str]:
    """Return the files of a front matter, which Sphinx may hand over as the text of a list."""
    return re.findall(r"[\w./-]+\.\w+", files) if isinstance(files, str) else list(files)


def find_prose(doctree: nodes.document) -> Iterator[nodes.Text]:
    """Yield the text that an author wrote: no code, formulas or outputs, and nothing marked as cited."""
    for text in doctree.findall(nodes.Text):
        # docutils nodes know only their parent, and a mark may stand on any node further up.
        ancestors, node = [], text.parent
        while node is not None:
            ancestors.append(node)
            node = node.parent
        if not any(
            isinstance(ancestor, NOT_PROSE)
            or {"cell", "cited", "pasted-text", "pasted-inline", "cell_output"} & set(ancestor.get("classes", []))
            or ancestor.get("nb_element")
            for ancestor in ancestors
            if isinstance(ancestor, nodes.Element)
        ):
            yield text


def cell_text(node: nodes.Element) -> str:
    """Return the source and the outputs of a cell."""
    return "\n".join(text.astext() for text in node.findall(nodes.Text))


def loosen_numbers(text: str) -> str:
    """Separate numbers, which code writes like 1_000 or a[3], from the signs beside them."""
    return re.sub(r"(?<=\d)_(?=\d)", "", re.sub(r"[\[\](){}=:;|/*<>\"']", " ", text))


def parse_number(written: str) -> float:
    """Parse a number as it is written, with or without separated thousands."""
    return float(re.sub(r"[, \u202f]", "", written).replace("−", "-"))


def is_computed(written: str, known_numbers: list[float], percent: bool) -> bool:
    """Whether a known number equals this one when rounded to its decimals."""
    mantissa, _, exponent = written.lower().partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    # A little over half a unit of the last decimal, so that a tie passes whichever way it was rounded.
    half = 0.5000001 * 10.0**-decimals
    expected = parse_number(written)
    return any(
        # The sign may be in the words ("falls by 2.5"), so it need not agree.
        abs(number * scale - expected) <= half or abs(abs(number * scale) - expected) <= half
        for number in known_numbers
        for scale in ((1, 100) if percent else (1,))
    )


def cited_role(name: str, rawtext: str, text: str, *unused: Any) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Role {cited}: somebody else's number, or one that is not meant as a result."""
    return [nodes.inline(rawtext, text, classes=["cited"])], []


def setup(app: "Sphinx") -> dict[str, Any]:
    """Add the role, and the check once a page is read."""
    app.add_role("cited", cited_role)
    app.connect("doctree-read", check_numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
