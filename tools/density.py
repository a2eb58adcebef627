"""How densely each package is written, beside a table of how it was: no figure may become worse."""

import ast
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from floors import SOURCE, WINGS

PACKAGE = SOURCE / "pellucid"
TABLE = Path(__file__).resolve().parent / "density.toml"
TOP = "pellucid"
"""The row of the files that stand in no folder."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
WIDE = 100
NOTICE = """\
# How densely each package is written. `make check` refuses what became worse, `make fix` writes what became better.
# Where code was moved between packages: python tools/density.py --accept

"""

Counts = Counter[str]
Table = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Figure:
    """One row of a package's table: a count, or how many of 100 lines it is."""

    words: str
    count: str
    size: str = ""  # the lines that the count is a share of; without, the count itself is held
    may_rise: bool = False  # blank lines are good, all else is bad


FIGURES = {
    "comprehensions_per_100": Figure("comprehensions per 100 lines", "comprehensions", "lines"),
    "long_comprehensions": Figure("comprehensions of three lines or more", "long_comprehensions"),
    "nested_comprehensions": Figure("comprehensions around another", "nested_comprehensions"),
    "wide_lines_per_100": Figure(f"lines over {WIDE} columns per 100 lines", "wide_lines", "lines"),
    "blank_lines_per_100": Figure("blank lines per 100 lines of functions", "blank_lines", "function_lines", True),
}


