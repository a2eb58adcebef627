"""Part 2 of the book as one Jupyter notebook, which runs from top to bottom in the project's folder.

The pages stand one after another, in the order of their index. Texts stay; what only Sphinx understands becomes
Markdown: rows of the articles become a line in italics, included code a block, cited numbers plain text, links to other
pages links into the book. `python tools/book_notebook.py FILE` runs the notebook and writes it with its outputs;
building the book writes it without.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PART = "transformer"
NAME = f"{PART}.ipynb"
CELL_SECONDS = 300

BLOCK = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<name>[\w:-]+)\}[ \t]*(?P<given>.*)\n(?P<body>(?:.*\n)*?)(?P=fence)[ \t]*$", re.M
)
ROLE = re.compile(r"\{[\w:-]+\}`(?P<text>[^`<]+?)(?: *<[^`]*>)?`")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\[]+)\]\((?P<path>(?![a-z]+:)[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
OPTION = re.compile(r"^:(?P<name>[\w-]+):[ \t]*(?P<value>.*)$")

FIRST = """\
# The Transformer, executed

This notebook is part 2 of the book. Run it in the project's folder, from top to bottom: later cells use what earlier
ones made. Some need the demo's model: `pellucid demo` trains it, in minutes.
"""


def make_notebook() -> "NotebookNode":
    """Make the notebook, without running it."""
    import nbformat

    cells = [nbformat.v4.new_markdown_cell(FIRST)]
    for page in list_pages(DOCS / PART / "index.md"):
        cells += read_cells(page)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # nbformat would draw random ids, so no two builds would be equal
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def list_pages(index: Path) -> list[Path]:
    """List the existing pages that an index names in its table of contents, in that order.

    Raises:
        ValueError: it has no table of contents.
    """
    blocks = BLOCK.finditer(index.read_text(encoding="utf-8"))
    tree = next((block["body"] for block in blocks if block["name"] == "toctree"), None)
    if tree is None:
        raise ValueError(f"{index} has no toctree")
    names = [line.strip() for line in tree.splitlines() if line.strip() and not OPTION.match(line)]
    return [path for name in names if (path := index.with_name(f"{name}.md")).exists()]


def read_cells(page: Path) -> Iterator["NotebookNode"]:
    """Yield the cells of a page: texts in plain Markdown, code as it is, but without changes of the folder."""
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    syntax = MdParserConfig(enable_extensions={"dollarmath", "colon_fence", "deflist"})
    text = page.read_text(encoding="utf-8")
    for cell in read_myst_markdown_notebook(text, syntax, path=page)["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = to_markdown(cell["source"], page)
        else:
            # On its page, code runs in the folder of the page; here everything runs in the project's.
            cell["source"] = "\n".join(line for line in cell["source"].splitlines() if not line.startswith("%cd "))
            cell["metadata"]["page"] = page.relative_to(DOCS).as_posix()
        if cell["source"].strip():
            yield cell


def to_markdown(text: str, page: Path) -> str:
    """Convert MyST to the Markdown that Jupyter shows."""
    # Directives first: their bodies contain roles and links too.
    text = BLOCK.sub(lambda block: directive_markdown(block, page), text)
    text = ROLE.sub(lambda role: role["text"], text)
    return LINK.sub(lambda match: link_markdown(match, page), text)


def directive_markdown(block: re.Match[str], page: Path) -> str:
    """Convert a directive to Markdown; an unknown one stays as it is, for all to see."""
    name, argument, lines = block["name"], block["given"].strip(), block["body"].splitlines()
    options = {match["name"]: match["value"] for line in lines if (match := OPTION.match(line))}
    body = "\n".join(line for line in lines if not OPTION.match(line)).strip()
    if name == "rows":
        return f"*In the articles: {', '.join(argument.split())}*"
    # In the book, Sphinx includes the source; here the text itself must be in the cell.
    if name == "literalinclude":
        path = (page.parent / argument).resolve()
        return f"```python\n{read_source(path, options.get('pyobject', ''))}\n```"
    if name == "include":
        # MyST's option: headings of the included file are moved down by so many levels.
        deeper = "#" * int(options.get("heading-offset", 0))
        included = (page.parent / argument).resolve().read_text(encoding="utf-8")
        return re.sub(r"^#", f"{deeper}#", included, flags=re.MULTILINE).rstrip()
    if name == "toctree":
        return ""
    # What the book folds away, such as the answer to a question, is folded in a notebook too.
    if "collapsible" in options:
        return f"<details><summary>{argument or name.title()}</summary>\n\n{body}\n\n</details>"
    if name in ("note", "tip", "warning", "important", "admonition", "hint", "dropdown"):
        return "\n".join(f"> {line}" for line in [f"**{argument or name.title()}**", "", *body.splitlines()])
    return block[0]


def read_source(path: Path, name: str) -> str:
    """Return the source of a function or class in a file, by its dotted name; the whole file without a name.

    Raises:
        ValueError: there is no such object.
    """
    source = path.read_text(encoding="utf-8")
    node: Any = ast.parse(source)
    for identifier in name.split(".") if name else []:
        matches = [child for child in node.body if getattr(child, "name", None) == identifier]
        if not matches:
            raise ValueError(f"{path} has no {name}")
        node = matches[0]
    if not name:
        return source.rstrip()
    # Decorators stand above the line that Python gives as the start.
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[indent:] for line in lines)


def link_markdown(match: re.Match[str], page: Path) -> str:
    """Convert a link: to a page, it leads into the book beside the notebook; to another file, only its text stays."""
    path = normpath(f"{page.parent.relative_to(DOCS).as_posix()}/{match['path']}")
    if not match["path"] or path.startswith("..") or not path.endswith(".md"):
        return match["text"]
    return f"[{match['text']}]({path.removesuffix('.md')}.html{match['anchor'] or ''})"


def run_notebook(notebook: "NotebookNode") -> str | None:
    """Run all cells in the project's folder, in one kernel; return why the first that failed did so, if one did."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    resources = {"metadata": {"path": str(ROOT)}}
    try:
        NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=resources).execute()
    except (CellExecutionError, CellTimeoutError) as error:
        started_cells = [cell for cell in notebook.cells if cell.get("execution_count")]
        # nbclient counts a cell when it starts: the last one counted is the one that failed.
        page = started_cells[-1]["metadata"].get("page", "") if started_cells else ""
        lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
        return f"{page}: {lines[-1]}"
    return None


