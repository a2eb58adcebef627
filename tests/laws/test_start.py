"""A run that starts from a model begins as that model, to the bit, and goes on as any run does."""

import re
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from pellucid.config import to_toml
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.store.atomic import read_manifest
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training import loop, saving, shard_writing
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.config import RunConfig, make_run, read_run
from pellucid.training.data import read_data
from pellucid.training.dev_evaluation import Evaluation
from pellucid.training.log import read_log
from pellucid.training.loop import train_run
from pellucid.training.loss import loss_sum, smoothed_cross_entropy
from tests.laws.runs import RunKilled, assert_same_end, read_weights, same_weights, train_until
from tests.laws.torchrun import collect_results, start_workers, train_alone, train_with_workers
from tests.training.corpora import small_run, write_corpus

QUICK = {"steps": 6, "batch_tokens": 257, "evaluate_every": 3, "save_every": 2, "dev_sentences": 2, "dev_beam": 1}

KINDS = {
    "one matrix": {},
    "three matrices, norms after": {"tie": "none", "norm": "post", "positions": "learned", "activation": "swiglu"},
    "a bias": {"output_bias": True},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a random model of each kind, its tokenizer learned from a corpus of numbers."""
    folder = tmp_path_factory.mktemp("models")
    for seed, (kind, settings) in enumerate(KINDS.items()):
        run = small_run(folder / "data", model={"max_positions": 1024, **settings})
        tokenizer = read_data(run).tokenizer
        torch.manual_seed(seed)
        model = Transformer(run.model_config(tokenizer))
        with torch.no_grad():
            for parameter in model.parameters():  # no norm and no bias is left as a new model has it
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
        save_bundle(folder / kind, model, tokenizer, step=seed, longest_source=41)
    return folder


def make_run_from(start: Path, folder: Path, **changes: dict) -> RunConfig:
    """Return a run that starts from a model, on other sentences; `changes` are laid over its sections."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "data": write_corpus(folder, seed=7),
        "model": {"start": str(start)},
        "train": QUICK,
        "optim": {"peak": 0.003, "warmup": 5},
    }
    return make_run({name: {**tables.get(name, {}), **changes.get(name, {})} for name in {**tables, **changes}})


@pytest.fixture
def run(models: Path, tmp_path: Path) -> RunConfig:
    return make_run_from(models / "one matrix", tmp_path / "data", model={"dropout": 0.2})


