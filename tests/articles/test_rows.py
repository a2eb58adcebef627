"""Rows of the articles that are true and that no other test proves: shapes, steps and formulas, on small models."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.demo.phrasebook import HELD_OUT
from pellucid.interpret.trace import Record
from pellucid.model import ModelConfig, Transformer
from pellucid.model.attention import SelfAttention, attend
from pellucid.model.layers import FeedForward, Residual
from pellucid.model.positions import Positions
from pellucid.training.config import OptimConfig
from pellucid.training.optimizer import Adam
from tests.articles.printed import PATTERN, SCALED
from tests.model.models import add_noise, sentences, small_model

EVERYONE = torch.ones(1, 1, 1, 1, dtype=torch.bool)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


@pytest.fixture(scope="module")
def four_words() -> Record:
    """Record of four pieces, read by one layer of the paper's width."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(11, 11, 512, 8, 8, 1, 1)).double().eval()
    record = Record()
    with torch.no_grad():
        model(torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]]), record)
    return record


@pytest.mark.article("A3", "B19", "D9")
def test_every_word_reads_every_word_itself_included():
    record = Record("*.pattern")
    small_model()(sentences([5]), sentences([4]), record)
    assert (record["encoder.0.self.pattern"] > 0).all()
    assert record["encoder.0.self.pattern"].shape[2:] == (5, 5)
    assert (record["decoder.0.self.pattern"].diagonal(dim1=2, dim2=3) > 0).all()
    assert (record["decoder.0.cross.pattern"] > 0).all()
    assert record["decoder.0.cross.pattern"].shape[2:] == (4, 5)


@pytest.mark.article("A4", "A19", "A20", "B21", "B24", "C12", "C18", "E5", "E7")
def test_four_words_have_the_shapes_that_the_articles_draw(four_words):
    """X is 4 x 512; each of 8 heads has Q, K and V of 4 x 64; and 4 x 512 comes out of every sublayer."""
    shapes = {name: tuple(value.shape) for name, value in four_words.items() if name.startswith("encoder.")}
    assert shapes["encoder.input"] == (1, 4, 512)
    for name in ("q", "k", "v", "head_output"):
        assert shapes[f"encoder.0.self.{name}"] == (1, 8, 4, 64)
    for name in ("products", "scores", "pattern"):
        assert shapes[f"encoder.0.self.{name}"] == (1, 8, 4, 4)
    for name in ("self.output", "self_residual.sum", "self_residual.norm", "ffn.output", "ffn_residual.sum"):
        assert shapes[f"encoder.0.{name}"] == (1, 4, 512)


@pytest.mark.article("A20", "B21", "C12", "E6")
def test_the_weights_of_a_head_are_64_columns_of_one_matrix():
    """Q = X W_Q with W_Q of 512 x 64, cut out of the matrix that all heads share (ours is stored transposed)."""
    torch.manual_seed(1)
    layer, x = SelfAttention(512, 8, 0.0).double(), torch.randn(1, 4, 512, dtype=torch.float64)
    record = Record()
    layer(x, EVERYONE.expand(1, 1, 4, 4), torch.arange(4), Positions(), watch=record)
    for name, matrix in zip("qkv", layer.qkv.weight.T.split(512, dim=1), strict=True):
        assert matrix.shape == (512, 512)
        for head in range(8):
            w = matrix[:, 64 * head : 64 * head + 64]
            assert w.shape == (512, 64)
            assert_close(record[name][0, head], x[0] @ w)


@pytest.mark.article("A17", "B5")
@pytest.mark.parametrize(("readers", "writers"), [(2, 2), (6, 6), (1, 3)])
def test_each_layer_reads_what_the_one_before_it_wrote(readers, writers):
    """Each side has the layers asked for: changing what leaves one changes all after it and none before."""
    model = small_model(encoder_layers=readers, decoder_layers=writers)
    source, target = sentences([5]), sentences([4])
    before, after = Record("*.ffn.output"), Record("*.ffn.output")
    model(source, target, before)
    names = [f"encoder.{n}.ffn.output" for n in range(readers)] + [f"decoder.{n}.ffn.output" for n in range(writers)]
    assert sorted(before) == sorted(names)
    middle = readers // 2
    with torch.no_grad():
        model.get_parameter(f"encoder.{middle}.ffn.outer.bias").add_(torch.randn(30))
    model(source, target, after)
    changed = [not torch.allclose(before[name], after[name]) for name in names]
    assert changed == [False] * middle + [True] * (len(names) - middle)


