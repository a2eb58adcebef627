"""Every number in the prose of an executed page came out of one of its cells; other people's are marked as cited.

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


def check(app: "Sphinx", doctree: nodes.document) -> None:
    """Warns of each number of this page that is in none of its cells (Sphinx turns warnings into errors)."""
    page = Path(app.env.doc2path(app.env.docname))
    metadata = app.env.metadata.get(app.env.docname, {})
    cells = [node for node in doctree.findall(nodes.container) if "cell" in node["classes"]]
    files = [page.parent / name for name in named(metadata.get("numbers", []))]
    if not cells and not files:
        return
    texts = [text_of(cell) for cell in cells] + [path.read_text(encoding="utf-8") for path in files]
    known = [value(match) for text in texts for match in NUMBER.findall(loose(text))]
    for text in prose(doctree):
        for match in NUMBER.finditer(text.astext()):
            shown = match.group()
            percent = text.astext()[match.end() : match.end() + 2].strip().startswith("%")
            if (percent or "." in shown or sum(map(str.isdigit, shown)) >= 3) and not comes_out(shown, known, percent):
                where = text.parent.line or getattr(text.parent.parent, "line", None)
                log.warning(
                    "%s stands in the text and comes out of no cell of this page; compute it, or mark it {cited}",
                    shown,
                    location=(app.env.docname, where),
                    type="book",
                    subtype="number",
                )


def named(files: Any) -> list[str]:
    """The files of a front matter, which Sphinx may hand over as the text of a list."""
    return re.findall(r"[\w./-]+\.\w+", files) if isinstance(files, str) else list(files)


def prose(doctree: nodes.document) -> Iterator[nodes.Text]:
    """The text that somebody wrote: no code, formulas, outputs, nor what is marked as cited."""
    for text in doctree.findall(nodes.Text):
        around, node = [], text.parent
        while node is not None:
            around.append(node)
            node = node.parent
        if not any(
            isinstance(each, NOT_PROSE)
            or {"cell", "cited", "pasted-text", "pasted-inline", "cell_output"} & set(each.get("classes", []))
            or each.get("nb_element")
            for each in around
            if isinstance(each, nodes.Element)
        ):
            yield text


def text_of(node: nodes.Element) -> str:
    """Source and outputs of a cell, whatever they are for."""
    return "\n".join(each.astext() for each in node.findall(nodes.Text))


def loose(text: str) -> str:
    """Numbers as they are written in code, such as 1_000 or 1e-3, apart from what they touch."""
    return re.sub(r"(?<=\d)_(?=\d)", "", re.sub(r"[\[\](){}=:;|/*<>\"']", " ", text))


def value(shown: str) -> float:
    """A number as it is written, with thousands apart or not."""
    return float(re.sub(r"[, \u202f]", "", shown).replace("−", "-"))


def comes_out(shown: str, known: list[float], percent: bool) -> bool:
    """Whether a known number is this one, rounded as it is shown."""
    mantissa, _, exponent = shown.lower().partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    half = 0.5000001 * 10.0**-decimals
    wanted = value(shown)
    return any(
        abs(each * scale - wanted) <= half or abs(abs(each * scale) - wanted) <= half
        for each in known
        for scale in ((1, 100) if percent else (1,))
    )


def cited(name: str, rawtext: str, text: str, *rest: Any) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """The role {cited}: somebody else's number, or one that is not meant as a result."""
    return [nodes.inline(rawtext, text, classes=["cited"])], []


def setup(app: "Sphinx") -> dict[str, Any]:
    """Adds the role, and the check once a page is read."""
    app.add_role("cited", cited)
    app.connect("doctree-read", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
