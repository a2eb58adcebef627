"""Directive that names the rows of the five articles which a page makes true, with links to and from their map."""

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
    """The directive `{rows} A23 A24 X9`: the section below it makes these rows true."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make a line that names the rows: each is an anchor for the map of the articles, and a link back to it."""
        claims = load_claims()
        # A dict as an ordered set: two aliases of one row name it once.
        names = {articles.row_aliases(claims).get(name, name): None for name in self.arguments[0].split()}
        line = nodes.paragraph(classes=["rows"])
        line += nodes.inline(text="In the articles: ")
        for number, name in enumerate(names):
            if name not in claims:
                log.warning("%s is no row of docs/articles.toml", name, location=self.get_location())
                continue
            line += nodes.inline(text=", " if number else "")
            line += self.link(claims[name])
            anchor = f"row-{name.lower()}"
            anchors = self.env.metadata[self.env.docname].setdefault("rows", {})
            # A row may be named several times on a page; the first place is its anchor.
            if anchor not in anchors:
                anchors[anchor] = (self.lineno, anchor, name)
                # docutils writes these as HTML ids, to which the map links.
                line["ids"].append(anchor)
        return [line]

    def link(self, claim: articles.Claim) -> nodes.Node:
        """Return the name of a row as a link to its line in the map, where this book has one."""
        if MAP not in self.env.found_docs:
            return nodes.inline(text=claim.name)
        target = self.env.app.builder.get_relative_uri(self.env.docname, MAP)
        return nodes.reference(
            text=claim.name, refuri=f"{target}#{claim.name.lower()}", internal=True, reftitle=claim.says
        )


def load_claims() -> dict[str, articles.Claim]:
    """Read the rows of docs/articles.toml, by their names."""
    import tomllib

    table = tomllib.loads((articles.ROOT / "docs" / "articles.toml").read_text(encoding="utf-8"))
    return {claim.name: claim for claim in articles.read_claims(table)}


def register_anchors(app: "Sphinx", doctree: nodes.document) -> None:
    """Let links from other pages end at a line of rows, as they may at headings."""
    metadata = app.env.metadata[app.env.docname]
    metadata.setdefault("myst_slugs", {}).update(metadata.pop("rows", {}))


def setup(app: "Sphinx") -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("rows", Rows)
    app.connect("doctree-read", register_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
