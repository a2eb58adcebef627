"""Additions of the book to Sphinx: rows of the articles, checked numbers, downloads, formulas, and %%bash cells.

Numbers: every number in the prose of an executed page must come out of one of its cells, or be marked as cited. A
number is checked if it has a decimal point, a percent sign, or three digits or more. It passes if some number in the
page's cells or their outputs is equal to it when rounded to as many decimals. `{cited}` marks those of others, such as
an article's or a paper's: {cited}`0.973`. A page without cells names the files its numbers are from:

    ---
    numbers: [../../benchmarks/results/train.md]
    ---

Cells: a page begins with a hidden cell, which goes to the project's folder, and may go on to a new one, in which files
of the project have the names that it says. After it, cells may be in bash: commands of this environment, with output in
the order of a terminal.

    %load_ext book
    %new_folder general=runs/demo/best runs
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import articles
import jupyter_client
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from jupyter_client.manager import AsyncKernelManager
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from traitlets import CaselessStrEnum, default

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

log = logging.getLogger(__name__)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Add everything to Sphinx, which calls this function."""
    app.connect("autodoc-process-docstring", convert_docstring)
    jupyter_client.AsyncKernelManager = KernelOverFiles  # pyright: ignore[reportPrivateImportUsage]
    app.add_directive("rows", Rows)
    app.connect("doctree-read", register_anchors)
    app.connect("source-read", link_downloads)
    app.add_html_math_renderer("mathml", (visit_inline_formula, None), (visit_display_formula, None))
    app.add_role("cited", cited_role)
    app.connect("doctree-read", check_numbers)
    # Cells of some pages write files with a model inside into the book, which links to them.
    os.environ["PELLUCID_BOOK"] = str(app.outdir)
    app.connect("build-finished", require_model_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


MODEL_PAGES = {
    "try-it-here.html": "start/web-page",
    "gallery-one-layer.html": "start/own-text",
    "gallery-dates.html": "start/web-page",
}
"""Files with a model inside, to which the book links, each with the page whose cells write it."""


def require_model_pages(app: "Sphinx", exception: Exception | None) -> None:
    """Refuse a book without the files with models inside, to which its pages link."""
    if exception or app.builder.format != "html":
        return
    for file, page in MODEL_PAGES.items():
        if page in app.env.found_docs and not (Path(app.outdir) / file).is_file():
            raise ExtensionError(f"{page} did not write {file}, to which the book links")


MAP = "design/articles"


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
    table = tomllib.loads((articles.ROOT / "docs" / "articles.toml").read_text(encoding="utf-8"))
    return {claim.name: claim for claim in articles.read_claims(table)}


def register_anchors(app: "Sphinx", doctree: nodes.document) -> None:
    """Let links from other pages end at a line of rows, as they may at headings."""
    metadata = app.env.metadata[app.env.docname]
    metadata.setdefault("myst_slugs", {}).update(metadata.pop("rows", {}))


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


CODE = re.compile(r"(`+)(.+?)\1")


def convert_docstring(app: "Sphinx", kind: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """Convert single backticks to double ones, and escape asterisks and bars outside code.

    An indented block after an empty line is code, and stays as it is written.
    """
    text = "\n".join(lines)
    # Sphinx reads what is left in this list, so it is changed in place.
    lines[:] = "\n\n".join(block if is_indented(block) else convert_prose(block) for block in text.split("\n\n")).split(
        "\n"
    )
    # From the end, since each insertion moves the lines after it.
    for number in reversed([n for n, line in enumerate(lines) if starts_code(lines, n)]):
        lines[number:number] = ["::", ""]


def is_indented(block: str) -> bool:
    """Whether every line of a paragraph is indented."""
    return all(line.startswith("    ") for line in block.splitlines() if line)


def starts_code(lines: list[str], number: int) -> bool:
    """Whether an indented block begins here; an example with >>> is known to Sphinx."""
    before = lines[number - 1] if number else ""
    return lines[number].startswith("    ") and not before and not lines[number].lstrip().startswith(">>>")


def convert_prose(block: str) -> str:
    """Convert a paragraph, with its code between double backticks.

    >>> print(convert_prose("`a*b` times *c"))
    ``a*b`` times \\*c
    """
    parts, end = [], 0
    for match in CODE.finditer(block):
        parts += [escape_markup(block[end : match.start()]), f"``{match[2]}``"]
        end = match.end()
    return "".join([*parts, escape_markup(block[end:])])


def escape_markup(text: str) -> str:
    """Escape signs that reStructuredText would take for markup."""
    return re.sub(r"([*|])", r"\\\1", text)


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
    try:
        translator.body.append(tex2mathml(node.astext(), as_block=display))
    # docutils raises errors of several kinds for formulas that it cannot read.
    except Exception as error:
        raise ExtensionError(f"{node.source}:{node.line}: {node.astext()!r} is no formula docutils reads") from error
    # Sphinx would otherwise also write the formula's source as text.
    raise nodes.SkipNode


class KernelOverFiles(AsyncKernelManager):
    """Kernel manager that communicates through files in a folder of its own."""

    # Jupyter's own manager looks for free ports, which the kernel takes only a second later.
    transport = CaselessStrEnum(["tcp", "ipc"], default_value="ipc")

    @default("ip")
    def _make_folder(self) -> str:
        # An absolute path: the kernel runs in the folder of its page.
        self._folder = TemporaryDirectory(prefix="kernel-")
        return str(Path(self._folder.name, "ipc"))

    def cleanup_ipc_files(self) -> None:
        """Remove the folder too once the kernel has stopped."""
        # Here, because Sphinx's workers end without any other cleaning up.
        super().cleanup_ipc_files()
        if Path(self.ip).is_absolute():
            self._folder.cleanup()


def bash(line: str, cell: str) -> None:
    """Run a cell in bash and print its output; raise RuntimeError, with the output, where its last command fails."""
    # Commands such as `pellucid` come from the environment of this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", cell],
        stdout=subprocess.PIPE,
        # One pipe keeps the order of the two streams; IPython's own %%bash separates them, and hands output on in
        # pieces of 100 bytes, which may end inside a letter.
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}:\n{process.stdout}")
    print(process.stdout, end="")


FOLDERS: list["TemporaryDirectory[str]"] = []
"""Folders of this page's cells: each is removed when its kernel ends."""


def new_folder(line: str) -> None:
    """Go to a new folder with a link for each NAME=PATH of a line, PATH seen from the project; NAME alone is both."""
    FOLDERS.append(TemporaryDirectory())
    os.chdir(FOLDERS[-1].name)
    for word in line.split():
        name, _, path = word.partition("=")
        Path(name).symlink_to(articles.ROOT / (path or name))


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Go to the project's folder, replace IPython's own %%bash, and add %new_folder."""
    os.chdir(articles.ROOT)
    shell.register_magic_function(bash, "cell", "bash")  # pyright: ignore[reportArgumentType]
    shell.register_magic_function(new_folder, "line", "new_folder")  # pyright: ignore[reportArgumentType]
