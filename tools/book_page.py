"""The book as one HTML file: every page in the order of the contents, with styles and pictures inside.

`python tools/book_page.py FOLDER FILE` reads the book that Sphinx built into FOLDER and writes it as FILE, which can be
opened without a network and passed on by itself.
"""

import base64
import mimetypes
import re
import sys
from collections import Counter
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any

DROPPED = {"theme-toggle-container", "sidebar-search-container", "related-pages", "toc-overlay-icon", "back-to-top"}
"""Classes of what needs other files or a script, such as the search and the switch between light and dark."""

ARTICLE = re.compile(r"<article role=\"main\".*?>(?P<body>.*)</article>", re.S)
BODY = re.compile(r"<body.*?>(?P<body>.*)</body>", re.S)
TREE = re.compile(r"<div class=\"sidebar-tree\">(?P<body>.*?)</div>", re.S)
STYLESHEET = re.compile(r"<link rel=\"stylesheet\"[^>]*href=\"(?P<path>[^\"?]+)")
STYLE = re.compile(r"<style>.*?</style>", re.S)
SOURCE_MAP = re.compile(r"/\*# sourceMappingURL=.*?\*/")


def make_page(folder: Path) -> str:
    """Return the whole book as one page.

    Raises:
        ValueError: the page would load something, or two of its elements have one id, or a link leads nowhere.
    """
    index = (folder / "index.html").read_text(encoding="utf-8")
    pages = list_pages(index)
    articles = []
    for page in pages:
        match = ARTICLE.search((folder / page).read_text(encoding="utf-8"))
        assert match, f"{page} has no article"
        anchor = page_anchor(page)
        articles.append(f'<div id="{anchor}"></div>\n{rewrite(match["body"], page, pages, folder)}')
    # The shell around the articles is that of the first page: its contents on the left, its header on a phone.
    shell = BODY.search(index)
    assert shell
    before, after = ARTICLE.sub("\0", shell["body"]).split("\0")
    [title, *_] = re.findall(r"<title>.*?</title>", index, re.S)  # the others belong to pictures
    text = "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            title,
            f"<style>\n{read_styles(index, folder)}\n</style>",
            *STYLE.findall(index),
            '</head><body data-theme="auto">',
            rewrite(before, "", pages, folder),
            '<article role="main" id="furo-main-content">',
            *articles,
            "</article>",
            rewrite(after, "", pages, folder),
            "</body></html>\n",
        ]
    )
    if problems := find_problems(text):
        raise ValueError(f"the page is not whole: {'; '.join(problems[:5])}")
    return text


def list_pages(index: str) -> list[str]:
    """List the files of the book in the order of the contents on its first page, which comes first itself."""
    match = TREE.search(index)
    assert match, "the first page has no contents"
    links = re.findall(r"<a class=\"[^\"]*\breference internal\" href=\"([^\"#]+)\"", match["body"])
    return list(dict.fromkeys(["index.html", *links]))


def read_styles(index: str, folder: Path) -> str:
    """Return the style sheets that a page loads, one after another."""
    sheets = [(folder / path).read_text(encoding="utf-8") for path in STYLESHEET.findall(index)]
    return "\n".join(SOURCE_MAP.sub("", sheet) for sheet in sheets)


def page_anchor(page: str) -> str:
    """Return the id at which a page begins.

    >>> page_anchor("transformer/pieces.html")
    'transformer-pieces'
    """
    return page.removesuffix(".html").replace("/", "-")


def rewrite(markup: str, page: str, pages: list[str], folder: Path) -> str:
    """Return markup of a page so that it can stand among all others; the shell is the page of the name ""."""
    rewriter = Rewriter(page, pages, folder)
    rewriter.feed(markup)
    rewriter.close()
    return "".join(rewriter.parts)


