from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from math import log

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pellucid.data.batching import Batch, EncodedPairs, collate
from pellucid.data.stream import Stream, pack_sentences
from pellucid.data.tokenizer import EOS, PAD
from pellucid.inspect.gates import (
    GateConfig,
    GatedModel,
    GateProgress,
    draw_gates,
    expected_gates,
    fold_gates,
    gate_objective,
    gate_watcher,
    learn_gates,
    open_chance,
    trained_weights,
)
from pellucid.inspect.importance import Head, list_heads
from pellucid.inspect.pruning import remove_heads
from pellucid.model import ModelConfig, Transformer
from pellucid.model.dropout import Dropout
from pellucid.train.config import OptimConfig
from pellucid.train.optim import learning_rate, make_adam
from pellucid.train.update import update_weights
from tests.trace.traced import small_traced

SIZES = {"d_model": 24, "d_ff": 32, "heads": 3, "encoder_layers": 2, "decoder_layers": 1, "dropout": 0.0}
VOCABULARY = 16
TRAINING = OptimConfig(peak=0.01, warmup=30, schedule="linear", label_smoothing=0.0)


def backwards(lines: int, seed: int) -> EncodedPairs:
    """Lines of random pieces, and the same pieces backwards: attention has to find them."""
    random = np.random.default_rng(seed)
    rows = [random.integers(4, VOCABULARY, random.integers(2, 6)).tolist() for _ in range(lines)]
    return EncodedPairs(
        pack_sentences([[*r, EOS] for r in rows], np.uint16), pack_sentences([[*r[::-1], EOS] for r in rows], np.uint16)
    )


def batches(seed: int = 1, tokens: int = 256) -> Iterator[Batch]:
    return Stream(backwards(3000, seed=5), tokens, seed)


