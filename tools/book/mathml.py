"""Formulas as MathML, which browsers draw by themselves: nothing is fetched, and the book works without a network."""

from typing import TYPE_CHECKING, Any

from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def visit_inline_formula(translator: "HTML5Translator", node: "nodes.math") -> None:
    """Write a formula in a line."""
    append_mathml(translator, node, display=False)


def visit_display_formula(translator: "HTML5Translator", node: "nodes.math_block") -> None:
    """Write a formula that stands alone."""
    translator.body.append('<div class="math">')
    append_mathml(translator, node, display=True)
    translator.body.append("</div>\n")


def append_mathml(translator: "HTML5Translator", node: "nodes.Element", display: bool) -> None:
    """Write the formula as MathML; nothing of the node is visited after that.

    Raises:
        ExtensionError: docutils cannot read the formula; the message shows it.
        SkipNode: always, at the end.
    """
    from docutils import nodes

    try:
        translator.body.append(tex2mathml(node.astext(), as_block=display))
    # docutils raises errors of several kinds for formulas that it cannot read.
    except Exception as error:
        raise ExtensionError(f"{node.source}:{node.line}: {node.astext()!r} is no formula docutils reads") from error
    # Sphinx would otherwise also write the formula's source as text.
    raise nodes.SkipNode


def setup(app: "Sphinx") -> dict[str, Any]:
    """Make `html_math_renderer = "mathml"` known."""
    app.add_html_math_renderer("mathml", (visit_inline_formula, None), (visit_display_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