class Rewriter(HTMLParser):
    """Copies markup, with ids that name their page, links within the file, pictures as data, and without scripts."""

    def __init__(self, page: str, pages: list[str], folder: Path):
        super().__init__(convert_charrefs=False)
        self.page, self.pages, self.folder, self.parts = page, pages, folder, list[str]()
        self.dropping = ""
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.dropping:
            self.depth += tag == self.dropping
            return
        classes = set((dict(attrs).get("class") or "").split())
        if tag == "script" or classes & DROPPED or dict(attrs).get("id") == "searchbox":
            self.dropping, self.depth = tag, 1
            return
        written = self.get_starttag_text() or ""
        changed = [(name, self.change(tag, name, value)) for name, value in attrs]
        if changed != attrs:
            # Only names and values that are kept; a link that leads out of the file stays as plain text.
            kept = [(name, value) for name, value in changed if value is not None or (name, None) in attrs]
            end = "/>" if written.endswith("/>") else ">"
            written = "".join(
                [
                    f"<{tag}",
                    *(f' {name}="{escape(value)}"' if value is not None else f" {name}" for name, value in kept),
                    end,
                ]
            )
        self.parts.append(written)

    def change(self, tag: str, name: str, value: str | None) -> str | None:
        """Return what becomes of an attribute; None drops it."""
        if value is None:
            return None
        if name == "id" and self.page:
            return f"{page_anchor(self.page)}--{value}"
        if name in ("for", "aria-labelledby", "aria-describedby") and self.page:
            return " ".join(f"{page_anchor(self.page)}--{anchor}" for anchor in value.split())
        if name == "src" and not value.startswith("data:"):
            return self.embed(value)
        if name == "href" and tag == "a":
            return self.link(value)
        return value

    def link(self, target: str) -> str | None:
        """Return where a link leads in the one page; None where that is another file."""
        if re.match(r"[a-z]+:", target):
            return target
        path, _, anchor = target.partition("#")
        page = normpath(f"{dirname(self.page)}/{path}".lstrip("/")) if path else self.page
        if not page:  # within the shell
            return target
        if page not in self.pages:
            return None
        return f"#{page_anchor(page)}--{anchor}" if anchor else f"#{page_anchor(page)}"

    def embed(self, source: str) -> str:
        """Return a picture as a data address."""
        path = self.folder / dirname(self.page) / source
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"

    def handle_endtag(self, tag: str) -> None:
        if not self.dropping:
            self.parts.append(f"</{tag}>")
        elif tag == self.dropping:
            self.depth -= 1
            if not self.depth:
                self.dropping = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self.dropping:
            self.handle_starttag(tag, attrs)

    def append(self, text: str) -> None:
        """Copy text that is not a tag."""
        if not self.dropping:
            self.parts.append(text)

    def handle_data(self, data: str) -> None:
        self.append(data)

    def handle_entityref(self, name: str) -> None:
        self.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.append(f"&#{name};")


def find_problems(text: str) -> list[str]:
    """List what a browser would load, links within the page that lead nowhere, and ids that occur twice."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    twice = [name for name, count in Counter(reader.ids).items() if count > 1]
    return [
        *(f"it loads {address[:80]}" for address in reader.loads),
        *(f"{name} is the id of two elements" for name in twice),
        *(f"#{name} is linked to and does not exist" for name in sorted(reader.targets - {*reader.ids, ""})),
    ]


LOADING = {"script", "link", "img", "iframe", "source", "object", "embed", "video", "audio", "image"}


class Reader(HTMLParser):
    """Collects ids, the targets of links within the page, and addresses from which something is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.ids, self.targets, self.loads, self.in_style = list[str](), set[str](), list[str](), False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values: dict[str, Any] = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.append(values["id"])
        address = values.get("href", "")
        if tag == "a" and address.startswith("#"):
            self.targets.add(address[1:])
        if tag in LOADING:
            addresses = [values.get(name, "") for name in ("src", "href", "xlink:href", "data", "srcset")]
            self.loads += [address for address in addresses if address and not address.startswith(("data:", "#"))]
        self.collect_style(values.get("style", ""))
        self.in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.collect_style(data)

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False

    def collect_style(self, style: str) -> None:
        """Collect what a style would load."""
        imports = re.findall(r"@import\s+[\"']([^\"']+)", style)
        addresses = [address.strip(" \"'") for address in re.findall(r"url\(([^)]*)\)", style)]
        self.loads += [*imports, *(address for address in addresses if not address.startswith(("data:", "#")))]


def main(arguments: list[str]) -> int:
    """Write the page; exit status 2 where the arguments are wrong."""
    if len(arguments) != 2 or not (Path(arguments[0]) / "index.html").is_file():
        print("python tools/book_page.py FOLDER FILE, where FOLDER is the book that Sphinx built", file=sys.stderr)
        return 2
    Path(arguments[1]).write_text(make_page(Path(arguments[0])), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