@pytest.mark.article("A23", "A24", "B23")
def test_the_table_of_softmax_is_right_to_the_last_digit():
    scores = SCALED[None, None]
    record = Record()
    attend(scores * 2.0, torch.eye(4).double()[None, None], scores, EVERYONE.expand(1, 1, 4, 4), watch=record)
    torch.testing.assert_close(record["pattern"][0, 0], PATTERN, rtol=0, atol=1e-8)
    assert_close(record["pattern"].sum(-1), torch.ones(1, 1, 4).double())


@pytest.mark.article("A21", "A25", "B23", "B32", "C10", "D4", "D5", "D6", "E8")
def test_attention_stage_by_stage():
    """Every number is made in five stages: product, division, mask, softmax, weighted sum."""
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 2, 3, 5, 7, dtype=torch.float64)
    allowed = torch.rand(2, 1, 5, 5) < 0.7
    allowed[..., 0] = True
    record = Record()
    z = attend(q, k, v, allowed, watch=record)
    for b, h, i in ((0, 0, 0), (1, 2, 4), (0, 1, 3)):
        factors = [sum(q[b, h, i, e] * k[b, h, j, e] for e in range(7)).item() for j in range(5)]  # pyright: ignore
        assert record["products"][b, h, i].tolist() == pytest.approx(factors)
        exponentials = [math.exp(f / 7**0.5) if allowed[b, 0, i, j] else 0.0 for j, f in enumerate(factors)]
        weights = [exponential / sum(exponentials) for exponential in exponentials]
        assert record["pattern"][b, h, i].tolist() == pytest.approx(weights)
        assert_close(z[b, h, i], sum(weight * v[b, h, j] for j, weight in enumerate(weights)))  # pyright: ignore


@pytest.mark.article("B22", "C10", "D7")
def test_a_factor_is_a_cosine_times_two_lengths_and_a_sum_of_products():
    record = Record("encoder.0.self.*")
    small_model().encode(sentences([5]), record)
    q, k = record["encoder.0.self.q"][0, 0], record["encoder.0.self.k"][0, 0]
    products = record["encoder.0.self.products"][0, 0]
    assert_close(
        products,
        nn.functional.cosine_similarity(q[:, None], k[None], dim=-1) * q.norm(dim=-1)[:, None] * k.norm(dim=-1),
    )
    terms = q[:, None] * k[None]
    assert_close(products, terms.sum(-1))
    assert ((terms > 0) == (q[:, None].sign() == k[None].sign())).all()


@pytest.mark.article("A27", "B24", "C19", "E9")
def test_heads_in_two_groups_are_heads_together():
    """Two workers have half of the heads each, and their outputs are added up."""
    torch.manual_seed(1)
    layer = add_noise(SelfAttention(24, 4, 0.0).double())
    x, everyone, at = torch.randn(2, 5, 24).double(), EVERYONE.expand(2, 1, 5, 5), torch.arange(5)
    total = layer.output.bias
    for group in range(2):
        worker: Any = SelfAttention(24, 4, 0.0).double()
        span = slice(12 * group, 12 * group + 12)
        worker.heads, worker.qkv = 2, nn.Linear(24, 36).double()
        worker.output = nn.Linear(12, 24, bias=False).double()
        worker_weights = {
            name: torch.cat([matrix[span] for matrix in parameter.split(24)])
            for name, parameter in layer.qkv.named_parameters()
        }
        worker.qkv.load_state_dict(worker_weights)
        worker.output.load_state_dict({"weight": layer.output.weight[:, span]})
        total = total + worker(x, everyone, at, Positions())
    assert_close(layer(x, everyone, at, Positions()), total)


@pytest.mark.article("C20")
def test_attention_in_einsum_notation_is_the_layer():
    torch.manual_seed(1)
    layer, x = add_noise(SelfAttention(24, 4, 0.0).double()), torch.randn(2, 5, 24).double()
    w = layer.qkv.weight.view(3, 4, 6, 24)
    q, k, v = torch.einsum("bqd,nhed->nbhqe", x, w) + layer.qkv.bias.view(3, 1, 4, 1, 6)
    pattern = (torch.einsum("bhqe,bhke->bhqk", q, k) / 6**0.5).softmax(-1)
    z = torch.einsum("bhqk,bhke,dhe->bqd", pattern, v, layer.output.weight.view(24, 4, 6)) + layer.output.bias
    assert_close(layer(x, EVERYONE.expand(2, 1, 5, 5), torch.arange(5), Positions()), z)


