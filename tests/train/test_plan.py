from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from pellucid.data.batching import EncodedPairs, PackedSentences, collate
from pellucid.data.mixture import CorpusShare
from pellucid.data.stream import Stream
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.train import precision, trial
from pellucid.train.advice import list_advice
from pellucid.train.config import OptimConfig
from pellucid.train.costs import count_parameters, estimate_memory, training_flops
from pellucid.train.epoch_batches import EpochBatches
from pellucid.train.plan import RunPlan, count_pieces, plan_run
from pellucid.train.stand_in import NEWS_LENGTH, long_pairs, stand_in_data, stand_in_run
from pellucid.train.update import batch_loss
from tests.train.corpora import small_run


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> RunPlan:
    """The plan of a small run on 211 pairs."""
    return plan_run(small_run(tmp_path_factory.mktemp("plan")), seconds=0.0, updates=2)


def sized(activation: str = "relu", **changes: int) -> ModelConfig:
    sizes = {"d_model": 14, "d_ff": 22, "heads": 2, "encoder_layers": 3, "decoder_layers": 2, **changes}
    return ModelConfig(31, 31, **sizes, activation=activation)  # pyright: ignore[reportArgumentType]


def test_the_formula_counts_the_operations_that_torch_counts(attention_formula):
    s, t = 7, 5
    for activation, fewer in (
        ("relu", ""),
        ("swiglu", ""),
        ("relu", "encoder.1.self:1 decoder.0.self:1 decoder.1.cross:1"),
    ):
        c = replace(sized(activation), fewer_heads=fewer)
        model = Transformer(c)
        with FlopCounterMode(display=False) as counted:
            model(torch.full((1, s), 5), torch.full((1, t), 5)).sum().backward()
        unread = (
            3 * t * sum(c.heads_in(f"decoder.{n}.self") for n in (0, 1)) * 2 * t * c.head_width
        )  # the half of its own target that a position may not read
        assert training_flops(c, s, t) + unread == counted.get_total_flops()


def test_the_paper_s_sizes_have_the_paper_s_parameters():
    for size, millions in (("base", 65), ("big", 213)):  # table 3
        counted = count_parameters(ModelConfig(37_000, 37_000, **PRESETS[size], norm="post"))
        assert counted.total == pytest.approx(millions * 1e6, rel=0.04)
    c = sized()
    model, counted = Transformer(c), count_parameters(c)
    assert counted.total == sum(each.numel() for each in model.parameters())
    assert counted.embeddings == 31 * 14
    encoder = sum(each.numel() for part in (model.encoder, model.encoder_norm) for each in part.parameters())
    assert counted.encoder == encoder


@pytest.mark.parametrize(("norm", "r_drop"), [("pre", 0.0), ("post", 0.0), ("pre", 5.0)])
def test_the_memory_of_a_batch_is_estimated_and_rather_too_high(norm, r_drop):
    rows, s, t = 11, 23, 19
    model = Transformer(ModelConfig(307, 307, **{**PRESETS["tiny"], "encoder_layers": 3}, norm=norm)).train()
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    sources, targets = (PackedSentences(np.full(rows * n, 5, np.int32), np.arange(rows + 1) * n) for n in (s, t))
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = batch_loss(model, collate(EncodedPairs(sources, targets), np.arange(rows)), smoothing=0.1, r_drop=r_drop)
    weights = {each.untyped_storage().data_ptr() for each in model.parameters()}
    measured = sum(size for place, size in kept.items() if place not in weights)
    learned = sum(each.numel() for each in model.parameters())
    estimate = estimate_memory(model.config, learned, OptimConfig(r_drop=r_drop).passes * rows, s, t)
    assert loss.isfinite()
    assert measured < estimate.activations < 1.5 * measured
    assert (estimate.weights, estimate.gradients, estimate.adam) == (4 * learned, 4 * learned, 8 * learned)


@pytest.mark.parametrize("shares", [(), (CorpusShare("a", 40, 2.5), CorpusShare("b", 171, 0.5))])
def test_an_epoch_is_counted_as_the_stream_shows_it(planned, shares):
    run, encoded = planned.run, replace(planned.epoch.encoded, corpora=shares)
    epoch, stream = EpochBatches.first_of_run(encoded, run), Stream(encoded, run.train.batch_tokens, run.seed)
    batches = [next(stream) for _ in epoch.order]
    assert stream.position == (run.seed, 1, 0)
    assert epoch.pairs == sum(len(batch.indices) for batch in batches)
    assert epoch.source_positions == sum(batch.source.numel() for batch in batches)
    assert epoch.target_positions == sum(batch.target_out.numel() for batch in batches)
    assert epoch.source_pieces == sum(int((batch.source != 0).sum()) for batch in batches)
    assert epoch.target_pieces == sum(batch.target_tokens for batch in batches)
    assert epoch.largest == max(
        range(len(batches)), key=lambda i: batches[i].source.numel() + batches[i].target_out.numel()
    )


