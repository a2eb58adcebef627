"""Put one fault after another into a copy of the code, and see which tests of the rows it belongs to find it.

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
"""A fault that makes a test run for ever is found by that."""


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, `new` stands in the place of `old`."""

    name: str
    what: str
    file: str
    old: str
    new: str
    rows: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def changed(self, root: Path) -> str:
        """The file with the fault in it; ValueError unless `old` stands in it exactly once."""
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
        """The rows whose tests do not see the fault."""
        return [row for row, killer in self.killers.items() if killer is None]


def read_mutants(path: Path = TABLE) -> list[Mutant]:
    """All mutants of the table."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    listed = {"rows", "tests"}
    return [Mutant(**{key: tuple(value) if key in listed else value for key, value in each.items()}) for each in table]


def tests_of_rows() -> dict[str, list[str]]:
    """The marked tests of each row, as pytest names them, without those that need a browser."""
    sys.path.insert(0, str(ROOT / "tools"))
    import articles

    found = articles.collect()
    return {
        alias: [str(test) for test in found.proofs[name].tests if not test.path.startswith(NO_BROWSER)]
        for alias, name in articles.aliases(found.claims).items()
    }


def proofs_of(mutant: Mutant, of_rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """The tests that must see a mutant, row by row; those that it names itself stand under "tests"."""
    return {row: of_rows[row] for row in mutant.rows} | ({"tests": [*mutant.tests]} if mutant.tests else {})


def copy_tree(folder: Path) -> Path:
    """What the tests need of the project, in a folder that may be changed."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            leave = shutil.ignore_patterns("__pycache__", "_build")
            shutil.copytree(ROOT / name, folder / name, ignore=leave)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def failed_tests(tree: Path, tests: Iterable[str]) -> list[str]:
    """The tests that fail in a tree, in the order in which they ran; all that fails to be collected is one of them."""
    report = tree / "report.xml"
    report.unlink(missing_ok=True)
    words = ["-q", "-p", "no:cacheprovider", "--tb=no", "--junitxml", str(report), *dict.fromkeys(tests)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=tree,
            env=alone,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [f"none ended within {SECONDS} s"]
    if not report.exists():
        raise RuntimeError(f"pytest ended early: {(done.stdout + done.stderr)[-1000:]}")
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            file = case.get("classname", "").replace(".", "/")
            found.append(f"{file}.py::{case.get('name', '').partition('[')[0]}" if file else case.get("name", ""))
    return list(dict.fromkeys(found))


def try_mutant(mutant: Mutant, tree: Path, proofs: dict[str, list[str]]) -> Outcome:
    """Put a mutant into a tree, run the tests that must see it, and take it out again."""
    began, path = time.monotonic(), tree / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.changed(tree), encoding="utf-8")
    try:
        failed = failed_tests(tree, (test for tests in proofs.values() for test in tests))
    finally:
        path.write_text(text, encoding="utf-8")
    outcome = Outcome(mutant)
    for row, tests in proofs.items():
        own = (each for each in failed if is_among(each, tests) or not re.match(r"tests/.*::", each))
        outcome.killers[row] = next(own, None)
    outcome.seconds = time.monotonic() - began
    return outcome


def is_among(test: str, tests: Sequence[str]) -> bool:
    """Whether a test is one of these, or one of these files."""
    return test in tests or test.partition("::")[0] in tests


def main() -> None:
    """Try the mutants, write the page if all were tried; exit status 1 if one survives the tests of a row."""
    parser = argparse.ArgumentParser(description="See that the tests of each row find the faults that belong to it.")
    parser.add_argument("names", nargs="*", help="mutants to try; all, if none is named")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    arguments = parser.parse_args()
    every, of_rows = read_mutants(), tests_of_rows()
    if unknown := set(arguments.names) - {mutant.name for mutant in every}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))} in {TABLE.name}")
    wanted = [mutant for mutant in every if not arguments.names or mutant.name in arguments.names]
    proofs = {mutant.name: proofs_of(mutant, of_rows) for mutant in wanted}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=arguments.jobs) as threads:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs):
            trees.put(copy_tree(Path(folder) / str(number)))
        tree = trees.get()
        if failed := failed_tests(
            tree, [test for each in proofs.values() for tests in each.values() for test in tests]
        ):
            sys.exit(f"these fail without any mutant: {', '.join(failed)}")
        trees.put(tree)

        def tried(mutant: Mutant) -> Outcome:
            tree = trees.get()
            try:
                return try_mutant(mutant, tree, proofs[mutant.name])
            finally:
                trees.put(tree)

        outcomes = []
        for outcome in threads.map(tried, wanted):
            outcomes.append(outcome)
            said = f"survives {', '.join(outcome.survived)}" if outcome.survived else "killed"
            print(f"{outcome.mutant.name}: {said}, {outcome.seconds:.0f} s: {outcome.mutant.what}", flush=True)
    if not arguments.names:
        PAGE.write_text(page(outcomes, time.monotonic() - began), encoding="utf-8")
    survived = [outcome.mutant.name for outcome in outcomes if outcome.survived]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} mutants are killed by a test of each of their rows")
    sys.exit(1 if survived else 0)


def page(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The results as a page: each mutant, its rows, and the test that found it."""
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
        of_tests: dict[str, list[str]] = {}
        for row, killer in outcome.killers.items():
            of_tests.setdefault("**none**" if killer is None else shown(killer), []).append(row)
        found = "; ".join(f"{', '.join(names)}: {test}" for test, names in of_tests.items())
        lines.append(f"| {outcome.mutant.name}: {outcome.mutant.what} | {file} | {found} | {outcome.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def shown(test: str) -> str:
    """A test as a link to its file, its name in words."""
    path, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../../{path})" if name else test


if __name__ == "__main__":
    main()