@pytest.mark.article("E4", "E6", "E7", "E9")
def test_splitting_and_merging_move_numbers_and_lose_none():
    """Width 6, two heads of 3: head h has the numbers 3h to 3h + 2 of every position, and merging puts them back."""
    layer, x = SelfAttention(6, 2, 0.0).double(), torch.arange(48).double().view(2, 4, 6)
    (heads,) = layer.split(x, 1)
    assert heads.shape == (2, 2, 4, 3)
    assert heads[1, 0, 2].tolist() == [36, 37, 38]
    assert heads[1, 1, 2].tolist() == [39, 40, 41]
    with torch.no_grad():
        layer.output.weight.copy_(torch.eye(6))
    assert_close(layer.merge(heads, Record()), x)


@pytest.mark.article("A28", "B27", "C17")
def test_the_feed_forward_treats_each_position_alone_and_each_layer_in_its_own_way():
    layers: Any = small_model(encoder_layers=2).encoder
    first, second = (layer.ffn for layer in layers)
    x = torch.randn(1, 5, 30, dtype=torch.float64)
    for position in range(5):
        assert_close(first(x)[:, position], first(x[:, position : position + 1])[:, 0])
    assert not torch.allclose(first(x), second(x), atol=1e-2)
    by_hand = (x @ first.inner.weight.T + first.inner.bias).clamp(min=0) @ first.outer.weight.T + first.outer.bias
    assert_close(first(x), by_hand)


@pytest.mark.article("A30", "A34", "E1", "E2", "C27")
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_queries_are_made_of_the_decoder_and_keys_and_values_of_the_encoder(norm):
    """Q = M W_Q, K = R W_K, V = R W_V; M has just been normalised, R is the end of the encoder, in every layer."""
    model, record = small_model(norm=norm), Record()
    layers: Any = model.decoder
    model(sentences([5]), sentences([4]), record)
    end = record[f"encoder.{len(model.encoder) - 1}.ffn_residual.{'sum' if norm == 'pre' else 'norm'}"]
    assert_close(record["memory"], model.encoder_norm(end))
    for number, layer in enumerate(layers):
        m = record[f"decoder.{number}.{'cross_residual' if norm == 'pre' else 'self_residual'}.norm"]
        r = record["memory"]
        for name, states, w, b in zip(
            "qkv", (m, r, r), layer.cross.qkv.weight.split(30), layer.cross.qkv.bias.split(30), strict=True
        ):
            projection = (states @ w.T + b).view(1, -1, 3, 10).transpose(1, 2)
            assert_close(record[f"decoder.{number}.cross.{name}"], projection)
        assert record[f"decoder.{number}.cross.pattern"].shape == (1, 3, 4, 5)


@pytest.mark.article("E1")
@pytest.mark.parametrize(("place", "inputs"), [("encoder.0.self", 1), ("decoder.0.self", 1), ("decoder.0.cross", 2)])
def test_attention_has_three_inputs_and_each_matters(place, inputs):
    """Query, key and value: in self-attention made of one text, in cross-attention of two; none can be left out."""
    torch.manual_seed(1)
    model, record = small_model(), Record()
    model(sentences([5]), sentences([4]), record)
    side, _, kind = place.split(".")
    read = record[f"{side}.0.{kind}_residual.norm"]
    sources = (read, read, read if inputs == 1 else record["memory"])
    q, k, v = (record[f"{place}.{name}"] for name in "qkv")
    layer = model.get_submodule(place)
    weights: Any = layer.qkv
    for value, states, w, b in zip(
        (q, k, v), (sources[0], sources[2], sources[2]), weights.weight.split(30), weights.bias.split(30), strict=True
    ):
        assert_close(value, (states @ w.T + b).view(1, -1, 3, 10).transpose(1, 2))
    allowed = record[f"{place}.allowed"]
    found = attend(q, k, v, allowed)
    assert_close(found, record[f"{place}.head_output"])
    for others in ((torch.randn_like(q), k, v), (q, torch.randn_like(k), v), (q, k, torch.randn_like(v))):
        assert not torch.allclose(attend(*others, allowed), found, atol=1e-2)


@pytest.mark.article("A32", "A15", "B35")
def test_the_target_is_embedded_as_the_source_is():
    """One table, factor and set of positions: a piece at a position has the same vector on both sides."""
    model, record = small_model(tie="all"), Record("*.input")
    ids = torch.tensor([[2, 9, 17, 4]])
    model(ids, ids, record)
    assert torch.equal(record["encoder.input"], record["decoder.input"])


