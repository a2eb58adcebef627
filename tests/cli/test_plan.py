import json
from pathlib import Path

import pytest

from tests.training.corpora import write_corpus

SETS = [
    word
    for change in ("tokenizer.vocabulary=290", "model.d_model=6", "model.d_ff=11", "model.heads=2")
    for word in ("--set", change)
]


@pytest.fixture(autouse=True)
def short_trial(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pellucid.workflows.plan.estimate.TRIAL_SECONDS", 0.0)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Write a corpus of numbers and a run file beside it; return the paths of the corpus."""
    data = write_corpus(tmp_path, pairs=61)
    toml = "".join(f"{key} = {Path(value).name!r}\n" for key, value in data.items())
    (tmp_path / "small.toml").write_text(f"[data]\n{toml}[train]\nsteps = 3\n", encoding="utf-8")
    return data


def test_two_files_and_a_length_are_enough_for_a_plan(call, refuse, files, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    words = ["--source", "source.txt", "--target", "target.txt", *SETS]
    result = call("plan", *words, "--steps", 5)
    assert result.exit_code == 0, result.stderr
    assert "5 updates" in result.stdout
    assert "6 dev pairs" in result.stdout
    minutes = call("plan", *words, "--minutes", 0.01)
    assert "run         at most " in minutes.stdout, minutes.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert "--stand-in needs a run file" in refuse("plan", "--stand-in", 20)


def test_a_plan_lists_what_a_run_takes_and_writes_nothing(call, files, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    result = call("plan", "small.toml", *SETS)
    assert result.exit_code == 0, result.stderr
    names = [line.split()[0] for line in result.stdout.partition("\n\n")[0].splitlines() if not line.startswith(" ")]
    assert names == ["data", "epoch", "batches", "model", "run", "work", "time", "memory", "disk", "network"]
    assert "61 pairs, 23 dev pairs" in result.stdout
    assert "3 updates" in result.stdout
    assert "To change:\n- " in result.stdout
    assert "warm-up longer than the run" in result.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_a_sharded_model_is_planned_for_one_worker_with_a_note(call, files):
    result = call("plan", "small.toml", *SETS, "--set", "train.shard_model=true")
    assert result.exit_code == 0, result.stderr
    assert "so for one worker; of W under torchrun each holds " in result.stdout


def test_a_plan_as_json_is_one_object_of_plain_numbers(call, files):
    result = call("plan", "small.toml", *SETS, "--set", "train.accumulate=2", "--json")
    assert result.exit_code == 0, result.stderr
    [line] = result.stdout.splitlines()
    plan = json.loads(line)
    assert plan["data"]["pairs"] == plan["epoch"]["pairs"] == 61
    assert plan["epoch"]["updates"] == plan["epoch"]["batches"] / 2
    assert plan["run"]["updates"] == 3
    assert plan["run"]["seconds"] == pytest.approx(3 * plan["trial"]["seconds"])
    assert plan["parameters"]["total"] == sum(plan["parameters"][kind] for kind in ("embeddings", "encoder", "decoder"))
    assert plan["memory"]["weights"] == plan["disk"]["model"] == 4 * plan["parameters"]["total"]
    assert plan["network"]["bytes"] == 8 * plan["parameters"]["total"]
    assert plan["network"]["seconds"]["10 Gbit/s"] == pytest.approx(64e-10 * plan["parameters"]["total"])
    assert plan["flop_per_second"] == pytest.approx(plan["flop_per_update"] / plan["trial"]["seconds"])
    assert any("warm-up longer than the run" in sentence for sentence in plan["advice"])


def test_a_run_of_minutes_is_planned_in_updates(call, files, tmp_path):
    text = (tmp_path / "small.toml").read_text(encoding="utf-8")
    (tmp_path / "timed.toml").write_text(text.replace("steps = 3", "minutes = 1"), encoding="utf-8")
    result = call("plan", "timed.toml", *SETS)
    assert result.exit_code == 0, result.stderr
    assert "run         at most " in result.stdout
    assert "evaluations and saving within" in result.stdout


def test_missing_data_is_refused_with_a_suggestion_that_works(call, refuse, files):
    words = ["plan", "small.toml", *SETS, "--set", "data.source=gone.txt"]
    assert "gone.txt: no such file; to plan without the data" in refuse(*words)
    result = call(*words, "--stand-in", 50, "--set", "tokenizer.vocabulary=1000")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("stand-in    phrasebook pairs")
    assert "epochs of the stand-in" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.toml"], "nowhere.toml: no such file or directory"),
        (["nowhere.toml", "--stand-in", "5"], "nowhere.toml: no such file or directory"),
        (["small.toml", "--set", "optim.warm_up=3"], "unknown key 'optim.warm_up'; did you mean 'warmup'?"),
        (["small.toml", "--stand-in", "5", "--set", "optim.warm_up=3"], "did you mean 'warmup'?"),
        (["small.toml", "--stand-in", "0"], "Invalid value for '--stand-in'"),
    ],
)
def test_mistakes_are_reported_as_in_training(refuse, files, words, message: str):
    assert message in refuse("plan", *words)
