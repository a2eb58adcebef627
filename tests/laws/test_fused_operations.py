"""Training with fused operations computes what model/layers.py says: the same losses, gradients and kinds of masks."""

import subprocess
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pellucid.model import ModelConfig, Transformer
from pellucid.model.attention import attend
from pellucid.model.dropout import seeded_dropout
from pellucid.training.fused import compiler, functions
from pellucid.training.fused.choice import choose_kernels
from pellucid.training.fused.compiler import NoKernels, load_kernels
from pellucid.training.fused.modules import fused_operations
from pellucid.training.fused.products import multiply, round_rows, with_rounded_rows
from pellucid.training.log import read_log
from pellucid.training.loop import train_run
from pellucid.training.loss import loss_sum, smoothed_cross_entropy
from tests.training.corpora import small_run

CPU = torch.device("cpu")
BFLOAT16_ERROR = 2**-8  # of one rounding


@pytest.fixture(scope="module")
def kernels():
    try:
        return load_kernels()
    except NoKernels as reason:
        pytest.skip(f"the operations are not fused here, because {reason}")


def make_model(**settings) -> Transformer:
    torch.manual_seed(1)
    # A width of 24 and heads of 12 fill no register; 40 keys of a softmax neither.
    sizes: dict[str, Any] = {"d_model": 24, "d_ff": 56, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    model = Transformer(ModelConfig(90, 90, dropout=0.0, output_bias=True, **(sizes | settings))).train()
    for parameter in model.parameters():  # biases and norms begin as zeros and ones, which hide mistakes
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def make_pairs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    source, target = torch.randint(4, 90, (5, 40)), torch.randint(4, 90, (5, 19))
    source[1, 30:], source[4, 1:] = 0, 0  # padding, and a row with a single key
    return source, target, torch.randint(4, 90, (5 * 19,))


def gradients_of(model, kernels, bfloat16=False) -> tuple[float, dict[str, torch.Tensor]]:
    source, target, answers = make_pairs()
    model.zero_grad()
    weight, bias = model.output_embedding.weight, model.output_bias
    with fused_operations(model, kernels), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        states = model.states(source, target).flatten(0, 1)
        loss = loss_sum(states, weight, answers, 0.1, bias, kernels)
        loss.backward()
    return loss.item(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"norm": norm, "positions": positions}
            for norm, positions in product(("pre", "post", "rms"), ("learned", "none"))
        ),
        *({"activation": activation} for activation in ("gelu", "silu", "swiglu")),
        {"heads": 1, "d_model": 32},
    ],
    ids=str,
)
def test_losses_and_gradients_are_those_of_the_model(kernels, settings):
    model = make_model(**settings)
    (loss, expected), (fused_loss, actual) = gradients_of(model, None), gradients_of(model, kernels)
    assert fused_loss == pytest.approx(loss, rel=1e-5)
    for name, gradient in expected.items():
        # A gradient that is zero but for rounding, of the keys' biases, is compared with the others.
        scale = max(gradient.norm().item(), 1e-3 * expected["source_embedding.weight"].norm().item())
        assert (actual[name] - gradient).norm().item() < 1e-4 * scale, name


def test_in_bfloat16_they_differ_from_float32_no_more_than_the_model_itself_does(kernels):
    model = make_model()
    (_, exact), (_, plain), (_, fused) = (
        gradients_of(model, None),
        gradients_of(model, None, bfloat16=True),
        gradients_of(model, kernels, bfloat16=True),
    )

    def distance(gradients):
        squares = [((gradients[name] - exact[name]) ** 2).sum() for name in exact]
        return torch.stack(squares).sum().sqrt()

    assert distance(fused) < 1.5 * distance(plain)


def test_the_model_is_as_it_was_after_the_block(kernels):
    model = make_model()
    source, target, _ = make_pairs()
    before = model.states(source, target)
    with pytest.raises(RuntimeError, match="in between"), fused_operations(model, kernels):
        raise RuntimeError("in between")
    assert not any("forward" in vars(module) for module in model.modules())
    assert torch.equal(model.states(source, target), before)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_keeps_the_mean_and_its_gradient_has_the_same_mask(kernels, rate):
    shape, bias = (400, 48), torch.zeros(48)
    x, y = torch.zeros(shape), torch.ones(shape, requires_grad=True)
    relu_input = torch.ones(shape, requires_grad=True)
    with seeded_dropout(3):
        added = functions.add_dropped(kernels, x, y, bias, rate)
        active = functions.relu_dropped(kernels, relu_input, bias, rate)
    for out, given in ((added, y), (active, relu_input)):
        zeros = (out == 0).float().mean().item()
        # Five standard errors of 19,200 draws.
        assert zeros == pytest.approx(rate, abs=5 * (rate * (1 - rate) / out.numel()) ** 0.5)
        assert torch.equal(out.unique(), torch.tensor([0, 1 / (1 - rate)]).to(out))
        [gradient] = torch.autograd.grad(out.sum(), given)
        assert torch.equal(gradient, out)
    assert not torch.equal(added, active)
    with seeded_dropout(3):
        assert torch.equal(functions.add_dropped(kernels, x, y, bias, rate), added)
    # Whether a number is dropped says nothing about its neighbours, in the row and in the column.
    dropped = ((added == 0).float() - rate) / (rate * (1 - rate)) ** 0.5
    for neighbours in (dropped[:, 1:] * dropped[:, :-1], dropped[1:] * dropped[:-1], dropped[::2] * dropped[1::2]):
        assert abs(neighbours.mean().item()) < 5 / neighbours.numel() ** 0.5