@pytest.mark.article("A31", "B6", "C25", "A36", "B33")
def test_the_first_step_reads_bos_and_the_third_two_words_more():
    """Each step gives a probability for each piece of the vocabulary, from the target so far."""
    model, source = small_model(), sentences([5])
    target = torch.tensor([[2, 11, 17, 23]])
    all_logits = model(source, target)
    for step in range(1, 5):
        logits = model(source, target[:, :step])
        assert logits.shape == (1, step, 29)
        assert_close(logits[:, -1].softmax(-1).sum(-1), torch.ones(1).double())
        assert_close(logits[:, -1], all_logits[:, step - 1])


@pytest.mark.article("A38")
def test_adam_has_the_papers_numbers():
    c, layer, same = OptimConfig(), nn.Linear(2, 3), nn.Linear(2, 3)
    assert (c.beta1, c.beta2, c.epsilon) == (0.9, 0.98, 1e-9)
    same.load_state_dict(layer.state_dict())
    reference = torch.optim.Adam(layer.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, fused=True)
    optimizer = Adam(same.parameters(), c)
    optimizer.param_groups[0]["lr"] = 0.01
    for _ in range(3):
        inputs = torch.randn(4, 2)
        for model, stepped in ((layer, reference), (same, optimizer)):
            model(inputs).square().sum().backward()
            stepped.step()
            model.zero_grad()
    for expected, parameter in zip(layer.parameters(), same.parameters(), strict=True):
        assert torch.equal(parameter, expected)
        expected_state, state = reference.state[expected], optimizer.state[parameter]
        assert state.keys() == expected_state.keys()
        assert all(torch.equal(state[key], expected_state[key]) for key in state)


@pytest.mark.article("B12", "C6", "A9")
def test_one_word_has_one_embedding_and_an_input_for_each_position():
    record = Record("encoder.*")
    small_model().encode(torch.tensor([[8, 9, 10, 11, 3], [12, 11, 9, 8, 3]]), record)
    embeddings, inputs = record["encoder.embedding"], record["encoder.input"]
    assert torch.equal(embeddings[0, 3], embeddings[1, 1])
    assert not torch.allclose(inputs[0, 3], inputs[1, 1], atol=1e-2)


@pytest.mark.article("B13")
def test_ten_thousand_positions_have_a_vector_each_in_256_pairs_of_sine_and_cosine():
    from pellucid.model.positions import sinusoids

    table = sinusoids(10_000, 512)
    assert len(table.unique(dim=0)) == 10_000
    sines, cosines = table.double().view(10_000, 256, 2).unbind(-1)
    torch.testing.assert_close(sines**2 + cosines**2, torch.ones(10_000, 256, dtype=torch.float64), rtol=0, atol=1e-6)
    angles = torch.atan2(sines[1], cosines[1])  # by which a pair turns from one position to the next
    expected = torch.tensor([10000 ** (-2 * i / 512) for i in range(256)], dtype=torch.float64)
    torch.testing.assert_close(angles, expected, rtol=1e-6, atol=0)


@pytest.mark.article("B26", "C16")
def test_the_norm_is_its_formula():
    torch.manual_seed(1)
    layers: Any = small_model().encoder
    norm = layers[0].self_residual.norm
    x = torch.randn(3, 5, 30, dtype=torch.float64) * 3 + 1
    mean = x.sum(-1, keepdim=True) / 30
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / 30
    assert_close(norm(x), norm.weight * (x - mean) / (variance + 1e-5).sqrt() + norm.bias)


@pytest.mark.article("C18")
def test_heads_divide_the_width_and_the_last_matrix_is_square():
    for heads, width in ((8, 64), (4, 128), (1, 512)):
        layer = SelfAttention(512, heads, 0.0)
        assert layer.split(torch.zeros(1, 2, 512), 1)[0].shape == (1, heads, 2, width)
        assert layer.output.weight.shape == (512, 512)
    with pytest.raises(ValueError, match="d_model 512 cannot be split into 7 heads"):
        ModelConfig(11, 11, 512, 8, 7, 1, 1)


@pytest.mark.article("C29")
def test_attention_follows_the_input_and_no_other_weight_does():
    model = small_model()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    patterns = []
    for seed in (1, 2):
        record = Record("encoder.0.self.pattern")
        model.encode(sentences([5], seed=seed), record)
        patterns.append(record["encoder.0.self.pattern"])
    assert not torch.allclose(patterns[0], patterns[1], atol=1e-2)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


@pytest.mark.article("D2", "E3", "A32")
def test_the_sentences_of_the_articles_have_their_translations_in_the_phrasebook():
    """The demo's model can be asked about these sentences; they are kept out of its training."""
    pairs = {phrase.source: phrase.target for phrase in HELD_OUT}
    assert pairs["The ball is blue."] == "La bola es azul."
    assert pairs["The sky is blue."] == "El cielo es azul."
    assert pairs["You are welcome."] == "De nada."


