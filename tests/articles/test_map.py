"""Map of the articles: it names what is missing, unknown, dead or miscounted."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import articles, articles_run

TABLE = r"""
[A]
title = "First"
rows = 3

[A.claims]
A1 = { state = "told", at = "Start", says = "One" }
A2-3 = { at = "Middle", says = "Two and three" }
A4 = { state = "measured", at = "End", says = "Four", figure = ["of (.*) go", '\1'], command = [
    "pellucid inspect model {model}",
], expect = [["parameters"]] }

[X]
title = "Wrong"
rows = 2

[X.claims]
X1 = { at = "A", says = "No | yes" }
X2 = { state = "convention", at = "A", says = "Half" }
"""
PAGE = """\
---
file_format: mystnb
---

# A page

```{code-cell}
# no heading
```

## A part

:::{rows} A1 A3 X2
:::

Text.
"""
FIGURES = "# Figures\n\n| row | figure |\n|---|---|\n| A4 | 3 of 4 do |\n"
TESTS = """
import pytest

@pytest.mark.article("X1", "A2")
@pytest.mark.parametrize("n", [1])
def test_that_it_is_so(n):
    assert n
"""

Change = Callable[..., list[str]]


@pytest.fixture
def project(tmp_path) -> Path:
    files = {"docs/articles.toml": TABLE, "docs/part/page.md": PAGE, "tests/test_it.py": TESTS}
    for name, text in (files | {str(articles.FIGURES): FIGURES}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def problems(project) -> Change:
    """Function that replaces a text in a file and returns the problems that the map then has."""

    def find_problems(name: str, old: str, new: str) -> list[str]:
        text = (project / name).read_text(encoding="utf-8")
        assert old in text
        (project / name).write_text(text.replace(old, new), encoding="utf-8")
        return articles.collect_map(project).problems

    return find_problems


def test_the_map_of_this_project_is_counted_as_the_articles_are():
    article_map = articles.collect_map()
    numbers = {letter: sum(claim.article == letter for claim in article_map.claims.values()) for letter in "ABCDEX"}
    assert numbers == {"A": 38, "B": 37, "C": 32, "D": 10, "E": 12, "X": 36}
    assert sum(numbers.values()) - numbers["X"] == 129


def test_a_whole_map_has_no_problem_and_links_to_every_proof(project):
    article_map = articles.collect_map(project)
    assert article_map.problems == []
    assert article_map.proofs["A2-3"].pages == {"part/page.md": "A part"}
    assert article_map.proofs["A2-3"].tests == [articles.Test("tests/test_it.py", "test_that_it_is_so")]
    text = articles.map_text(article_map)
    assert '- <a id="a1"></a>A1: One (told): [page](../part/page.md#row-a1)\n' in text
    assert '- <a id="x1"></a>X1: No | yes\n' in text
    assert "A4: Four (*3 of 4 do*): `pellucid inspect model runs/demo/best`\n" in text
    for words in (
        "Of the 3 rows",
        "1 are **proved**",
        "1 are **measured**",
        "1 are **told**",
        "The 2 rows X",
        "For 1 of",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("docs/part/page.md", "A1 A3", "A3", "A1: it is told, and no section of a page names it: One"),
        ("docs/part/page.md", "## A part", "", "A1: it is told, and no section of a page names it: One"),
        ("docs/part/page.md", " X2", "", "X2: it is convention, and no section of a page names it: Half"),
        ("tests/test_it.py", ', "A2"', "", "A2-3: it is proved, and no test names it: Two and three"),
        ("tests/test_it.py", '"X1", ', "", "X1: it is shown, and no test names it: No | yes"),
        (
            "docs/articles.toml",
            "figure = [\"of (.*) go\", '\\1'], ",
            "",
            "A4: it is measured: a measured row has a `figure`, and",
        ),
        ("docs/articles.toml", "(.*)", ".*", r"A4: its `figure` has fewer groups than '\\1' names"),
        ("docs/articles.toml", '"of (.*) go"', '"("', "A4: its `figure` '(' is not a regular expression"),
        ("docs/articles.toml", 'state = "told"', 'figure = "a"', "A1: it is proved, and no test names it"),
        (
            "docs/articles.toml",
            "Two and three",
            'Two", figure = "2',
            "A2-3: it is proved: a measured row has a `figure`",
        ),
        ("benchmarks/results/articles.md", "| A4 ", "| A5 ", "A4: benchmarks/results/articles.md has no figure of it"),
        ("docs/part/page.md", "A1 A3", "A1 A9", "part/page.md names A9, which is no row of docs/articles.toml"),
        ("tests/test_it.py", '"X1"', '"X3"', "tests/test_it.py::test_that_it_is_so names X3, which is no row"),
        ("tests/test_it.py", "def test_that", "def tset_that", "to prove X1, and pytest does not collect it"),
        (
            "tests/test_it.py",
            "@pytest.mark.para",
            "@pytest.mark.slow\n@pytest.mark.para",
            "is marked slow: make articles",
        ),
        ("tests/test_it.py", "import pytest\n", "import pytest\npytestmark = [pytest.mark.gpu]\n", "is marked gpu"),
        ("docs/articles.toml", "rows = 3", "rows = 4", "article A has 3 rows in docs/articles.toml, and should have 4"),
        ("docs/articles.toml", "A1 =", "A5 =", "the rows of article A are not A1, A2"),
        ("docs/articles.toml", "inspect model", "inspect modle", "there is no command `pellucid inspect modle`"),
        ("docs/articles.toml", "{model}", "{model} --colour", "`pellucid inspect model`: No such option"),
        ("docs/articles.toml", " {model}", "", "`pellucid inspect model`: Missing argument"),
        ("docs/articles.toml", "{model}", "{machine}", "has a name in braces that stands for nothing"),
        (
            "docs/articles.toml",
            '"told"',
            '"shown"',
            "A1: its state is 'shown', it must be one of proved, measured, told",
        ),
        (
            "docs/articles.toml",
            '"convention"',
            '"told"',
            "X2: its state is 'told', it must be one of shown, convention",
        ),
        ("docs/articles.toml", "pellucid inspect", "rm inspect", "does not begin with pellucid"),
        (
            "docs/articles.toml",
            ', expect = [["parameters"]]',
            "",
            "A4: `pellucid inspect model {model}` has no `expect`",
        ),
        ("docs/articles.toml", '"parameters"', "", "A4: `pellucid inspect model {model}` has no `expect`"),
        (
            "docs/articles.toml",
            '"parameters"',
            '"("',
            "A4: `expect` of `pellucid inspect model {model}`: '(' is not a reg",
        ),
        ("docs/articles.toml", '[["parameters"]]', '[["a"], ["b"]]', "A4: `expect` holds patterns for a command that"),
    ],
)
def test_each_problem_is_named(problems, name, old, new, problem):
    messages = problems(name, old, new)
    assert any(problem in message for message in messages), messages


def test_a_mark_of_a_whole_module_is_of_each_of_its_tests(problems, project):
    assert (
        problems("tests/test_it.py", "import pytest\n", 'import pytest\npytestmark = pytest.mark.article("A4")\n') == []
    )
    assert [str(test) for test in articles.collect_map(project).proofs["A4"].tests] == [
        "tests/test_it.py::test_that_it_is_so"
    ]


REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_it" name="test_good[1]"/><testcase classname="tests.test_it" name="test_good[2]"/>
<testcase classname="tests.test_it" name="test_half[1]"/>
<testcase classname="tests.test_it" name="test_half[2]"><failure message="assert 1 == 2"/></testcase>
<testcase classname="tests.test_it" name="test_left"><skipped message="no data"/></testcase>
</testsuite></testsuites>"""


