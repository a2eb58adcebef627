"""Table of mutants: each of them stands in the code, and belongs to rows or tests that exist."""

import pytest

from benchmarks import mutants
from tools import articles

MUTANTS = mutants.read_mutants()


def test_each_mutant_stands_exactly_once_in_its_file_and_changes_it():
    for mutant in MUTANTS:
        assert mutant.file.startswith("src/"), mutant.name
        mutated = mutant.mutate(mutants.ROOT)
        assert mutated != (mutants.ROOT / mutant.file).read_text(encoding="utf-8"), mutant.name
        compile(mutated, mutant.file, "exec")


def test_each_mutant_has_a_name_of_its_own_and_tests_that_must_see_it():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 60
    tests_of_rows = mutants.find_tests_of_rows()
    for mutant in MUTANTS:
        assert mutant.rows or mutant.tests, mutant.name
        for row in mutant.rows:
            assert tests_of_rows.get(row), f"{mutant.name} belongs to {row}, which has no test without a browser"
        for test in mutant.tests:
            assert (articles.ROOT / test.partition("::")[0]).is_file(), f"{mutant.name} names {test}"


def test_a_text_that_does_not_stand_exactly_once_is_refused():
    mutant = mutants.Mutant("gone", "", "src/pellucid/model/masks.py", "no such text", "")
    with pytest.raises(ValueError, match=r"mutant gone: its old text stands 0 times in src/pellucid/model/masks\.py"):
        mutant.mutate(mutants.ROOT)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Project of one file and two tests, of which only one tells a sum from a product."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # these two need none, and each run would import all
    (tmp_path / "tests").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sums.py").write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
    (tmp_path / "tests" / "test_it.py").write_text(
        "from sums import add\n\n\ndef test_close():\n    assert add(2, 3) == 5\n\n\n"
        "def test_not_close():\n    assert add(2, 2) == 4\n",
        encoding="utf-8",
    )
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n', encoding="utf-8")
    return tmp_path


def test_a_mutant_must_be_seen_by_each_of_its_rows_and_is_taken_out_again(tree):
    mutant = mutants.Mutant("times", "it multiplies", "src/sums.py", "a + b", "a * b", rows=("A1", "A2"))
    proofs = {"A1": ["tests/test_it.py::test_close"], "A2": ["tests/test_it.py::test_not_close"]}
    assert mutants.failed_tests(tree, ["tests/test_it.py"]) == []
    outcome = mutants.try_mutant(mutant, tree, proofs)
    assert outcome.killers == {"A1": "tests/test_it.py::test_close", "A2": None}
    assert outcome.survived == ["A2"]
    assert "a + b" in (tree / "src" / "sums.py").read_text(encoding="utf-8")
    assert (
        "| times: it multiplies | src/sums.py | A1: [close](../../tests/test_it.py); A2: **none** |"
        in mutants.make_page([outcome], 60.0)
    )


def test_a_mutant_that_cannot_be_imported_is_seen_by_every_row(tree):
    mutant = mutants.Mutant("broken", "no Python", "src/sums.py", "return a", "retrun a", rows=("A1",))
    outcome = mutants.try_mutant(mutant, tree, {"A1": ["tests/test_it.py::test_close"]})
    assert not outcome.survived