@pytest.fixture(scope="module")
def undisturbed_run(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a run from the first model that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return train_run(make_run_from(models / "one matrix", folder / "data", model={"dropout": 0.2}), folder / "out").out


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_update_begins_with_the_weights_and_the_loss_of_the_start(kind, models, tmp_path, monkeypatch):
    run, records = make_run_from(models / kind, tmp_path / "data", model={"dropout": 0.0}), []
    real_update = loop.update_within_memory

    def record_and_die(model, optimizer, batches, *options):
        assert not optimizer.state, "nothing of Adam's came along"
        records.append(({name: parameter.detach().clone() for name, parameter in model.named_parameters()}, batches))
        result = real_update(model, optimizer, batches, *options)
        records.append(result.loss)
        raise RunKilled

    monkeypatch.setattr(loop, "update_within_memory", record_and_die)
    with pytest.raises(RunKilled):
        train_run(run, tmp_path / "out")
    (first_weights, [batch]), loss = records
    initial = load_bundle(models / kind)
    assert same_weights(first_weights, dict(initial.model.named_parameters()))
    logits = initial.model(batch.source, batch.target_in)
    formula = F.cross_entropy(logits.transpose(1, 2), batch.target_out, ignore_index=PAD, label_smoothing=0.1)
    assert loss == pytest.approx(formula.item(), rel=1e-5)
    for name in ("model.safetensors", "tokenizer.model"):
        assert (tmp_path / "out/best" / name).read_bytes() == (models / kind / name).read_bytes()
    [row] = read_log(tmp_path / "out/log.jsonl")
    assert row["step"] == 0
    assert load_bundle(tmp_path / "out/best").manifest["dev"]["bleu"] == row["bleu"]


def test_a_run_with_a_learning_rate_of_nothing_ends_where_it_began(models, tmp_path):
    run = make_run_from(models / "a bias", tmp_path / "data", optim={"peak": 1e-30})
    out = train_run(run, tmp_path / "out").out
    for name in ("last", "average", "best"):
        assert same_weights(read_weights(out / name), read_weights(models / "a bias")), name
    scores = [(row["dev_loss"], row["bleu"]) for row in read_log(out / "log.jsonl") if "bleu" in row]
    assert len(scores) == 4
    assert len(set(scores)) == 1


@pytest.mark.parametrize("step", [0, 3])
def test_a_run_resumes_to_the_bit_after_the_start_is_gone(step, models, undisturbed_run, tmp_path, monkeypatch):
    start, out = tmp_path / "start", tmp_path / "out"
    shutil.copytree(models / "one matrix", start)
    run = make_run_from(start, tmp_path / "data", model={"dropout": 0.2})
    (tmp_path / "mine.toml").write_text(to_toml(run), encoding="utf-8")
    train_until(step, run, out, monkeypatch)
    shutil.rmtree(start)
    resumed = read_run(out / "run.toml", began=out)
    assert resumed == run
    torch.manual_seed(99)  # what the generator is now must not matter
    train_run(resumed, out, resume=True)
    assert_same_end(undisturbed_run, out)
    assert read_manifest(out / "last")["start"]["from"].endswith("/start")


def test_a_run_that_died_before_its_first_checkpoint_begins_again(run, undisturbed_run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(loop, "try_to_write", die)
        with pytest.raises(RunKilled):
            train_run(run, tmp_path / "out")
    assert not list_checkpoints(tmp_path / "out")
    assert len(read_log(tmp_path / "out/log.jsonl")) == 1
    train_run(run, tmp_path / "out", resume=True)
    assert_same_end(undisturbed_run, tmp_path / "out")


def die(*arguments: object) -> None:
    """Stand for the first checkpoint: best/ is written, and the run dies before it."""
    raise RunKilled


def test_a_run_that_begins_again_needs_the_start(models, tmp_path, monkeypatch):
    start, out = tmp_path / "start", tmp_path / "out"
    shutil.copytree(models / "one matrix", start)
    run = make_run_from(start, tmp_path / "data")
    train_until(0, run, out, monkeypatch)
    shutil.rmtree(out / "checkpoints")
    shutil.rmtree(start)
    with pytest.raises(ValueError, match=rf"^model\.start: {start} does not exist; a model is a directory such as"):
        train_run(read_run(out / "run.toml", began=out), out, resume=True)


def test_a_resume_refuses_another_start_and_does_not_read_the_model_that_replaced_it(
    models, undisturbed_run, tmp_path, monkeypatch
):
    start, out = tmp_path / "start", tmp_path / "out"
    shutil.copytree(models / "one matrix", start)
    run = make_run_from(start, tmp_path / "data", model={"dropout": 0.2})
    train_until(3, run, out, monkeypatch)
    other = make_run_from(models / "a bias", tmp_path / "data", model={"dropout": 0.2})
    message = rf"model\.start is '{models / 'a bias'}', it began with '{start}'; model\.output_bias is True"
    with pytest.raises(ValueError, match=message):
        train_run(other, out, resume=True)
    shutil.rmtree(start)
    shutil.copytree(models / "three matrices, norms after", start)
    tables = {"data": {key: value for key, value in vars(run.data).items() if "source" in key or "target" in key}}
    tables |= {"model": {"start": str(start), "dropout": 0.2}, "train": QUICK, "optim": {"peak": 0.003, "warmup": 5}}
    train_run(make_run(tables, began=out), out, resume=True)
    assert_same_end(undisturbed_run, out)


def test_best_never_becomes_worse_than_the_start(run, models, tmp_path, monkeypatch, capsys):
    loss = count(1)
    monkeypatch.setattr(saving, "evaluate_model", lambda *arguments: Evaluation(next(loss), 50.0, 1.0, {}))
    out = train_run(run, tmp_path / "out").out
    assert same_weights(read_weights(out / "best"), read_weights(models / "one matrix"))
    assert not same_weights(read_weights(out / "last"), read_weights(models / "one matrix"))
    assert read_manifest(out / "best")["step"] == 0
    assert "no evaluation was better than that of the model this run started from" in capsys.readouterr().err


def test_a_better_model_replaces_the_start_as_best(run, tmp_path, monkeypatch, capsys):
    loss = count(9, -1)
    monkeypatch.setattr(saving, "evaluate_model", lambda *arguments: Evaluation(next(loss), 50.0, 1.0, {}))
    out = train_run(run, tmp_path / "out").out
    assert read_manifest(out / "best")["step"] == QUICK["steps"]
    assert "no evaluation was better" not in capsys.readouterr().err


def test_models_record_what_they_started_from(undisturbed_run, models):
    start = read_manifest(models / "one matrix")
    for name in ("best", "last", "average"):
        manifest = read_manifest(undisturbed_run / name)
        assert manifest["start"] == {
            "from": "/".join((models / "one matrix").parts[-2:]),
            "sha256": start["files"]["model.safetensors"]["sha256"],
            "step": 0,
            "longest_source": 41,
        }
        assert manifest["longest_source"] == 41, "lines that the start was taught whole are not split"


def test_how_long_lines_may_be_is_unknown_if_the_start_does_not_record_it(models, tmp_path):
    initial = load_bundle(models / "one matrix")
    save_bundle(tmp_path / "start", initial.model, initial.tokenizer)
    out = train_run(make_run_from(tmp_path / "start", tmp_path / "data"), tmp_path / "out").out
    assert read_manifest(out / "last")["longest_source"] is None


def test_a_run_without_context_says_that_its_start_had_some(models, tmp_path, capsys):
    initial = load_bundle(models / "one matrix")
    save_bundle(tmp_path / "start", initial.model, initial.tokenizer, context=2)
    out = train_run(make_run_from(tmp_path / "start", tmp_path / "data"), tmp_path / "out").out
    assert "it was trained with data.context = 2 and would forget it here" in capsys.readouterr().err
    assert "context" not in read_manifest(out / "last")
    train_run(make_run_from(tmp_path / "start", tmp_path / "data2", data={"context": 2}), tmp_path / "out2")
    assert "would forget it here" not in capsys.readouterr().err


def test_the_start_is_no_checkpoint_for_averages_and_rollbacks(run, tmp_path):
    out = train_run(replace(run, train=replace(run.train, keep=50)), tmp_path / "out").out
    assert [path.name for path in list_checkpoints(out)] == ["step-00000002", "step-00000004", "step-00000006"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_of_a_run_are_those_of_its_start(kind, models, tmp_path):
    run = make_run_from(models / kind, tmp_path / "data", model={"dropout": 0.3, "attention_dropout": 0.2})
    initial = load_bundle(models / kind)
    assert run.tokenizer == initial.tokenizer.config
    config = run.model_config(initial.tokenizer)
    assert config == replace(initial.model.config, dropout=0.3, attention_dropout=0.2)
    (tmp_path / "run.toml").write_text(to_toml(run), encoding="utf-8")
    assert read_run(tmp_path / "run.toml") == run


def test_the_start_is_looked_for_beside_the_run_file(models, tmp_path, monkeypatch):
    monkeypatch.setenv("MODELS", str(models))
    text = '[data]\nsource = "a"\ntarget = "b"\n[train]\nsteps = 3\n[model]\nstart = "{}"\n'
    (tmp_path / "run.toml").write_text(text.format("${MODELS}/a bias"), encoding="utf-8")
    assert read_run(tmp_path / "run.toml").model.start == str(models / "a bias")
    (models / "run.toml").write_text(text.format("one matrix"), encoding="utf-8")
    assert read_run(models / "run.toml").model.start == str(models / "one matrix")


def test_a_named_size_is_that_of_the_start_or_refused(models, tmp_path):
    initial = load_bundle(models / "one matrix")
    run = small_run(
        tmp_path / "data", model={"size": "small", "max_positions": 1024} | dict.fromkeys(("d_model", "d_ff", "heads"))
    )
    run = replace(run, model=replace(run.model, encoder_layers=None, decoder_layers=None))
    save_bundle(tmp_path / "small", Transformer(run.model_config(initial.tokenizer)), initial.tokenizer)
    assert make_run_from(tmp_path / "small", tmp_path / "data").model.size == "small"
    assert make_run_from(tmp_path / "small", tmp_path / "data", model={"size": "small"}).model.heads == 4
    with pytest.raises(ValueError, match=r"model\.d_model is 128, that model has 256; model\.d_ff is 256, that model"):
        make_run_from(tmp_path / "small", tmp_path / "data", model={"size": "tiny"})


@pytest.mark.parametrize(
    ("section", "settings", "problem"),
    [
        ("model", {"d_model": 28}, "model.d_model is 28, that model has 14"),
        ("model", {"heads": 3}, "model.heads is 3, that model has 2"),
        ("model", {"norm": "post"}, "model.norm is 'post', that model has 'pre'"),
        ("model", {"positions": "rotary"}, "model.positions is 'rotary', that model has 'sinusoidal'"),
        ("model", {"tie": "decoder"}, "model.tie is 'decoder', that model has 'all'"),
        ("model", {"max_positions": 512}, "model.max_positions is 512, that model has 1024"),
        ("model", {"output_bias": True}, "model.output_bias is True, that model has False"),
        ("tokenizer", {"vocabulary": 8000}, "tokenizer.vocabulary is 8000, that model has 290"),
        ("tokenizer", {"kind": "unigram"}, "tokenizer.kind is 'unigram', that model has 'bpe'"),
        ("tokenizer", {"joint": False}, "tokenizer.joint is False, that model has True"),
        ("tokenizer", {"lowercase": True}, "tokenizer.lowercase is True, that model has False"),
    ],
)
def test_settings_that_contradict_the_start_are_refused_naming_both(section, settings, problem, models, tmp_path):
    start = models / "one matrix"
    message = (
        f"{start} is not the model that the settings describe: {problem}; leave these settings out, "
        "for the model determines them, or start from another"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_run_from(start, tmp_path / "data", **{section: settings})


def test_settings_that_agree_with_the_start_are_accepted(models, tmp_path):
    settings = {"d_model": 14, "norm": "pre"}
    run = make_run_from(models / "one matrix", tmp_path / "data", model=settings, tokenizer={"vocabulary": 290})
    assert read_data(run).tokenizer.source_vocabulary <= 290


def test_a_start_that_has_changed_since_the_settings_were_read_is_refused(models, tmp_path):
    shutil.copytree(models / "one matrix", tmp_path / "start")
    run = make_run_from(tmp_path / "start", tmp_path / "data")
    shutil.rmtree(tmp_path / "start")
    shutil.copytree(models / "a bias", tmp_path / "start")
    with pytest.raises(ValueError, match=r"model\.output_bias is False, that model has True"):
        train_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "config.json"])
def test_a_damaged_start_is_refused_before_anything_is_written(name, models, tmp_path):
    shutil.copytree(models / "one matrix", tmp_path / "start")
    run = make_run_from(tmp_path / "start", tmp_path / "data")
    content = bytearray((tmp_path / "start" / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / "start" / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"^model\.start: .*{name} was changed after it was written"):
        train_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def with_shards(run: RunConfig, folder: Path) -> RunConfig:
    shard_writing.prepare_shards(run, folder, 1, lambda message: None)
    return replace(run, data=replace(run.data, shards=str(folder)))


def test_shards_are_cut_by_the_tokenizer_of_the_start(run, undisturbed_run, tmp_path):
    sharded = with_shards(run, tmp_path / "shards")
    text, mapped = read_data(run), read_data(sharded)
    assert mapped.encoded.sources.ids.tolist() == text.encoded.sources.ids.tolist()
    assert mapped.encoded.targets.ids.tolist() == text.encoded.targets.ids.tolist()
    train_run(sharded, tmp_path / "out")
    assert_same_end(undisturbed_run, tmp_path / "out")


def test_shards_of_another_tokenizer_are_refused(run, models, tmp_path):
    new = replace(run, model=replace(run.model, start=None))
    learned = with_shards(new, tmp_path / "learned")
    of_start = with_shards(run, tmp_path / "of start")
    name = r"is not of this run: tokenizer of model\.start is "
    with pytest.raises(ValueError, match=rf"learned {name}'\w{{12}}', it was made with None; run `pellucid prepare`"):
        read_data(replace(learned, model=run.model))
    with pytest.raises(ValueError, match=rf"of start {name}None, it was made with '\w{{12}}'; run `pellucid prepare`"):
        read_data(replace(of_start, model=new.model))
    initial = load_bundle(models / "one matrix")
    tokenizer = read_data(new).tokenizer
    assert tokenizer.source.serialized_model_proto() != initial.tokenizer.source.serialized_model_proto()
    model = Transformer(new.model_config(tokenizer))
    save_bundle(tmp_path / "other", model, tokenizer)
    other = make_run_from(tmp_path / "other", tmp_path / "data", data={"shards": str(tmp_path / "of start")})
    with pytest.raises(ValueError, match=rf"{name}'\w{{12}}', it was made with '\w{{12}}'"):
        read_data(other)


def test_workers_that_found_other_starts_are_named_before_anything_is_written(models, run, tmp_path):
    shutil.copytree(models / "one matrix", tmp_path / "other")
    initial = load_bundle(tmp_path / "other")
    with torch.no_grad():
        next(initial.model.parameters()).mul_(2)
    save_bundle(tmp_path / "other", initial.model, initial.tokenizer)
    other = replace(run, model=replace(run.model, start=str(tmp_path / "other")))
    (tmp_path / "other.toml").write_text(to_toml(other), encoding="utf-8")
    for code, _, messages in collect_results(
        start_workers(run, tmp_path / "out", 2, run_files={1: str(tmp_path / "other.toml")}), 120
    ):
        assert code == 1
        assert "worker 1 of 2 (counted from 0) found another model to start from than worker 0" in messages
    assert not (tmp_path / "out").exists()


@pytest.mark.slow  # test_sharded.py shares a new model
def test_two_workers_that_share_the_model_start_from_it_as_one_does(models, tmp_path):
    run = make_run_from(models / "one matrix", tmp_path / "data", train={"accumulate": 2}, model={"dropout": 0.0})
    train_alone(run, tmp_path / "one")
    train_with_workers(2, replace(run, train=replace(run.train, shard_model=True)), tmp_path / "two")
    single_reports, shared_reports = (read_log(tmp_path / name / "log.jsonl") for name in ("one", "two"))
    for key in ("loss", "dev_loss"):
        single, shared = ([row[key] for row in rows if key in row] for rows in (single_reports, shared_reports))
        assert single
        assert single == pytest.approx(shared, rel=1e-5), key


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_with_a_bias_is_the_formula_in_value_and_gradient(smoothing):
    torch.manual_seed(1)
    rows = 1061
    inputs = [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in ((rows, 13), (101, 13), (101,))]
    targets = torch.randint(101, (rows,))
    states, weight, bias = inputs
    formula = smoothed_cross_entropy(states @ weight.T + bias, targets, smoothing)
    fast = loss_sum(states, weight, targets, smoothing, bias)
    torch.testing.assert_close(fast, formula, rtol=1e-12, atol=0)
    for ours, theirs in zip(*(torch.autograd.grad(3 * loss, inputs) for loss in (fast, formula)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
