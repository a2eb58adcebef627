"""Which rows of the five articles a page makes true: said where it does so, and collected for the map of the articles."""

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Rows(SphinxDirective):
    """The directive `{rows} A23 A24 X9`: what stands below it makes these rows true."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """A line that names the rows, each an anchor that the map of the articles points to."""
        names = self.arguments[0].split()
        line = nodes.paragraph(classes=["rows"])
        line += nodes.inline(text="In the articles: " + ", ".join(names))
        line["ids"] += [f"row-{name.lower()}" for name in names]
        return [line]


def setup(app: "Sphinx") -> dict[str, Any]:
    """Adds the directive."""
    app.add_directive("rows", Rows)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
