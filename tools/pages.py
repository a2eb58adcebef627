"""The pages made from the code: the map of the package and the help of every command; --check says which are stale."""

import ast
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from floors import FLOORS, PACKAGE, SOURCE

DOCS = SOURCE.parent / "docs"
NOTICE = "<!-- Made by `make fix` from the code; edits here are lost. -->\n\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check name those that differ from the code; exit status 1 where there is one."""
    if arguments not in ([], ["--check"]):
        print(f"tools/pages.py takes --check or nothing, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    pages = {DOCS / name: NOTICE + make() for name, make in PAGES.items()}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not arguments:
        DOCS.mkdir(exist_ok=True)
        for path in stale:
            path.write_text(pages[path], encoding="utf-8", newline="\n")
    elif stale:
        names = ", ".join(str(path.relative_to(DOCS.parent)) for path in stale)
        print(f"pages: {names} differ from the code; run `make fix`", file=sys.stderr)
        return 1
    return 0


def file_map() -> str:
    """Every module with the sentence it starts with, folder by folder from the ground up."""
    root = SOURCE / PACKAGE
    order = list(FLOORS)
    floors = sorted(
        (path for path in root.iterdir() if path.stem in order and (path / "__init__.py").exists() | path.is_file()),
        key=lambda path: order.index(path.stem),
    )
    loose = table("", [path for path in floors if path.is_file()])
    folders = [table(path.name, sorted(path.rglob("*.py"))) for path in floors if path.is_dir()]
    return "# The map\n\nEvery module and the sentence it starts with; lower floors first.\n\n" + "\n".join(
        [loose, *folders]
    )


def table(folder: str, paths: list[Path]) -> str:
    """One folder as a heading, its own sentence and a row for each module."""
    root = SOURCE / PACKAGE
    first = root / folder / "__init__.py"
    rows = [
        f"| [{path.relative_to(root / folder).as_posix()}](../{path.relative_to(SOURCE.parent).as_posix()}) "
        f"| {sentence(path)} |"
        for path in paths
        if path != first
    ]
    heading = f"## {PACKAGE}{f'/{folder}' if folder else ''}\n\n{sentence(first)}\n\n"
    return heading + "\n".join(["| file | |", "|---|---|", *rows]) + "\n"


def sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not words:
        raise SystemExit(f"pages: {path.relative_to(SOURCE.parent)} does not start with a sentence saying what it is")
    return " ".join(words.split("\n\n")[0].split()).replace("|", "\\|")


def commands() -> str:
    """The --help of `pellucid` and of each of its commands, at a fixed width and without colours."""
    os.environ.update(COLUMNS="110", TERMINAL_WIDTH="110", TYPER_USE_RICH="0", NO_COLOR="1")
    from typer.main import get_command
    from typer.testing import CliRunner

    sys.path.insert(0, str(SOURCE))
    app = import_module(f"{PACKAGE}.cli").app
    texts: list[str] = []
    for words in lines_of(get_command(app)):
        result = CliRunner().invoke(app, [*words, "--help"], prog_name=PACKAGE)
        if result.exit_code != 0:
            raise SystemExit(f"pages: {' '.join([PACKAGE, *words])} --help failed:\n{result.output}")
        texts.append(f"## {' '.join([PACKAGE, *words])}\n\n```\n{tidy(result.output)}\n```\n")
    return "# The commands\n\n" + "\n".join(texts)


def lines_of(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call a command, then those of each command inside it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from lines_of(inner, (*words, name))


def tidy(text: str) -> str:
    """Without spaces at the ends of lines and empty lines around."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


PAGES: dict[str, Callable[[], str]] = {"map.md": file_map, "commands.md": commands}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
