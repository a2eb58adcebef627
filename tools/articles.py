"""Map of the five articles: for each of their rows the tests, pages and commands that make it true.

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
"""States of a row: true by tests and pages; about a trained model, which may do otherwise; or only words."""

NOT_RUN = ("slow", "gpu")
"""Marks of tests that `make articles` does not run: they prove nothing there."""

EXAMPLE_VALUES = {
    "model": "runs/demo/best",
    "source": "runs/demo/data/test.en",
    "target": "runs/demo/data/test.es",
    "figure": "figure.png",
}
"""Values for the names in braces that stand for the reader's own model and files in a command."""

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
    """A command that reports what a row says, and patterns that its output must contain."""

    line: str
    expect: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([self.line, *(f"/{pattern}/" for pattern in self.expect)])


@dataclass(frozen=True)
class Claim:
    """A row of an article: where it makes its claim, the claim in our words, and the commands that report it."""

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
    """The pages, tests and commands that make one row true."""

    pages: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.pages or self.tests or self.commands)


@dataclass
class Map:
    """The rows, the proofs of each, and the problems of the whole."""

    articles: dict[str, str]
    claims: dict[str, Claim]
    proofs: dict[str, Proofs]
    problems: list[str]


def collect_map(root: Path = ROOT) -> Map:
    """Collect the whole map of a project: its table of claims, its pages, its tests."""
    table = tomllib.loads((root / "docs" / "articles.toml").read_text(encoding="utf-8"))
    claims = {claim.name: claim for claim in read_claims(table)}
    article_map = Map(
        {letter: article["title"] for letter, article in table.items()}, claims, {}, count_problems(table)
    )
    article_map.proofs = {name: Proofs(commands=list(claim.commands)) for name, claim in claims.items()}
    # A page may name A11 where the table has the row A10-12.
    names = row_aliases(claims)

    def proofs_of_row(row: str, where: str) -> Proofs | None:
        if (name := names.get(row)) is None:
            article_map.problems.append(f"{where} names {row}, which is no row of docs/articles.toml")
            return None
        return article_map.proofs[name]

    for page, row in find_page_rows(root):
        if (proofs := proofs_of_row(row, page)) is not None and page not in proofs.pages:
            proofs.pages.append(page)
    for test, row, reason in find_test_rows(root):
        if reason:
            article_map.problems.append(f"{test} is to prove {row}, and {reason}")
        elif (proofs := proofs_of_row(row, str(test))) is not None and test not in proofs.tests:
            proofs.tests.append(test)
    for name, proofs in article_map.proofs.items():
        for command in proofs.commands:
            if problem := pattern_problem(command) or command_problem(command.line):
                article_map.problems.append(f"{name}: {problem}")
        if claims[name].state not in STATES:
            article_map.problems.append(
                f"{name}: its state is {claims[name].state!r}, it must be one of {', '.join(STATES)}"
            )
        if not proofs:
            article_map.problems.append(f"{name} has no test, no page and no command: {claims[name].says}")
    return article_map


def read_claims(table: dict[str, Any]) -> Iterator[Claim]:
    """Yield the rows of the table, article by article."""
    for letter, article in table.items():
        for name, row in article["claims"].items():
            lines, expect = row.get("command", []), row.get("expect", [])
            # A row with one command may write it and its patterns without the outer lists.
            if isinstance(lines, str):
                lines, expect = [lines], [expect]
            commands = (Command(line or "", tuple(patterns or ())) for line, patterns in zip_longest(lines, expect))
            yield Claim(name, letter, row["at"], row["says"], tuple(commands), row.get("state", "proved"))


