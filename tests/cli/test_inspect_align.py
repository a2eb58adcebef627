import json
from math import inf
from pathlib import Path

import pytest

from pellucid.cli.inspecting.align import reading_error
from pellucid.interpret.studies.alignment_readings import LinkCounts, Reading, ReadingResult

SOURCES = ["The ball is blue.", "Yes.", "", "The black cat."]
TARGETS = ["La bola es azul.", "Sí.", "", "El gato negro."]
GOLD = ["0-0 1-1 2p2 3-3 4-4", "0-0 1-1", "", "0-0 1-2 2-1 3-3"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name, lines in {"source": SOURCES, "target": TARGETS, "gold": GOLD}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {name: str(tmp_path / name) for name in ("source", "target", "gold")}


@pytest.fixture
def align(call, model, files):
    return lambda *words: call(
        "inspect", "align", model, "--source", files["source"], "--target", files["target"], *words
    )


def test_the_table_has_every_layer_on_both_sides_and_the_choice(align, files):
    result = align("--gold", files["gold"], "--apart")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("4 sentence pairs")
    assert [line.split("  ")[0] for line in lines if ", all layers" in line and "used" not in line] == [
        f"{side} side, {kind}, all layers" for side in ("output", "input") for kind in ("norms", "weights")
    ]
    assert sum(", head " in line for line in lines) == 6
    assert sum(", layer " in line and "%" not in line for line in lines) == 3 * 4 + 6 + 2
    assert [line.split(":")[0] for line in lines[-3:]] == [
        "least disagreement, no gold needed",
        "largest mean norm",
        "used",
    ]
    assert "\x1b" not in result.stdout
    assert "AER" not in align().stdout


def test_a_perfect_head_comes_first_and_one_without_links_last():
    def head(number: int, counts: LinkCounts, disagreement: float) -> ReadingResult:
        return ReadingResult(Reading("output", "norms", 0, number), disagreement, None, counts, counts)

    fair, without_links, perfect = LinkCounts(4, 3, 3, 4), LinkCounts(0, 0, 0, 0), LinkCounts(4, 4, 4, 4)
    heads = [head(1, fair, 0.1), head(2, without_links, 0.2), head(3, perfect, 0.3)]
    for has_gold, order in ((True, [3, 1, 2]), (False, [1, 2, 3])):
        ranked = sorted(heads, key=lambda result: reading_error(result, result.best_source_word, has_gold, missing=inf))
        assert [result.reading.head for result in ranked] == order


def test_json_has_every_reading_and_the_choice(align, files):
    result = align("--gold", files["gold"], "--apart", "--json")
    assert result.exit_code == 0, result.stderr
    *rows, choice = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 2 * (3 * 2 * (1 + 2) + 2)
    for row in rows:
        assert set(row) == {"side", "kind", "layer", "head", "disagreement", "mean_norm", "one_each", "mutual"}
        assert 0.0 <= row["mutual"]["aer"] <= 1.0
    assert choice["used"] == {"side": "output", "kind": "norms", "layer": None, "head": None}
    least = min(
        (row for row in rows if row["mean_norm"] and row["kind"] == "norms"), key=lambda row: row["disagreement"]
    )
    assert choice["least_disagreement"]["layer"] == least["layer"]


def test_links_are_written_as_translate_writes_them(align, files, tmp_path: Path):
    assert align("--links", "out.align").exit_code == 0
    lines = (tmp_path / "out.align").read_text().splitlines()
    assert len(lines) == 4
    assert lines[1:3] == ["0-0", ""]


def test_a_figure_is_drawn(align, files, tmp_path: Path):
    pytest.importorskip("matplotlib")
    for name, words in (("a.png", ["--gold", files["gold"], "--apart"]), ("b.svg", [])):
        result = align("--plot", name, *words)
        assert result.exit_code == 0, result.stderr
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gold", "gold"], "gold: line 1: link 4-4 is not among 4 source and 4 target words, counted from 0; if"),
        (["--gold", "source"], "source: line 1: 'The' is no link"),
        (["--gold", "missing"], "missing: no such file"),
        (["--plot", "a.txt"], "a.txt: a figure is written to"),
    ],
)
def test_mistakes_are_reported(align, words: list[str], message: str):
    result = align(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not result.stdout
