"""Runs everything the map of the articles points to (tests, commands, book, notebook) and counts the rows that hold."""

import datetime
import html
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from articles import ERROR_STATES, FIGURES, NOT_RUN, ROOT, STATES, Claim, Command, Map, Proofs, fill_command

DOCS = ROOT / "docs"
BUILD = DOCS / "_build"
LOCATED = re.compile(r"^(?P<path>/.*?\.(?:md|py))(?::\d*)?:(?: \w+)?.*(?:WARNING|ERROR|CRITICAL)", re.MULTILINE)
COMMAND_SECONDS = 300

CODE = ("src", "tests", "tools")
"""Folders whose files decide what a test finds."""

Reported = tuple[set[str], dict[str, str], set[str]]
"""Tests in a report, why some of them failed, and those of which every case was skipped."""

NO_TESTS: Reported = (set(), {}, set())


@dataclass
class Outcome:
    """Results of running everything, by the names of tests, pages and commands.

    `failures` has the reason, in a line, of whatever did not succeed; `skipped` the tests that never ran (for lack of a
    browser, say) and prove nothing; `texts` what each command line printed and what each built page shows.
    """

    failures: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)


def run(article_map: Map, write: bool = False, report: Path | None = None) -> int:
    """Run everything once, print each failure and the count; return 0 if every row holds and nothing else is wrong.

    With `write`, the figures of the measured rows go to `FIGURES`, where all of them were found. Tests that ran in the
    JUnit report of an earlier run are not run again; SystemExit if the code has changed since that run began.
    """
    finished = read_finished(report) if report else NO_TESTS
    for problem in article_map.problems:
        print(f"map: {problem}")
    proofs, outcome = article_map.proofs.values(), Outcome()
    ensure_demo()
    test_names = {str(test) for row in proofs for test in row.tests}
    run_step("tests", outcome, lambda: run_tests(test_names, finished, outcome))
    run_step(
        "commands", outcome, lambda: run_commands({command for row in proofs for command in row.commands}, outcome)
    )
    run_step("book", outcome, lambda: build_book({page for row in proofs for page in row.pages}, outcome))
    run_step("notebook", outcome, lambda: run_notebook(outcome))
    figures = find_figures(article_map, outcome)
    for name, reason in sorted(outcome.failures.items()):
        print(f"failed: {name}: {reason}")
    for test in sorted(outcome.skipped):
        print(f"skipped, and proves nothing here: {test}")
    for name, figure in figures.items():
        print(f"measured: {name}: {figure}")
    holding = {name for name, claim in article_map.claims.items() if holds(claim, article_map.proofs[name], outcome)}
    for name in sorted(article_map.claims.keys() - holding):
        print(f"does not hold: {name}: {article_map.claims[name].says}")
    complete = len(holding) == len(article_map.claims) and not outcome.failures
    if write and complete:
        write_figures(figures, ROOT / FIGURES)
    print(count_line(article_map, holding))
    return 0 if complete and not article_map.problems else 1


def holds(claim: Claim, proofs: Proofs, outcome: Outcome) -> bool:
    """Whether a row is what its state says: nothing that it names failed, and a test ran where one must."""
    ran = {*map(str, proofs.tests)} - outcome.skipped
    shown = {claim.name, *ran, *proofs.pages, *map(str, proofs.commands)}
    return not shown & outcome.failures.keys() and (bool(ran) or claim.state not in ("proved", "shown"))


def count_line(article_map: Map, holding: set[str]) -> str:
    """Return the line that ends the output: how many rows there are, and how many hold in each state."""
    numbers, errors = article_map.count_states(holding), article_map.errors
    rows = ", ".join(f"{numbers[state]} {state}" for state in STATES)
    shown, convention = ERROR_STATES
    return (
        f"articles: {len(article_map.claims) - len(errors)} rows: {rows}; "
        f"{len(errors)} errors: {numbers[shown]} {shown}, {numbers[convention]} {convention}s"
    )


def run_step(name: str, outcome: Outcome, work: Callable[[], int]) -> None:
    """Run one kind of proofs; print how many there were, how many failed, and how long it took."""
    began, before = time.monotonic(), len(outcome.failures)
    tried = work()
    failed, seconds = len(outcome.failures) - before, time.monotonic() - began
    print(f"{name}: {tried} run, {failed} failed, {seconds:.0f} s", flush=True)


def ensure_demo() -> None:
    """Train the demo's model if there is none."""
    if not (ROOT / "runs" / "demo" / "average").is_dir():
        subprocess.run([program_path(), "demo"], cwd=ROOT, check=True)


def program_path() -> str:
    """Return the path of the program `pellucid` beside this Python."""
    return str(Path(sys.executable).with_name("pellucid"))


def read_finished(report: Path) -> Reported:
    """Read the JUnit report of a run of the tests; SystemExit if a file of the code is younger than that run."""
    try:
        text = report.read_text(encoding="utf-8")
        began = datetime.datetime.fromisoformat(
            next(ElementTree.fromstring(text).iter("testsuite")).attrib["timestamp"]
        )
    except (OSError, ElementTree.ParseError, StopIteration, KeyError, ValueError) as error:
        raise SystemExit(f"{report} is no JUnit report of pytest: {error}") from None
    for folder in CODE:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".toml", ".js") and path.stat().st_mtime > began.timestamp():
                raise SystemExit(f"{path} has changed since {report} was made; run make articles without --tests-from")
    return read_report(text)


