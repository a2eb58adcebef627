"""The map of the five articles: for each of their rows the tests, pages and commands that make it true.

Rows and claims stand in docs/articles.toml. A test names the rows it proves with `@pytest.mark.article("A33", "X13")`,
a page of the book with the directive `{rows} A23 A24`, a command in the table itself. `make fix` writes the map of them
all to docs/reference/articles.md; `make articles` runs them, and a row counts when all that it points to succeeds.
"""

import ast
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROWS = re.compile(r"^(?P<fence>:{3,}|`{3,})\{rows\}[ \t]+(?P<names>.+?)[ \t]*$", re.MULTILINE)
TITLE = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
TOGETHER = re.compile(r"([A-Z])(\d+)-(\d+)")
STATES = ("proved", "measured", "told")
"""What a row may be: true by tests and pages; about a trained model, which may do otherwise; or only words."""

NOT_RUN = ("slow", "gpu")
"""Marks of tests that `make articles` leaves out: they prove nothing there."""

FILLED = {
    "model": "runs/demo/best",
    "source": "runs/demo/data/test.en",
    "target": "runs/demo/data/test.es",
    "figure": "figure.png",
}
"""What stands for the reader's own model and files in a command."""

INTRODUCTION = """\
# The articles, row by row

What five articles about the Transformer explain, claim by claim, and what stands for each claim here: tests, pages of
this book whose cells were executed while it was built, and commands that report what a model of your own does. Of the
{rows} rows {proved} are proved. {measured} speak of what training leads to: they are measured, and need not be true of
your model, nor of the demo's. {told} are told in words alone. `make articles` runs everything this page points to and
ends with the number of rows for which all of it succeeds. The {errors} rows X are
[places where an article is wrong](../errors/index.md).
"""


@dataclass(frozen=True)
class Command:
    """A command that reports what a row says, and patterns that must each be found in what it prints."""

    line: str
    expect: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([self.line, *(f"/{pattern}/" for pattern in self.expect)])


@dataclass(frozen=True)
class Claim:
    """A row of an article: where it says what, in our words, and the commands that report it."""

    name: str
    article: str
    at: str
    says: str
    commands: tuple[Command, ...] = ()
    state: str = "proved"