def test_one_case_that_fails_fails_its_test_and_one_that_was_skipped_does_neither():
    reported, failed, skipped = articles_run.read_report(REPORT)
    assert reported == {"tests/test_it.py::test_good", "tests/test_it.py::test_half", "tests/test_it.py::test_left"}
    assert failed == {"tests/test_it.py::test_half": "failure: assert 1 == 2"}
    assert skipped == {"tests/test_it.py::test_left"}


def test_a_skipped_test_proves_nothing_and_refutes_nothing():
    test = articles.Test("tests/test_it.py", "test_left")
    proofs = articles.Proofs(pages={"page.md": ""}, tests=[test])
    skipped = articles_run.Outcome(skipped={str(test)})
    rows = {state: articles.Claim("A1", "A", "", "", state) for state in articles.STATES}
    assert [articles_run.holds(row, proofs, skipped) for row in rows.values()] == [False, True, True]
    assert all(articles_run.holds(row, proofs, articles_run.Outcome()) for row in rows.values())
    for failed in ("page.md", str(test), "A1"):
        failing = articles_run.Outcome(failures={failed: "it broke"})
        assert not any(articles_run.holds(row, proofs, failing) for row in rows.values())


def test_warnings_are_those_of_their_pages():
    page = articles_run.DOCS / "errors" / "article-a.md"
    output = (
        f"{page}:12: WARNING: 3.14 stands in the text [book.number]\n{page}:13: WARNING: more\nWARNING: no toctree\n"
    )
    assert articles_run.read_warnings(output) == {
        "errors/article-a.md": "12: WARNING: 3.14 stands in the text [book.number]",
        "the book": "WARNING: no toctree",
    }