def test_dropped_patterns_have_the_gradient_of_what_they_compute(kernels):
    """Along a random direction the gradient is the slope of the function, whose masks the seed fixes."""
    torch.manual_seed(4)
    qkv, bias, weights = torch.randn(3, 9, 3 * 16), torch.randn(3 * 16), torch.randn(3, 9, 16)
    allowed = torch.ones(1, 1, 9, 9, dtype=torch.bool).tril()

    def total(numbers: torch.Tensor) -> torch.Tensor:
        with seeded_dropout(5):
            return (functions.attend_to_itself(kernels, numbers, bias, allowed, 2, 0.3) * weights).sum()

    given, direction = qkv.clone().requires_grad_(), torch.randn_like(qkv)
    [gradient] = torch.autograd.grad(total(given), given)
    step = 2e-2
    slope = (total(qkv + step * direction) - total(qkv - step * direction)) / (2 * step)
    assert (gradient * direction).sum().item() == pytest.approx(slope.item(), rel=2e-2)
    assert total(qkv) != (functions.attend_to_itself(kernels, qkv, bias, allowed, 2, 0.0) * weights).sum()


@pytest.mark.parametrize("keys", [1, 15, 16, 17, 70])
def test_attention_across_is_attend_for_any_number_of_keys(kernels, keys):
    torch.manual_seed(keys)
    heads, width, queries = 3, 10, 6
    q = torch.randn(2, queries, heads * width)
    kv, bias = torch.randn(2, keys, 2 * heads * width), torch.randn(3 * heads * width)
    allowed = torch.rand(2, 1, queries, keys) < 0.7
    allowed[0, 0, 2] = False  # a query that may read no key gets zeros

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (heads, width)).transpose(1, 2)

    k, v = (kv + bias[heads * width :]).chunk(2, dim=2)
    expected = attend(split(q + bias[: heads * width]), split(k), split(v), allowed)
    actual = functions.attend_across(kernels, q, kv, bias, allowed, heads, 0.0)
    torch.testing.assert_close(actual, expected.transpose(1, 2).flatten(2), rtol=1e-4, atol=1e-5)
    assert not actual[0, 2].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_so(kernels, bad):
    """An update is left out where the loss is not finite: a pass that hid a NaN would let it into the weights."""
    model = make_model()
    dict(model.named_parameters())["encoder.0.ffn.inner.bias"].data[3] = bad
    loss, _ = gradients_of(model, kernels)
    assert not torch.isfinite(torch.tensor(loss))

    logits = torch.zeros(2, 20)
    logits[1, 4] = bad
    targets = torch.tensor([1, 2])
    assert not torch.isfinite(
        torch.tensor(functions.loss_in_place(kernels, logits.clone(), None, targets, 0.1, None, True))
    )
    row = functions.apply_norm(kernels, logits, torch.ones(20), torch.zeros(20), 1e-5, torch.float32)[0]
    assert row[0].isfinite().all()
    assert not row[1].isfinite().all()


def test_the_loss_is_its_formula_for_rows_of_any_length(kernels):
    for width, smoothing in product((5, 64, 1001), (0.0, 0.1)):
        torch.manual_seed(width)
        logits = (20 * torch.randn(7, width)).requires_grad_()
        targets = torch.randint(width, (7,))
        expected = smoothed_cross_entropy(logits, targets, smoothing)
        [gradient] = torch.autograd.grad(expected, logits)
        numbers = logits.detach().clone()
        loss = functions.loss_in_place(kernels, numbers, None, targets, smoothing, None, True)
        assert loss == pytest.approx(expected.item(), rel=1e-5)
        torch.testing.assert_close(numbers, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 700])
