"""Map of the five articles: for each of their rows its state, and the tests, pages and commands that show it.

Rows and claims stand in docs/articles.toml. A test names the rows it proves with `@pytest.mark.article("A33", "X13")`,
a page of the book with the directive `{rows} A23 A24`, a command in the table itself. `make fix` writes the map of them
all to docs/design/articles.md; `make articles` runs them, and a row counts when all that it points to succeeds.
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
FIGURES = Path("benchmarks", "results", "articles.md")
"""Page of the figures that `make articles ARGS=--write` measured, a row of its table for each measured row."""

STATES = ("proved", "measured", "told")
"""States of a row. A test fails if the row breaks; a command or a cell has the figure that answers it; only words."""

ERROR_STATES = ("shown", "convention")
"""States of an error: a test shows what is true instead; or nothing is wrong, and the article counts another way."""

NOT_RUN = ("slow", "gpu")
"""Marks of tests that `make articles` does not run: they prove nothing there."""

ROWS = re.compile(r"(?::{3,}|`{3,})\{rows\}\s+(.+)")
HEADING = re.compile(r"(#+) +(.+)")
TOGETHER = re.compile(r"([A-Z])(\d+)-(\d+)")
FIGURE_ROW = re.compile(r"^\| ([A-Z][\d-]+) \| (.+) \|$", re.MULTILINE)

EXAMPLE_VALUES = {
    "model": "runs/demo/best",
    "source": "runs/demo/data/test.en",
    "target": "runs/demo/data/test.es",
    "figure": "figure.png",
}
"""Values for the names in braces that stand for the reader's own model and files in a command."""

INTRODUCTION = """\
# The articles, row by row

Five articles explain the Transformer. This page lists what they say, and where the book shows it; a command behind a
row asks a model. Of the {rows} rows

- {proved} are **proved**: a test fails if the row is no longer true;
- {measured} are **measured**: they are about the result of a training, and need not be true of every model. The figure
  in italics is that of the demo's model ([how it was measured](../../benchmarks/results/articles.md));
- {told} are **told**: they are explanations in words, with nothing to prove, and marked so.

The {errors} rows X are places where an article is wrong. For {shown} of them a test shows what is true instead. The
other {convention}, marked as conventions, turned out to be no errors: there the article only counts or prints in
another way. `make articles` runs everything that this page points to; tests carry the names of their rows
(`mark.article("A1")`).
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
    """A row of an article: where it makes its claim, the claim in our words, its state, and commands that report it.

    `figure` is a pattern that finds the figure of a measured row in what its commands print or its pages show, and
    `figure_text` what to make of the groups of the pattern.
    """

    name: str
    article: str
    at: str
    says: str
    state: str
    commands: tuple[Command, ...] = ()
    figure: str = ""
    figure_text: str = ""


@dataclass(frozen=True)
class Test:
    """A test that proves a row: its file, relative to the project, and its name."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}::{self.name}"


@dataclass
class Proofs:
    """The pages, each with the heading over its first mention, the tests and the commands that show one row."""

    pages: dict[str, str] = field(default_factory=dict)
    tests: list[Test] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)


@dataclass
class Map:
    """The articles' titles, the rows, what shows each, the figures measured last, and the problems of the whole."""

    articles: dict[str, str]
    claims: dict[str, Claim]
    proofs: dict[str, Proofs]
    figures: dict[str, str]
    problems: list[str]

    def count_states(self, names: set[str]) -> dict[str, int]:
        """Return how many of these rows, by their names, are in each state."""
        states = [self.claims[name].state for name in names]
        return {state: states.count(state) for state in (*STATES, *ERROR_STATES)}

    @property
    def errors(self) -> set[str]:
        """The names of the rows that are errors of the articles."""
        return {name for name, claim in self.claims.items() if claim.article == "X"}


def collect_map(root: Path = ROOT) -> Map:
    """Collect the whole map of a project: its table of claims, its pages, its tests."""
    table = tomllib.loads((root / "docs" / "articles.toml").read_text(encoding="utf-8"))
    claims = {claim.name: claim for claim in read_claims(table)}
    titles = {letter: article["title"] for letter, article in table.items()}
    proofs = {name: Proofs(commands=list(claim.commands)) for name, claim in claims.items()}
    article_map = Map(titles, claims, proofs, read_figures(root), count_problems(table))
    # A page may name A11 where the table has the row A10-12.
    names = row_aliases(claims)

    def proofs_of_row(row: str, where: str) -> Proofs | None:
        if (name := names.get(row)) is None:
            article_map.problems.append(f"{where} names {row}, which is no row of docs/articles.toml")
            return None
        return proofs[name]

    for page, heading, row in find_page_rows(root):
        if (row_proofs := proofs_of_row(row, page)) is not None:
            row_proofs.pages.setdefault(page, heading)
    for test, row, reason in find_test_rows(root):
        if reason:
            article_map.problems.append(f"{test} is to prove {row}, and {reason}")
        elif (row_proofs := proofs_of_row(row, str(test))) is not None and test not in row_proofs.tests:
            row_proofs.tests.append(test)
    for name, claim in claims.items():
        problems = [pattern_problem(command) or command_problem(command.line) for command in claim.commands]
        problems.append(state_problem(claim, proofs[name]) or figure_problem(claim, article_map.figures))
        article_map.problems += [f"{name}: {problem}" for problem in problems if problem]
    return article_map