@pytest.fixture
def holding_proofs(monkeypatch) -> Callable[..., None]:
    """Everything holds without a demo, commands, a book or a notebook; a call makes one kind of proofs do more."""

    def replace_step(name: str, change: Callable[[articles_run.Outcome], object]) -> None:
        def step(*arguments) -> int:
            change(arguments[-1])
            return 1

        monkeypatch.setattr(articles_run, name, step)

    def print_figure(outcome: articles_run.Outcome) -> None:
        outcome.texts["pellucid inspect model {model}"] = "4 parameters; of 2 go\nof 3 go\nof 2 go"

    monkeypatch.setattr(articles_run, "ensure_demo", lambda: None)
    for step in ("run_tests", "build_book", "run_notebook"):
        replace_step(step, lambda outcome: None)
    replace_step("run_commands", print_figure)
    return replace_step


ALL = "articles: 3 rows: 1 proved, 1 measured, 1 told; 2 errors: 1 shown, 1 conventions"


@pytest.mark.parametrize(
    ("step", "failing", "line"),
    [
        ("run_notebook", "", ALL),
        (
            "run_tests",
            "tests/test_it.py::test_that_it_is_so",
            ALL.replace("1 proved", "0 proved").replace("1 sh", "0 sh"),
        ),
        (
            "build_book",
            "part/page.md",
            "articles: 3 rows: 0 proved, 1 measured, 0 told; 2 errors: 1 shown, 0 conventions",
        ),
        ("build_book", "pellucid inspect model {model} /parameters/", ALL.replace("1 measured", "0 measured")),
        ("run_commands", "nothing printed", ALL.replace("1 measured", "0 measured")),
        ("build_book", "the book", ALL),
    ],
)
def test_a_row_counts_when_all_its_proofs_hold(project, holding_proofs, capsys, step, failing, line):
    if failing:
        holding_proofs(step, lambda outcome: outcome.failures.update({failing: "it broke"}))
    assert articles_run.run(articles.collect_map(project)) == (1 if failing else 0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == line
    assert not failing or f"failed: {failing}: it broke" in lines


def test_figures_are_printed_and_written_where_all_rows_hold(project, holding_proofs, monkeypatch, capsys):
    monkeypatch.setattr(articles_run, "ROOT", project)
    assert articles_run.run(articles.collect_map(project), write=True) == 0
    assert "measured: A4: 2; 3" in capsys.readouterr().out.splitlines()
    assert articles.read_figures(project) == {"A4": "2; 3"}
    holding_proofs("run_commands", lambda outcome: outcome.texts.update(none="of 5 go"))
    assert articles_run.run(articles.collect_map(project), write=True) == 1
    assert "failed: A4: no command and no page shows its figure, 'of (.*) go'" in capsys.readouterr().out
    assert articles.read_figures(project) == {"A4": "2; 3"}


@pytest.fixture
def table_of_four(monkeypatch, tmp_path) -> None:
    """Program in the place of ours, which prints a table for "good" and ends with exit code 1 otherwise."""
    program = tmp_path / "pellucid"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint('a table\\nof 4') if sys.argv[1] == 'good' else sys.exit('broken')\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr(articles_run, "program_path", lambda: str(program))


@pytest.mark.usefixtures("table_of_four")
def test_a_command_proves_its_row_by_what_it_prints():
    right = articles.Command("pellucid good", ("^of 4$", "a .able"))
    wrong = articles.Command("pellucid good", ("a table", "^of 5$"))
    broken = articles.Command("pellucid bad", ("a table",))
    outcome = articles_run.Outcome()
    assert articles_run.run_commands({right, wrong, broken}, outcome) == 3
    assert outcome.failures == {
        "pellucid good /a table/ /^of 5$/": "nothing in what it printed is '^of 5$'",
        "pellucid bad /a table/": "exit code 1: broken",
    }
    assert outcome.texts == {"pellucid good": "a table\nof 4\n", "pellucid bad": ""}


@pytest.mark.usefixtures("table_of_four")
def test_a_command_that_draws_nothing_is_named(tmp_path):
    _, reason = articles_run.run_command("pellucid good {figure}", str(tmp_path / "none.png"))
    assert reason == f"it drew nothing into {tmp_path}/none.png"


def test_tests_of_a_report_count_and_only_the_others_are_run(monkeypatch):
    calls, good, left, new = [], *(f"tests/test_it.py::test_{name}" for name in ("good", "left", "new"))

    def run_others(names: set[str]) -> articles_run.Reported:
        calls.append(names)
        return {left, new}, {new: "failure: it broke"}, {left}

    monkeypatch.setattr(articles_run, "run_pytest", run_others)
    outcome, finished = articles_run.Outcome(), articles_run.read_report(REPORT)
    assert articles_run.run_tests({good, left, new}, finished, outcome) == 2
    assert calls == [{left, new}]
    assert (outcome.failures, outcome.skipped) == ({new: "failure: it broke"}, {left})
    assert articles_run.run_tests({good}, finished, articles_run.Outcome()) == 1
    assert len(calls) == 1


def test_a_report_older_than_the_code_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(articles_run, "ROOT", tmp_path)
    report, code = tmp_path / "report.xml", tmp_path / "src" / "a.py"
    code.parent.mkdir()
    code.write_text("", encoding="utf-8")
    for year, refused in ((2001, True), (2999, False)):
        report.write_text(REPORT.replace("><testsuite>", f'><testsuite timestamp="{year}-01-02T03:04:05+00:00">'))
        if refused:
            with pytest.raises(SystemExit, match=r"src/a\.py has changed since .*report\.xml was made; run make art"):
                articles_run.read_finished(report)
        else:
            assert articles_run.read_finished(report) == articles_run.read_report(REPORT)
    report.write_text("<broken", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"report\.xml is no JUnit report of pytest: "):
        articles_run.read_finished(report)


def test_the_tool_takes_no_other_arguments():
    process = subprocess.run(
        [sys.executable, "tools/articles.py", "now"], cwd=articles.ROOT, capture_output=True, text=True
    )
    assert (process.returncode, process.stdout) == (2, "")
