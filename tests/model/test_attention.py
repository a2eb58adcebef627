"""Attention against torch's own, with the same weights, and against the formula written for one head at a time."""

import pytest
import torch
from torch import nn

from pellucid.model.attention import CrossAttention, SelfAttention, masked_softmax
from pellucid.model.positions import Positions, Rotary
from tests.model.models import add_noise
from tests.tolerances import largest_size, relative_rounding

pytestmark = pytest.mark.usefixtures("both_attentions")


def torch_attention(ours) -> nn.MultiheadAttention:
    """Return torch's layer with the weights of ours."""
    d_model = ours.output.in_features
    theirs = nn.MultiheadAttention(d_model, ours.heads, batch_first=True).double()
    assert theirs.in_proj_weight is not None
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias)
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    return theirs


@pytest.mark.article("C12")
@pytest.mark.parametrize("heads", [1, 2, 7])
def test_self_attention_is_torchs(heads):
    torch.manual_seed(1)
    ours = add_noise(SelfAttention(14, heads, 0.0).double())
    x = torch.randn(3, 11, 14, dtype=torch.float64)
    allowed = torch.rand(3, 1, 11, 11) < 0.5
    allowed[..., 0] = True
    forbidden = ~allowed.expand(3, heads, 11, 11).flatten(0, 1)
    theirs, _ = torch_attention(ours)(x, x, x, attn_mask=forbidden, need_weights=False)
    torch.testing.assert_close(ours(x, allowed, torch.arange(11), Positions()), theirs, rtol=0, atol=1e-12)


@pytest.mark.article("A34")
def test_cross_attention_is_torchs():
    torch.manual_seed(1)
    ours = add_noise(CrossAttention(14, 2, 0.0).double())
    x, memory = torch.randn(3, 11, 14, dtype=torch.float64), torch.randn(3, 5, 14, dtype=torch.float64)
    token_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]).bool()
    theirs, _ = torch_attention(ours)(x, memory, memory, key_padding_mask=~token_mask)
    torch.testing.assert_close(ours(x, memory, token_mask[:, None, None]), theirs, rtol=0, atol=1e-12)


def test_hypotheses_of_one_sentence_side_by_side_share_its_memory():
    torch.manual_seed(1)
    layer = add_noise(CrossAttention(14, 2, 0.0).double())
    x, memory = torch.randn(6, 7, 14, dtype=torch.float64), torch.randn(3, 5, 14, dtype=torch.float64)
    allowed = (torch.arange(5) < torch.tensor([[5], [2], [3]]))[:, None, None]
    expanded = layer(x, memory.repeat_interleave(2, 0), allowed.repeat_interleave(2, 0))
    side_by_side = layer(x.view(3, 14, 14), memory, allowed)
    torch.testing.assert_close(side_by_side, expanded.view(3, 14, 14), rtol=0, atol=1e-12)


@pytest.mark.article("A27", "B24", "C18", "C19", "E6", "E9")
def test_heads_one_by_one_are_all_together():
    torch.manual_seed(1)
    layer = add_noise(SelfAttention(14, 2, 0.0).double())
    x = torch.randn(3, 11, 14, dtype=torch.float64)
    w_q, w_k, w_v = layer.qkv.weight.split(14)
    b_q, b_k, b_v = layer.qkv.bias.split(14)
    together = layer.output.bias
    for head in range(2):
        head_slice = slice(7 * head, 7 * head + 7)
        q, k, v = (x @ w[head_slice].T + b[head_slice] for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
        pattern = (q @ k.transpose(1, 2) / 7**0.5).softmax(-1)
        together = together + pattern @ v @ layer.output.weight[:, head_slice].T
    allowed = torch.ones(3, 1, 11, 11, dtype=torch.bool)
    torch.testing.assert_close(layer(x, allowed, torch.arange(11), Positions()), together, rtol=0, atol=1e-12)


def test_rotary_attention_sees_distances_only():
    """Moved along by any number of positions, a sequence attends as before; in another order it does not."""
    torch.manual_seed(1)
    layer, rotary = add_noise(SelfAttention(20, 2, 0.0).double()), Rotary(20, 53, 2).double()
    x, allowed = torch.randn(3, 11, 20, dtype=torch.float64), torch.ones(3, 1, 11, 11, dtype=torch.bool)
    expected = layer(x, allowed, torch.arange(11), rotary)
    rounding = relative_rounding(torch.float32, terms=20) * largest_size(expected)  # the table of sines is float32
    torch.testing.assert_close(layer(x, allowed, torch.arange(41, 52), rotary), expected, rtol=0, atol=rounding)
    assert not torch.allclose(layer(x, allowed, torch.arange(10, -1, -1), rotary), expected, rtol=0, atol=1e-2)


@pytest.mark.article("C26", "A24")
def test_masked_softmax_by_hand():
    scores = torch.tensor([0.0, 3.0, 3.0, 9.0]).log().expand(1, 1, 3, 4)
    allowed = torch.tensor([[1, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]]).bool()[None, None]
    expected = [[0, 0.5, 0.5, 0], [0, 0.25, 0, 0.75], [0, 0, 0, 0]]
    torch.testing.assert_close(masked_softmax(scores, allowed)[0, 0], torch.tensor(expected))


@pytest.mark.article("A22", "C14", "X26")
def test_the_scores_stay_at_the_scale_of_one_number():
    """The paper's reason to divide by sqrt(E): products of random vectors grow with their width."""
    torch.manual_seed(1)
    q, k = torch.randn(2, 499, 64, dtype=torch.float64)
    products = q @ k.T
    assert 7.8 < products.std() < 8.2
    assert 0.97 < (products / 64**0.5).std() < 1.03
