"""Muon's step is equally strong in every direction of a matrix, whoever makes it and however a run is interrupted."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from pellucid.cpu import has_native_bfloat16
from pellucid.model import ModelConfig, Transformer
from pellucid.model.config import Activation
from pellucid.training.config import OptimConfig, RunConfig
from pellucid.training.loop import train_run
from pellucid.training.optimizer import (
    POLYNOMIALS,
    SMALLEST_SINGULAR_VALUE,
    STEP_SIZE,
    cut_blocks,
    join_blocks,
    make_optimizer,
    matrix_blocks,
    orthogonalize,
    orthogonalize_all,
)
from tests.laws.runs import assert_same_end, read_reports, train_until
from tests.laws.torchrun import train_alone, train_with_workers
from tests.tolerances import assert_same_sums, largest_size
from tests.training.corpora import small_run

MUON = OptimConfig(kind="muon")
SLACK = 0.12
"""How far singular values may be from 1 after all polynomials: 0.093, and some roundings."""

ROUNDING = 0.02 if has_native_bfloat16(torch.device("cpu")) else 0.0
"""How far the roundings of bfloat16, where the processor has it, may move singular values and numbers of a step."""


def make_model(activation: Activation = "relu") -> Transformer:
    torch.manual_seed(3)
    return Transformer(ModelConfig(31, 31, 24, 36, 3, 1, 2, activation=activation))


def draw_gradients(model: Transformer, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(parameter.shape, generator=generator) for parameter in model.parameters()]


def make_steps(
    model: Transformer, gradients: list[list[Tensor]], rate: float = 1.0, c: OptimConfig = MUON
) -> dict[str, Tensor]:
    """Return how much each parameter of a copy of the model changes in some updates."""
    changed = copy.deepcopy(model)
    optimizer = make_optimizer(changed, c)
    for group in optimizer.param_groups:
        group["lr"] = rate
    for gradients_of_step in gradients:
        for parameter, gradient in zip(changed.parameters(), gradients_of_step, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
    return {
        name: after.detach() - before.detach()
        for (name, before), after in zip(model.named_parameters(), changed.parameters(), strict=True)
    }


def test_each_polynomial_is_the_nearest_to_1_on_its_interval():
    low, high = SMALLEST_SINGULAR_VALUE, 1.0
    for a, b, c in POLYNOMIALS:
        x = np.linspace(low, high, 200_001)
        errors = 1 - (a * x + b * x**3 + c * x**5)
        error = np.abs(errors).max()
        # Chebyshev: no odd polynomial of degree 5 is nearer if the error reaches its maximum four times with changing
        # sign.
        extremes = [i for i in range(len(x)) if abs(errors[i]) > error * (1 - 1e-7)]
        signs = [np.sign(errors[i]) for i in extremes]
        assert [sign for i, sign in enumerate(signs) if i == 0 or sign != signs[i - 1]] == [1, -1, 1, -1]
        low, high = 1 - error, 1 + error  # where the values are that the next one gets


def test_the_polynomials_together_bring_all_singular_values_near_to_1():
    x = np.linspace(SMALLEST_SINGULAR_VALUE, 1, 10_001)
    for a, b, c in POLYNOMIALS:
        x = a * x + b * x**3 + c * x**5
    assert np.abs(x - 1).max() < SLACK


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (8, 40), (24, 36)])
def test_a_direction_has_singular_values_of_1_and_hardly_turns_from_the_gradient(rows, columns, scale):
    torch.manual_seed(5)
    gradients = torch.randn(6, rows, columns) * scale
    directions = orthogonalize(gradients)
    assert (torch.linalg.svdvals(directions) - 1).abs().max() < SLACK + ROUNDING
    u, _, v = torch.linalg.svd(gradients.double(), full_matrices=False)
    cosines = torch.cosine_similarity((u @ v).flatten(1), directions.double().flatten(1))
    assert cosines.min() > 0.98


def test_a_matrix_of_zeros_has_no_direction_and_one_direction_alone_keeps_its_strength():
    assert not orthogonalize(torch.zeros(1, 3, 5)).any()
    torch.manual_seed(5)
    one_direction = torch.outer(torch.randn(8), torch.randn(12))
    singular_values = torch.linalg.svdvals(orthogonalize(one_direction[None])[0])
    assert singular_values[0] == pytest.approx(1, abs=SLACK + ROUNDING)
    # Roundings are directions, too, and small ones grow fiftyfold.
    assert singular_values[1:].max() < 0.01 + 5 * ROUNDING


def test_blocks_that_are_cut_can_be_joined():
    matrix = torch.arange(24.0).view(4, 6)
    for rows, columns in ((1, 1), (2, 1), (1, 3), (4, 2)):
        blocks = cut_blocks(matrix, rows, columns)
        assert blocks.shape == (rows * columns, 4 // rows, 6 // columns)
        assert torch.equal(blocks[-1], matrix[-4 // rows :, -6 // columns :])
        assert torch.equal(join_blocks(blocks, rows, columns), matrix)


def test_the_blocks_of_a_model_are_the_projections_of_its_heads_and_the_feed_forward():
    shapes = {
        name: tuple(cut_blocks(parameter, *matrix_blocks(model)[parameter]).shape)
        for model in (make_model(activation="swiglu"),)
        for name, parameter in model.named_parameters()
        if parameter in matrix_blocks(model)
    }
    assert shapes["encoder.0.self.qkv.weight"] == shapes["decoder.1.cross.qkv.weight"] == (9, 8, 24)
    assert shapes["encoder.0.self.output.weight"] == (3, 24, 8)
    assert shapes["encoder.0.ffn.inner.weight"] == (2, 36, 24)
    assert shapes["encoder.0.ffn.outer.weight"] == (1, 24, 36)
    assert not any("embedding" in name or "norm" in name or "bias" in name for name in shapes)


def test_the_threads_that_share_the_matrices_change_nothing_but_roundings():
    torch.manual_seed(5)
    stacks = [torch.randn(3, 8, 24), torch.randn(4, 24, 8), torch.randn(1, 6, 6)]
    alone = orthogonalize_all(stacks, threads=1)
    for threads in (2, 5):
        for expected, directions in zip(alone, orthogonalize_all(stacks, threads), strict=True):
            torch.testing.assert_close(directions, expected, rtol=1e-4, atol=1e-5 + ROUNDING)


def test_the_numbers_of_a_step_are_as_large_as_those_of_adam():
    model = make_model()
    steps, hidden = make_steps(model, [draw_gradients(model, 1)]), matrix_blocks(model)
    for name, parameter in model.named_parameters():
        size = steps[name].square().mean().sqrt().item()
        # The first step of Adam has the size 1 for every number, whatever its gradient.
        assert size == pytest.approx(STEP_SIZE if parameter in hidden else 1.0, rel=0.1), name


def test_the_first_steps_are_those_of_the_formula():
    model, rate = make_model(), 0.01
    gradients = [draw_gradients(model, seed) for seed in (1, 2)]
    steps = make_steps(model, gradients, rate)
    names = [name for name, _ in model.named_parameters()]
    at = names.index("encoder.0.ffn.outer.weight")
    (first,), (second,) = gradients[0][at : at + 1], gradients[1][at : at + 1]
    means = [0.05 * first]
    means.append(0.95 * means[0] + 0.05 * second)
    expected = torch.zeros_like(first)
    for gradient, mean in zip((first, second), means, strict=True):
        u, _, v = torch.linalg.svd(0.95 * mean + 0.05 * gradient, full_matrices=False)
        expected -= rate * STEP_SIZE * 36**0.5 * (u @ v)
    step = steps["encoder.0.ffn.outer.weight"]
    assert torch.cosine_similarity(step.flatten(), expected.flatten(), dim=0) > 0.98
    assert step.norm() == pytest.approx(expected.norm().item(), rel=SLACK)


def test_the_size_of_one_heads_gradient_changes_no_step():
    model = make_model()
    gradients = draw_gradients(model, 1)
    steps = make_steps(model, [gradients])
    at = [name for name, _ in model.named_parameters()].index("encoder.0.self.qkv.weight")
    larger = [gradient.clone() for gradient in gradients]
    larger[at][8:16] *= 1024  # the queries of the second of three heads
    for name, step in make_steps(model, [larger]).items():
        assert_same_sums(step, steps[name])


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_weight_decay_takes_its_share_of_the_matrices_before_the_step(kind):
    model, rate = make_model(), 0.5
    gradients, c = [draw_gradients(model, 1)], OptimConfig(kind=kind)
    without = make_steps(model, gradients, rate, c)
    with_decay = make_steps(model, gradients, rate, replace(c, weight_decay=0.25))
    matrices = {name for name, p in model.named_parameters() if p in matrix_blocks(model)}
    assert 0 < len(matrices) < len(without)
    for name, weights in model.named_parameters():
        decay = 0.125 * weights if name in matrices else torch.zeros_like(weights)
        size = largest_size(weights) + largest_size(without[name])  # a step is the difference of two weights
        assert_same_sums(with_decay[name], without[name] - decay, terms=10, size=size)


def test_with_weight_decay_adam_makes_the_steps_of_pytorch():
    model, c = make_model(), OptimConfig(peak=0.01, weight_decay=0.25)
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)
    optimizer, hidden = make_optimizer(ours, c), matrix_blocks(theirs)
    rest = [p for p in theirs.parameters() if p not in hidden]
    groups = [{"params": list(hidden), "weight_decay": 0.25}, {"params": rest, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(c.beta1, c.beta2), eps=c.epsilon)
    optimizer.param_groups[0]["lr"] = 0.01
    for seed in range(3):
        gradients = draw_gradients(model, seed)
        for changed, stepper in ((ours, optimizer), (theirs, reference)):
            for parameter, gradient in zip(changed.parameters(), gradients, strict=True):
                parameter.grad = gradient.clone()
            stepper.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_same_sums(p, q, terms=10)


@pytest.fixture(scope="module")
def muon_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    """Run with Muon, with dropout and two batches an update, and its directory."""
    folder = tmp_path_factory.mktemp("muon")
    run = small_run(
        folder / "data",
        model={"dropout": 0.2},
        train={"accumulate": 2, "batch_tokens": 120},
        optim={"kind": "muon", "weight_decay": 0.1},
    )
    train_alone(run, folder / "out")
    return run, folder / "out"


def test_a_run_that_was_stopped_ends_where_an_undisturbed_one_does(muon_run, tmp_path, monkeypatch):
    run, out = muon_run
    train_until(7, run, tmp_path / "broken", monkeypatch)
    train_run(run, tmp_path / "broken", resume=True)
    assert_same_end(out, tmp_path / "broken")


def test_two_workers_train_the_same_model_as_one_to_the_bit(muon_run, tmp_path):
    run, out = muon_run
    train_with_workers(2, run, tmp_path / "two")
    assert_same_end(out, tmp_path / "two")


@pytest.mark.slow
def test_two_workers_that_share_a_model_have_the_losses_of_one(muon_run, tmp_path):
    run, out = muon_run
    sharded = replace(run, train=replace(run.train, shard_model=True))
    train_with_workers(2, sharded, tmp_path / "two")
    alone, shared = ([row["loss"] for row in read_reports(path) if "loss" in row] for path in (out, tmp_path / "two"))
    assert alone == pytest.approx(shared, rel=1e-4)


def test_a_run_keeps_its_optimizer(muon_run, tmp_path):
    run, out = muon_run
    other = replace(run, optim=replace(run.optim, kind="adam"))
    with pytest.raises(ValueError, match=r"optim\.kind is 'adam', it began with 'muon'"):
        train_run(other, out, resume=True)


def test_a_checkpoint_holds_one_mean_for_each_matrix_and_two_for_the_rest(muon_run):

    _, out = muon_run
    newest = max((out / "checkpoints").iterdir())
    with safe_open(newest / "training.safetensors", "pt") as file:
        kinds = {}
        for key in file.keys():  # noqa: SIM118
            kind, _, name = key.partition(".")
            kinds.setdefault(name, set()).add(kind)
    assert kinds["encoder.0.ffn.inner.weight"] == {"momentum"}
    assert kinds["encoder.0.ffn.inner.bias"] == {"exp_avg", "exp_avg_sq", "step"}
