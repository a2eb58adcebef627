"""Watching a model changes nothing, an edit returns another tensor, and the fused kernel agrees with the formula."""

import pytest
import torch
import torch.nn.functional as F

from pellucid.interpret.trace import Edit, Record
from pellucid.model import Transformer
from pellucid.model.attention import attend, fused_is_faster
from pellucid.model.cache import Cache
from pellucid.model.watch import Watch, unseen
from tests.model.models import every_option, sentences, small_config, small_model
from tests.tolerances import assert_same_sums

SOURCE, TARGET = sentences([11, 5]), sentences([7, 3], seed=2)


@pytest.mark.article("C20")
@pytest.mark.parametrize(("dtype", "terms"), [(torch.float64, 5 * 7), (torch.float32, 5 * 7), (torch.bfloat16, 1)])
def test_fused_and_visible_attention_agree(dtype, terms):
    """A score sums 7 products, and an output those of 5 keys; in bfloat16 the sums are taken in float32 and rounded."""
    torch.manual_seed(1)
    q = torch.randn(3, 2, 11, 7, dtype=dtype)
    k, v = torch.randn(2, 3, 2, 5, 7, dtype=dtype)
    allowed = torch.rand(3, 1, 11, 5) < 0.5
    allowed[0, :, 4] = False
    allowed[1] = False
    with torch.no_grad():
        assert fused_is_faster(q)
        fused = attend(q, k, v, allowed)
        visible = attend(q, k, v, allowed, watch=Record())
    assert_same_sums(fused, visible, terms)
    for z in (fused, visible):  # who may read nothing has read nothing
        assert not z[0, :, 4].any()
        assert not z[1].any()


