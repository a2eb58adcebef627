"""Mutation test: put one fault after another into a copy of the code, and see which tests find it.

    python -m benchmarks.mutants                    # all of mutants.toml; writes benchmarks/results/mutants.md
    python -m benchmarks.mutants m30 m36 --jobs 2   # these alone, and no page

A fault ("mutant") is a text that stands once in a file of src/ and the text that takes its place. It belongs to rows of
docs/articles.toml, each of which must have a test of its own that fails now; or, where no row speaks of it, to tests
that it names. Tests that need a browser are left out. The first run is of the code as it is: every test must pass.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
PAGE = Path(__file__).parent / "results" / "mutants.md"
COPIED = ("src", "tests", "tools", "benchmarks", "docs", "pyproject.toml")
NO_BROWSER = ("tests/page/", "tests/browser/")
SECONDS = 300
"""Time limit of the tests: a fault that makes one run for ever counts as found."""


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, `new` replaces `old`."""

    name: str
    what: str
    file: str
    old: str
    new: str
    rows: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def mutate(self, root: Path) -> str:
        """Return the text of the file with the fault in it; raise ValueError unless `old` stands in it exactly once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"mutant {self.name}: its old text stands {count} times in {self.file}, it must be once")
        return text.replace(self.old, self.new)


@dataclass
class Outcome:
    """The first test that failed for each row of a mutant, or for the tests it names; None where every test passed."""

    mutant: Mutant
    killers: dict[str, str | None] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def survived(self) -> list[str]:
        """Rows whose tests do not find the fault."""
        return [row for row, killer in self.killers.items() if killer is None]


def read_mutants(path: Path = TABLE) -> list[Mutant]:
    """Read all mutants of the table."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    list_keys = {"rows", "tests"}
    return [Mutant(**{key: tuple(value) if key in list_keys else value for key, value in row.items()}) for row in table]


def find_tests_of_rows() -> dict[str, list[str]]:
    """Return the marked tests of each row, as pytest names them, without those that need a browser."""
    sys.path.insert(0, str(ROOT / "tools"))
    import articles

    article_map = articles.collect_map()
    return {
        alias: [str(test) for test in article_map.proofs[name].tests if not test.path.startswith(NO_BROWSER)]
        for alias, name in articles.row_aliases(article_map.claims).items()
    }


def select_proofs(mutant: Mutant, tests_of_rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the tests that must find a mutant, row by row; those that it names itself are under "tests"."""
    return {row: tests_of_rows[row] for row in mutant.rows} | ({"tests": [*mutant.tests]} if mutant.tests else {})


def copy_tree(folder: Path) -> Path:
    """Copy the parts of the project that the tests need into a folder that may be changed."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_build")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def failed_tests(tree: Path, tests: Iterable[str]) -> list[str]:
    """Return the tests that fail in a tree, in the order they ran; a file that cannot be collected is one of them."""
    report = tree / "report.xml"
    report.unlink(missing_ok=True)
    words = ["-q", "-p", "no:cacheprovider", "--tb=no", "--junitxml", str(report), *dict.fromkeys(tests)]
    # The copy's own code must be imported, and no .pyc file of a mutant may outlive it.
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        process = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [f"none ended within {SECONDS} s"]
    # Not a failed test: pytest itself did not run.
    if not report.exists():
        raise RuntimeError(f"pytest ended early: {(process.stdout + process.stderr)[-1000:]}")
    failed = []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            file = case.get("classname", "").replace(".", "/")
            failed.append(f"{file}.py::{case.get('name', '').partition('[')[0]}" if file else case.get("name", ""))
    # Cases of one test are one name.
    return list(dict.fromkeys(failed))


def try_mutant(mutant: Mutant, tree: Path, proofs: dict[str, list[str]]) -> Outcome:
    """Put a mutant into a tree, run the tests that must find it, and take it out again."""
    began, path = time.monotonic(), tree / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.mutate(tree), encoding="utf-8")
    try:
        failed = failed_tests(tree, (test for tests in proofs.values() for test in tests))
    finally:
        path.write_text(text, encoding="utf-8")
    outcome = Outcome(mutant)
    for row, tests in proofs.items():
        # A file that cannot be imported fails for every row: its name has no "::".
        killers = (
            test_name for test_name in failed if is_among(test_name, tests) or not re.match(r"tests/.*::", test_name)
        )
        outcome.killers[row] = next(killers, None)
    outcome.seconds = time.monotonic() - began
    return outcome