def run_tests(test_names: set[str], finished: Reported, outcome: Outcome) -> int:
    """Count the tests that have run, and run pytest once over the other marked ones.

    A test fails if one of its cases does, or if it never ran.
    """
    reported, failed, skipped = finished
    # Those that were skipped may run now: there is a demo.
    if missing := test_names - (reported - skipped):
        newly_reported, newly_failed, newly_skipped = run_pytest(missing)
        reported, failed = reported | newly_reported, failed | newly_failed
        skipped = (skipped - newly_reported) | newly_skipped
    outcome.skipped |= skipped & test_names
    # A test that is named but was never reported has vanished or was deselected.
    outcome.failures |= {name: reason for name, reason in failed.items() if name in test_names}
    outcome.failures |= dict.fromkeys(test_names - reported - failed.keys(), "it did not run")
    return len((reported - skipped) & test_names)


def run_pytest(test_names: set[str]) -> Reported:
    """Run the marked tests of the files that these tests stand in."""
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
            reason = f"pytest ended early: {last_line(process.stdout + process.stderr)}"
            return set(), dict.fromkeys(test_names, reason), set()
        return read_report(report.read_text(encoding="utf-8"))


def read_report(report: str) -> Reported:
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


def run_commands(commands: set[Command], outcome: Outcome) -> int:
    """Run each command on the demo's model and check its exit code and output; a line of several rows runs once."""
    lines = sorted({command.line for command in commands})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=2) as threads:
        # Each command draws into a file of its own, since two of them run at a time.
        figures = [str(Path(folder) / f"{number}.png") for number in range(len(lines))]
        results = dict(zip(lines, threads.map(run_command, lines, figures), strict=True))
    for command in commands:
        outcome.texts[command.line], reason = results[command.line]
        if reason := reason or missing_pattern(command, outcome.texts[command.line]):
            outcome.failures[str(command)] = reason
    return len(commands)


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


def build_book(page_names: set[str], outcome: Outcome) -> int:
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
        if html_path.exists() and html_path.stat().st_mtime >= began:
            outcome.texts[page] = page_text(html_path.read_text(encoding="utf-8"))
        else:
            failed.setdefault(page, "it was not built")
    if process.returncode != 0:
        failed["the book"] = f"sphinx ended with {process.returncode}: {last_line(process.stderr)}"
    outcome.failures |= failed
    return len(page_names)


def page_text(page: str) -> str:
    """Return the text of a built page without its markup.

    >>> page_text("<p>4 &lt; <b>5</b></p>")
    '4 < 5'
    """
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def read_warnings(text: str) -> dict[str, str]:
    """Return the first warning about each page; those about no page are about the book."""
    failed: dict[str, str] = {}
    for line in text.splitlines():
        match = LOCATED.match(line)
        if match and (path := Path(match["path"])).is_relative_to(DOCS):
            failed.setdefault(
                path.relative_to(DOCS).as_posix(), first_line(line.removeprefix(match["path"]).lstrip(":"))
            )
        elif "WARNING:" in line or "ERROR:" in line:
            failed.setdefault("the book", first_line(line))
    return failed


def run_notebook(outcome: Outcome) -> int:
    """Run part 2 of the book as one notebook, from top to bottom."""
    words = [ROOT / "tools" / "book_notebook.py", BUILD / "html" / "transformer.ipynb"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as its pages are executed (docs/conf.py)
    process = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    if process.returncode != 0:
        outcome.failures["the notebook"] = last_line(process.stderr)
    return 1


def find_figures(article_map: Map, outcome: Outcome) -> dict[str, str]:
    """Find the figure of each measured row, in what its commands printed or else in its pages; a row without one fails.

    A pattern that is found several times has several figures, with a semicolon between them.
    """
    figures = {}
    for name, claim in article_map.claims.items():
        if claim.state != "measured" or not claim.figure:
            continue
        proofs = article_map.proofs[name]
        for source in (*(command.line for command in proofs.commands), *proofs.pages):
            matches = re.finditer(claim.figure, outcome.texts.get(source, ""), re.MULTILINE)
            texts = [" ".join(match.expand(claim.figure_text).split()) for match in matches]
            if texts:
                figures[name] = "; ".join(dict.fromkeys(texts))
                break
        else:
            outcome.failures[name] = f"no command and no page shows its figure, {claim.figure!r}"
    return figures


def write_figures(figures: dict[str, str], path: Path) -> None:
    """Write the figures of the measured rows as a page with a table."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.quality import machine

    lines = [
        "# What the articles say about trained models",
        "",
        "    make articles ARGS=--write",
        "",
        f"{machine()}; {datetime.date.today()}.",
        "",
        "Each figure is what a command or a cell of the book printed for the model of `pellucid demo`; those about",
        "recurrent networks come from [recurrent.md](recurrent.md). What the rows say and the commands are listed on",
        "[the page of the rows](../../docs/design/articles.md).",
        "",
        "| row | figure |",
        "|---|---|",
        *(f"| {name} | {figure.replace('|', '/')} |" for name, figure in figures.items()),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def first_line(text: str) -> str:
    """Return the first line that is not empty, cut to a length one can read."""
    return next((line.strip()[:300] for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """Return the last line that is not empty, cut to a length one can read."""
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "")
