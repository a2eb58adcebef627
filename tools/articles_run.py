"""Runs everything the map of the articles points to (tests, commands, book, notebook) and counts the rows that hold."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from articles import NOT_RUN, ROOT, Command, Map, Proofs, fill_command

DOCS = ROOT / "docs"
BUILD = DOCS / "_build"
LOCATED = re.compile(r"^(?P<path>/.*?\.(?:md|py))(?::\d*)?:(?: \w+)?.*(?:WARNING|ERROR|CRITICAL)", re.MULTILINE)
COMMAND_SECONDS = 300

Failures = dict[str, str]
"""Reason, in a line, for each test, page or command that did not succeed."""

Step = tuple[str, str] | int
"""A name that failed with the reason, or a number of names that were tried."""


def run(article_map: Map) -> int:
    """Run everything once, print each failure and the count; return 0 if every row holds and nothing else is wrong."""
    for problem in article_map.problems:
        print(f"map: {problem}")
    proofs = article_map.proofs.values()
    ensure_demo()
    # A row whose only tests were skipped is not proved: see `is_proved`.
    skipped: set[str] = set()
    failures = collect_failures(
        "tests", run_tests({str(test) for row_proofs in proofs for test in row_proofs.tests}, skipped)
    )
    failures |= collect_failures(
        "commands", run_commands(sorted({command for row_proofs in proofs for command in row_proofs.commands}, key=str))
    )
    failures |= collect_failures("book", build_book({page for row_proofs in proofs for page in row_proofs.pages}))
    failures |= collect_failures("notebook", run_notebook())
    for name, reason in sorted(failures.items()):
        print(f"failed: {name}: {reason}")
    print(
        *(f"skipped, and proves nothing here: {test}" for test in sorted(skipped)),
        sep="\n",
        end="\n" if skipped else "",
    )
    proved = {name for name, row_proofs in article_map.proofs.items() if is_proved(row_proofs, failures, skipped)}
    for name in sorted(set(article_map.proofs) - proved):
        print(f"not true: {name}: {article_map.claims[name].says}")
    errors = {name for name, claim in article_map.claims.items() if claim.article == "X"}
    rows = set(article_map.claims) - errors
    print(f"articles: {len(proved & rows)} of {len(rows)} rows, {len(proved & errors)} of {len(errors)} errors")
    return 0 if proved == set(article_map.claims) and not failures and not article_map.problems else 1


def is_proved(proofs: Proofs, failures: Failures, skipped: set[str]) -> bool:
    """Whether a row is true: something was tried that shows it, and nothing that was tried failed."""
    tried = {*proofs.pages, *map(str, proofs.tests), *map(str, proofs.commands)} - skipped
    return bool(tried) and not tried & failures.keys()


def collect_failures(name: str, steps: Iterator[Step]) -> Failures:
    """Collect the failures of one kind; print how many there were and how long it took."""
    began, failures, tried = time.monotonic(), {}, 0
    for step in steps:
        if isinstance(step, int):
            tried += step
        else:
            failures[step[0]] = step[1]
    seconds = time.monotonic() - began
    print(f"{name}: {tried} run, {len(failures)} failed, {seconds:.0f} s", flush=True)
    return failures


def ensure_demo() -> None:
    """Train the demo's model if there is none."""
    if not (ROOT / "runs" / "demo" / "average").is_dir():
        subprocess.run([program_path(), "demo"], cwd=ROOT, check=True)


def program_path() -> str:
    """Return the path of the program `pellucid` beside this Python."""
    return str(Path(sys.executable).with_name("pellucid"))