@dataclass(frozen=True)
class Test:
    """A test that proves a row: its file, relative to the project, and its name."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}::{self.name}"


@dataclass
class Proofs:
    """All that makes one row true."""

    pages: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.pages or self.tests or self.commands)


@dataclass
class Map:
    """The rows, what proves each, and what is wrong with the whole."""

    articles: dict[str, str]
    claims: dict[str, Claim]
    proofs: dict[str, Proofs]
    problems: list[str]


def collect(root: Path = ROOT) -> Map:
    """Everything as it stands in a project: its table of claims, its pages, its tests."""
    table = tomllib.loads((root / "docs" / "articles.toml").read_text(encoding="utf-8"))
    claims = {claim.name: claim for claim in claims_of(table)}
    found = Map({letter: each["title"] for letter, each in table.items()}, claims, {}, miscounted(table))
    found.proofs = {name: Proofs(commands=list(claim.commands)) for name, claim in claims.items()}
    names = aliases(claims)

    def proven(written: str, where: str) -> Proofs | None:
        if (name := names.get(written)) is None:
            found.problems.append(f"{where} names {written}, which is no row of docs/articles.toml")
            return None
        return found.proofs[name]

    for page, written in rows_of_pages(root):
        if (proofs := proven(written, page)) is not None and page not in proofs.pages:
            proofs.pages.append(page)
    for test, written, left_out in rows_of_tests(root):
        if left_out:
            found.problems.append(f"{test} is to prove {written}, and {left_out}")
        elif (proofs := proven(written, str(test))) is not None and test not in proofs.tests:
            proofs.tests.append(test)
    for name, proofs in found.proofs.items():
        for command in proofs.commands:
            if problem := unproven(command) or misspelled(command.line):
                found.problems.append(f"{name}: {problem}")
        if claims[name].state not in STATES:
            found.problems.append(f"{name}: its state is {claims[name].state!r}, it must be one of {', '.join(STATES)}")
        if not proofs:
            found.problems.append(f"{name} has no test, no page and no command: {claims[name].says}")
    return found


def claims_of(table: dict[str, Any]) -> Iterator[Claim]:
    """The rows of the table, article by article."""
    for letter, article in table.items():
        for name, row in article["claims"].items():
            lines, expect = row.get("command", []), row.get("expect", [])
            if isinstance(lines, str):
                lines, expect = [lines], [expect]
            commands = (Command(line or "", tuple(patterns or ())) for line, patterns in zip_longest(lines, expect))
            yield Claim(name, letter, row["at"], row["says"], tuple(commands), row.get("state", "proved"))


def miscounted(table: dict[str, Any]) -> list[str]:
    """What is wrong with the rows of the table: another number than it says, a number left out, another letter."""
    problems = []
    for letter, article in table.items():
        names = list(article["claims"])
        if len(names) != article["rows"]:
            problems.append(
                f"article {letter} has {len(names)} rows in docs/articles.toml, and should have {article['rows']}"
            )
        numbers = [number for name in names for number in singles(name)]
        if numbers != [f"{letter}{n}" for n in range(1, len(numbers) + 1)]:
            problems.append(f"the rows of article {letter} are not {letter}1, {letter}2, ... in this order")
    return problems


def singles(name: str) -> list[str]:
    """The numbers that a row counts as one.

    >>> singles("A10-12"), singles("B3")
    (['A10', 'A11', 'A12'], ['B3'])
    """
    if match := TOGETHER.fullmatch(name):
        return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1)]
    return [name]


def aliases(claims: dict[str, Claim]) -> dict[str, str]:
    """The row that each name means: its own, and each of the numbers it counts as one."""
    return {alias: name for name in claims for alias in (name, *singles(name))}


def rows_of_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Each row that a page of the book names: the page, relative to docs/, and the row."""
    docs = root / "docs"
    for path in sorted(docs.rglob("*.md")):
        if path.relative_to(docs).parts[0] != "_build":
            for match in ROWS.finditer(path.read_text(encoding="utf-8")):
                for name in match["names"].split():
                    yield path.relative_to(docs).as_posix(), name


