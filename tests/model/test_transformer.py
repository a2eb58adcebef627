"""The whole model against torch's; its weights are counted, shared and initialised as in the paper."""

import math
from itertools import product

import pytest
import torch
from torch import nn

from pellucid.interpret.trace import Record
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.model.positions import sinusoids
from tests.model.models import every_option, sentences, small_config, small_model
from tests.model.test_layers import torch_decoder_layer, torch_encoder_layer

pytestmark = pytest.mark.usefixtures("both_attentions")


@pytest.mark.article("A1", "A30", "C27")
@pytest.mark.parametrize(("norm", "activation"), list(product(["pre", "post"], ["relu", "gelu"])))
def test_the_whole_model_is_torchs(norm, activation):
    ours = small_model(norm=norm, activation=activation, tie="none", encoder_layers=2, decoder_layers=3)
    c = ours.config
    theirs = nn.Transformer(
        c.d_model,
        c.heads,
        custom_encoder=nn.TransformerEncoder(
            torch_encoder_layer(ours.encoder[0], c), 2, ours.encoder_norm, enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(torch_decoder_layer(ours.decoder[0], c), 3, ours.decoder_norm),
        batch_first=True,
    )
    for stack, layers, make_theirs in (
        (theirs.encoder, ours.encoder, torch_encoder_layer),
        (theirs.decoder, ours.decoder, torch_decoder_layer),
    ):
        for our_layer, their_layer in zip(layers, stack.layers, strict=True):
            their_layer.load_state_dict(make_theirs(our_layer, c).state_dict())

    source, target = sentences([11, 2, 7, 5, 3], 31), sentences([7, 5, 3, 2, 1])
    positions = sinusoids(53, 30).double()
    states = theirs(
        ours.source_embedding.weight[source] * 30**0.5 + positions[:11],
        ours.target_embedding.weight[target] * 30**0.5 + positions[:7],
        tgt_mask=torch.ones(7, 7).triu(1).bool(),
        src_key_padding_mask=source == 0,
        memory_key_padding_mask=source == 0,
    )
    torch.testing.assert_close(ours(source, target), states @ ours.output_embedding.weight.T, rtol=0, atol=1e-10)


@pytest.mark.article("B10", "B27")
@every_option
def test_the_number_of_weights_is_the_formulas(options):
    d, f, p = 30, 17, 53
    attention, norm = 4 * (d * d + d), d if options["norm"] == "rms" else 2 * d
    inner = 2 * f if options["activation"] == "swiglu" else f
    feed_forward = d * inner + inner + f * d + d
    embeddings = {"all": 29 * d, "decoder": (31 + 29) * d, "none": (31 + 29 + 29) * d}[options["tie"]]
    positions = 2 * p * d if options["positions"] == "learned" else 0
    last = 2 * norm if options["norm"] != "post" else 0
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    expected = embeddings + positions + encoder + 2 * decoder + last
    assert sum(p.numel() for p in Transformer(small_config(**options)).parameters()) == expected


def test_the_papers_base_model_has_its_63_million_weights():
    """37,000 shared pieces, counted from the paper's formulas; the paper rounds to 65 million."""
    with torch.device("meta"):
        model = Transformer(ModelConfig(37_000, 37_000, **PRESETS["base"], norm="post"))
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 63.1


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_a_bias_is_added_to_every_logit_and_is_zero_until_it_is_trained(tie):
    plain, biased = small_model(tie=tie), Transformer(small_config(tie=tie, output_bias=True)).double().eval()
    assert biased.load_state_dict(plain.state_dict(), strict=False) == (["output_bias"], [])
    source, target = sentences([11, 2, 7], plain.config.source_vocabulary), sentences([5, 3, 7])
    assert torch.equal(biased(source, target), plain(source, target))
    bias = torch.arange(29.0, dtype=torch.float64)
    biased.load_state_dict({"output_bias": bias}, strict=False)
    torch.testing.assert_close(biased(source, target), plain(source, target) + bias, rtol=0, atol=1e-12)


@pytest.mark.article("B35")
def test_tied_embeddings_are_one_matrix():
    models = {tie: small_model(tie=tie) for tie in ("all", "decoder", "none")}
    pointers = {
        tie: [getattr(model, f"{name}_embedding").weight.data_ptr() for name in ("source", "target", "output")]
        for tie, model in models.items()
    }
    assert {tie: len(set(addresses)) for tie, addresses in pointers.items()} == {"all": 1, "decoder": 2, "none": 3}
    assert pointers["decoder"][1] == pointers["decoder"][2]


@pytest.mark.article("A20", "B9")
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_matrices_begin_xavier_uniform_and_biases_at_zero(activation):
    torch.manual_seed(1)
    d, f = 62, 254
    model = Transformer(
        ModelConfig(11, 11, d, f, 2, encoder_layers=1, decoder_layers=1, activation=activation, norm="post")
    )
    square, three, feed = (math.sqrt(6 / (d + out)) for out in (d, 3 * d, f))
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any(), name
        elif ".norm." in name:
            assert (weight == 1).all(), name
        elif "embedding" in name:  # drawn like the rest, and trained like the rest
            assert weight.std().item() == pytest.approx(d**-0.5, rel=0.1), name
            assert weight.requires_grad, name
        else:
            bound = feed if ".ffn." in name else three if ".qkv." in name else square
            largest = [block.abs().max() for block in weight.split(f if "inner" in name else d)]
            assert all(0.99 * bound < size <= bound for size in largest), name


@pytest.mark.article("A15", "A16", "X5")
def test_embeddings_are_scaled_by_the_root_of_d_model():
    """A token and its position, sine and cosine pairs of length 1, are then of one size."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(997, 997, 128, 17, 2, 1, 1)).eval()
    record = Record("encoder.*")
    model.encode(torch.arange(1, 998)[None] % 997, watch=record)
    torch.testing.assert_close(record["encoder.embedding"][0, 4], model.source_embedding.weight[5] * 128**0.5)
    assert 0.99 < record["encoder.embedding"].std() < 1.01
    torch.testing.assert_close(record["encoder.input"], record["encoder.embedding"] + sinusoids(997, 128))


@pytest.mark.article("E4")
@every_option
def test_the_smallest_model_trains_and_traces(options):
    torch.manual_seed(1)
    heads = 1 if options["positions"] == "rotary" else 2  # turns pairs of numbers: a head of 3 is odd
    model = Transformer(ModelConfig(7, 7, 6, 2, heads, encoder_layers=1, decoder_layers=1, **options))
    record = Record()
    model(sentences([3, 2], 7), sentences([2, 3], 7), watch=record).sum().backward()
    assert record["decoder.0.cross.pattern"].shape == (2, heads, 3, 3)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_sequence_too_long_is_refused_with_both_numbers():
    model = small_model(max_positions=5)
    memory = model.encode(sentences([5]))
    with pytest.raises(ValueError, match=r"the sequence has 7 pieces, this model takes 5; split the sentence"):
        model.encode(sentences([7]))
    with pytest.raises(ValueError, match=r"has 7 pieces, this model takes 5"):
        model.decode(sentences([7]), memory)


def test_memory_keeps_the_chosen_sentences():
    model = small_model()
    memory = model.encode(sentences([3, 5, 2]))
    selected = memory.select(torch.tensor([2, 0]))
    torch.testing.assert_close(selected.states, memory.states[[2, 0]])
    assert selected.mask.sum(1).tolist() == [2, 3]