def main(arguments: list[str]) -> int:
    """Make, run and write the notebook; exit status 1 where a cell fails."""
    import nbformat

    if len(arguments) != 1:
        print("python tools/book_notebook.py FILE", file=sys.stderr)
        return 2
    notebook = make_notebook()
    if failure := run_notebook(notebook):
        print(f"notebook: {failure}", file=sys.stderr)
        return 1
    path = Path(arguments[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return 0


def write_beside_book(app: "Sphinx", exception: Exception | None) -> None:
    """Write the notebook, not run, where the built book links to it."""
    import nbformat

    if exception is None and app.builder.name == "html" and (Path(app.srcdir) / PART).is_dir():
        nbformat.write(make_notebook(), Path(app.outdir) / NAME)


def notebook_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, *unused: Any
) -> tuple[list[Any], list[Any]]:
    """Role {notebook}`some words`: the words lead to the notebook."""
    from docutils import nodes

    env = inliner.document.settings.env
    up = "../" * env.docname.count("/")
    return [nodes.reference(rawtext, text, refuri=f"{up}{NAME}", internal=True)], []


def setup(app: "Sphinx") -> dict[str, Any]:
    """Add the role, and the notebook to the book."""
    app.add_role("notebook", notebook_role)
    app.connect("build-finished", write_beside_book)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