@pytest.mark.article("D2")
@pytest.mark.parametrize("layer", ["encoder.0", "decoder.0"])
def test_queries_keys_and_values_are_three_linear_layers_of_which_each_row_is_a_piece(layer):
    model, record = small_model(), Record(f"{layer}.*")
    model(sentences([5]), sentences([4]), record)
    x, weights = record[f"{layer}.self_residual.norm"], dict(model.named_parameters())
    weight, bias = (weights[f"{layer}.self.qkv.{name}"] for name in ("weight", "bias"))
    for part, name in enumerate("qkv"):
        rows = slice(30 * part, 30 * part + 30)
        by_piece = [[row @ weight[rows].T + bias[rows] for row in sentence] for sentence in x]
        expected = torch.stack([torch.stack(sentence) for sentence in by_piece])
        assert_close(record[f"{layer}.self.{name}"].transpose(1, 2).flatten(2), expected)


@pytest.mark.article("B7")
def test_a_one_hot_vector_times_the_table_is_one_row_of_it():
    model, record = small_model(), Record("encoder.embedding")
    ids = sentences([5])
    model.encode(ids, record)
    one_hot = nn.functional.one_hot(ids, model.config.source_vocabulary).double()
    assert_close(record["encoder.embedding"], one_hot @ model.source_embedding.weight * 30**0.5)


@pytest.mark.article("B2")
@pytest.mark.parametrize("length", [2, 7])
def test_the_encoder_hands_on_a_vector_for_each_position(length):
    assert small_model().encode(sentences([length])).states.shape == (1, length, 30)


@pytest.mark.article("C1")
def test_each_row_of_attention_is_made_without_the_others_and_a_recurrent_state_needs_the_one_before():
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 1, 2, 7, 10, dtype=torch.float64)
    every_row = attend(q, k, v, EVERYONE.expand(1, 1, 7, 7))
    for position in range(7):
        assert_close(
            attend(q[:, :, position : position + 1], k, v, EVERYONE.expand(1, 1, 1, 7)),
            every_row[:, :, position : position + 1],
        )
    recurrent, x = nn.GRU(10, 10, batch_first=True).double(), torch.randn(1, 7, 10, dtype=torch.float64)
    states, before = recurrent(x)[0], torch.zeros(1, 1, 10, dtype=torch.float64)
    for position in range(7):
        _, state = recurrent(x[:, position : position + 1], before)
        assert_close(state[0], states[:, position])
        assert position == 0 or not torch.allclose(recurrent(x[:, position : position + 1])[1], state, atol=1e-2)
        before = state


@pytest.mark.article("C9", "B20")
def test_attention_takes_a_share_of_each_value_and_of_the_best_alone_where_products_are_large():
    keys = torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]], dtype=torch.float64)[None, None]
    values = torch.tensor([[10.0, 1.0], [20.0, 2.0], [60.0, 4.0]], dtype=torch.float64)[None, None]
    query = torch.tensor([0.9, 0.5], dtype=torch.float64)[None, None, None]
    allowed = EVERYONE.expand(1, 1, 1, 3)
    record = Record()
    assert_close(attend(0 * query, keys, values, allowed, watch=record), values.mean(dim=2, keepdim=True))
    soft = attend(query, keys, values, allowed, watch=record)
    assert (record["pattern"] > 0.1).all()
    assert_close(soft, record["pattern"] @ values)
    assert_close(attend(1000 * query, keys, values, allowed), values[:, :, 1:2])


@pytest.mark.article("C15")
def test_the_gradient_comes_back_through_24_layers_where_they_have_residuals():
    x = torch.randn(8, 1, 64, dtype=torch.float64)
    assert_close(Residual(64, 0.0, "pre").double()(x, lambda y: 0 * y), x)  # the 1 in 1 + f'

    def first_gradient(residual: bool) -> float:
        """Return the norm of the gradient that reaches the first of 24 layers."""
        torch.manual_seed(1)
        first = x = torch.randn(8, 1, 64, dtype=torch.float64, requires_grad=True)
        for _ in range(24):
            feed_forward, residual_sum = FeedForward(64, 256, "relu", 0.0).double(), Residual(64, 0.0, "pre").double()
            x = residual_sum(x, feed_forward) if residual else feed_forward(x)
        (x * torch.randn_like(x)).sum().backward()
        assert first.grad is not None
        return first.grad.norm().item()

    assert first_gradient(residual=True) > 1.0
    assert first_gradient(residual=False) < 1e-3