def read_claims(table: dict[str, Any]) -> Iterator[Claim]:
    """Yield the rows of the table, article by article."""
    for letter, article in table.items():
        for name, row in article["claims"].items():
            lines, expect = row.get("command", []), row.get("expect", [])
            # A row with one command may write it and its patterns without the outer lists.
            if isinstance(lines, str):
                lines, expect = [lines], [expect]
            commands = tuple(
                Command(line or "", tuple(patterns or ())) for line, patterns in zip_longest(lines, expect)
            )
            state = row.get("state", ERROR_STATES[0] if letter == "X" else STATES[0])
            # A figure is its pattern, or a list of the pattern and the text to make of it.
            figure = row.get("figure", "")
            pattern, text = (figure, r"\g<0>") if isinstance(figure, str) else figure
            yield Claim(name, letter, row["at"], row["says"], state, commands, pattern, text)


def read_figures(root: Path) -> dict[str, str]:
    """Return the figures that were measured last, by the names of their rows; none where nothing was measured."""
    path = root / FIGURES
    return dict(FIGURE_ROW.findall(path.read_text(encoding="utf-8"))) if path.exists() else {}


def state_problem(claim: Claim, proofs: Proofs) -> str | None:
    """Return what a row lacks for the state that the table gives it."""
    states = ERROR_STATES if claim.article == "X" else STATES
    if claim.state not in states:
        return f"its state is {claim.state!r}, it must be one of {', '.join(states)}"
    if claim.state in ("proved", "shown") and not proofs.tests:
        return f"it is {claim.state}, and no test names it: {claim.says}"
    if claim.state == "measured" and not (proofs.commands or proofs.pages):
        return f"it is measured, and has neither a command nor a page: {claim.says}"
    if claim.state in ("told", "convention") and not any(proofs.pages.values()):
        return f"it is {claim.state}, and no section of a page names it: {claim.says}"
    return None


def figure_problem(claim: Claim, figures: dict[str, str]) -> str | None:
    """Return what is wrong with the figure of a row: only measured rows have one, and it was measured."""
    if bool(claim.figure) != (claim.state == "measured"):
        return f"it is {claim.state}: a measured row has a `figure`, and no other"
    if claim.figure and (problem := expression_problem(claim.figure)):
        return f"its `figure` {problem}"
    if claim.figure and re.compile(claim.figure).groups < max(
        map(int, re.findall(r"\\(\d)", claim.figure_text)), default=0
    ):
        return f"its `figure` has fewer groups than {claim.figure_text!r} names"
    if claim.figure and claim.name not in figures:
        return f"{FIGURES} has no figure of it; run make articles ARGS=--write"
    return None


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


def find_page_rows(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each row that a page of the book names: the page, relative to docs/, the section it is in, and the row.

    The section is the heading last seen below the page's title, or empty where there is none yet.
    """
    docs = root / "docs"
    for path in sorted(docs.rglob("*.md")):
        # The built book holds copies of the pages.
        if path.relative_to(docs).parts[0] == "_build":
            continue
        section, in_code = "", False
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := ROWS.match(line):
                for name in match[1].split():
                    yield path.relative_to(docs).as_posix(), section, name
            # A comment in a cell looks like a heading.
            if line.startswith("```"):
                in_code = not in_code
            elif not in_code and (match := HEADING.match(line)) and len(match[1]) > 1:
                section = match[2].strip()


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
        return f"`{command.line}` has no `expect`: a command shows a row by what it prints"
    problems = filter(None, map(expression_problem, command.expect))
    return next((f"`expect` of `{command.line}`: {problem}" for problem in problems), None)


def expression_problem(pattern: str) -> str | None:
    """Return why a pattern is not a regular expression, or None if it is one."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}"
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


def map_text(article_map: Map) -> str:
    """Return an introduction, and a heading and a list of rows for each article."""
    names = set(article_map.claims)
    numbers = article_map.count_states(names) | {"errors": len(article_map.errors)}
    sections = [INTRODUCTION.format(rows=len(names - article_map.errors), **numbers)]
    for letter, title in article_map.articles.items():
        lines = [f"## {title if letter == 'X' else f'{letter}. {title}'}", ""]
        for name, claim in article_map.claims.items():
            if claim.article == letter:
                links = "; ".join(row_links(name, article_map.proofs[name]))
                # Most rows have one of two states, which the introduction names.
                state = "" if claim.state in (STATES[0], ERROR_STATES[0]) else f" ({claim.state})"
                if claim.figure:
                    state = f" (*{article_map.figures[name]}*)"
                # An anchor in each row: the pages of the book link back to it.
                lines.append(f'- <a id="{name.lower()}"></a>{name}: {claim.says}{state}{": " * bool(links)}{links}')
        sections.append("\n".join(lines) + "\n")
    return "\n".join(sections)


def row_links(name: str, proofs: Proofs) -> Iterator[str]:
    """Yield the pages and the commands of a row, as Markdown seen from docs/design/."""
    for page in proofs.pages:
        yield f"[{Path(page).stem}](../{page}#row-{name.lower()})"
    for command in proofs.commands:
        yield f"`{fill_command(command.line)}`"


def main(arguments: list[str]) -> int:
    """Check the map, run everything it points to, and count; exit status 1 unless every row holds."""
    words = list(arguments)
    if write := "--write" in words:
        words.remove("--write")
    if words and (len(words) != 2 or words[0] != "--tests-from"):
        print(f"tools/articles.py takes --write and --tests-from FILE, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    from articles_run import run  # imports this module in turn

    return run(collect_map(), write, Path(words[1]) if words else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
