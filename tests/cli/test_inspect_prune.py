import json
from pathlib import Path

import pytest

from pellucid import bundle
from pellucid.cli.inspecting.pruning_measurer import PruningMeasurer, PruningPoint
from pellucid.inspect.importance import Head

SENTENCES = ["The ball.", "Yes.", "the dog drank", "The cat.", "a house", "No."]
TRANSLATIONS = ["La bola.", "Sí.", "el perro bebió", "El gato.", "una casa", "No."]
FEW = ["--points", "2", "--random", "1", "--beam", "1", "--samples", "20"]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speeds are measured once, not well."""
    monkeypatch.setattr("pellucid.cli.inspecting.pruning_measurer.TIMING_ROUNDS", 1)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, lines in (("source", SENTENCES), ("target", TRANSLATIONS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(tmp_path / "source"), str(tmp_path / "target")]


@pytest.fixture
def prune(call, model, files):
    return lambda *words: call("inspect", "prune", model, "--source", files[0], "--target", files[1], *FEW, *words)


def test_curves_are_measured_on_pairs_that_ranked_nothing(prune):
    done = prune("--json", "--points", "3", "--random", "2")
    assert done.exit_code == 0, done.stderr
    study, *curves = [json.loads(line) for line in done.stdout.splitlines()]
    assert (study["ranked_on"], study["measured_on"], study["heads"]) == ("3 pairs", "3 other pairs", 16)
    assert [each["order"] for each in curves] == ["ablation", "gradient", "random 1", "random 2"]
    assert all([point["kept"] for point in each["points"]] == [16, 8, 0] for each in curves)
    for end in (0, 2):  # with all heads, and with none, every order is the same model
        assert len({json.dumps(each["points"][end]) for each in curves}) == 1


def test_the_table_shows_every_score_and_what_chance_gives(prune):
    done = prune("--among", "encoder", "--random", "2")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
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
def test_the_smaller_model_is_written_whole_and_says_what_it_was(prune, call, model, tmp_path):
    done = prune(
        "--keep", "10", "--out", tmp_path / "small", "--by", "gradient", "--json", "--plot", tmp_path / "a.png"
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["kind"], found["by"], found["kept"], len(found["removed"])) == ("pruned", "gradient", 10, 6)
    assert found["largest_difference"] < 1e-5 * found["largest_logit"]
    whole, small = bundle.load_bundle(model), bundle.load_bundle(tmp_path / "small")
    made = small.manifest["pruned"]
    assert made["heads"] == found["removed"]
    assert made["sha256"] == whole.manifest["files"]["model.safetensors"]["sha256"]
    sizes = [sum(each.numel() for each in some.model.parameters()) for some in (whole, small)]
    assert list(found["parameters"].values()) == sizes
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
    options = ["--source", files[0], "--target", files[1], *FEW, "--keep", "0", "--out", tmp_path / "none"]
    done = call("inspect", "prune", tmp_path / "five", *options)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("5 heads ranked")
    manifest = bundle.load_bundle(tmp_path / "none").manifest["pruned"]
    assert len(manifest["heads"]) == 5
    assert len(manifest["of"]["heads"]) == 11
    last = call("inspect", "prune", tmp_path / "none", "--source", files[0], "--target", files[1])
    assert (last.exit_code, last.stdout) == (2, "")
    assert "has 0 heads: too few to keep 1 of them" in last.stderr
    told = call("inspect", "heads", tmp_path / "none", "--source", files[0], "--target", files[1])
    assert told.exit_code == 2
    assert "has no attention head left to look at" in told.stderr
    heads = call("inspect", "heads", tmp_path / "five", "--source", files[0], "--target", files[1], "--points", "2")
    assert heads.exit_code == 0, heads.stderr
    assert "5 heads on 6 pairs" in heads.stdout
    assert call("inspect", "model", tmp_path / "none").exit_code == 0


def test_gates_are_learned_on_training_pairs(prune, files, tmp_path):
    given = ["--by", "l0", "--strength", "1", "--updates", "25", "--train-source", files[0], "--train-target", files[1]]
    done = prune(*given, "--among", "encoder", "--out", tmp_path / "gated", "--json")
    assert done.exit_code == 0, done.stderr
    objects = {each["kind"]: each for each in map(json.loads, done.stdout.splitlines())}
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
def test_what_is_wrong_is_said_before_anything_is_done(prune, words, message):
    done = prune(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_fewest_heads_are_found_head_by_head(monkeypatch):
    """BLEU by heads kept, by hand: the first number of heads that loses more than allowed ends it."""
    bleu = {8: 30.0, 7: 30.1, 6: 29.9, 5: 29.85, 4: 29.0, 3: 29.95, 2: 20.0, 1: 10.0, 0: 0.0}
    order, asked = [Head("encoder.0.self", n) for n in range(8)], []

    def point(self, heads):
        asked.append(8 - len(list(heads)))
        return PruningPoint(asked[-1], bleu[asked[-1]], 0.0, 0.0)

    monkeypatch.setattr(PruningMeasurer, "point_without", point)
    removing = object.__new__(PruningMeasurer)
    assert removing.fewest_within(order, [8, 6, 4, 2, 0], 0.2) == 5
    assert 3 not in asked  # beyond the first that is not within, nobody looks
    assert removing.fewest_within(order, [8, 4, 0], 50.0) == 0
    assert removing.fewest_within(order, [8, 4, 0], 1.5) == 3
    assert removing.fewest_within(order, [8, 6, 4, 2, 0], 0.0) == 7
