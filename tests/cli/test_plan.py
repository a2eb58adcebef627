import json
from pathlib import Path

import pytest

from tests.train.corpora import write_corpus

SETS = [
    word
    for change in ("tokenizer.vocabulary=290", "model.d_model=6", "model.d_ff=11", "model.heads=2")
    for word in ("--set", change)
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A corpus of numbers, and a run file beside it."""
    data = write_corpus(tmp_path, pairs=61)
    toml = "".join(f"{key} = {Path(value).name!r}\n" for key, value in data.items())
    (tmp_path / "small.toml").write_text(f"[data]\n{toml}[train]\nsteps = 3\n", encoding="utf-8")
    return data


def test_a_plan_says_what_a_run_takes_and_writes_nothing(call, files, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = call("plan", "small.toml", *SETS, "--seconds", 0)
    assert done.exit_code == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.partition("\n\n")[0].splitlines() if not line.startswith(" ")]
    assert names == ["data", "epoch", "batches", "model", "run", "work", "time", "memory", "disk"]
    assert "61 pairs, 23 dev pairs" in done.stdout
    assert "3 updates" in done.stdout
    assert "To change:\n- " in done.stdout
    assert "warm-up longer than the run" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_a_model_that_workers_share_is_planned_for_one_and_said(call, files):
    done = call("plan", "small.toml", *SETS, "--set", "train.shard_model=true", "--seconds", 0)
    assert done.exit_code == 0, done.stderr
    assert "so for one worker; of W under torchrun each holds " in done.stdout


def test_a_plan_as_json_is_one_object_of_plain_numbers(call, files):
    done = call("plan", "small.toml", *SETS, "--set", "train.accumulate=2", "--seconds", 0, "--json")
    assert done.exit_code == 0, done.stderr
    [line] = done.stdout.splitlines()
    said = json.loads(line)
    assert said["data"]["pairs"] == said["epoch"]["pairs"] == 61
    assert said["epoch"]["updates"] == said["epoch"]["batches"] / 2
    assert said["run"]["updates"] == 3
    assert said["run"]["seconds"] == pytest.approx(3 * said["trial"]["seconds"])
    assert said["parameters"]["total"] == sum(said["parameters"][part] for part in ("embeddings", "encoder", "decoder"))
    assert said["memory"]["weights"] == said["disk"]["model"] == 4 * said["parameters"]["total"]
    assert said["flop_per_second"] == pytest.approx(said["flop_per_update"] / said["trial"]["seconds"])
    assert any("warm-up longer than the run" in sentence for sentence in said["advice"])


def test_a_run_of_minutes_is_planned_in_updates(call, files, tmp_path):
    text = (tmp_path / "small.toml").read_text(encoding="utf-8")
    (tmp_path / "timed.toml").write_text(text.replace("steps = 3", "minutes = 1"), encoding="utf-8")
    done = call("plan", "timed.toml", *SETS, "--seconds", 0)
    assert done.exit_code == 0, done.stderr
    assert "run         at most " in done.stdout
    assert "evaluations and saving within" in done.stdout


def test_absent_data_is_refused_with_a_way_out_that_works(call, files):
    words = ["plan", "small.toml", *SETS, "--set", "data.source=gone.txt", "--seconds", 0]
    done = call(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "gone.txt: no such file; to plan without the data" in done.stderr
    done = call(*words, "--stand-in", 50, "--set", "tokenizer.vocabulary=1000")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("stand-in    phrasebook pairs")
    assert "epochs of the stand-in" in done.stdout


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
def test_mistakes_are_told_as_in_training(call, files, words, message: str):
    done = call("plan", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