def main(arguments: list[str]) -> int:
    """Name each figure that became worse; exit status 1 where there is one.

    With --write, figures that became better are written into the table, and with --accept all figures as they are now.
    """
    if arguments not in ([], ["--write"], ["--accept"]):
        print(f"tools/density.py takes --write, --accept or nothing, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    packages = measure_packages(PACKAGE)
    if arguments == ["--accept"]:
        write_table(TABLE, {name: measure_figures(add_counts(files)) for name, files in packages.items()})
        return 0

    if arguments == ["--write"]:
        write_table(TABLE, improve_table(packages, read_table(TABLE)))
    problems = find_problems(packages, read_table(TABLE))
    words = "\n".join(problems) or "density: no package is denser than it was"
    print(words, file=sys.stderr if problems else sys.stdout)
    return 1 if problems else 0


def measure_packages(root: Path) -> dict[str, dict[str, Counts]]:
    """Return the counts of each file of each package below `root`, under the path of the file."""
    packages: dict[str, dict[str, Counts]] = {}
    for path in sorted(root.rglob("*.py")):
        files = packages.setdefault(name_package(path.relative_to(root)), {})
        files[path.relative_to(root).as_posix()] = count_lines(path.read_text(encoding="utf-8"))
    return packages


def name_package(path: Path) -> str:
    """Return the name of the row that a file belongs to.

    >>> [name_package(Path(path)) for path in ("api.py", "data/text/casing.py", "interpret/trace/run.py")]
    ['pellucid', 'data', 'interpret.trace']
    """
    folders = path.parent.parts
    depth = 2 if folders and folders[0] in WINGS else 1
    return ".".join(folders[:depth]) or TOP


def count_lines(text: str) -> Counts:
    """Count the lines of one file and what is dense in them; lines of comments and blank ones are not lines of code.

    >>> counts = count_lines("def f(x):\\n    y = [a for a in x]\\n\\n    return y\\n")
    >>> counts["lines"], counts["function_lines"], counts["blank_lines"], counts["comprehensions"]
    (3, 4, 1, 1)
    """
    rows = text.splitlines()
    counts: Counts = Counter()
    for row in rows:
        if row.strip() and not row.strip().startswith("#"):
            counts["lines"] += 1
            counts["wide_lines"] += len(row) > WIDE

    in_functions: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, COMPREHENSIONS):
            counts["comprehensions"] += 1
            counts["long_comprehensions"] += (node.end_lineno or node.lineno) - node.lineno >= 2
            counts["nested_comprehensions"] += holds_another(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            in_functions.update(range(node.lineno - 1, node.end_lineno or node.lineno))

    counts["function_lines"] = len(in_functions)
    counts["blank_lines"] = sum(not rows[index].strip() for index in in_functions)
    return counts


def holds_another(comprehension: ast.AST) -> bool:
    """Whether a comprehension has another inside it."""
    inner = ast.walk(comprehension)
    next(inner)  # the comprehension itself
    return any(isinstance(node, COMPREHENSIONS) for node in inner)


def add_counts(files: dict[str, Counts]) -> Counts:
    """Return the sum of the counts of several files."""
    total: Counts = Counter()
    for counts in files.values():
        total.update(counts)
    return total


def measure_figures(counts: Counts) -> dict[str, float]:
    """Return the figures of a package, shares to one decimal and rounded to the worse side.

    >>> measure_figures(count_lines("x = [a for a in y]\\n" + "z = 1\\n" * 6))["comprehensions_per_100"]
    14.3
    """
    figures: dict[str, float] = {}
    for key, figure in FIGURES.items():
        count, size = counts[figure.count], max(1, counts[figure.size])
        if not figure.size:
            figures[key] = count
        elif figure.may_rise:
            figures[key] = 1000 * count // size / 10
        else:
            figures[key] = -(-1000 * count // size) / 10
    return figures


def find_problems(packages: dict[str, dict[str, Counts]], table: Table) -> list[str]:
    """Return one sentence for each figure that is worse than the table says, and for each row too many or missing."""
    gone = sorted(table.keys() - packages.keys())
    problems = [f"density: {name} has a row and no file; `make fix` removes the row" for name in gone]
    for name, files in packages.items():
        counts = add_counts(files)
        allowed = table.get(name) or allow_new_package(packages, table, counts)
        worse = [key for key in FIGURES if is_worse(key, counts, allowed[key])]
        problems += [describe_figure(key, name, files, allowed[key], name in table) for key in worse]
        if name not in table and not worse:
            problems.append(f"density: {name} is new and has no row; `make fix` writes it")
    return problems


def is_worse(key: str, counts: Counts, allowed: float) -> bool:
    """Whether a figure is worse than allowed, for a share by more than one line makes.

    >>> [is_worse("wide_lines_per_100", Counter(lines=200, wide_lines=count), 5.0) for count in (10, 11, 12)]
    [False, False, True]
    """
    figure = FIGURES[key]
    count = counts[figure.count]
    if not figure.size:
        return count > allowed
    expected = allowed * counts[figure.size] / 100
    return count < expected - 1 if figure.may_rise else count > expected + 1


def allow_new_package(packages: dict[str, dict[str, Counts]], table: Table, counts: Counts) -> dict[str, float]:
    """Return the figures that a package without a row may have: those of all packages with one, for its size."""
    whole: Counts = Counter()
    for name in packages.keys() & table.keys():
        whole.update(add_counts(packages[name]))

    allowed = measure_figures(whole)
    for key, figure in FIGURES.items():
        if not figure.size:
            allowed[key] = whole[figure.count] * counts["lines"] // max(1, whole["lines"])
    return allowed


def describe_figure(key: str, name: str, files: dict[str, Counts], allowed: float, is_known: bool) -> str:
    """Say in one sentence which figure of a package is worse, what it was, what it is, and where most of it stands."""
    figure = FIGURES[key]
    now = measure_figures(add_counts(files))[key]

    # Where blank lines are missing, it is the lines without one that are many.
    amounts: Counts = Counter()
    for path, counts in files.items():
        amounts[path] = counts[figure.size] - counts[figure.count] if figure.may_rise else counts[figure.count]
    places = ", ".join(f"{path} ({amount})" for path, amount in amounts.most_common(3) if amount)

    before = f"it was {allowed:g}" if is_known else f"{allowed:g} is allowed, as in all others together"
    most = "most lines without one are in" if figure.may_rise else "most are in"
    return f"density: the number of {figure.words} in {name} is {now:g}, {before}; {most} {places}"


def improve_table(packages: dict[str, dict[str, Counts]], table: Table) -> Table:
    """Return the table with what became better, without packages that are gone.

    A new package gets its row where it is no worse than all the others together.
    """
    improved: Table = {}
    for name, files in packages.items():
        counts = add_counts(files)
        now = measure_figures(counts)
        if name in table:
            before = table[name]
            improved[name] = {key: choose_better(key, now[key], before[key]) for key in FIGURES}
            continue
        allowed = allow_new_package(packages, table, counts)
        if not any(is_worse(key, counts, allowed[key]) for key in FIGURES):
            improved[name] = now
    return improved


def choose_better(key: str, now: float, before: float) -> float:
    """Return the better one of two values of a figure."""
    return max(now, before) if FIGURES[key].may_rise else min(now, before)


def read_table(path: Path) -> Table:
    """Read the table of all packages."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def write_table(path: Path, table: Table) -> None:
    """Write the table of all packages, one figure on each line."""
    rows = [NOTICE]
    for name, figures in sorted(table.items()):
        rows.append(f'["{name}"]\n')
        rows += [f"{key} = {figures[key]:g}\n" for key in FIGURES]
        rows.append("\n")
    path.write_text("".join(rows).rstrip("\n") + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
