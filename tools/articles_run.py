"""Runs what the map of the articles points to: tests, commands, the book, its notebook; counts the rows that hold."""

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

from articles import NOT_RUN, ROOT, Command, Map, Proofs, filled

DOCS = ROOT / "docs"
BUILD = DOCS / "_build"
LOCATED = re.compile(r"^(?P<path>/.*?\.(?:md|py))(?::\d*)?:(?: \w+)?.*(?:WARNING|ERROR|CRITICAL)", re.MULTILINE)
COMMAND_SECONDS = 300

Failures = dict[str, str]
"""What did not succeed (a test, a page, a command) and why, in a line."""

Step = tuple[str, str] | int
"""What failed and why; or how many were tried."""


def run(found: Map) -> int:
    """Everything once, each failure said, then the count; 0 if every row holds and nothing else is wrong."""
    for problem in found.problems:
        print(f"map: {problem}")
    proofs = found.proofs.values()
    have_demo()
    skipped: set[str] = set()
    failures = timed("tests", tests({str(test) for each in proofs for test in each.tests}, skipped))
    failures |= timed("commands", commands(sorted({command for each in proofs for command in each.commands}, key=str)))
    failures |= timed("book", book({page for each in proofs for page in each.pages}))
    failures |= timed("notebook", notebook())
    for what, why in sorted(failures.items()):
        print(f"failed: {what}: {why}")
    print(
        *(f"skipped, and proves nothing here: {test}" for test in sorted(skipped)),
        sep="\n",
        end="\n" if skipped else "",
    )
    held = {name for name, each in found.proofs.items() if holds(each, failures, skipped)}
    for name in sorted(set(found.proofs) - held):
        print(f"not true: {name}: {found.claims[name].says}")
    errors = {name for name, claim in found.claims.items() if claim.article == "X"}
    rows = set(found.claims) - errors
    print(f"articles: {len(held & rows)} of {len(rows)} rows, {len(held & errors)} of {len(errors)} errors")
    return 0 if held == set(found.claims) and not failures and not found.problems else 1


def holds(proofs: Proofs, failures: Failures, skipped: set[str]) -> bool:
    """Whether a row is true: something was tried that says so, and nothing that says otherwise."""
    tried = {*proofs.pages, *map(str, proofs.tests), *map(str, proofs.commands)} - skipped
    return bool(tried) and not tried & failures.keys()


def timed(name: str, steps: Iterator[Step]) -> Failures:
    """Collects the failures of one kind and says how many there were and how long it took."""
    began, failures, tried = time.monotonic(), {}, 0
    for step in steps:
        if isinstance(step, int):
            tried += step
        else:
            failures[step[0]] = step[1]
    seconds = time.monotonic() - began
    print(f"{name}: {tried} run, {len(failures)} failed, {seconds:.0f} s", flush=True)
    return failures


def have_demo() -> None:
    """The demo's model, trained now if there is none."""
    if not (ROOT / "runs" / "demo" / "average").is_dir():
        subprocess.run([pellucid(), "demo"], cwd=ROOT, check=True)


def pellucid() -> str:
    """The program beside this Python."""
    return str(Path(sys.executable).with_name("pellucid"))