def test_the_trial_makes_real_updates_and_a_plan_writes_nothing(tmp_path: Path):
    run = small_run(tmp_path, train={"accumulate": 3, "steps": 50})
    before = sorted(tmp_path.rglob("*"))
    found = plan_run(run, seconds=0.0, updates=5)
    assert sorted(tmp_path.rglob("*")) == before
    assert found.trial is not None
    assert (found.trial.updates, found.trial.batches) == (5, 1)
    assert 3 < found.trial.loss < 7  # nats: about log 290 with random weights
    assert found.seconds == pytest.approx(50 * found.trial.seconds)
    assert found.updates_per_epoch == len(found.epoch.order) / 3
    assert found.epochs == pytest.approx(150 / len(found.epoch.order))
    assert found.saved == 13  # every fourth of 50 updates, and the last
    assert found.disk == 12 * found.parameters.total * 6 + 4 * found.parameters.total * 3
    pieces = zip(found.epoch.encoded.sources.lengths, found.epoch.encoded.targets.lengths, strict=True)
    of_an_epoch = sum(training_flops(found.model, int(s), int(t)) for s, t in pieces)
    assert found.flops == pytest.approx(3 * of_an_epoch / len(found.epoch.order))


def test_r_drop_is_twice_the_work_and_twice_the_activations(planned, tmp_path: Path):
    twice = plan_run(small_run(tmp_path, optim={"r_drop": 5.0}), seconds=0.0, updates=1)
    assert twice.flops == pytest.approx(2 * planned.flops)
    assert twice.memory.shared == planned.memory.shared
    assert 1.5 * planned.memory.activations < twice.memory.activations < 2 * planned.memory.activations


def test_a_compiled_model_is_tried_as_it_will_run(tmp_path: Path, monkeypatch):
    """That it is asked for; torch.compile itself cannot trace the checks of shapes that tests install."""
    made: list[Transformer] = []
    monkeypatch.setattr(trial, "compile_layers", made.append)
    for wanted in (False, True):
        plan_run(small_run(tmp_path, train={"compile": wanted}), seconds=0.0, updates=1)
        assert len(made) == wanted


def test_a_time_is_the_median_of_what_was_measured(planned, monkeypatch):
    """With a clock that an update moves by a hundredth of a second for each of its target positions."""
    now = 0.0
    real = trial.update_weights

    def slow(model, optimizer, parts, *rest):
        nonlocal now
        now += 0.01 * sum(part.target_out.numel() for part in parts)
        return real(model, optimizer, parts, *rest)

    monkeypatch.setattr(trial, "update_weights", slow)
    monkeypatch.setattr(trial.time, "monotonic", lambda: now)
    run = replace(planned.run, train=replace(planned.run.train, accumulate=2))
    found = trial.try_updates(run, planned.model, planned.epoch, seconds=60.0)
    assert found.seconds == pytest.approx(0.01 * 2 * planned.epoch.target_positions / len(planned.epoch.order))
    assert found.spread == pytest.approx(0.0, abs=1e-9)
    assert found.batches == 2
    assert found.updates >= 60 / (0.02 * planned.run.train.batch_tokens)


def test_minutes_are_updates_at_the_speed_that_was_measured(planned):
    train = replace(planned.run.train, steps=None, minutes=3.0)
    found = replace(
        planned,
        run=replace(planned.run, train=train),
        trial=replace(planned.trial, seconds=0.25),
        memory=planned.memory,
    )
    assert found.steps == 720
    assert (found.saved, found.checkpoints) == (180, 5)  # every fourth, of which five are kept
    assert replace(found, trial=None).steps is None
    often = replace(train, save_every=None, evaluate_every=None)
    assert replace(found, run=replace(found.run, train=often)).saved == 12
    assert replace(found, run=replace(found.run, train=replace(often, minutes=None, steps=3))).saved == 3


def test_pieces_are_counted_in_blocks():
    ids = np.array([3, 1, 3, 3, 0, 2, 1], dtype=np.uint16)
    assert count_pieces(ids, vocabulary=5, block=2).tolist() == [1, 2, 1, 3, 0]


def test_a_sound_plan_changes_nothing(planned):
    train = {"keep": 3, "steps": 50, "batch_tokens": 200}
    alone = replace(planned.trial, share=1.0)
    assert list_advice(changed(planned, supported=290, learned=(290,), train=train, trial=alone)) == []


def changed(planned: RunPlan, **changes) -> RunPlan:
    """A plan with other numbers, and other settings in the sections of its run."""
    sections = {name: changes.pop(name) for name in ("data", "tokenizer", "model", "train", "optim") if name in changes}
    run = replace(
        planned.run, **{name: replace(getattr(planned.run, name), **values) for name, values in sections.items()}
    )
    return replace(planned, run=run, **changes)


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
        ({"train": {"keep": 7}}, "train.keep = 7 checkpoints are to be averaged and 3 are saved"),
        ({"train": {"batch_tokens": 1000}}, "of 1,000 positions: pairs of like length run out before a batch is full"),
    ],
)
def test_what_should_be_changed_is_said_with_its_reason(planned, changes, words: str):
    said = list_advice(changed(planned, **changes))
    assert any(words in sentence for sentence in said), said


