"""Plans of runs: costs counted and measured before a training starts, and the advice that follows from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from pellucid.data.batching import CorpusShare, EncodedPairs, PackedSentences, collate
from pellucid.data.stream import Stream
from pellucid.demo.phrasebook import generate_phrases
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.training import process
from pellucid.training.config import OptimConfig
from pellucid.training.optimizer import make_optimizer
from pellucid.training.update import batch_loss
from pellucid.workflows.plan import trial
from pellucid.workflows.plan.advice import list_advice
from pellucid.workflows.plan.estimate import (
    NEWS_LENGTH,
    RunPlan,
    count_parameters,
    count_pieces,
    estimate_memory,
    join_phrases,
    plan_run,
    stand_in_data,
    stand_in_run,
    training_flops,
)
from pellucid.workflows.plan.trial import EpochBatches
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> RunPlan:
    """The plan of a small run on 211 pairs."""
    return plan_run(small_run(tmp_path_factory.mktemp("plan")), seconds=0.0)


def make_config(activation: str = "relu", **changes: int) -> ModelConfig:
    sizes = {"d_model": 14, "d_ff": 22, "heads": 2, "encoder_layers": 3, "decoder_layers": 2, **changes}
    return ModelConfig(31, 31, **sizes, activation=activation)  # pyright: ignore[reportArgumentType]


def test_the_formula_counts_the_operations_that_torch_counts(attention_formula):
    s, t = 7, 5
    for activation in ("relu", "swiglu"):
        c = make_config(activation)
        model = Transformer(c)
        with FlopCounterMode(display=False) as counter:
            model(torch.full((1, s), 5), torch.full((1, t), 5)).sum().backward()
        # the half of its own target that a position may not read
        masked_flops = 3 * t * c.decoder_layers * 2 * t * c.d_model
        assert training_flops(c, s, t) + masked_flops == counter.get_total_flops()


def test_the_paper_s_sizes_have_the_paper_s_parameters():
    for size, millions in (("base", 65), ("big", 213)):  # table 3
        counts = count_parameters(ModelConfig(37_000, 37_000, **PRESETS[size], norm="post"))
        assert counts.total == pytest.approx(millions * 1e6, rel=0.04)
    c = make_config()
    model, counts = Transformer(c), count_parameters(c)
    assert counts.total == sum(parameter.numel() for parameter in model.parameters())
    assert counts.embeddings == 31 * 14
    encoder = sum(
        parameter.numel() for module in (model.encoder, model.encoder_norm) for parameter in module.parameters()
    )
    assert counts.encoder == encoder


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_memory_of_a_batch_is_estimated_and_rather_too_high(norm):
    rows, s, t = 11, 23, 19
    model = Transformer(ModelConfig(307, 307, **{**PRESETS["tiny"], "encoder_layers": 3}, norm=norm)).train()
    saved_bytes: dict[int, int] = {}

    def save_size(tensor: torch.Tensor) -> torch.Tensor:
        saved_bytes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    sources, targets = (PackedSentences(np.full(rows * n, 5, np.int32), np.arange(rows + 1) * n) for n in (s, t))
    with saved_tensors_hooks(save_size, lambda tensor: tensor):
        loss = batch_loss(model, collate(EncodedPairs(sources, targets), np.arange(rows)), smoothing=0.1)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    measured = sum(size for pointer, size in saved_bytes.items() if pointer not in weights)
    learned = sum(parameter.numel() for parameter in model.parameters())
    parameters = count_parameters(model.config)
    estimate = estimate_memory(model.config, parameters, "adam", rows, s, t)
    assert loss.isfinite()
    assert measured < estimate.activations < 1.5 * measured
    assert (estimate.weights, estimate.gradients, estimate.optimizer) == (4 * learned, 4 * learned, 8 * learned)
    optimizer = make_optimizer(model, OptimConfig(kind="muon"))
    loss.backward()
    optimizer.step()
    mean_bytes = sum(mean.nbytes for state in optimizer.state.values() for mean in state.values() if mean.dim())
    assert estimate_memory(model.config, parameters, "muon", rows, s, t).optimizer == mean_bytes < estimate.optimizer


@pytest.mark.parametrize("corpora", [(), (CorpusShare("a", 40, 2.5), CorpusShare("b", 171, 0.5))])
def test_the_counts_of_an_epoch_are_those_of_the_stream(plan, corpora):
    run, encoded = plan.run, replace(plan.epoch.encoded, corpora=corpora)
    epoch = EpochBatches.first_of_run(encoded, run.train.batch_tokens, run.seed)
    stream = Stream(encoded, run.train.batch_tokens, run.seed)
    batches = [next(stream) for _ in range(epoch.batches)]
    assert stream.position == (run.seed, 1, 0)
    assert epoch.pairs == sum(len(batch.indices) for batch in batches)
    assert epoch.source_positions == sum(batch.source.numel() for batch in batches)
    assert epoch.target_positions == sum(batch.target_out.numel() for batch in batches)
    assert epoch.source_pieces == sum(int((batch.source != 0).sum()) for batch in batches)
    assert epoch.target_pieces == sum(batch.target_tokens for batch in batches)
    largest = max(batches, key=lambda batch: batch.source.numel() + batch.target_out.numel())
    assert epoch.largest.tolist() == largest.indices.tolist()


def test_the_trial_makes_real_updates_and_a_plan_writes_nothing(tmp_path: Path):
    run = small_run(tmp_path, train={"accumulate": 3, "steps": 50})
    before = sorted(tmp_path.rglob("*"))
    plan = plan_run(run, seconds=0.0)
    assert sorted(tmp_path.rglob("*")) == before
    assert plan.trial is not None
    assert (plan.trial.updates, plan.trial.batches) == (1, 1)
    assert 3 < plan.trial.loss < 7  # nats: about log 290 with random weights
    assert plan.seconds == pytest.approx(50 * plan.trial.seconds)
    assert plan.updates_per_epoch == plan.epoch.batches / 3
    assert plan.epochs == pytest.approx(150 / plan.epoch.batches)
    assert plan.saved == 13  # every fourth of 50 updates, and the last
    assert plan.disk == 12 * plan.parameters.total * 6 + 4 * plan.parameters.total * 3
    pieces = zip(plan.epoch.encoded.sources.lengths, plan.epoch.encoded.targets.lengths, strict=True)
    epoch_flops = sum(training_flops(plan.model, int(s), int(t)) for s, t in pieces)
    assert plan.flops == pytest.approx(3 * epoch_flops / plan.epoch.batches)


def test_the_seconds_of_an_update_are_the_median_of_those_measured(plan, monkeypatch):
    """A fake clock advances by a hundredth of a second for each target position of an update."""
    now = 0.0
    real_update = trial.update_within_memory

    def update_slowly(model, optimizer, batches, *options, **others):
        nonlocal now
        now += 0.01 * sum(batch.target_out.numel() for batch in batches)
        return real_update(model, optimizer, batches, *options, **others)

    monkeypatch.setattr(trial, "update_within_memory", update_slowly)
    monkeypatch.setattr(trial.time, "monotonic", lambda: now)
    run = replace(plan.run, train=replace(plan.run.train, accumulate=2))
    result = trial.try_updates(run, plan.model, plan.epoch, seconds=60.0)
    assert result.seconds == pytest.approx(0.01 * 2 * plan.epoch.target_positions / plan.epoch.batches)
    assert result.spread == pytest.approx(0.0, abs=1e-9)
    assert result.batches == 2
    assert result.updates >= 60 / (0.02 * plan.run.train.batch_tokens)


def test_minutes_are_updates_at_the_speed_that_was_measured(plan):
    train = replace(plan.run.train, steps=None, minutes=3.0)
    timed_plan = replace(
        plan,
        run=replace(plan.run, train=train),
        trial=replace(plan.trial, seconds=0.25),
        memory=plan.memory,
    )
    assert timed_plan.steps == 720
    assert (timed_plan.saved, timed_plan.checkpoints) == (180, 5)  # every fourth, of which five are kept
    assert replace(timed_plan, trial=None).steps is None
    default_intervals = replace(train, save_every=None, evaluate_every=None)
    assert replace(timed_plan, run=replace(timed_plan.run, train=default_intervals)).saved == 12
    assert (
        replace(timed_plan, run=replace(timed_plan.run, train=replace(default_intervals, minutes=None, steps=3))).saved
        == 3
    )


def test_pieces_are_counted_in_blocks():
    ids = np.array([3, 1, 3, 3, 0, 2, 1], dtype=np.uint16)
    assert count_pieces(ids, vocabulary=5, block=2).tolist() == [1, 2, 1, 3, 0]


def test_a_sound_plan_gets_no_advice(plan):
    train = {"keep": 3, "steps": 50, "batch_tokens": 200}
    undisturbed_trial = replace(plan.trial, share=1.0)
    assert list_advice(change_plan(plan, supported=290, learned=(290,), train=train, trial=undisturbed_trial)) == []


def change_plan(plan: RunPlan, **changes) -> RunPlan:
    """Return the plan with other numbers, and with other settings in the sections of its run."""
    sections = {name: changes.pop(name) for name in ("data", "tokenizer", "model", "train", "optim") if name in changes}
    run = replace(plan.run, **{name: replace(getattr(plan.run, name), **values) for name, values in sections.items()})
    return replace(plan, run=run, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"missing_dev": ("dev.en",)}, "dev files missing: dev.en; training would be refused"),
        ({"trial": None, "free_memory": 1000}, "are needed and 1.0 kB are free, so nothing was tried"),
        ({"trial": None, "free_memory": None}, "set train.batch_tokens = 129 and train.accumulate = 2"),
        ({"free_disk": 10_000}, "keep fewer than train.keep = 5 checkpoints"),
        (
            {"learned": (283,), "tokenizer": {"vocabulary": 32_000}},
            "the vocabulary of 32,000 is more than 211 pairs of",
        ),
        (
            {"learned": (290,), "supported": 100},
            "only 100 of its pieces stand 10 times or more in the text; set tokenizer.vocabulary = 261",
        ),
        (
            {"optim": {"warmup": 4000}},
            "warm-up longer than the run: the learning rate still rises at its end, after 12",
        ),
        ({"optim": {"warmup": 4000, "schedule": "linear"}}, "optim.warmup = 4,000 of 12 updates is cut to a fifth"),
        ({"train": {"steps": 2}}, "the run ends before every pair was seen"),
        ({"train": {"keep": 7}}, "train.keep = 7 checkpoints are to be kept and 3 are saved"),
        ({"train": {"batch_tokens": 1000}}, "of 1,000 positions: pairs of like length run out before a batch is full"),
    ],
)
def test_advice_says_what_to_change_and_why(plan, changes, words: str):
    advice = list_advice(change_plan(plan, **changes))
    assert any(words in sentence for sentence in advice), advice


def test_advice_counts_the_pairs_that_are_longer_than_a_batch(plan):
    with_short_batches = change_plan(plan, train={"batch_tokens": 3})
    long_pairs_count = int((plan.epoch.encoded.targets.lengths > 3).sum())
    epoch = EpochBatches.first_of_run(plan.epoch.encoded, batch_tokens=3, seed=plan.run.seed)
    advice = list_advice(replace(with_short_batches, epoch=epoch))
    assert f"{long_pairs_count} pairs are longer than a whole batch of train.batch_tokens = 3" in advice


@pytest.mark.parametrize(
    ("native", "setting", "suggestion"),
    [(True, "float32", "try train.precision = bfloat16, "), (True, "bfloat16", ""), (False, "float32", "")],
)
def test_a_run_of_days_is_advised_to_train_less(plan, monkeypatch, native, setting, suggestion):
    monkeypatch.setattr(process, "has_native_bfloat16", lambda device: native)
    slow_trial = replace(plan.trial, seconds=7.776)
    advice = list_advice(change_plan(plan, trial=slow_trial, train={"steps": 100_000, "precision": setting}))
    [sentence] = [sentence for sentence in advice if "at this speed" in sentence]
    assert sentence.startswith(f"at this speed 100,000 steps take 9.0 days: {suggestion}train on a faster machine, ")
    assert "train.steps = 11111, which is a day" in sentence


def test_advice_names_a_precision_that_the_processor_does_not_have(plan, monkeypatch):
    monkeypatch.setattr(process, "has_native_bfloat16", lambda device: False)
    advice = list_advice(change_plan(plan, train={"precision": "bfloat16"}))
    assert [sentence for sentence in advice if "products are made in float32; a machine that has it" in sentence]
    assert not [
        sentence
        for sentence in list_advice(change_plan(plan, train={"precision": "float32"}))
        if "bfloat16" in sentence
    ]


def test_other_programs_on_the_machine_are_noticed(plan):
    busy_plan = replace(plan, trial=replace(plan.trial, share=0.4, threads=2))
    assert any(
        "ran for 40% of the time in which it could have run, and takes about 2.5 times as long" in sentence
        for sentence in list_advice(busy_plan)
    )
    assert list_advice(replace(plan, trial=replace(plan.trial, share=None))) == [
        sentence for sentence in list_advice(busy_plan) if "other programs" not in sentence
    ]


def test_a_large_model_for_few_pairs_is_advised_against(plan):
    model = replace(plan.run.model, size="base", d_model=None, d_ff=None, encoder_layers=None, decoder_layers=None)
    advice = list_advice(replace(plan, run=replace(plan.run, model=model)))
    assert any("211 pairs would be learned by heart; set model.size = tiny" in sentence for sentence in advice), advice


def test_memory_that_runs_out_within_the_trial_ends_the_trial(tmp_path: Path, monkeypatch):
    def run_out_of_memory(*arguments, **others):
        raise MemoryError

    monkeypatch.setattr(trial, "update_within_memory", run_out_of_memory)
    plan = plan_run(small_run(tmp_path), seconds=0.0)
    assert plan.trial is None
    assert any(sentence.startswith("memory: about ") for sentence in list_advice(plan))


def test_missing_training_files_are_all_named(tmp_path: Path):
    run = small_run(tmp_path)
    without_files = replace(run, data=replace(run.data, source="gone.en", target="gone.es"))
    with pytest.raises(ValueError, match=r"gone\.en, gone\.es: no such file; .* add --stand-in 20000"):
        plan_run(without_files)


def test_missing_dev_files_are_named_in_the_plan(tmp_path: Path):
    run = small_run(tmp_path)
    plan = plan_run(replace(run, data=replace(run.data, dev_target="gone.es")), seconds=0.0)
    assert plan.missing_dev == ("gone.es",)
    assert plan.dev_pairs == 21  # a tenth of the training pairs


def test_stand_in_lines_are_as_long_as_news():
    lines = [next(pairs) for pairs in [join_phrases(generate_phrases(1), 1)] for _ in range(2000)]
    logs = np.log([len(source.split()) for source, _ in lines])
    mean, deviation = NEWS_LENGTH
    assert logs.mean() == pytest.approx(mean, abs=0.25)  # a line ends with a whole phrase, a little later
    assert logs.std() == pytest.approx(deviation, abs=0.15)
    assert lines[:9] == [next(pairs) for pairs in [join_phrases(generate_phrases(1), 1)] for _ in range(9)]


def test_a_stand_in_needs_no_files_and_leaves_the_model_its_size(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text(
        '[data]\nsource = "${NOWHERE_AT_ALL}/a"\ntarget = "b"\nmax_pieces = 77\n[tokenizer]\nvocabulary = 3000\n'
        "[model]\nd_model = 6\nd_ff = 11\nheads = 2\n[train]\nsteps = 5\n",
        encoding="utf-8",
    )
    run = stand_in_run(path, ["train.batch_tokens=300"])
    assert (run.data.max_pieces, run.train.batch_tokens) == (77, 300)
    plan = plan_run(run, stand_in_data(60, run, generate_phrases(run.seed)), seconds=0.0)
    assert plan.model.target_vocabulary == 3000
    assert len(plan.epoch.encoded) + sum("are not trained on" in note for note in plan.notes) >= 40
    with pytest.raises(ValueError, match="a stand-in of 0 pairs is none"):
        stand_in_data(0, run, generate_phrases(run.seed))