def tests(wanted: set[str], skipped: set[str]) -> Iterator[Step]:
    """One run of pytest over all marked tests; a test fails if one of its cases does, or if it never ran.

    Those that were skipped (for lack of a browser, say) are added to `skipped`.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-q", "-m", " and ".join(["article", *(f"not {each}" for each in NOT_RUN)]), "--junitxml", str(report)]
        words += ["--numprocesses", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
        files = sorted({each.partition("::")[0] for each in wanted})
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, *files], cwd=ROOT, capture_output=True, text=True
        )
        if not report.exists():
            yield from ((each, f"pytest ended early: {last_line(done.stdout + done.stderr)}") for each in wanted)
            return
        seen, failed, left_out = outcomes(report.read_text(encoding="utf-8"))
    skipped |= left_out
    yield len((seen - left_out) & wanted)
    yield from failed.items()
    yield from ((each, "it did not run") for each in sorted(wanted - seen))


def outcomes(report: str) -> tuple[set[str], Failures, set[str]]:
    """The tests in a report of pytest in JUnit's form, why some failed, and those of which every case was skipped."""
    seen, ran, failed = set(), set(), {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        path = f"{case.get('classname', '').replace('.', '/')}.py"
        test = f"{path}::{case.get('name', '').partition('[')[0]}"
        seen.add(test)
        if case.find("skipped") is None:
            ran.add(test)
        for kind in ("failure", "error"):
            if (reason := case.find(kind)) is not None:
                failed[test] = f"{kind}: {first_line(reason.get('message') or reason.text or '')}"
    return seen, failed, seen - ran


def commands(wanted: list[Command]) -> Iterator[Step]:
    """Each command on the demo's model: exit code 0, and all that it must print; a line of several rows runs once."""
    lines = sorted({command.line for command in wanted})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=2) as threads:
        figures = [str(Path(folder) / f"{number}.png") for number in range(len(lines))]
        done = dict(zip(lines, threads.map(printed, lines, figures), strict=True))
    for command in wanted:
        text, why = done[command.line]
        yield 1
        if why := why or missing(command, text):
            yield str(command), why


def printed(line: str, figure: str) -> tuple[str, str | None]:
    """What a command prints, and why it did not do what it says, if so."""
    words = shlex.split(filled(line, figure=figure))
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [pellucid(), *words[1:]],
            cwd=ROOT,
            env=alone,
            capture_output=True,
            encoding="utf-8",
            timeout=COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "", f"it took more than {COMMAND_SECONDS} s"
    if done.returncode != 0:
        return done.stdout, f"exit code {done.returncode}: {last_line(done.stderr)}"
    if "{figure}" in line and not Path(figure).exists():
        return done.stdout, f"it drew nothing into {figure}"
    return done.stdout, None


def missing(command: Command, text: str) -> str | None:
    """The first pattern of a command that no line of what it printed has."""
    absent = (pattern for pattern in command.expect if not re.search(pattern, text, re.MULTILINE))
    return next((f"nothing in what it printed is {pattern!r}" for pattern in absent), None)


def book(wanted: set[str]) -> Iterator[Step]:
    """The book built anew; a page fails by any warning about it, or by not being there afterwards."""
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        warnings = Path(folder) / "warnings.txt"
        words = ["-E", "-a", "-q", "-j", "2", "-w", str(warnings), "-D", "nb_execution_raise_on_error=0"]
        words += ["-d", str(BUILD / "doctrees"), str(DOCS), str(BUILD / "html")]
        done = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True)
        told = warnings.read_text(encoding="utf-8") if warnings.exists() else ""
    failed = warned(told)
    for page in sorted(wanted):
        made = (BUILD / "html" / page).with_suffix(".html")
        if page not in failed and (not made.exists() or made.stat().st_mtime < began):
            failed[page] = "it was not built"
    if done.returncode != 0:
        failed["the book"] = f"sphinx ended with {done.returncode}: {last_line(done.stderr)}"
    yield len(wanted)
    yield from failed.items()


def warned(told: str) -> Failures:
    """The first warning about each page; those about no page are about the book."""
    failed: Failures = {}
    for line in told.splitlines():
        match = LOCATED.match(line)
        if match and (path := Path(match["path"])).is_relative_to(DOCS):
            failed.setdefault(
                path.relative_to(DOCS).as_posix(), first_line(line.removeprefix(match["path"]).lstrip(":"))
            )
        elif "WARNING:" in line or "ERROR:" in line:
            failed.setdefault("the book", first_line(line))
    return failed


def notebook() -> Iterator[Step]:
    """Part 2 of the book as one notebook, run from top to bottom."""
    yield 1
    words = ["-m", "book.notebook", str(BUILD / "html" / "transformer.ipynb")]
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=paths, capture_output=True, text=True)
    if done.returncode != 0:
        yield "the notebook", last_line(done.stderr)


def first_line(text: str) -> str:
    """The first line that is not empty, cut to a length one can read."""
    return next((line.strip()[:300] for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """The last line that is not empty, cut likewise."""
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "")
