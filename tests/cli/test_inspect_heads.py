import json
from pathlib import Path

import pytest

SIDES = ["The ball.", "Yes.", "the dog drank"], ["La bola.", "Sí.", "el perro bebió"]
QUICK = ["--lines", "3"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {
        "source": "\n".join(SIDES[0]) + "\n",
        "target": "\n".join(SIDES[1]) + "\n",
        "alignments": "0-0 1-1\n0-0\n0-0 1p1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {name: str(tmp_path / name) for name in texts}


@pytest.fixture
def study(call, model, files):
    return lambda *words: call(
        "inspect", "heads", model, "--source", files["source"], "--target", files["target"], *QUICK, *words
    )


def test_the_table_has_a_row_for_every_head(study):
    result = study()
    assert result.exit_code == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("encoder.", "decoder."))]
    assert [row[0] for row in rows[:16]] == [
        *(f"encoder.{n}.self.{h}" for n in range(2) for h in range(2)),
        *(f"decoder.{n}.{attention}.{h}" for n in range(3) for attention in ("self", "cross") for h in range(2)),
    ]
    assert "16 heads on 3 pairs" in result.stdout
    curve = result.stdout.partition("heads kept")[2].splitlines()
    assert curve[0].split() == ["16", "14", "12", "10", "8", "6", "4", "2", "0"]
    assert [row.split()[0] for row in curve[1:4]] == ["ablation", "gradient", "random"]
    assert "Silent heads cost most in " in result.stdout
    assert "\x1b" not in result.stdout


def test_json_has_everything(study, files):
    result = study("--json", "--alignments", files["alignments"], "--curve", "bleu")
    assert result.exit_code == 0, result.stderr
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = [row["kind"] for row in objects]
    assert kinds[0] == "study"
    assert kinds.count("head") == 16
    assert kinds.count("curve") == 3
    head = objects[1]
    assert (head["attention"], head["head"]) == ("encoder.0.self", 0)
    assert len({row["values"][0] for row in objects if row["kind"] == "curve"}) == 1
    assert {row["instances"] for row in objects if row["kind"] == "aligned"} == {4}
    similarity = objects[-1]
    assert len(similarity["rows"]) == len(similarity["heads"]) == 16
    assert similarity["rows"][0][0] == pytest.approx(1.0)


def test_badges_are_written_for_the_page(study, tmp_path):
    assert study("--badges", tmp_path / "badges.json").exit_code == 0
    badges = json.loads((tmp_path / "badges.json").read_text(encoding="utf-8"))
    assert badges["format"] == 1
    assert len(badges["sha256"]) == 64
    assert [(head["attention"], head["head"]) for head in badges["heads"]][:3] == [
        ("encoder.0.self", 0),
        ("encoder.0.self", 1),
        ("encoder.1.self", 0),
    ]
    assert {"badges", "silent", "error", "gradient"} <= badges["heads"][0].keys()


@pytest.mark.slow
def test_equal_calls_give_equal_output(study):
    assert study("--among", "cross", "--curve", "bleu").stdout == study("--among", "cross", "--curve", "bleu").stdout


def test_a_figure_is_drawn(study, tmp_path):
    pytest.importorskip("matplotlib")
    assert study("--plot", tmp_path / "heads.svg").exit_code == 0
    assert "encoder.1.self" in (tmp_path / "heads.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--curve", "ter"], "--curve 'ter' cannot be drawn; choose one of loss, bleu"),
        (["--among", "feet"], "'feet' is no kind of heads; choose one of all, encoder, decoder, cross"),
        (["--plot", "heads.gif"], "heads.gif: a figure is written to a file that ends in .png or .svg"),
        (["--alignments", "SOURCE"], "line 1: 'The' is no link"),
        (["--alignments", "FEWER"], "2 lines of links and 3 pairs: each line aligns one pair"),
        (["--alignments", "BEYOND"], "line 2: link 0-7"),
        (["--badges", "absent/badges.json"], "absent/badges.json cannot be written: absent is not a folder"),
    ],
)
def test_mistakes_are_reported_before_any_work(study, files, tmp_path, words: list[str], message: str):
    paths = {"SOURCE": files["source"]}
    for name, text in {"FEWER": "0-0\n\n", "BEYOND": "0-0\n0-7\n\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        paths[name] = str(tmp_path / name)
    result = study(*(paths.get(word, word) for word in words))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