def test_rounded_rows_change_no_product(rows):
    torch.manual_seed(rows)
    x = torch.randn(rows, 24, requires_grad=True)
    weight = torch.randn(40, 24, requires_grad=True)
    ahead = torch.randn(rows, 40)
    with torch.autocast("cpu", torch.bfloat16):
        expected = torch.autograd.grad((F.linear(x, weight).float() * ahead).sum(), [x, weight])
        out = multiply(x, weight)
        actual = torch.autograd.grad((out.float() * ahead).sum(), [x, weight])
        torch.testing.assert_close(out, F.linear(x, weight), rtol=2 * BFLOAT16_ERROR, atol=1e-3)
    for gradient, other in zip(actual, expected, strict=True):
        assert (gradient - other).norm() < 4 * BFLOAT16_ERROR * other.norm()


def test_numbers_of_rows_become_few_and_grow_little():
    assert len({round_rows(rows) for rows in range(2048, 4097)}) == 9
    for rows in range(512, 5000, 7):
        assert rows <= round_rows(rows) <= 1.125 * rows + 1
    padded = with_rounded_rows(torch.ones(3, 5, 8, dtype=torch.bfloat16))
    assert padded.shape == (64, 8)
    assert padded.float().sum() == 3 * 5 * 8


def test_without_a_compiler_a_run_trains_as_the_model_is_written_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    load_kernels.cache_clear()
    try:
        losses = {}
        for setting in ("always", "never"):
            train_run(small_run(tmp_path / "data", train={"fused": setting}), tmp_path / setting)
            said = capsys.readouterr().err
            assert ("no C compiler (cc, gcc or clang) is installed" in said) == (setting == "always")
            losses[setting] = [row["loss"] for row in read_log(tmp_path / setting / "log.jsonl") if "loss" in row]
        assert losses["always"] == losses["never"]
    finally:
        load_kernels.cache_clear()


def test_what_cannot_be_fused_is_said_or_passed_over():
    rotary, plain = make_model(positions="rotary").config, make_model().config
    choice = choose_kernels("always", "float32", rotary, CPU, in_lockstep=False)
    assert choice.kernels is None
    assert choice.note == "operations are not fused: for rotary positions none are written"
    # Nothing is gained in float32, on a GPU, and where workers hold parts of each weight.
    for setting, device, in_lockstep in (
        ("never", "cpu", False),
        ("auto", "cpu", False),
        ("always", "meta", False),
        ("always", "cpu", True),
    ):
        choice = choose_kernels(setting, "float32", plain, torch.device(device), in_lockstep)
        assert (choice.kernels, choice.note) == (None, None)


class TestCompiler:
    """Kernels lie in a folder that only their user can write into, and are made once."""

    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path, monkeypatch, kernels):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        load_kernels.cache_clear()
        yield
        load_kernels.cache_clear()

    def test_they_are_compiled_once(self, tmp_path, monkeypatch):
        load_kernels()
        [made] = (tmp_path / "pellucid" / "kernels").iterdir()
        assert (made.suffix, made.parent.stat().st_mode & 0o077) == (".so", 0)
        load_kernels.cache_clear()
        monkeypatch.setattr(subprocess, "run", None)  # a call would fail
        load_kernels()

    def test_a_folder_that_others_may_write_into_is_not_trusted(self, tmp_path):
        folder = tmp_path / "pellucid" / "kernels"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        assert load_kernels()
        assert list(folder.iterdir()) == []

    def test_another_text_or_processor_gives_another_file(self, tmp_path, monkeypatch):
        load_kernels()
        load_kernels.cache_clear()
        monkeypatch.setattr(compiler, "_FLAGS", (*compiler._FLAGS, "-DOTHER"))
        load_kernels()
        assert len(list((tmp_path / "pellucid" / "kernels").iterdir())) == 2

    def test_a_compiler_that_fails_is_named_with_what_it_said(self, tmp_path, monkeypatch):
        broken = tmp_path / "cc"
        broken.write_text("#!/bin/sh\necho 'cc: no such thing' >&2\nexit 1\n")
        broken.chmod(0o755)
        monkeypatch.setattr(compiler.shutil, "which", lambda name: str(broken))
        with pytest.raises(NoKernels, match=r"does not compile them \(cc: no such thing\)"):
            load_kernels()
        assert not list(tmp_path.rglob("*.so"))

    def test_a_damaged_file_is_made_anew(self, tmp_path, monkeypatch):
        # Another name: a library that this process has loaded is found by its name.
        monkeypatch.setattr(compiler, "_hash_what_decides", lambda program: "damaged")
        folder = tmp_path / "pellucid" / "kernels"
        folder.mkdir(parents=True, mode=0o700)
        made = folder / "kernels-damaged.so"
        made.write_bytes(b"no library")
        assert load_kernels().attend
        assert made.stat().st_size > 1000
