"""Encoder and decoder layers against torch's own, with the same weights."""

from itertools import product

import pytest
import torch
from torch import nn

from pellucid.model.layers import DecoderLayer, EncoderLayer, FeedForward
from pellucid.model.positions import Positions
from tests.model.models import add_noise, small_config
from tests.model.test_attention import torch_attention

pytestmark = pytest.mark.usefixtures("both_attentions")

KINDS = pytest.mark.parametrize(("norm", "activation"), list(product(["pre", "post"], ["relu", "gelu"])))


def torch_encoder_layer(ours, c) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(
        c.d_model, c.heads, c.d_ff, 0.0, c.activation, batch_first=True, norm_first=c.norm == "pre"
    ).double()
    copy_weights(theirs, ours, [ours.self_residual, ours.ffn_residual])
    return theirs


def torch_decoder_layer(ours, c) -> nn.TransformerDecoderLayer:
    theirs = nn.TransformerDecoderLayer(
        c.d_model, c.heads, c.d_ff, 0.0, c.activation, batch_first=True, norm_first=c.norm == "pre"
    ).double()
    copy_weights(theirs, ours, [ours.self_residual, ours.cross_residual, ours.ffn_residual])
    theirs.multihead_attn.load_state_dict(torch_attention(ours.cross).state_dict())
    return theirs


def copy_weights(theirs, ours, residuals) -> None:
    theirs.self_attn.load_state_dict(torch_attention(ours.self).state_dict())
    theirs.linear1.load_state_dict(ours.ffn.inner.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.outer.state_dict())
    for number, residual in enumerate(residuals, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


@pytest.mark.article("A29", "C22")
@KINDS
def test_the_encoder_layer_is_torchs(norm, activation):
    torch.manual_seed(1)
    c = small_config(norm=norm, activation=activation, dropout=0.0)
    ours = add_noise(EncoderLayer(c).double())
    x = torch.randn(5, 11, 30, dtype=torch.float64)
    token_mask = torch.arange(11) < torch.tensor([[11], [2], [7], [1], [5]])
    theirs = torch_encoder_layer(ours, c)(x, src_key_padding_mask=~token_mask)
    result = ours(x, token_mask[:, None, None], torch.arange(11), Positions())
    torch.testing.assert_close(result, theirs, rtol=0, atol=1e-11)


@pytest.mark.article("A30", "C22", "C23")
@KINDS
def test_the_decoder_layer_is_torchs(norm, activation):
    torch.manual_seed(1)
    c = small_config(norm=norm, activation=activation, dropout=0.0)
    ours = add_noise(DecoderLayer(c).double())
    x, memory = torch.randn(5, 7, 30, dtype=torch.float64), torch.randn(5, 11, 30, dtype=torch.float64)
    token_mask = torch.arange(11) < torch.tensor([[11], [2], [7], [1], [5]])
    causal_mask = torch.ones(7, 7).tril().bool()
    theirs = torch_decoder_layer(ours, c)(x, memory, tgt_mask=~causal_mask, memory_key_padding_mask=~token_mask)
    result = ours(x, causal_mask[None, None], torch.arange(7), Positions(), memory, token_mask[:, None, None])
    torch.testing.assert_close(result, theirs, rtol=0, atol=1e-11)


def test_swiglu_is_a_gate_times_a_value():
    torch.manual_seed(1)
    layer = add_noise(FeedForward(7, 11, "swiglu", 0.0).double())
    x = torch.randn(3, 5, 7, dtype=torch.float64)
    gate, value = (x @ w.T + b for w, b in zip(layer.inner.weight.split(11), layer.inner.bias.split(11), strict=True))
    expected = (gate / (1 + (-gate).exp()) * value) @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)
