"""Which rows of the five articles a page makes true: said where it does so, and an anchor for the map of them all."""

from typing import TYPE_CHECKING, Any

import articles
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MAP = "reference/articles"
log = logging.getLogger(__name__)


class Rows(SphinxDirective):
    """The directive `{rows} A23 A24 X9`: what stands below it makes these rows true."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """A line that names the rows: each an anchor that the map of the articles points to, and a link back to it."""
        found = claims()
        names = {articles.aliases(found).get(name, name): None for name in self.arguments[0].split()}
        line = nodes.paragraph(classes=["rows"])
        line += nodes.inline(text="In the articles: ")
        for number, name in enumerate(names):
            if name not in found:
                log.warning("%s is no row of docs/articles.toml", name, location=self.get_location())
                continue
            line += nodes.inline(text=", " if number else "")
            line += self.link(found[name])
            anchor = f"row-{name.lower()}"
            anchors = self.env.metadata[self.env.docname].setdefault("rows", {})
            if anchor not in anchors:
                anchors[anchor] = (self.lineno, anchor, name)
                line["ids"].append(anchor)
        return [line]

    def link(self, claim: articles.Claim) -> nodes.Node:
        """The name of a row, which leads to its line in the map, where this book has one."""
        if MAP not in self.env.found_docs:
            return nodes.inline(text=claim.name)
        target = self.env.app.builder.get_relative_uri(self.env.docname, MAP)
        return nodes.reference(
            text=claim.name, refuri=f"{target}#{claim.name.lower()}", internal=True, reftitle=claim.says
        )


def claims() -> dict[str, articles.Claim]:
    """The rows there are."""
    import tomllib

    table = tomllib.loads((articles.ROOT / "docs" / "articles.toml").read_text(encoding="utf-8"))
    return {claim.name: claim for claim in articles.claims_of(table)}


def reachable(app: "Sphinx", doctree: nodes.document) -> None:
    """Lets links from other pages end at a line of rows, as they may at headings."""
    metadata = app.env.metadata[app.env.docname]
    metadata.setdefault("myst_slugs", {}).update(metadata.pop("rows", {}))


def setup(app: "Sphinx") -> dict[str, Any]:
    """Adds the directive."""
    app.add_directive("rows", Rows)
    app.connect("doctree-read", reachable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