def run_tests(test_names: set[str], skipped: set[str]) -> Iterator[Step]:
    """Run pytest once over all marked tests; a test fails if one of its cases does, or if it never ran.

    Tests that were skipped (for lack of a browser, say) are added to `skipped`.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-q", "-m", " and ".join(["article", *(f"not {mark}" for mark in NOT_RUN)]), "--junitxml", str(report)]
        words += ["--numprocesses", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
        files = sorted({name.partition("::")[0] for name in test_names})
        process = subprocess.run(
            [sys.executable, "-m", "pytest", *words, *files], cwd=ROOT, capture_output=True, text=True
        )
        # pytest writes the report last: without one, it was killed or refused its arguments.
        if not report.exists():
            yield from (
                (name, f"pytest ended early: {last_line(process.stdout + process.stderr)}") for name in test_names
            )
            return
        reported, failed, skipped_tests = read_report(report.read_text(encoding="utf-8"))
    skipped |= skipped_tests
    yield len((reported - skipped_tests) & test_names)
    yield from failed.items()
    # A test that is named but was never reported has vanished or was deselected.
    yield from ((name, "it did not run") for name in sorted(test_names - reported))


def read_report(report: str) -> tuple[set[str], Failures, set[str]]:
    """Read pytest's JUnit report: the tests in it, why some failed, and those of which every case was skipped."""
    reported, ran, failed = set(), set(), {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        path = f"{case.get('classname', '').replace('.', '/')}.py"
        # The cases of a parametrized test differ only in brackets: they count as one test.
        test = f"{path}::{case.get('name', '').partition('[')[0]}"
        reported.add(test)
        if case.find("skipped") is None:
            ran.add(test)
        for kind in ("failure", "error"):
            if (reason := case.find(kind)) is not None:
                failed[test] = f"{kind}: {first_line(reason.get('message') or reason.text or '')}"
    return reported, failed, reported - ran


def run_commands(expected: list[Command]) -> Iterator[Step]:
    """Run each command on the demo's model and check its exit code and output; a line of several rows runs once."""
    lines = sorted({command.line for command in expected})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=2) as threads:
        # Each command draws into a file of its own, since two of them run at a time.
        figures = [str(Path(folder) / f"{number}.png") for number in range(len(lines))]
        results = dict(zip(lines, threads.map(run_command, lines, figures), strict=True))
    for command in expected:
        text, reason = results[command.line]
        yield 1
        if reason := reason or missing_pattern(command, text):
            yield str(command), reason


def run_command(line: str, figure: str) -> tuple[str, str | None]:
    """Run a command; return its output, and the reason if it did not do what it says."""
    words = shlex.split(fill_command(line, figure=figure))
    # Two commands run at a time, one thread each: more would only compete.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        process = subprocess.run(
            [program_path(), *words[1:]],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "", f"it took more than {COMMAND_SECONDS} s"
    if process.returncode != 0:
        return process.stdout, f"exit code {process.returncode}: {last_line(process.stderr)}"
    if "{figure}" in line and not Path(figure).exists():
        return process.stdout, f"it drew nothing into {figure}"
    return process.stdout, None


def missing_pattern(command: Command, text: str) -> str | None:
    """Return a sentence about the first pattern of a command that its output does not contain, or None."""
    absent = (pattern for pattern in command.expect if not re.search(pattern, text, re.MULTILINE))
    return next((f"nothing in what it printed is {pattern!r}" for pattern in absent), None)


def build_book(page_names: set[str]) -> Iterator[Step]:
    """Build the whole book; a page fails by any warning about it, or by not being there afterwards."""
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        warnings = Path(folder) / "warnings.txt"
        # -E -a: read and write every page, or a page that was built before would raise no warning again.
        words = ["-E", "-a", "-q", "-j", "2", "-w", str(warnings), "-D", "nb_execution_raise_on_error=0"]
        words += ["-d", str(BUILD / "doctrees"), str(DOCS), str(BUILD / "html")]
        process = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True)
        warning_text = warnings.read_text(encoding="utf-8") if warnings.exists() else ""
    failed = read_warnings(warning_text)
    for page in sorted(page_names):
        html_path = (BUILD / "html" / page).with_suffix(".html")
        # An old page may remain from an earlier build, hence the time of change.
        if page not in failed and (not html_path.exists() or html_path.stat().st_mtime < began):
            failed[page] = "it was not built"
    if process.returncode != 0:
        failed["the book"] = f"sphinx ended with {process.returncode}: {last_line(process.stderr)}"
    yield len(page_names)
    yield from failed.items()


def read_warnings(text: str) -> Failures:
    """Return the first warning about each page; those about no page are about the book."""
    failed: Failures = {}
    for line in text.splitlines():
        match = LOCATED.match(line)
        if match and (path := Path(match["path"])).is_relative_to(DOCS):
            failed.setdefault(
                path.relative_to(DOCS).as_posix(), first_line(line.removeprefix(match["path"]).lstrip(":"))
            )
        elif "WARNING:" in line or "ERROR:" in line:
            failed.setdefault("the book", first_line(line))
    return failed


def run_notebook() -> Iterator[Step]:
    """Run part 2 of the book as one notebook, from top to bottom."""
    yield 1
    words = [ROOT / "tools" / "book_notebook.py", BUILD / "html" / "transformer.ipynb"]
    process = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    if process.returncode != 0:
        yield "the notebook", last_line(process.stderr)


def first_line(text: str) -> str:
    """Return the first line that is not empty, cut to a length one can read."""
    return next((line.strip()[:300] for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """Return the last line that is not empty, cut to a length one can read."""
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "")
