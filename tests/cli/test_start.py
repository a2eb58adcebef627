"""`pellucid train --start`, and the other commands on a run that starts from a model."""

import json
import shutil
from pathlib import Path

import pytest

import pellucid
from pellucid.model import Transformer
from pellucid.store.atomic import read_manifest
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training.config import read_run
from pellucid.training.data import read_data
from pellucid.training.log import read_log
from tests.training.corpora import small_run, write_corpus

QUICK = ["--set", "train.batch_tokens=257", "--set", "train.dev_sentences=2", "--set", "train.dev_beam=1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run = small_run(folder / "data", model={"max_positions": 256})
    tokenizer = read_data(run).tokenizer
    save_bundle(folder / "old" / "best", Transformer(run.model_config(tokenizer)), tokenizer)
    return folder / "old" / "best"


@pytest.fixture
def files(tmp_path: Path, model: Path) -> Path:
    """Write two files of text, a copy of the model, and a run file that names all three; return their directory."""
    data = write_corpus(tmp_path, pairs=61)
    shutil.copytree(model, tmp_path / "old" / "best")
    toml = "".join(f"{key} = {Path(value).name!r}\n" for key, value in data.items())
    train = "steps = 3\nbatch_tokens = 257\ndev_sentences = 2\ndev_beam = 1\n"
    text = f'[data]\n{toml}[model]\nstart = "old/best"\n[train]\n{train}'
    (tmp_path / "small.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_two_files_and_a_model_are_enough(call, files):
    words = ["--source", "source.txt", "--target", "target.txt", "--start", "old/best", "--out", "mine"]
    result = call("train", *words, "--steps", 2, *QUICK, "--explain")
    assert (result.exit_code, result.stdout) == (0, "mine/best\n"), result.stderr
    assert (
        "The learning rate goes up to 0.0005, 10 times less than Adam's for a new model of this width" in result.stderr
    )
    assert "starting from old/best: its weights, its tokenizer, a new optimiser" in result.stderr
    assert "step 0 after " in result.stderr
    run = read_run(files / "mine/run.toml")
    assert (run.model.d_model, run.tokenizer.vocabulary, run.optim.peak) == (14, 290, 0.0005)
    assert read_manifest(files / "mine/last")["start"]["from"] == "old/best"
    shutil.rmtree(files / "old")
    again = call("train", *words, "--steps", 4, *QUICK, "--resume")
    assert (again.exit_code, again.stdout) == (0, "mine/best\n"), again.stderr
    assert read_log(files / "mine/log.jsonl")[-1]["step"] == 4


@pytest.mark.slow  # tests/laws/test_start.py resumes to the bit after it is gone
def test_a_run_resumes_although_its_initial_model_is_gone(call, refuse, files):
    assert call("train", "small.toml").exit_code == 0
    shutil.rmtree(files / "old")
    for words in (["small.toml", "--resume"], ["--out", "runs/small", "--resume"]):
        result = call("train", *words, "--set", "train.steps=4")
        assert result.exit_code == 0, result.stderr
    sentence = refuse("train", "--out", "runs/small", "--resume", "--set", "model.start=other")
    assert f"model.start: {files / 'runs/small/other'} does not exist" in sentence


@pytest.mark.slow  # the command before it does, and tests/test_api.py trains from Python
def test_python_can_start_a_run_from_a_model(files, monkeypatch):
    monkeypatch.chdir(files)
    settings = {"train": {"steps": 2, "dev_sentences": 1}, "model": {"start": "old/best"}}
    data = {"source": "source.txt", "target": "target.txt"}
    model = pellucid.train({"data": data, **settings}, out="mine")
    assert model.manifest["start"]["from"] == "old/best"
    assert pellucid.train(source="source.txt", target="target.txt", start="old/best", steps=1, out="other").manifest


def test_plan_and_prepare_take_the_tokenizer_of_the_initial_model(call, files, monkeypatch):
    monkeypatch.setattr("pellucid.workflows.plan.estimate.TRIAL_SECONDS", 0.0)
    planned = call("plan", "small.toml", "--json")
    assert planned.exit_code == 0, planned.stderr
    plan = json.loads(planned.stdout)
    initial = load_bundle(files / "old/best")
    assert plan["data"]["vocabulary"] == [initial.tokenizer.source_vocabulary]
    assert plan["parameters"]["total"] == sum(parameter.numel() for parameter in initial.model.parameters())
    assert not any("vocabulary" in sentence for sentence in plan["advice"])
    stand_in = call("plan", "small.toml", "--stand-in", 50, "--json")
    assert json.loads(stand_in.stdout)["parameters"] == plan["parameters"]
    prepared = call("prepare", "small.toml", "--out", "shards")
    assert prepared.exit_code == 0, prepared.stderr
    assert "learning the vocabulary" not in prepared.stderr
    assert (files / "shards/tokenizer.model").read_bytes() == (files / "old/best/tokenizer.model").read_bytes()
    result = call("train", "small.toml", "--set", "data.shards=shards")
    assert result.exit_code == 0, result.stderr


def truncate_weights(files: Path) -> None:
    weights = files / "old/best/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])


def change_tokenizer(files: Path) -> None:
    """Change the tokenizer file, so that it no longer fits the manifest."""
    tokenizer = files / "old/best/tokenizer.model"
    tokenizer.write_bytes(tokenizer.read_bytes() + b" ")


@pytest.mark.parametrize(
    ("words", "damage", "message"),
    [
        (["--set", "model.start=gone"], None, "model.start: {}/gone does not exist; a model is a directory such as"),
        (["--set", "model.start=old"], None, "model.start: {}/old is a run, not a model; did you mean {}/old/best?"),
        (["--set", "model.start=source.txt"], None, "model.start: {}/source.txt is a file; a model is a directory"),
        (["--set", "model.start=${NOWHERE}/a"], None, "needs the environment variable NOWHERE, which is not set"),
        (["--set", "model.start=7"], None, "'model.start' is 7"),
        ([], truncate_weights, "model.start: {}/old/best is damaged: model.safetensors has "),
        ([], change_tokenizer, "model.start: {}/old/best is damaged: tokenizer.model has "),
        (["--set", "model.size=base"], None, "model.d_model is 512, that model has 14; model.d_ff is 2048"),
        (
            ["--set", "tokenizer.vocabulary=999"],
            None,
            "tokenizer.vocabulary is 999, that model has 290; leave these settings out",
        ),
        (["--set", "model.stat=x"], None, "unknown key 'model.stat'; did you mean 'start'?"),
        (
            ["--start", "old/best"],
            None,
            "a run file and start are both given; write it into the file, or override: --set",
        ),
    ],
)
def test_an_impossible_initial_model_is_refused_in_one_sentence(refuse, files, words, damage, message):
    if damage:
        damage(files)
    assert message.replace("{}", str(files)) in refuse("train", "small.toml", *words)
    assert not (files / "runs").exists()