def count_problems(table: dict[str, Any]) -> list[str]:
    """Return the problems with the numbers of rows: a wrong count, a missing number, a wrong letter."""
    problems = []
    for letter, article in table.items():
        names = list(article["claims"])
        if len(names) != article["rows"]:
            problems.append(
                f"article {letter} has {len(names)} rows in docs/articles.toml, and should have {article['rows']}"
            )
        # TOML keeps the order of its keys, so the rows must also be in order.
        numbers = [number for name in names for number in single_names(name)]
        if numbers != [f"{letter}{n}" for n in range(1, len(numbers) + 1)]:
            problems.append(f"the rows of article {letter} are not {letter}1, {letter}2, ... in this order")
    return problems


def single_names(name: str) -> list[str]:
    """Return the names of the rows that a row stands for.

    >>> single_names("A10-12"), single_names("B3")
    (['A10', 'A11', 'A12'], ['B3'])
    """
    if match := TOGETHER.fullmatch(name):
        return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1)]
    return [name]


def row_aliases(claims: dict[str, Claim]) -> dict[str, str]:
    """Return the row that each name means: its own name, and each number of a range."""
    return {alias: name for name in claims for alias in (name, *single_names(name))}


def find_page_rows(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each row that a page of the book names: the page, relative to docs/, and the row."""
    docs = root / "docs"
    for path in sorted(docs.rglob("*.md")):
        # The built book holds copies of the pages.
        if path.relative_to(docs).parts[0] != "_build":
            for match in ROWS.finditer(path.read_text(encoding="utf-8")):
                for name in match["names"].split():
                    yield path.relative_to(docs).as_posix(), name


def find_test_rows(root: Path) -> Iterator[tuple[Test, str, str | None]]:
    """Yield each row that a test names: the test, the row, and the reason why it would never run, or None."""
    for path in sorted((root / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # Most files name no row, and need not be parsed.
        if "mark.article" not in text:
            continue
        tree, name = ast.parse(text), path.relative_to(root).as_posix()
        collected = path.name.startswith("test_")
        shared_marks = [
            mark
            for statement in tree.body
            if (expression := module_marks(statement))
            for mark in read_marks(expression)
        ]
        for function in tree.body:
            if isinstance(function, ast.FunctionDef):
                all_marks = [
                    *shared_marks,
                    *(mark for decorator in function.decorator_list for mark in read_marks(decorator)),
                ]
                reason = None if collected and function.name.startswith("test") else "pytest does not collect it"
                if excluded := [mark for mark, _ in all_marks if mark in NOT_RUN]:
                    reason = f"is marked {excluded[0]}: make articles does not run it"
                for mark, rows in all_marks:
                    if mark == "article":
                        yield from ((Test(name, function.name), row, reason) for row in rows)


def module_marks(statement: ast.stmt) -> ast.expr | None:
    """Return the value of a line `pytestmark = ...` of a module, which marks all its tests."""
    if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == ["pytestmark"]:
        return statement.value
    return None


def read_marks(expression: ast.expr) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of pytest's marks in a decorator or a list of marks, with their text arguments."""
    if isinstance(expression, ast.List | ast.Tuple):
        for element in expression.elts:
            yield from read_marks(element)
        return
    call = expression if isinstance(expression, ast.Call) else None
    path = ast.unparse(call.func if call else expression)
    if path.startswith("pytest.mark."):
        arguments = call.args if call else []
        texts = [
            argument.value
            for argument in arguments
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        yield path.removeprefix("pytest.mark."), texts


def pattern_problem(command: Command) -> str | None:
    """Return a problem with the patterns of a command: there is none, or one that is not a regular expression."""
    if not command.line:
        return f"`expect` holds patterns for a command that is not there: {', '.join(command.expect)}"
    if not command.expect:
        return f"`{command.line}` has no `expect`: a command proves a row by what it prints"
    for pattern in command.expect:
        try:
            re.compile(pattern)
        except re.error as error:
            return f"`expect` of `{command.line}`: {pattern!r} is not a regular expression: {error}"
    return None


def command_problem(line: str) -> str | None:
    """Return a problem with a command line: an unknown command or option, or a missing argument."""
    try:
        program, *words = shlex.split(fill_command(line))
    except (KeyError, IndexError) as error:
        return f"{line!r} has a name in braces that stands for nothing: {error}"
    if program != "pellucid":
        return f"{line!r} does not begin with pellucid"
    return parse_problem(tuple(words))


@cache
def parse_problem(words: tuple[str, ...]) -> str | None:
    """Return the message with which the command line refuses these words, or None; nothing is run."""
    from typer.main import get_command

    if str(ROOT / "src") not in sys.path:
        sys.path.insert(0, str(ROOT / "src"))
    from pellucid.cli import app

    command: Any = get_command(app)
    arguments, path = list(words), ["pellucid"]
    while arguments and hasattr(command, "commands"):
        word = arguments.pop(0)
        if word not in command.commands or command.commands[word].hidden:
            return f"there is no command `{' '.join([*path, word])}`"
        command = command.commands[word]
        path.append(word)
    try:
        # Parses and converts the options, as the program itself would, and stops before the command.
        command.make_context(" ".join(path), arguments)
    except Exception as error:  # click's own errors, whose class depends on who brings click along
        # Whatever is not an error of the command line is a fault of the program.
        if not hasattr(error, "format_message"):
            raise
        return f"`{' '.join(path)}`: {error.format_message()}"  # pyright: ignore[reportAttributeAccessIssue]
    return None


def fill_command(line: str, **values: str) -> str:
    """Fill a command line with the demo's model and files."""
    return line.format(**{**EXAMPLE_VALUES, **values})


def articles_page() -> str:
    """Return the map as a page of the book.

    Raises:
        SystemExit: something is wrong with the map; each problem is a line.
    """
    article_map = collect_map()
    if article_map.problems:
        raise SystemExit("\n".join(f"articles: {problem}" for problem in article_map.problems))
    return map_text(article_map)


def map_text(article_map: Map, root: Path = ROOT) -> str:
    """Return a heading and a table for each article."""
    states = [claim.state for claim in article_map.claims.values() if claim.article != "X"]
    numbers = {state: states.count(state) for state in STATES}
    sections = [INTRODUCTION.format(rows=len(states), errors=len(article_map.claims) - len(states), **numbers)]
    for letter, title in article_map.articles.items():
        lines = [f"## {title if letter == 'X' else f'{letter}. {title}'}", ""]
        # An anchor in each row: the pages of the book link back to it.
        lines += ["| row | where | what it says | state | shown by |", "|---|---|---|---|---|"]
        for name, claim in article_map.claims.items():
            if claim.article == letter:
                links = "; ".join(row_links(name, article_map.proofs[name], root))
                lines.append(
                    f'| <a id="{name.lower()}"></a>{name} | {claim.at} | {escape_bars(claim.says)} '
                    f"| {claim.state} | {links} |"
                )
        sections.append("\n".join(lines) + "\n")
    return "\n".join(sections)


def row_links(name: str, proofs: Proofs, root: Path) -> Iterator[str]:
    """Yield the pages, tests and commands of a row, as Markdown seen from docs/reference/."""
    for page in proofs.pages:
        yield f"[{page_title(root / 'docs' / page)}](../{page}#row-{name.lower()})"
    for test in proofs.tests:
        words = test.name.removeprefix("test_").replace("_", " ")
        yield f"[{words}](../../{test.path})"
    for command in proofs.commands:
        yield f"`{escape_bars(fill_command(command.line))}`"


def page_title(path: Path) -> str:
    """Return the heading of a page."""
    match = TITLE.search(path.read_text(encoding="utf-8"))
    return match[1] if match else path.stem


def escape_bars(text: str) -> str:
    """Escape a text for the cell of a table."""
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Check the map, run everything it points to, and count; exit status 1 unless every row holds."""
    if arguments:
        print(f"tools/articles.py takes no arguments, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    from articles_run import run  # imports this module in turn

    return run(collect_map())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
