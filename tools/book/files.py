"""Links out of docs/ become downloads: the book carries those files along, so that it works by itself."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LINK = re.compile(r"\[(?P<text>[^\]\[]+)\]\((?P<path>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def link_downloads(app: "Sphinx", docname: str, content: list[str]) -> None:
    """Turn links to files beside docs/ into downloads; a dead link stays, so that Sphinx reports it."""
    folder = Path(app.env.doc2path(docname)).parent

    def download(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / match["path"]))
        if path.is_dir():
            return match["text"]
        # Links between pages stay as they are: Sphinx resolves them itself.
        outside = not path.is_relative_to(app.srcdir)
        return f"{{download}}`{match['text'].strip('`')} <{match['path']}>`" if outside and path.is_file() else match[0]

    content[0] = LINK.sub(download, content[0])


def setup(app: "Sphinx") -> dict[str, Any]:
    """Change each page before it is parsed."""
    app.connect("source-read", link_downloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
