import json
from pathlib import Path

import pytest

from pellucid import bundle
from pellucid.cli.inspecting.pruning_measurer import PruningMeasurer, PruningPoint
from pellucid.inspect.importance import Head

SENTENCES = ["The ball.", "Yes.", "the dog drank", "The cat.", "a house", "No."]
TRANSLATIONS = ["La bola.", "Sí.", "el perro bebió", "El gato.", "una casa", "No."]
QUICK = ["--points", "2", "--random", "1", "--beam", "1", "--samples", "20"]


@pytest.fixture(autouse=True)
def single_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure speeds once only, which is quick and inexact."""
    monkeypatch.setattr("pellucid.cli.inspecting.pruning_measurer.TIMING_ROUNDS", 1)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, lines in (("source", SENTENCES), ("target", TRANSLATIONS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(tmp_path / "source"), str(tmp_path / "target")]


@pytest.fixture
def prune(call, model, files):
    return lambda *words: call("inspect", "prune", model, "--source", files[0], "--target", files[1], *QUICK, *words)


def test_curves_are_measured_on_other_pairs_than_those_that_rank(prune):
    result = prune("--json", "--points", "3", "--random", "2")
    assert result.exit_code == 0, result.stderr
    study, *curves = [json.loads(line) for line in result.stdout.splitlines()]
    assert (study["ranked_on"], study["measured_on"], study["heads"]) == ("3 pairs", "3 other pairs", 16)
    assert [curve["order"] for curve in curves] == ["ablation", "gradient", "random 1", "random 2"]
    assert all([point["kept"] for point in curve["points"]] == [16, 8, 0] for curve in curves)
    for end in (0, 2):  # with all heads, and with none, every order is the same model
        assert len({json.dumps(curve["points"][end]) for curve in curves}) == 1


def test_the_table_shows_every_score_and_that_of_random_orders(prune):
    result = prune("--among", "encoder", "--random", "2")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "4 encoder heads ranked on 3 pairs; measured on 3 other pairs, beam 1"
    titles = [line.rpartition(" kept")[0] for line in lines if " kept " in line]
    assert titles == ["BLEU, encoder heads", "chrF, encoder heads", "loss, nats a piece, encoder heads"]
    assert [line[:23] for line in lines[3:8]] == [
        "ablation               ",
        "gradient               ",
        "2 random orders, mean  ",
        "2 random orders, least ",
        "2 random orders, larges",
    ]


@pytest.mark.article("B25")
def test_the_smaller_model_is_written_with_a_record_of_the_removed_heads(prune, call, model, tmp_path):
    result = prune(
        "--keep", "10", "--out", tmp_path / "small", "--by", "gradient", "--json", "--plot", tmp_path / "a.png"
    )
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout.splitlines()[-1])
    assert (report["kind"], report["by"], report["kept"], len(report["removed"])) == ("pruned", "gradient", 10, 6)
    assert report["largest_difference"] < 1e-5 * report["largest_logit"]
    whole, small = bundle.load_bundle(model), bundle.load_bundle(tmp_path / "small")
    record = small.manifest["pruned"]
    assert record["heads"] == report["removed"]
    assert record["sha256"] == whole.manifest["files"]["model.safetensors"]["sha256"]
    sizes = [sum(parameter.numel() for parameter in loaded.model.parameters()) for loaded in (whole, small)]
    assert list(report["parameters"].values()) == sizes
    config = whole.model.config
    assert sizes[0] - sizes[1] == 6 * config.head_width * (4 * config.d_model + 3)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    # what it writes is what was measured
    translated = call("translate", tmp_path / "small", tmp_path / "source", "--beam", "1", "--engine", "torch")
    assert translated.exit_code == 0, translated.stderr
    assert len(translated.stdout.splitlines()) == 6
    again = prune("--keep", "10", "--out", tmp_path / "small")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "is there already; choose a new place" in again.stderr


def test_a_pruned_model_can_be_pruned_again(prune, call, files, tmp_path):
    assert prune("--keep", "5", "--out", tmp_path / "five").exit_code == 0
    options = ["--source", files[0], "--target", files[1], *QUICK, "--keep", "0", "--out", tmp_path / "none"]
    result = call("inspect", "prune", tmp_path / "five", *options)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("5 heads ranked")
    manifest = bundle.load_bundle(tmp_path / "none").manifest["pruned"]
    assert len(manifest["heads"]) == 5
    assert len(manifest["of"]["heads"]) == 11
    last = call("inspect", "prune", tmp_path / "none", "--source", files[0], "--target", files[1])
    assert (last.exit_code, last.stdout) == (2, "")
    assert "has 0 heads: too few to keep 1 of them" in last.stderr
    study = call("inspect", "heads", tmp_path / "none", "--source", files[0], "--target", files[1])
    assert study.exit_code == 2
    assert "has no attention head left to look at" in study.stderr
    heads = call("inspect", "heads", tmp_path / "five", "--source", files[0], "--target", files[1], "--points", "2")
    assert heads.exit_code == 0, heads.stderr
    assert "5 heads on 6 pairs" in heads.stdout
    assert call("inspect", "model", tmp_path / "none").exit_code == 0


def test_gates_are_learned_on_training_pairs(prune, files, tmp_path):
    gates = [
        "--by",
        "l0",
        "--strength",
        "1",
        "--updates",
        "25",
        "--train-source",
        files[0],
        "--train-target",
        files[1],
    ]
    result = prune(*gates, "--among", "encoder", "--out", tmp_path / "gated", "--json")
    assert result.exit_code == 0, result.stderr
    objects = {row["kind"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert objects["learned"]["kept"] == objects["pruned"]["kept"] == 4 - len(objects["pruned"]["removed"])
    assert objects["pruned"]["largest_difference"] < 1e-5 * objects["pruned"]["largest_logit"]
    assert bundle.load_bundle(tmp_path / "gated").manifest["pruned"]["strength"] == 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "magic"], "--by is 'magic', it must be one of ablation, gradient, l0"),
        (["--keep", "3", "--within", "0.2"], "--keep and --within both say how many heads stay; give one"),
        (["--out", "x"], "--out needs --keep or --within"),
        (["--keep", "17"], "has 16 heads: too few to keep 17 of them"),
        (["--rank-source", "x"], "--rank-source and --rank-target belong together"),
        (["--strength", "0.1"], "--strength and --train-source belong to --by l0"),
        (["--by", "l0"], "--by l0 learns: it needs --strength, --train-source and --train-target"),
        (["--among", "nobody"], "'nobody' is no kind of heads"),
        (["--lines", "1"], "1 lines are too few"),
        (["--rank-source", "no", "--rank-target", "such"], "no"),
    ],
)
def test_mistakes_are_reported_before_any_work(prune, words, message):
    result = prune(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_fewest_heads_are_searched_for_head_by_head(monkeypatch):
    """Search in scores written by hand: the first number of heads that loses more than allowed ends the search."""
    bleu = {8: 30.0, 7: 30.1, 6: 29.9, 5: 29.85, 4: 29.0, 3: 29.95, 2: 20.0, 1: 10.0, 0: 0.0}
    order, measured = [Head("encoder.0.self", n) for n in range(8)], []

    def measure_point(self, heads):
        measured.append(8 - len(list(heads)))
        return PruningPoint(measured[-1], bleu[measured[-1]], 0.0, 0.0)

    monkeypatch.setattr(PruningMeasurer, "point_without", measure_point)
    measurer = object.__new__(PruningMeasurer)
    assert measurer.fewest_within(order, [8, 6, 4, 2, 0], 0.2) == 5
    assert 3 not in measured  # beyond the first that is not within, nobody looks
    assert measurer.fewest_within(order, [8, 4, 0], 50.0) == 0
    assert measurer.fewest_within(order, [8, 4, 0], 1.5) == 3
    assert measurer.fewest_within(order, [8, 6, 4, 2, 0], 0.0) == 7