def is_among(test: str, tests: Sequence[str]) -> bool:
    """Whether a test is one of these, or in one of these files."""
    return test in tests or test.partition("::")[0] in tests


def main() -> None:
    """Try the mutants, write the page if all were tried; exit status 1 if one survives the tests of a row."""
    parser = argparse.ArgumentParser(description="See that the tests of each row find the faults that belong to it.")
    parser.add_argument("names", nargs="*", help="mutants to try; all, if none is named")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    arguments = parser.parse_args()
    mutants, tests_of_rows = read_mutants(), find_tests_of_rows()
    if unknown := set(arguments.names) - {mutant.name for mutant in mutants}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))} in {TABLE.name}")
    selected = [mutant for mutant in mutants if not arguments.names or mutant.name in arguments.names]
    proofs = {mutant.name: select_proofs(mutant, tests_of_rows) for mutant in selected}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=arguments.jobs) as threads:
        # One tree for each job: two mutants in one tree would hide each other.
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs):
            trees.put(copy_tree(Path(folder) / str(number)))
        tree = trees.get()
        # A test that fails by itself would seem to find every mutant.
        if failed := failed_tests(
            tree, [test for row_tests in proofs.values() for tests in row_tests.values() for test in tests]
        ):
            sys.exit(f"these fail without any mutant: {', '.join(failed)}")
        trees.put(tree)

        def try_in_free_tree(mutant: Mutant) -> Outcome:
            tree = trees.get()
            try:
                return try_mutant(mutant, tree, proofs[mutant.name])
            finally:
                trees.put(tree)

        outcomes = []
        for outcome in threads.map(try_in_free_tree, selected):
            outcomes.append(outcome)
            verdict = f"survives {', '.join(outcome.survived)}" if outcome.survived else "killed"
            print(f"{outcome.mutant.name}: {verdict}, {outcome.seconds:.0f} s: {outcome.mutant.what}", flush=True)
    if not arguments.names:
        PAGE.write_text(make_page(outcomes, time.monotonic() - began), encoding="utf-8")
    survived = [outcome.mutant.name for outcome in outcomes if outcome.survived]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} mutants are killed by a test of each of their rows")
    sys.exit(1 if survived else 0)


def make_page(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the results as a page: each mutant, its rows, and the test that found it."""
    from benchmarks.quality import machine

    killed = sum(not outcome.survived for outcome in outcomes)
    rows = {row for outcome in outcomes for row in outcome.mutant.rows}
    lines = [
        "# Faults put in by hand, and the tests that find them",
        "",
        f"Made by `make mutants` on {machine()}.",
        "",
        "Each fault is one change of a line of `src/`, made in a copy. It belongs to rows of the articles, and each of",
        "these must have a marked test of its own that fails now; faults that no row speaks of name their tests.",
        f"{killed} of {len(outcomes)} faults are found by every row they belong to ({len(rows)} rows), in",
        f"{seconds / 60:.0f} minutes. The faults stand in [mutants.toml](../mutants.toml).",
        "",
        "| fault | file | row: the first test that fails | seconds |",
        "|---|---|---|---:|",
    ]
    for outcome in outcomes:
        file = outcome.mutant.file.removeprefix("src/pellucid/")
        rows_by_test: dict[str, list[str]] = {}
        for row, killer in outcome.killers.items():
            rows_by_test.setdefault("**none**" if killer is None else test_link(killer), []).append(row)
        killers = "; ".join(f"{', '.join(names)}: {test}" for test, names in rows_by_test.items())
        lines.append(f"| {outcome.mutant.name}: {outcome.mutant.what} | {file} | {killers} | {outcome.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def test_link(test: str) -> str:
    """Format a test as a link to its file, with its name in words."""
    path, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../../{path})" if name else test


if __name__ == "__main__":
    main()
