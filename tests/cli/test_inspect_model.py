import json
import math
from pathlib import Path

import pytest

from pellucid.api import load
from pellucid.store.directory import load_bundle

SOURCES = ["Yes.", "The ball is blue.", "Where is the house?"]
TARGETS = ["Sí.", "La bola es azul.", "¿Dónde está la casa?"]


def is_whole_figure(path: Path) -> bool:
    """Whether a figure is there, and whole."""
    data = path.read_bytes()
    return data.startswith(b"\x89PNG") if path.suffix == ".png" else data.rstrip().endswith(b"</svg>")


def test_the_help_of_every_analysis_has_examples(call):
    result = call("inspect", "--help")
    names = [
        line.split()[0]
        for line in result.stdout.partition("Commands:\n")[2].partition("Examples:")[0].splitlines()
        if line.strip()
    ]
    assert {"model", "similar", "neighbours", "analogy", "project", "positions", "lens", "length"} <= set(names)
    for name in names:
        command_help = call("inspect", name, "--help")
        assert f"pellucid inspect {name} " in command_help.stdout.partition("Examples:\n")[2], name


def test_the_parameters_of_a_model_are_counted(call, model, tmp_path):
    loaded = load_bundle(model).model
    result = call("inspect", "model", model, "--plot", "a.svg")
    count = sum(parameter.numel() for parameter in loaded.parameters())
    assert f"\n{count:,} parameters, trained; {2 * 31 * 6} numbers computed and fixed\n" in result.stdout
    assert "encoder.1 has the shapes of encoder.0" in result.stdout
    assert "decoder.1 to decoder.2 have the shapes of decoder.0" in result.stdout
    assert is_whole_figure(tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("source embedding", "3 ×", "2 ×", "2 heads of 3", "6 → 11 → 6, relu", "memory: keys and values"):
        assert words in drawn
    rows = [json.loads(line) for line in call("inspect", "model", model, "--json").stdout.splitlines()]
    assert {f"encoder.{n}.self.qkv" for n in (0, 1)} <= {row["module"] for row in rows}
    assert sum(row["numbers"] for row in rows if row["trained"]) == count


@pytest.mark.article("A13", "A14", "B16", "C8")
def test_each_printed_position_is_the_formula_of_its_piece(call, model):
    """Check sin and cos of p / 10000^(i/d) row by row, and the mean cosines of positions at each distance."""
    text = "The ball"
    lines = call("inspect", "positions", model, "--text", text).stdout.splitlines()
    head = next(n for n, line in enumerate(lines) if line.split()[:2] == ["position", "piece"])
    rows = [line.split() for line in lines[head + 1 : lines.index("", head)]]
    loaded = load(model).bundle
    [ids] = loaded.tokenizer.encode_source([text])
    width = loaded.model.config.d_model
    table = [
        [(math.cos if d % 2 else math.sin)(p / 10000 ** (2 * (d // 2) / width)) for d in range(width)]
        for p in range(len(ids))
    ]
    assert [row[:2] for row in rows] == [
        [str(position), piece] for position, piece in enumerate(loaded.tokenizer.source_pieces(ids))
    ]
    for row, numbers in zip(rows, table, strict=True):
        assert [float(cell) for cell in row[2:]] == pytest.approx(numbers, abs=5.1e-5)
    [cosine_line] = [line for line in lines if line.startswith("mean cosine of positions by distance: ")]
    for distance in (1, 2, 5):
        cosine = sum(math.cos(distance / 10000 ** (2 * i / width)) for i in range(width // 2)) / (width // 2)
        assert f"{cosine:.3f} at {distance}" in cosine_line


def test_positions_are_compared_with_those_of_the_wrong_code(call, model, tmp_path):
    result = call("inspect", "positions", model, "--text", "The ball is blue.", "--plot", "a.png")
    assert "sinusoidal positions, fixed; 6 numbers each" in result.stdout
    assert "467 of 512 entries differ, by up to 0.70" in result.stdout
    assert "the first is dim 2: 0.342782, and 0.245085 by the paper" in result.stdout
    assert is_whole_figure(tmp_path / "a.png")
    [table] = map(json.loads, call("inspect", "positions", model, "--json").stdout.splitlines())
    assert table["values"][0] == [0.0, 1.0] * 3
    assert [wrong["d_model"] for wrong in table["wrong_code"]] == [512, 6]


def test_the_lens_ends_with_what_was_written(call, model):
    result = call("inspect", "lens", model, "Yes.", "--target", "Sí.")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["Yes.", "→ Sí."]
    assert [line.split()[0] for line in lines if line.startswith(("input", "layer"))][:2] == ["input", "layer"]
    rows = [
        json.loads(line)
        for line in call("inspect", "lens", model, "Yes.", "--target", "Sí.", "--json").stdout.splitlines()
    ]
    assert [row["place"] for row in rows][-1] == "layer 2"
    assert rows[-1]["divergence"] == 0.0
    assert len({row["step"] for row in rows}) * 4 == len(rows)


def test_length_measures_all_sentences_by_their_length(call, model, tmp_path):
    (tmp_path / "s").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (tmp_path / "t").write_text("\n".join(TARGETS) + "\n", encoding="utf-8")
    files = ["--source", "s", "--target", "t"]
    result = call("inspect", "length", model, *files, "--join", 2, "--plot", "a.svg")
    assert result.exit_code == 0
    assert "the model directory does not say how long the sources of training were" in result.stdout
    assert is_whole_figure(tmp_path / "a.svg")
    buckets = [json.loads(line) for line in call("inspect", "length", model, *files, "--json").stdout.splitlines()]
    assert sum(bucket["sentences"] for bucket in buckets) == 3
    scores = load(model).score(SOURCES, TARGETS)
    by_hand = -sum(score.log_prob for score in scores) / sum(len(score.pieces) for score in scores)
    # Buckets are of source pieces, so their losses average to that of all lines by their target pieces.
    assert min(bucket["loss"] for bucket in buckets) <= by_hand <= max(bucket["loss"] for bucket in buckets)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["positions", "MODEL", "--text", "a " * 99], "positions were asked for, this model has 1 to 31"),
        (["positions", "MODEL", "--side", "output"], "side is 'output', it must be source or target"),
        (["length", "MODEL", "--source", "a", "--target", "b", "--join", "0"], "--join is 0"),
        (["lens", "MODEL", " "], "nothing to trace"),
        (["model", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(refuse, model, tmp_path, words: list[str], message: str):
    assert message in refuse("inspect", *[model if word == "MODEL" else word for word in words])
    assert list(tmp_path.iterdir()) == []


def test_a_figure_without_matplotlib_says_how_to_get_it(refuse, model, tmp_path, monkeypatch):
    import builtins

    real_import = builtins.__import__

    def import_without_matplotlib(name: str, *arguments):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real_import(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", import_without_matplotlib)
    sentence = refuse("inspect", "positions", model, "--plot", "a.png")
    assert "for lack of matplotlib: pip install 'pellucid[plots]'" in sentence
    assert list(tmp_path.iterdir()) == []