def test_fused_and_visible_attention_have_the_same_gradients():
    """The gradients are finite, and zero for a query that may read nothing."""
    torch.manual_seed(1)
    q = torch.randn(3, 2, 11, 7, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(3, 2, 5, 7, dtype=torch.float64, requires_grad=True) for _ in "kv")
    allowed = torch.rand(3, 1, 11, 5) < 0.5
    allowed[0, :, 4] = False
    allowed[1] = False
    weights = torch.randn(3, 2, 11, 7, dtype=torch.float64)
    visible = torch.autograd.grad((attend(q, k, v, allowed) * weights).sum(), (q, k, v))
    fused = torch.autograd.grad((F.scaled_dot_product_attention(q, k, v, allowed) * weights).sum(), (q, k, v))
    for ours, theirs in zip(visible, fused, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    assert not visible[0][1].any()
    assert not visible[0][0, :, 4].any()


@every_option
@pytest.mark.usefixtures("attention_formula")
def test_watching_changes_nothing(options):
    """Logits and gradients are equal to the bit where both take the formula."""
    model, record = small_model(**options), Record()
    plain, watched = model(SOURCE, TARGET), model(SOURCE, TARGET, watch=record)
    assert torch.equal(plain, watched)
    assert torch.equal(record["logits"], watched)
    for plain_gradient, watched_gradient in zip(
        compute_gradients(model, plain), compute_gradients(model, watched), strict=True
    ):
        assert torch.equal(plain_gradient, watched_gradient)


@every_option
def test_watching_changes_nothing_but_rounding_where_the_fused_kernel_is_used(options):
    model = small_model(**options)
    plain, watched = model(SOURCE, TARGET), model(SOURCE, TARGET, watch=Record())
    torch.testing.assert_close(plain, watched, rtol=0, atol=1e-12)
    for plain_gradient, watched_gradient in zip(
        compute_gradients(model, plain), compute_gradients(model, watched), strict=True
    ):
        torch.testing.assert_close(plain_gradient, watched_gradient, rtol=0, atol=1e-10)


def test_watching_changes_nothing_in_float32():
    torch.manual_seed(1)
    model = Transformer(small_config(encoder_layers=5, decoder_layers=5)).eval()
    with torch.no_grad():
        assert_same_sums(model(SOURCE, TARGET, Record()), model(SOURCE, TARGET))


def test_watching_a_training_step_draws_the_same_dropout():
    model = small_model(dropout=0.3, attention_dropout=0.3, activation_dropout=0.3).train()
    results = []
    for watch in (unseen, Record()):
        torch.manual_seed(2)
        results.append(model(SOURCE, TARGET, watch=watch))
    assert torch.equal(*results)


def test_watching_cached_decoding_changes_nothing():
    model = small_model()
    with torch.no_grad():
        memory = model.encode(SOURCE)
        caches, record = (Cache(), Cache()), Record()
        for at in range(7):
            plain, watched = (
                model.decode(TARGET[:, at : at + 1], memory, cache, watch)
                for cache, watch in zip(caches, (unseen, record), strict=True)
            )
            torch.testing.assert_close(plain, watched, rtol=0, atol=1e-12)
        assert record["decoder.1.self.pattern"].shape == (2, 3, 1, 7)
        assert record["decoder.1.cross.pattern"].shape == (2, 3, 1, 11)


@pytest.mark.article("A24")
@every_option
def test_patterns_are_distributions_over_what_may_be_read(options):
    record = Record("*.pattern")
    small_model(**options)(SOURCE, TARGET, watch=record)
    assert len(record) == 1 + 2 * 2
    for name, pattern in record.items():
        torch.testing.assert_close(pattern.sum(-1), torch.ones(pattern.shape[:-1]).double(), rtol=0, atol=1e-14)
        assert (pattern >= 0).all()
        if name.startswith("decoder") and ".self." in name:
            assert not pattern.triu(1).any()
        else:
            assert not pattern[1, ..., 5:].any()


@every_option
@pytest.mark.usefixtures("attention_formula")
def test_returning_the_same_value_edits_nothing(options):
    model = small_model(**options)
    edit = Edit({"*": lambda value: value})
    assert torch.equal(model(SOURCE, TARGET, watch=edit), model(SOURCE, TARGET))


def test_editing_a_head_to_zero_is_a_model_whose_output_matrix_ignores_it():
    model, without = small_model(), small_model()
    with torch.no_grad():
        without.get_parameter("decoder.1.cross.output.weight")[:, 20:30] = 0
    edit = Edit({"decoder.1.cross.head_output": lambda z: z.index_fill(1, torch.tensor([2]), 0.0)})
    torch.testing.assert_close(model(SOURCE, TARGET, watch=edit), without(SOURCE, TARGET), rtol=0, atol=1e-12)
    assert not torch.allclose(model(SOURCE, TARGET), without(SOURCE, TARGET))


@pytest.mark.usefixtures("attention_formula")
def test_editing_positions_away_is_a_model_without_them():
    model, without = small_model(positions="sinusoidal"), small_model(positions="none")
    without.load_state_dict(model.state_dict())
    edit = Edit({"*.positions": torch.zeros_like})
    assert torch.equal(model(SOURCE, TARGET, watch=edit), without(SOURCE, TARGET))


def test_editing_who_may_be_read_hides_a_source_piece():
    """With the last token hidden, the logits are those of the sentence without it."""
    model = small_model()
    edit = Edit({"encoder.*.allowed": hide_last, "decoder.*.cross.allowed": hide_last})
    hidden = model(SOURCE[:1], TARGET[:1], watch=edit)
    torch.testing.assert_close(hidden, model(SOURCE[:1, :10], TARGET[:1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", ["pre", "post", pytest.param("rms", marks=pytest.mark.slow)])
def test_every_visible_tensor_matters(norm):
    """Changing any one of them changes the logits, so what is shown is what the model goes on with."""
    model, record = small_model(norm=norm), Record()
    plain = model(SOURCE, TARGET, watch=record)
    for name, value in record.items():
        changed = ~value if value.dtype == torch.bool else value + torch.randn_like(value)
        if name.endswith(".self.k"):
            changed = value * 2  # adding one vector to all keys would change nothing
        assert not torch.equal(model(SOURCE, TARGET, watch=Edit({name: lambda _, changed=changed: changed})), plain), (
            name
        )


def test_every_watcher_follows_the_protocol():
    assert all(isinstance(watch, Watch) for watch in (unseen, Record(), Edit({}), Record().within("decoder")))


def hide_last(allowed):
    return allowed & (torch.arange(allowed.shape[-1]) < allowed.shape[-1] - 1)


def compute_gradients(model, logits):
    return torch.autograd.grad((logits.sin()).sum(), list(model.parameters()))
