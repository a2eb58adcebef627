"""Map of the articles: it names what is missing, unknown, dead or miscounted."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import articles, articles_run

TABLE = """
[A]
title = "First"
rows = 3

[A.claims]
A1 = { at = "Start", says = "One" }
A2-3 = { state = "told", at = "Middle", says = "Two and three" }
A4 = { at = "End", says = "Four", command = ["pellucid inspect model {model}"], expect = [["parameters"]] }

[X]
title = "Wrong"
rows = 1

[X.claims]
X1 = { at = "A", says = "No | yes" }
"""
PAGE = "---\nfile_format: mystnb\n---\n\n# A page\n\n:::{rows} A1 A3\n:::\n\nText.\n"
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
    for name, text in (("docs/articles.toml", TABLE), ("docs/part/page.md", PAGE), ("tests/test_it.py", TESTS)):
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
    assert numbers == {"A": 38, "B": 37, "C": 32, "D": 10, "E": 12, "X": 30}
    assert sum(numbers.values()) - numbers["X"] == 129


def test_a_whole_map_has_no_problem_and_links_to_every_proof(project):
    article_map = articles.collect_map(project)
    assert article_map.problems == []
    assert article_map.proofs["A2-3"].pages == ["part/page.md"]
    assert article_map.proofs["A2-3"].tests == [articles.Test("tests/test_it.py", "test_that_it_is_so")]
    text = articles.map_text(article_map, project)
    assert '<a id="a1"></a>A1 | Start | One | proved | [A page](../part/page.md#row-a1) |' in text
    assert '<a id="x1"></a>X1 | A | No \\| yes | proved | [that it is so](../../tests/test_it.py) |' in text
    assert "`pellucid inspect model runs/demo/best`" in text
    assert "Of the\n3 rows 2 are proved. 0 speak of" in text
    assert "1 are told in words alone." in text


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("docs/part/page.md", "A1 A3", "A3", "A1 has no test, no page and no command: One"),
        ("docs/part/page.md", "A1 A3", "A1 A9", "part/page.md names A9, which is no row of docs/articles.toml"),
        ("tests/test_it.py", '"X1"', '"X2"', "tests/test_it.py::test_that_it_is_so names X2, which is no row"),
        ("tests/test_it.py", "def test_that", "def tset_that", "to prove X1, and pytest does not collect it"),
        (
            "tests/test_it.py",
            "@pytest.mark.para",
            "@pytest.mark.slow\n@pytest.mark.para",
            "is marked slow: make articles",
        ),
        ("tests/test_it.py", "import pytest\n", "import pytest\npytestmark = [pytest.mark.gpu]\n", "is marked gpu"),
        ("docs/articles.toml", "rows = 3", "rows = 4", "article A has 3 rows in docs/articles.toml, and should have 4"),
        ("docs/articles.toml", 'A1 = { at = "Start", says = "One" }\n', "", "the rows of article A are not A1, A2"),
        ("docs/articles.toml", "inspect model", "inspect modle", "there is no command `pellucid inspect modle`"),
        ("docs/articles.toml", "{model}", "{model} --colour", "`pellucid inspect model`: No such option"),
        ("docs/articles.toml", " {model}", "", "`pellucid inspect model`: Missing argument"),
        ("docs/articles.toml", "{model}", "{machine}", "has a name in braces that stands for nothing"),
        (
            "docs/articles.toml",
            '"told"',
            '"true"',
            "A2-3: its state is 'true', it must be one of proved, measured, told",
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


def test_a_skipped_test_neither_proves_nor_refutes():
    test = articles.Test("tests/test_it.py", "test_left")
    test_only, test_and_page = articles.Proofs(tests=[test]), articles.Proofs(pages=["page.md"], tests=[test])
    assert not articles_run.is_proved(test_only, {}, {str(test)})
    assert articles_run.is_proved(test_and_page, {}, {str(test)})
    assert not articles_run.is_proved(test_and_page, {"page.md": "it broke"}, {str(test)})
    assert articles_run.is_proved(test_only, {}, set())


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
def holding_proofs(monkeypatch) -> None:
    """Proofs that all hold without a demo, commands, a book or a notebook: only their number is reported."""
    monkeypatch.setattr(articles_run, "ensure_demo", lambda: None)
    for name in ("run_tests", "run_commands", "build_book"):
        monkeypatch.setattr(articles_run, name, lambda proofs, *arguments: iter([len(proofs)]))
    monkeypatch.setattr(articles_run, "run_notebook", lambda: iter([1]))


@pytest.mark.usefixtures("holding_proofs")
@pytest.mark.parametrize(
    ("kind", "failing", "line"),
    [
        (None, "", "articles: 3 of 3 rows, 1 of 1 errors"),
        ("run_tests", "tests/test_it.py::test_that_it_is_so", "articles: 2 of 3 rows, 0 of 1 errors"),
        ("build_book", "part/page.md", "articles: 1 of 3 rows, 1 of 1 errors"),
        ("run_commands", "pellucid inspect model {model} /parameters/", "articles: 2 of 3 rows, 1 of 1 errors"),
        ("build_book", "the book", "articles: 3 of 3 rows, 1 of 1 errors"),
    ],
)
def test_a_row_counts_when_all_its_proofs_hold(project, monkeypatch, capsys, kind, failing, line):
    if kind:
        monkeypatch.setattr(articles_run, kind, lambda proofs, *arguments: iter([1, (failing, "it broke")]))
    assert articles_run.run(articles.collect_map(project)) == (1 if kind else 0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == line
    assert not kind or f"failed: {failing}: it broke" in lines


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
    assert list(articles_run.run_commands([right, wrong, broken])) == [
        1,
        1,
        ("pellucid good /a table/ /^of 5$/", "nothing in what it printed is '^of 5$'"),
        1,
        ("pellucid bad /a table/", "exit code 1: broken"),
    ]


@pytest.mark.usefixtures("table_of_four")
def test_a_command_that_draws_nothing_is_named(tmp_path):
    _, reason = articles_run.run_command("pellucid good {figure}", str(tmp_path / "none.png"))
    assert reason == f"it drew nothing into {tmp_path}/none.png"


def test_the_tool_takes_no_arguments():
    process = subprocess.run(
        [sys.executable, "tools/articles.py", "now"], cwd=articles.ROOT, capture_output=True, text=True
    )
    assert (process.returncode, process.stdout) == (2, "")
