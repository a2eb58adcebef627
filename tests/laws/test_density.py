"""No package becomes denser: comprehensions and wide lines may only become fewer, blank lines only more."""

from pathlib import Path

import pytest

from tools import density

LOOSE = '''"""Some code."""


def double(numbers):
    doubled = []
    for number in numbers:
        doubled.append(2 * number)

    return doubled


def halve(numbers):
    return [number / 2 for number in numbers]
'''
NESTED = LOOSE + "\n\ndef spread(rows):\n    return [[1 / number for number in row] for row in rows]\n"
LONG = LOOSE + "\n\ndef spread(rows):\n    return [\n        1 / row\n        for row in rows\n    ]\n"
SPARSE = LOOSE.replace("    return [number / 2 for number in numbers]", "    return map(halve, numbers)")
CRAMPED = LOOSE.replace("\n\n    return doubled", "\n    return doubled")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages that have their rows in the table: model, and plots in the wing interpret."""
    root = tmp_path / "pellucid"
    monkeypatch.setattr(density, "PACKAGE", root)
    monkeypatch.setattr(density, "TABLE", tmp_path / "density.toml")
    for name in ("model/layers.py", "model/masks.py", "interpret/plots/figure.py"):
        write_file(root / name, LOOSE)
    assert density.main(["--accept"]) == 0
    return root


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_package_is_no_denser_than_its_table_says():
    packages = density.measure_packages(density.PACKAGE)
    assert density.find_problems(packages, density.read_table(density.TABLE)) == []


def test_what_is_as_it_was_passes_and_writing_it_changes_nothing(package: Path):
    before = density.TABLE.read_bytes()
    assert density.main([]) == 0
    assert density.main(["--write"]) == 0
    assert density.TABLE.read_bytes() == before


def test_figures_that_are_right_by_hand_stand_in_the_table(package: Path):
    # 8 lines are not blank; 7 of them stand in functions, with one blank line.
    assert density.read_table(density.TABLE) == {
        name: {
            "comprehensions_per_100": 12.5,  # 1 of 8
            "long_comprehensions": 0,
            "nested_comprehensions": 0,
            "wide_lines_per_100": 0.0,
            "blank_lines_per_100": 12.5,  # 1 of 8
        }
        for name in ("model", "interpret.plots")
    }


def test_better_passes_and_only_writing_it_holds_it(package: Path):
    write_file(package / "model/masks.py", SPARSE)
    before = density.TABLE.read_bytes()
    assert density.main([]) == 0
    assert density.TABLE.read_bytes() == before
    assert density.main(["--write"]) == 0
    table = density.read_table(density.TABLE)
    assert table["model"]["comprehensions_per_100"] == 6.3  # 1 of 16, rounded up
    assert table["interpret.plots"]["comprehensions_per_100"] == 12.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            LOOSE + "NUMBERS = [list(range(length)) for length in range(9)]\n" * 3,
            "comprehensions per 100 lines in model is 26.4, it was 12.5",
        ),
        (LONG, "comprehensions of three lines or more in model is 1, it was 0"),
        (NESTED, "comprehensions around another in model is 1, it was 0"),
        (LOOSE + f"WIDE = {'1' * 100}\n" * 2, "lines over 100 columns per 100 lines in model is 11.2, it was 0"),
        (CRAMPED + CRAMPED * 2, "blank lines per 100 lines of functions in model is 3.4, it was 12.5"),
    ],
)
def test_worse_is_named_with_its_package_and_its_files_and_never_written(
    text: str, words: str, package: Path, capsys: pytest.CaptureFixture[str]
):
    before = density.read_table(density.TABLE)["model"]
    write_file(package / "model/masks.py", text)
    for arguments in ([], ["--write"]):
        assert density.main(arguments) == 1
        problems = capsys.readouterr().err.splitlines()
        [problem] = [line for line in problems if words in line]
        assert problem.startswith("density: the number of ")
        assert "model/masks.py (" in problem
        assert is_nowhere_worse(density.read_table(density.TABLE)["model"], before)
    assert density.main(["--accept"]) == 0
    assert density.main([]) == 0


def is_nowhere_worse(row: dict[str, float], before: dict[str, float]) -> bool:
    return all(density.choose_better(key, row[key], before[key]) == row[key] for key in density.FIGURES)


def test_one_line_more_does_not_trip_a_share(package: Path):
    write_file(package / "model/masks.py", LOOSE + "NUMBERS = [0 for _ in range(9)]\n")
    write_file(package / "interpret/plots/figure.py", LOOSE + f"WIDE = {'1' * 100}\n")
    assert density.main([]) == 0


def test_a_new_package_that_is_like_the_others_gets_its_row(package: Path, capsys: pytest.CaptureFixture[str]):
    write_file(package / "interpret/page/html_file.py", LOOSE)
    assert density.main([]) == 1
    assert capsys.readouterr().err == "density: interpret.page is new and has no row; `make fix` writes it\n"
    assert density.main(["--write"]) == 0
    assert set(density.read_table(density.TABLE)) == {"model", "interpret.plots", "interpret.page"}


def test_a_new_package_that_is_denser_than_the_others_is_named(package: Path, capsys: pytest.CaptureFixture[str]):
    write_file(package / "data/corpus.py", NESTED)
    for arguments in ([], ["--write"]):
        assert density.main(arguments) == 1
        assert "comprehensions around another in data is 1, 0 is allowed" in capsys.readouterr().err
        assert "data" not in density.read_table(density.TABLE)


def test_the_row_of_a_package_that_is_gone_is_named_and_goes(package: Path, capsys: pytest.CaptureFixture[str]):
    (package / "interpret/plots/figure.py").unlink()
    assert density.main([]) == 1
    assert capsys.readouterr().err == "density: interpret.plots has a row and no file; `make fix` removes the row\n"
    assert density.main(["--write"]) == 0
    assert set(density.read_table(density.TABLE)) == {"model"}