def test_pairs_longer_than_a_batch_are_said(planned):
    short = changed(planned, train={"batch_tokens": 3})
    over = int((planned.epoch.encoded.targets.lengths > 3).sum())
    said = list_advice(replace(short, epoch=EpochBatches.first_of_run(planned.epoch.encoded, short.run)))
    assert f"{over} pairs are longer than a whole batch of train.batch_tokens = 3" in said


@pytest.mark.parametrize(
    ("built_in", "asked", "try_it"),
    [(True, "float32", "try train.precision = bfloat16, "), (True, "bfloat16", ""), (False, "float32", "")],
)
def test_a_run_of_days_is_said_in_days_and_to_try_less(planned, monkeypatch, built_in, asked, try_it):
    monkeypatch.setattr(precision, "has_native_bfloat16", lambda device: built_in)
    slow = replace(planned.trial, seconds=7.776)
    said = list_advice(changed(planned, trial=slow, train={"steps": 100_000, "precision": asked}))
    [sentence] = [each for each in said if "at this speed" in each]
    assert sentence.startswith(f"at this speed 100,000 steps take 9.0 days: {try_it}train on a faster machine, ")
    assert "train.steps = 11111, which is a day" in sentence


def test_a_precision_that_the_processor_does_not_have_is_said(planned, monkeypatch):
    monkeypatch.setattr(precision, "has_native_bfloat16", lambda device: False)
    asked = list_advice(changed(planned, train={"precision": "bfloat16"}))
    assert [each for each in asked if "products are made in float32; a machine that has it" in each]
    assert not [each for each in list_advice(changed(planned, train={"precision": "float32"})) if "bfloat16" in each]


def test_other_programs_on_the_machine_are_noticed(planned):
    busy = replace(planned, trial=replace(planned.trial, share=0.4, threads=2))
    assert any("had 40% of the time of 2 threads" in sentence for sentence in list_advice(busy))


def test_a_large_model_for_few_pairs_is_said(planned):
    model = replace(planned.run.model, size="base", d_model=None, d_ff=None, encoder_layers=None, decoder_layers=None)
    said = list_advice(replace(planned, run=replace(planned.run, model=model)))
    assert any("211 pairs would be learned by heart; set model.size = tiny" in sentence for sentence in said), said


def test_memory_that_runs_out_within_the_trial_ends_the_trial(tmp_path: Path, monkeypatch):
    def too_much(*arguments):
        raise MemoryError

    monkeypatch.setattr(trial, "update_weights", too_much)
    found = plan_run(small_run(tmp_path), seconds=0.0)
    assert found.trial is None
    assert any(sentence.startswith("memory: about ") for sentence in list_advice(found))


def test_training_files_that_are_not_there_are_all_named(tmp_path: Path):
    run = small_run(tmp_path)
    gone = replace(run, data=replace(run.data, source="gone.en", target="gone.es"))
    with pytest.raises(ValueError, match=r"gone\.en, gone\.es: no such file; .* add --stand-in 20000"):
        plan_run(gone)


def test_dev_files_that_are_not_there_are_advised_on(tmp_path: Path):
    run = small_run(tmp_path)
    found = plan_run(replace(run, data=replace(run.data, dev_target="gone.es")), seconds=0.0, updates=1)
    assert found.missing_dev == ("gone.es",)
    assert found.dev_pairs == 21  # a tenth of the training pairs


def test_stand_in_lines_are_as_long_as_news():
    lines = [next(pairs) for pairs in [long_pairs(1)] for _ in range(2000)]
    logs = np.log([len(source.split()) for source, _ in lines])
    mean, deviation = NEWS_LENGTH
    assert logs.mean() == pytest.approx(mean, abs=0.25)  # a line ends with a whole phrase, a little later
    assert logs.std() == pytest.approx(deviation, abs=0.15)
    assert lines[:9] == [next(pairs) for pairs in [long_pairs(1)] for _ in range(9)]


def test_a_stand_in_needs_no_files_and_leaves_the_model_its_size(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text(
        '[data]\nsource = "${NOWHERE_AT_ALL}/a"\ntarget = "b"\nmax_pieces = 77\n[tokenizer]\nvocabulary = 3000\n'
        "[model]\nd_model = 6\nd_ff = 11\nheads = 2\n[train]\nsteps = 5\n",
        encoding="utf-8",
    )
    run = stand_in_run(path, ["train.batch_tokens=300"])
    assert (run.data.max_pieces, run.train.batch_tokens) == (77, 300)
    found = plan_run(run, stand_in_data(60, run), seconds=0.0, updates=1)
    assert found.model.target_vocabulary == 3000
    assert len(found.epoch.encoded) + sum("pairs skipped" in note for note in found.notes) >= 40
    with pytest.raises(ValueError, match="a stand-in of 0 pairs is none"):
        stand_in_data(0, run)