def rows_of_tests(root: Path) -> Iterator[tuple[Test, str, str | None]]:
    """Each row that a test names: the test, the row, and why the test would never run, if so."""
    for path in sorted((root / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.article" not in text:
            continue
        tree, name = ast.parse(text), path.relative_to(root).as_posix()
        collected = path.name.startswith("test_")
        of_all = [mark for each in tree.body if (marked := marked_all(each)) for mark in marks(marked)]
        for function in tree.body:
            if isinstance(function, ast.FunctionDef):
                own = [*of_all, *(mark for each in function.decorator_list for mark in marks(each))]
                why = None if collected and function.name.startswith("test") else "pytest does not collect it"
                if unwanted := [mark for mark, _ in own if mark in NOT_RUN]:
                    why = f"is marked {unwanted[0]}: make articles does not run it"
                for mark, rows in own:
                    if mark == "article":
                        yield from ((Test(name, function.name), row, why) for row in rows)


def marked_all(statement: ast.stmt) -> ast.expr | None:
    """What a line `pytestmark = ...` of a module marks all its tests with."""
    if isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == ["pytestmark"]:
        return statement.value
    return None


def marks(expression: ast.expr) -> Iterator[tuple[str, list[str]]]:
    """The names of pytest's marks in a decorator or a list of marks, with the texts they are given."""
    if isinstance(expression, ast.List | ast.Tuple):
        for each in expression.elts:
            yield from marks(each)
        return
    call = expression if isinstance(expression, ast.Call) else None
    path = ast.unparse(call.func if call else expression)
    if path.startswith("pytest.mark."):
        given = call.args if call else []
        texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        yield path.removeprefix("pytest.mark."), texts


def unproven(command: Command) -> str | None:
    """What is wrong with the patterns of a command: there is none, or one that is no regular expression."""
    if not command.line:
        return f"`expect` holds patterns for a command that is not there: {', '.join(command.expect)}"
    if not command.expect:
        return f"`{command.line}` has no `expect`: a command proves a row by what it prints"
    for pattern in command.expect:
        try:
            re.compile(pattern)
        except re.error as error:
            return f"`expect` of `{command.line}`: {pattern!r} is no regular expression: {error}"
    return None


def misspelled(line: str) -> str | None:
    """What is wrong with a command line: a command or an option that does not exist, or an argument that lacks."""
    try:
        program, *words = shlex.split(filled(line))
    except (KeyError, IndexError) as error:
        return f"{line!r} has a name in braces that stands for nothing: {error}"
    if program != "pellucid":
        return f"{line!r} does not begin with pellucid"
    return refused(tuple(words))


@cache
def refused(words: tuple[str, ...]) -> str | None:
    """What the command line says to these words; nothing is run."""
    from typer.main import get_command

    if str(ROOT / "src") not in sys.path:
        sys.path.insert(0, str(ROOT / "src"))
    from pellucid.cli import app

    command: Any = get_command(app)
    rest, path = list(words), ["pellucid"]
    while rest and hasattr(command, "commands"):
        word = rest.pop(0)
        if word not in command.commands:
            return f"there is no command `{' '.join([*path, word])}`"
        command = command.commands[word]
        path.append(word)
    try:
        command.make_context(" ".join(path), rest)
    except Exception as error:  # click's own errors, whose class depends on who brings click along
        if not hasattr(error, "format_message"):
            raise
        return f"`{' '.join(path)}`: {error.format_message()}"  # pyright: ignore[reportAttributeAccessIssue]
    return None


def filled(line: str, **other: str) -> str:
    """A command line with the demo's model and files in it."""
    return line.format(**{**FILLED, **other})


def page() -> str:
    """The map as a page of the book.

    Raises:
        SystemExit: something is wrong with the map; each problem is a line.
    """
    found = collect()
    if found.problems:
        raise SystemExit("\n".join(f"articles: {problem}" for problem in found.problems))
    return text_of(found)


def text_of(found: Map, root: Path = ROOT) -> str:
    """A heading and a table for each article."""
    states = [claim.state for claim in found.claims.values() if claim.article != "X"]
    numbers = {state: states.count(state) for state in STATES}
    parts = [INTRODUCTION.format(rows=len(states), errors=len(found.claims) - len(states), **numbers)]
    for letter, title in found.articles.items():
        lines = [f"## {title if letter == 'X' else f'{letter}. {title}'}", ""]
        lines += ["| row | where | what it says | state | shown by |", "|---|---|---|---|---|"]
        for name, claim in found.claims.items():
            if claim.article == letter:
                links = "; ".join(links_of(name, found.proofs[name], root))
                lines.append(
                    f'| <a id="{name.lower()}"></a>{name} | {claim.at} | {cell(claim.says)} | {claim.state} | {links} |'
                )
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def links_of(name: str, proofs: Proofs, root: Path) -> Iterator[str]:
    """Pages, tests and commands of a row, as Markdown seen from docs/reference/."""
    for each in proofs.pages:
        yield f"[{title_of(root / 'docs' / each)}](../{each}#row-{name.lower()})"
    for test in proofs.tests:
        words = test.name.removeprefix("test_").replace("_", " ")
        yield f"[{words}](../../{test.path})"
    for command in proofs.commands:
        yield f"`{cell(filled(command.line))}`"


def title_of(path: Path) -> str:
    """The heading of a page."""
    match = TITLE.search(path.read_text(encoding="utf-8"))
    return match[1] if match else path.stem


def cell(text: str) -> str:
    """A text inside a table."""
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Check the map, run what it points to, count; exit status 1 unless every row holds."""
    if arguments:
        print(f"tools/articles.py takes no arguments, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    from articles_run import run

    return run(collect())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