@cache
def taught() -> Transformer:
    """A small model that has learned to write lines backwards, with dropout for what comes after; change it not."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **SIZES))
    optimizer, stream, updates = make_adam(model, TRAINING), batches(), 300
    losses = [
        update_weights(
            model, optimizer, [next(stream)], learning_rate(n, n / updates, TRAINING), TRAINING, "float32"
        ).loss
        for n in range(updates)
    ]
    assert losses[-1] < 0.3
    return model.eval()


def learned(strength: float, **options) -> GatedModel:
    c = GateConfig(strength, **{"updates": 80, "gate_rate": 0.1, "label_smoothing": 0.0, "rate": 1e-3, **options})
    return learn_gates(taught(), batches(seed=2), c)


@cache
def some_closed() -> GatedModel:
    """All kinds of heads, at a price that some of them are worth."""
    return learned(0.4, among="all", updates=150)


def loss(model: Transformer) -> float:
    batch = collate(backwards(200, seed=9), np.arange(200))
    with torch.no_grad():
        logits = model(batch.source, batch.target_in)
    there = batch.target_out != PAD
    return F.cross_entropy(logits[there], batch.target_out[there]).item()


@pytest.mark.parametrize("among", ["encoder", "all"])
def test_heads_that_cost_nothing_all_stay(among: str):
    found = learned(0.0, among=among, updates=50)
    assert found.heads == list_heads(taught().config, among)
    assert found.kept_heads == found.heads
    assert found.closed_heads == []


@pytest.mark.parametrize("among", ["encoder", "all"])
def test_heads_that_cost_more_than_they_are_worth_all_go(among: str):
    found = learned(100.0, among=among)
    assert found.kept_heads == []
    assert found.values == [0.0] * len(found.heads)
    assert found.settled == 1.0


@pytest.mark.article("B25")
def test_some_heads_stay_and_the_model_still_works():
    found = some_closed()
    assert 0 < len(found.kept_heads) < len(found.heads)
    assert sorted(found.kept_heads + found.closed_heads) == sorted(found.heads)
    assert found.settled >= 0.95
    left = loss(remove_heads(found.model, found.closed_heads))
    assert left < 0.5
    assert loss(remove_heads(taught(), found.closed_heads)) > left + 0.2  # the others have learned to do without them
    for seed in (3, 4, 5):
        order = np.random.default_rng(seed).permutation(len(found.heads))
        blind = remove_heads(taught(), [found.heads[n] for n in order[: len(found.closed_heads)]])
        assert loss(blind) > 2 * left


def test_a_gated_model_is_one_without_the_closed_heads():
    torch.manual_seed(2)
    model = small_traced(double=True).bundle.model
    heads = list_heads(model.config)
    values = [(0.0, 1.0, 0.005, 0.7)[n % 4] for n in range(len(heads))]
    rounded = torch.tensor([value if value > 0.01 else 0.0 for value in values], dtype=torch.float64)
    source, target = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]]), torch.tensor([[2, 7, 9], [2, 5, 6]])
    gated = model(source, target, gate_watcher(heads, rounded.expand(2, -1)))
    folded = deepcopy(model)
    fold_gates(folded, dict(zip(heads, values, strict=True)))
    found = GatedModel(folded, heads, values)
    assert len(found.closed_heads) == len(heads) // 2
    assert torch.allclose(remove_heads(folded, found.closed_heads)(source, target), gated, rtol=0, atol=1e-12)
    assert (gated - model(source, target)).abs().max() > 1e-3


def test_learned_gates_are_the_model_without_the_closed_heads():
    found = some_closed()
    batch = next(batches(seed=4))
    ones = [1.0 if head in found.kept_heads else 0.0 for head in found.heads]
    watch = gate_watcher(found.heads, torch.tensor(ones).expand(len(batch.source), -1))
    gated = found.model(batch.source, batch.target_in, watch)
    assert torch.allclose(
        remove_heads(found.model, found.closed_heads)(batch.source, batch.target_in), gated, atol=1e-4
    )


def test_the_chance_of_an_open_gate_is_how_often_it_is_open():
    log_alpha = torch.tensor([-3.0, -0.79, 0.0, 1.3, 4.0], dtype=torch.float64)
    noise = torch.rand(400_000, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gates = draw_gates(log_alpha, noise)
    chance = open_chance(log_alpha)
    error = (chance * (1 - chance) / len(noise)).sqrt()
    assert ((gates > 0).double().mean(dim=0) - chance).abs().le(4 * error).all()
    # a gate is one as often as its mirror image is zero
    assert ((gates < 1).double().mean(dim=0) - open_chance(-log_alpha)).abs().le(4 * error).all()
    # by hand: log(0.1 / 1.1) = -log 11, so this one is open in half of the draws
    assert open_chance(torch.tensor(-0.33 * log(11), dtype=torch.float64)).item() == pytest.approx(0.5)


def test_gates_without_chance():
    # sigmoid(log 11) = 11 / 12, and 11 / 12 * 1.2 - 0.1 = 1
    assert expected_gates(torch.tensor([-9.0, -log(11), 0.0, log(11), 9.0])).tolist() == pytest.approx(
        [0, 0, 0.5, 1, 1], abs=1e-6
    )


@pytest.mark.parametrize("noise", [0.0, 1 - 2**-53])
def test_the_ends_of_the_noise_are_gates_as_well(noise: float):
    log_alpha = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    found = draw_gates(log_alpha, torch.tensor([noise], dtype=torch.float64))
    assert found.item() == round(noise)
    found.backward()
    assert log_alpha.grad is not None
    assert torch.isfinite(log_alpha.grad).all()


def test_the_gradient_of_the_gates_is_a_finite_difference():
    model = small_traced(double=True, activation="gelu").bundle.model
    heads, batch = list_heads(model.config), collate(small_batch(), np.arange(3))
    generator = torch.Generator().manual_seed(7)
    noise = 0.2 + 0.3 * torch.rand(3, len(heads), generator=generator, dtype=torch.float64)
    log_alpha = 0.1 * torch.randn(len(heads), generator=generator, dtype=torch.float64)
    gates = draw_gates(log_alpha, noise)
    assert 0 < ((gates > 0) & (gates < 1)).double().mean() < 1  # some of them in between, some at an end

    def value(at: torch.Tensor) -> torch.Tensor:
        of_batch, chance = gate_objective(model, batch, heads, at, noise, label_smoothing=0.1)
        return of_batch + 0.03 * chance

    [slopes] = torch.autograd.grad(value(at := log_alpha.clone().requires_grad_()), at)
    step = 1e-6
    for n in range(0, len(heads), 3):
        up, down = (value(log_alpha + sign * step * torch.eye(len(heads), dtype=torch.float64)[n]) for sign in (1, -1))
        assert slopes[n].item() == pytest.approx((up - down).item() / (2 * step), rel=1e-5, abs=1e-9)


def small_batch() -> EncodedPairs:
    rows = [[5, 9, 7, EOS], [11, EOS], [6, 8, EOS]]
    return EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows[::-1], np.uint16))


def test_the_loss_is_a_mean_over_target_pieces_and_the_price_a_sum_over_heads():
    model = small_traced(double=True).bundle.model
    heads, batch = list_heads(model.config), collate(small_batch(), np.arange(3))
    high = torch.full((len(heads),), 50.0, dtype=torch.float64)
    found, chance = gate_objective(
        model, batch, heads, high, torch.full((3, len(heads)), 0.5, dtype=torch.float64), 0.0
    )
    log_probs = model(batch.source, batch.target_in).log_softmax(dim=-1)
    each = [
        log_probs[b, t, i].item() for b, row in enumerate(batch.target_out.tolist()) for t, i in enumerate(row) if i
    ]
    assert len(each) == 9
    assert found.item() == pytest.approx(-sum(each) / 9, rel=1e-12)
    assert chance.item() == pytest.approx(len(heads))


def test_a_seed_repeats_to_the_bit_and_another_does_not():
    model = deepcopy(taught())
    for module in model.modules():
        if isinstance(module, Dropout):
            module.rate = 0.2  # its draws belong to the seed, too
    c = GateConfig(0.02, among="all", updates=6, seed=3)
    torch.manual_seed(8)
    state = torch.get_rng_state()
    first = learn_gates(model, batches(), c)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    again, other = learn_gates(model, batches(), c), learn_gates(model, batches(), replace(c, seed=4))
    assert first.values == again.values
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), again.model.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.model.parameters(), other.model.parameters(), strict=True))


def test_the_model_given_is_left_as_it_is():
    model = deepcopy(taught()).train()
    next(model.parameters()).requires_grad_(False)
    before = {name: each.clone() for name, each in model.named_parameters()}
    found = learn_gates(model, batches(), GateConfig(0.1, among="all", updates=3)).model
    assert model.training
    assert not found.training
    assert all(torch.equal(each, before[name]) and each.grad is None for name, each in model.named_parameters())
    wanting = [each.requires_grad for each in model.parameters()]
    assert [each.requires_grad for each in found.parameters()] == wanting
    assert wanting.count(False) == 1


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_gates_in_the_encoder_leave_the_decoder_alone(tie: str):
    model = small_traced(tie=tie).bundle.model
    found = learn_gates(model, batches(), GateConfig(0.1, updates=2)).model
    changed = [name for name, each in found.named_parameters() if not torch.equal(each, model.get_parameter(name))]
    own = [] if tie == "all" else ["source_embedding.weight"]
    assert {name.split(".")[0] for name in changed} == {
        "encoder",
        "encoder_norm",
        *(name.split(".")[0] for name in own),
    }
    everything = learn_gates(model, batches(), GateConfig(0.1, among="cross", updates=2)).model
    changed = [name for name, each in everything.named_parameters() if not torch.equal(each, model.get_parameter(name))]
    assert any(name.startswith("decoder.") for name in changed)


def test_weights_with_no_rate_do_not_move():
    model = taught()
    found = learn_gates(model, batches(), GateConfig(0.0, rate=0.0, updates=3))
    assert trained_weights(deepcopy(model), GateConfig(0.0, rate=0.0)) == []
    assert all(torch.equal(a, b) for a, b in zip(found.model.parameters(), model.parameters(), strict=True))


def test_progress_is_told_after_each_update():
    heard: list[GateProgress] = []
    learn_gates(taught(), batches(), GateConfig(5.0, among="cross", updates=30), heard.append)
    assert [each.update for each in heard] == list(range(1, 31))
    assert heard[0].open == pytest.approx(3 / (1 + np.exp(-2.5 - 0.33 * log(11))), rel=1e-5)
    assert heard[-1].open < heard[0].open
    assert all(each.loss > 0 for each in heard)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strength": -1.0}, "strength is -1.0, it must be 0 or more"),
        ({"strength": float("nan")}, "strength is nan"),
        ({"strength": 0.1, "updates": 0, "gate_rate": 0.0}, "updates is 0, it must be 1 or more; gate_rate is 0.0"),
        ({"strength": 0.1, "label_smoothing": 1.0}, "label_smoothing is 1.0, it must be at least 0 and below 1"),
        ({"strength": 0.1, "rate": -1e-3, "seed": -1}, "rate is -0.001, it must be 0 or more; seed is -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, said: str):
    with pytest.raises(ValueError, match=said):
        GateConfig(**options)


def test_a_kind_of_heads_there_is_not_and_a_broken_model_are_refused():
    with pytest.raises(ValueError, match="'feet' is no kind of heads"):
        learn_gates(taught(), batches(), GateConfig(0.1, among="feet"))
    broken = deepcopy(taught())
    with torch.no_grad():
        broken.output_embedding.weight[5] = torch.nan
    with pytest.raises(ValueError, match="the loss of update 1 is nan"):
        learn_gates(broken, batches(), GateConfig(0.1))


def test_each_head_has_the_gate_of_its_name():
    heads = list_heads(taught().config)
    gates = torch.ones(1, len(heads))
    gates[0, heads.index(Head("decoder.0.cross", 1))] = 0.0
    seen = {}

    class Seen:
        seeing = True

        def __init__(self, prefix: str = ""):
            self.prefix = prefix

        def __call__(self, name: str, value: torch.Tensor) -> torch.Tensor:
            after = gate_watcher(heads, gates).within(self.prefix[:-1])(name, value)
            if not torch.equal(after, value):
                seen[self.prefix + name] = [
                    h for h in range(value.shape[1]) if not torch.equal(after[:, h], value[:, h])
                ]
            return after

        def within(self, part: str) -> "Seen":
            return Seen(f"{self.prefix}{part}.")

    with torch.no_grad():
        taught()(torch.tensor([[5, 6, EOS]]), torch.tensor([[2, 7]]), Seen())
    assert seen == {"decoder.0.cross.head_output": [1]}
