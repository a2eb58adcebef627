"""Errors of the articles: each place is held to what is true, so that nobody 'corrects' Pellucid towards them."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.interpret.studies.importance import list_heads
from pellucid.interpret.studies.position_tables import doubled_exponent_table, paper_table, wavelengths
from pellucid.interpret.studies.roles import QueryShare, positional_badges
from pellucid.interpret.studies.word_vectors import Embeddings, parse_question, solve_analogy
from pellucid.interpret.trace import Record
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.model.attention import SelfAttention, attend, masked_softmax
from pellucid.model.cache import Cache
from pellucid.model.layers import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, Residual
from pellucid.model.masks import causal_mask
from pellucid.model.positions import Positions, sinusoids
from pellucid.model.transformer import Memory
from pellucid.training.config import OptimConfig, read_run
from pellucid.training.loss import smoothed_cross_entropy
from tests.articles.printed import LOGITS, PATTERN, PROBABILITIES, SCALED, Z
from tests.model.models import add_noise, sentences, small_config, small_model

ROOT = Path(__file__).resolve().parents[2]


def everyone(*size: int) -> torch.Tensor:
    return torch.ones(*size, dtype=torch.bool)


@pytest.mark.article("X1")
def test_the_logits_have_the_probabilities_that_softmax_gives():
    logits = torch.tensor(list(LOGITS.values()), dtype=torch.float64)
    expected = [1.669578e-05, 0.9996457, 3.353438e-04, 2.259529e-06]
    assert logits.softmax(0).tolist() == pytest.approx(expected, rel=1e-6)
    assert sum(expected) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.article("X1")
def test_the_printed_probabilities_are_those_of_no_temperature():
    """Two probabilities give the temperature: (z - z') / ln(p / p'). Each pair asks for another, one for a negative."""
    temperatures = [
        (LOGITS[word] - LOGITS[other]) / math.log(PROBABILITIES[word] / PROBABILITIES[other])
        for word, other in (("cielo", "El"), ("cielo", "azul"), ("azul", "es"))
    ]
    assert temperatures == pytest.approx([1.917, 2.087, -5.944], abs=5e-4)


@pytest.mark.article("X2")
def test_the_exponent_is_not_doubled():
    third = paper_table(4, 512)[3]
    assert sinusoids(4, 512)[3].numpy() == pytest.approx(third, abs=6e-8)
    assert third[2] == pytest.approx(0.245085, abs=5e-7)
    assert doubled_exponent_table(4, 512)[3][2] == pytest.approx(0.342782, abs=5e-7)
    assert (abs(third - doubled_exponent_table(4, 512)[3]) > 1e-6).sum() == 467


@pytest.mark.article("X3")
def test_sines_and_cosines_alternate_to_the_last_dimension():
    table = sinusoids(11, 512).double()
    for i in (0, 1, 127, 128, 200, 255):
        angles = torch.arange(11).double() / 10000 ** (2 * i / 512)
        torch.testing.assert_close(table[:, 2 * i], angles.sin(), rtol=0, atol=6e-8)
        torch.testing.assert_close(table[:, 2 * i + 1], angles.cos(), rtol=0, atol=6e-8)


@pytest.mark.article("X4")
def test_every_pair_is_on_the_circle_and_no_position_in_the_unit_sphere():
    table = sinusoids(101, 512).double()
    torch.testing.assert_close(table[:, 0::2] ** 2 + table[:, 1::2] ** 2, torch.ones(101, 256).double())
    torch.testing.assert_close(table.norm(dim=1), torch.full((101,), 16.0).double())


@pytest.mark.article("X5")
def test_embeddings_grow_by_the_root_of_d_model():
    """The mean of the encoding, about 0.5, would make them smaller still."""
    model = Transformer(ModelConfig(7, 7, 512, 3, 8, 1, 1)).eval()
    record = Record("encoder.embedding")
    model.encode(torch.tensor([[4, 5, 6, 3]]), record)
    factor = record["encoder.embedding"][0] / model.source_embedding.weight[[4, 5, 6, 3]]
    torch.testing.assert_close(factor, torch.full((4, 512), 22.627417))
    assert 0.51 < sinusoids(4, 512)[3].mean() < 0.52


@pytest.mark.article("X6", "X30")
def test_nothing_of_the_sinusoids_is_learned():
    torch.manual_seed(1)
    model = Transformer(small_config(dropout=0.0))
    assert not [name for name, _ in model.named_parameters() if "position" in name]
    before = model.get_buffer("source_positions.table").clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(sentences([7]), sentences([5])).square().mean().backward()
    optimizer.step()
    assert torch.equal(model.get_buffer("source_positions.table"), before)
    assert torch.equal(before, sinusoids(53, 30))


@pytest.mark.article("X7", "X28")
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_an_encoder_layer_has_two_sublayers_and_a_decoder_layer_three(norm):
    """A layer has as many norms, one around each sublayer."""
    for layer, count in ((EncoderLayer(small_config(norm=norm)), 2), (DecoderLayer(small_config(norm=norm)), 3)):
        assert sum(isinstance(module, Residual) for module in layer.children()) == count
        assert sum(isinstance(module, nn.LayerNorm) for module in layer.modules()) == count


@pytest.mark.article("X8")
def test_sky_reads_blue_least_of_all():
    pattern = masked_softmax(SCALED[None, None], everyone(1, 1, 4, 4))[0, 0]
    torch.testing.assert_close(pattern[1], PATTERN[1], rtol=0, atol=1e-8)
    assert pattern[1].argmin() == 3
    assert SCALED[1].argmin() == 3


@pytest.mark.article("X9")
def test_scores_are_between_positions_and_values_as_wide_as_a_head():
    """The article's V is the scores of its 4 words: 4 x 4, whole numbers divided by 8 and rounded."""
    record = Record("encoder.0.self.*")
    small_model().encode(sentences([4]), record)
    shapes = {name: tuple(record[f"encoder.0.self.{name}"].shape[2:]) for name in ("products", "scores", "v")}
    assert shapes == {"products": (4, 4), "scores": (4, 4), "v": (4, 10)}
    products, scores = record["encoder.0.self.products"], record["encoder.0.self.scores"]
    torch.testing.assert_close(scores, products / 10**0.5)
    whole_numbers = (SCALED * 8).round()
    assert ((whole_numbers / 8 - SCALED).abs() <= 0.005 + 1e-12).all()


@pytest.mark.article("X10")
def test_one_head_is_64_wide_and_all_eight_together_512():
    torch.manual_seed(1)
    model = Transformer(ModelConfig(7, 7, 512, 3, 8, 1, 1)).eval()
    record = Record("encoder.0.self.*")
    model.encode(torch.tensor([[4, 5, 6, 3]]), record)
    assert record["encoder.0.self.head_output"].shape == (1, 8, 4, 64)
    assert record["encoder.0.self.output"].shape == (1, 4, 512)


@pytest.mark.article("X11")
def test_an_output_is_the_sum_of_weighted_values():
    """The article's values can be found again: they have two decimals, and give its output to every digit."""
    values = torch.linalg.solve(SCALED.softmax(-1), Z)
    rounded = (values * 100).round() / 100
    torch.testing.assert_close(values, rounded, rtol=0, atol=2e-8)
    torch.testing.assert_close(SCALED.softmax(-1) @ rounded, Z, rtol=0, atol=1e-8)
    record = Record("encoder.0.self.*")
    small_model().encode(sentences([5]), record)
    pattern, v = record["encoder.0.self.pattern"], record["encoder.0.self.v"]
    torch.testing.assert_close(record["encoder.0.self.head_output"], pattern @ v)


@pytest.mark.article("X12")
def test_a_piece_has_d_model_numbers():
    record = Record("encoder.*")
    model = Transformer(ModelConfig(7, 7, 512, 3, 8, 1, 1)).eval()
    model.encode(torch.tensor([[5, 3]]), record)
    assert model.source_embedding.weight[5].shape == record["encoder.input"][0, 0].shape == (512,)


@pytest.mark.article("X13", "X22")
def test_the_triangle_is_the_same_in_training_and_in_use():
    model, source, target = small_model(dropout=0.0), sentences([5]), sentences([7])
    for mode in (True, False):
        record = Record("decoder.*.self.pattern")
        model.train(mode)(source, target, record)
        for pattern in record.values():
            assert not pattern.triu(1).any()
            assert (pattern.tril() > 0).sum() == 3 * 7 * 8 / 2
    assert causal_mask(torch.tensor([6]), torch.arange(7)).all()  # alone, the last position has no future to be hidden


@pytest.mark.article("X13", "X22")
def test_without_the_triangle_training_could_read_what_it_is_to_predict(monkeypatch):
    model, source, other_target = small_model(), sentences([5]), sentences([7], seed=3)
    target = sentences([7], seed=2)
    changed_target = torch.cat([target[:, :3], other_target[:, 3:]], dim=1)
    assert torch.equal(model(source, target)[:, :3], model(source, changed_target)[:, :3])
    monkeypatch.setattr("pellucid.model.masks.causal_mask", lambda q, k: everyone(1, 1, len(q), len(k)))
    assert not torch.allclose(model(source, target)[:, :3], model(source, changed_target)[:, :3])


@pytest.mark.article("X14")
def test_cross_attention_is_a_distribution_after_softmax_only_and_seldom_square():
    record = Record("decoder.*.cross.*")
    small_model()(sentences([5]), sentences([3]), record)
    for layer in (0, 1):
        scores, pattern = (record[f"decoder.{layer}.cross.{name}"] for name in ("scores", "pattern"))
        assert scores.shape == pattern.shape == (1, 3, 3, 5)
        torch.testing.assert_close(pattern.sum(-1), torch.ones(1, 3, 3).double())
        assert (scores < 0).any()
        assert not torch.allclose(scores.sum(-1), torch.ones(1, 3, 3).double(), rtol=0, atol=0.1)


@pytest.mark.article("X15")
def test_a_queen_is_a_king_without_the_man_and_with_the_woman():
    """Words made of who (man, woman) and what (person, ruler); half of the sum is not the sum."""
    man, woman, person, ruler, other = torch.eye(5).numpy()
    words = {"man": man + person, "woman": woman + person, "king": man + ruler, "queen": woman + ruler}
    words |= {"throne": ruler + 0.1 * other, "child": person + other}
    pieces = [f"▁{word}" for word in words]
    vectors = torch.tensor([*map(list, words.values())]).numpy()
    table = Embeddings("source", pieces, vectors, lambda text: [pieces.index(f"▁{text}")])

    def nearest(question: str) -> str:
        return solve_analogy(table, parse_question(question.split(), table)).answers[0].piece

    assert nearest("king - man + woman") == "▁queen"
    assert nearest("king - man") == "▁throne"


@pytest.mark.article("X16", "B14")
def test_positions_count_from_zero():
    record = Record("encoder.positions")
    small_model().encode(sentences([4]), record)
    torch.testing.assert_close(record["encoder.positions"].squeeze(0), sinusoids(53, 30)[:4].double())
    assert record["encoder.positions"].squeeze(0)[0].tolist() == [0.0, 1.0] * 15


@pytest.mark.article("X18")
def test_the_width_of_a_head_changes_what_attention_computes():
    torch.manual_seed(1)
    x, at = torch.randn(1, 11, 12, dtype=torch.float64), torch.arange(11)
    wide = add_noise(SelfAttention(12, 1, 0.0).double())
    outputs, ranks = [], []
    for heads in (1, 2, 6):
        layer = SelfAttention(12, heads, 0.0).double()
        layer.load_state_dict(wide.state_dict())
        record = Record()
        outputs.append(layer(x, everyone(1, 1, 11, 11), at, Positions(), watch=record))
        torch.testing.assert_close(record["scores"], record["products"] / (12 / heads) ** 0.5)
        ranks.append(int(torch.linalg.matrix_rank(record["products"][0, 0])))
    assert ranks == [11, 6, 2]  # a head of two numbers a word can make no other matrix than of rank two
    assert not torch.allclose(outputs[0], outputs[1], atol=1e-2)
    assert not torch.allclose(outputs[1], outputs[2], atol=1e-2)


@pytest.mark.article("X19", "X28")
def test_the_norm_stands_before_the_sublayer_or_after_the_sum():
    torch.manual_seed(1)
    x, f = torch.randn(2, 3, 7), nn.Linear(7, 7)
    for kind in ("pre", "post"):
        residual = add_noise(Residual(7, 0.0, kind))
        expected = x + f(residual.norm(x)) if kind == "pre" else residual.norm(x + f(x))
        torch.testing.assert_close(residual(x, f), expected)
        assert not torch.allclose(residual(x, f), x + residual.norm(f(x)), atol=1e-2)


@pytest.mark.article("X20")
def test_a_norm_sees_one_token_alone():
    torch.manual_seed(1)
    x, norm = torch.randn(3, 5, 30).double() * 7 + 2, Residual(30, 0.0, "pre").double().norm
    normalised = norm(x[1, 2])
    torch.testing.assert_close(norm(x)[1, 2], normalised)
    changed = x.clone()
    changed[0], changed[1, :2], changed[1, 3:] = 0.0, 99.0, -5.0
    torch.testing.assert_close(norm(changed)[1, 2], normalised)
    assert normalised.mean().item() == pytest.approx(0, abs=1e-12)
    assert normalised.var(unbiased=False).item() == pytest.approx(1, abs=1e-4)


@pytest.mark.article("X21")
def test_every_decoder_layer_makes_keys_and_values_of_its_own():
    model = small_model(decoder_layers=3)
    record = Record("decoder.*.cross.*")
    model(sentences([5]), sentences([3]), record)
    for name in ("k", "v"):
        projections = [record[f"decoder.{layer}.cross.{name}"] for layer in range(3)]
        assert not any(torch.allclose(projections[a], projections[b], atol=1e-2) for a, b in ((0, 1), (0, 2), (1, 2)))
    weights = [model.get_parameter(f"decoder.{layer}.cross.qkv.weight").data_ptr() for layer in range(3)]
    assert len(set(weights)) == 3


@pytest.mark.article("X23")
def test_training_does_not_ask_for_all_of_the_probability():
    """The loss is least where the right word has 0.9 and a tenth is spread over all, not where it has 1."""
    smoothing = OptimConfig().label_smoothing
    assert smoothing == 0.1
    target, words = torch.tensor([2]), 5

    def loss_at(probability: float) -> float:
        remaining = (1 - probability) / (words - 1)
        logits = torch.full((1, words), remaining, dtype=torch.float64)
        logits[0, 2] = probability
        return smoothed_cross_entropy(logits.log(), target, smoothing).item()

    best = 1 - smoothing + smoothing / words
    assert loss_at(best) < min(loss_at(best - 0.02), loss_at(best + 0.02), loss_at(0.9999))


@pytest.mark.article("X24")
def test_words_repeat_and_their_order_carries_over():
    """Without positions the outputs are shuffled as the words are: they are equal vectors in another order."""
    model, source = small_model(positions="none", encoder_layers=2), torch.tensor([[7, 8, 9, 10, 11, 8, 3]])
    order = torch.tensor([4, 0, 5, 6, 1, 3, 2])
    states, shuffled = model.encode(source).states, model.encode(source[:, order]).states
    assert (shuffled - states[:, order]).abs().max() < 1e-12
    assert (shuffled - states).abs().max() > 0.1
    without_repeat = model.encode(torch.tensor([[7, 8, 9, 10, 11, 3]])).states
    assert (states[:, [0, 1, 2, 3, 4, 6]] - without_repeat).abs().max() > 1e-2


@pytest.mark.article("X24", "A5", "A6", "C2")
def test_a_word_that_occurs_twice_is_two_tokens_with_one_id():
    """Seven words are lowered and cut where they end; "are" is there twice, and decoding joins the pieces again."""
    text = "Roses are red and violets are blue"
    config = TokenizerConfig(vocabulary=400, lowercase=True)
    tokenizer = Tokenizer.train([text] * 9, [text] * 9, config, seed=1, max_sentences=99)
    [ids] = tokenizer.encode_source([text])
    words = [piece.removeprefix("▁") for piece in tokenizer.source_pieces(ids[:-1])]
    assert words == ["roses", "are", "red", "and", "violets", "are", "blue"]
    assert ids[1] == ids[5]
    assert len(set(ids[:-1])) == 6
    assert tokenizer.decode_source(ids) == text.lower()


@pytest.mark.article("X25", "C7")
def test_a_wavelength_is_of_a_dimension_and_not_of_a_position():
    table, waves = sinusoids(600, 16).double(), wavelengths(16)
    for pair, wave in enumerate(waves):
        number = 2 * math.pi / wave  # what the article calls the wavelength
        assert number == pytest.approx(10000 ** (-2 * pair / 16))
        for position in (0, 7, 599):
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(number * position), abs=1e-6)


@pytest.mark.article("X26", "A22", "C14")
@pytest.mark.parametrize("words", [3, 11, 40])
def test_scores_are_divided_by_the_root_of_the_width_whatever_the_length(words):
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 1, 2, words, 64)
    record = Record()
    attend(q, k, v, everyone(1, 1, words, words), watch=record)
    torch.testing.assert_close(record["products"] / 8, record["scores"])


@pytest.mark.article("X26", "C14")
def test_undivided_scores_make_gradients_vanish_not_explode():
    torch.manual_seed(1)
    q, k = torch.randn(2000, 1, 64, dtype=torch.float64), torch.randn(2000, 10, 64, dtype=torch.float64)
    products = (q @ k.transpose(1, 2)).squeeze(1)

    def measure_softmax(scores: torch.Tensor) -> tuple[float, float]:
        p = scores.softmax(-1)
        jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        return p.amax(-1).mean().item(), jacobian.flatten(1).norm(dim=1).mean().item()

    assert products.std().item() == pytest.approx(8.0, abs=0.1)
    assert measure_softmax(products) == pytest.approx((0.86, 0.16), abs=0.015)
    assert measure_softmax(products / 8) == pytest.approx((0.32, 0.35), abs=0.015)


@pytest.mark.article("X27", "A28")
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_the_feed_forward_is_not_one_linear_layer(activation):
    torch.manual_seed(1)
    layer = FeedForward(7, 28, activation, 0.0).double()
    x, y = torch.randn(2, 1, 5, 7, dtype=torch.float64)
    deviation = layer(x) + layer(y) - layer(x + y) - layer(torch.zeros_like(x))
    assert deviation.abs().max() > 0.05
    linear = nn.Sequential(layer.inner, layer.outer) if activation != "swiglu" else nn.Sequential(nn.Linear(7, 7))
    linear = linear.double()
    linear_deviation = linear(x) + linear(y) - linear(x + y) - linear(torch.zeros_like(x))
    assert linear_deviation.abs().max() < 1e-12


@pytest.mark.article("X29")
def test_scores_are_masked_and_embeddings_stay_finite():
    record = Record()
    small_model()(sentences([5]), sentences([7]), record)
    assert record["decoder.embedding"].isfinite().all()
    assert record["decoder.0.self.k"].isfinite().all()
    assert not record["decoder.0.self.pattern"].triu(1).any()


@pytest.mark.article("X29")
def test_the_triangle_of_fewer_words_is_a_corner_of_that_of_more():
    full_mask = causal_mask(torch.arange(9), torch.arange(9))
    for n in range(1, 9):
        assert torch.equal(causal_mask(torch.arange(n), torch.arange(n)), full_mask[..., :n, :n])


@pytest.mark.article("X29", "C24")
def test_32000_is_the_number_of_pieces_in_a_vocabulary(monkeypatch):
    monkeypatch.setenv("PELLUCID_DATA", "anywhere")  # the corpus is not read
    run = read_run(ROOT / "recipes" / "wmt14-en-fr-big.toml")
    assert (run.tokenizer.vocabulary, run.tokenizer.joint, run.model.size) == (32_000, True, "big")


@pytest.mark.article("X30", "D5")
def test_factors_go_through_softmax_and_every_word_changes_the_shares_of_all():
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 1, 1, 4, 5, dtype=torch.float64)
    record = Record()
    z = attend(q, k, v, everyone(1, 1, 4, 4), watch=record)
    factors = record["products"]
    assert not torch.allclose(z, factors @ v, atol=0.1)
    torch.testing.assert_close(z[0, 0, 3], sum(record["pattern"][0, 0, 3, j] * v[0, 0, j] for j in range(4)))
    changed_factors = factors.clone()
    changed_factors[..., 3, 0] += 1.0
    before, after = factors.softmax(-1)[0, 0, 3], changed_factors.softmax(-1)[0, 0, 3]
    assert (after[1:] < before[1:]).all()


@pytest.mark.article("X30", "D10")
def test_la_reads_la_and_nothing_that_comes_after():
    record = Record("decoder.*.self.pattern")
    small_model()(sentences([5]), sentences([4]), record)
    for pattern in record.values():
        assert pattern[0, :, 0].tolist() == [[1.0, 0.0, 0.0, 0.0]] * 3


@pytest.mark.article("X30", "E11")
def test_cross_attention_hides_padding_of_the_source_and_nothing_of_the_target():
    model, source, target = small_model(), sentences([5, 3]), sentences([7, 7])
    record = Record("decoder.*")
    model(source, target, record)
    for layer in (0, 1):
        cross_pattern, self_pattern = (record[f"decoder.{layer}.{kind}.pattern"] for kind in ("cross", "self"))
        assert (cross_pattern[0] > 0).all()  # the first target position reads the last source position too
        assert (cross_pattern[1, :, :, :3] > 0).all()
        assert not cross_pattern[1, :, :, 3:].any()
        assert not self_pattern.triu(1).any()


@pytest.mark.article("X30", "E9")
def test_merged_heads_go_through_one_more_matrix():
    torch.manual_seed(1)
    layer = add_noise(SelfAttention(6, 2, 0.0).double())
    record = Record()
    z = layer(torch.randn(1, 4, 6).double(), everyone(1, 1, 4, 4), torch.arange(4), Positions(), watch=record)
    merged = record["head_output"].transpose(1, 2).reshape(1, 4, 6)
    torch.testing.assert_close(z, merged @ layer.output.weight.T + layer.output.bias)
    assert not torch.allclose(z, merged, atol=0.1)


@pytest.mark.article("X17")
def test_untrained_positions_have_vectors_and_longer_sentences_are_refused():
    """The table has no end; what a trained model makes of such positions is measured (`pellucid inspect length`)."""
    table = sinusoids(10_000, 30)
    assert table[9_999].isfinite().all()
    assert len(table.unique(dim=0)) == 10_000
    with pytest.raises(ValueError, match="the sequence has 59 pieces, this model takes 53"):
        small_model().encode(sentences([59]))


@pytest.mark.article("X21", "B28")
def test_the_keys_of_a_sentence_are_made_once_and_kept():
    """Each layer keeps its own keys, whatever tokens come after."""
    model, cache = small_model(decoder_layers=2), Cache()
    memory = model.encode(sentences([5]))
    kept = []
    for step in range(3):
        with torch.no_grad():
            model.decode(torch.tensor([[2 + step]]), memory, cache)
        kept.append([layer.source[0] for layer in cache.layers.values() if layer.source is not None])
    for layer in (0, 1):
        assert kept[0][layer] is kept[1][layer] is kept[2][layer]
    assert not torch.allclose(kept[0][0], kept[0][1], atol=1e-2)


@pytest.mark.article("X28", "C21")
def test_layers_have_one_form_and_each_its_own_weights():
    with torch.device("meta"):
        model = Transformer(ModelConfig(11, 11, **PRESETS["base"]))
    for stack in (model.encoder, model.decoder):
        shapes = [[(name, p.shape) for name, p in layer.named_parameters()] for layer in stack]
        assert len(stack) == 6
        assert all(layer_shapes == shapes[0] for layer_shapes in shapes)
        assert len({id(p) for layer in stack for p in layer.parameters()}) == 6 * len(shapes[0])


@pytest.mark.article("X31")
def test_a_role_is_a_kind_of_head_that_any_number_of_heads_may_have():
    """The paper that is cited looks for three roles in the 48 heads of an encoder of six layers of eight."""
    base = ModelConfig(11, 11, **PRESETS["base"])
    assert sum(head.attention.startswith("encoder") for head in list_heads(base)) == 48
    shares = [0.97, 0.95, 0.93, 0.91, 0.90, 0.89, 0.5, 0.1]
    roles = [positional_badges({"piece": {-1: QueryShare(share, 100)}}) for share in shares]
    assert [[badge.mark for badge in badges] for badges in roles] == [["-1"]] * 5 + [[]] * 3


@pytest.mark.article("X32", "C15")
def test_later_layers_reach_earlier_ones_by_gradients_only():
    model = small_model(encoder_layers=3, dropout=0.0)
    before, after = Record("encoder.*"), Record("encoder.*")
    source = sentences([5])
    model.encode(source, before)
    with torch.no_grad():
        for parameter in model.get_submodule("encoder.2").parameters():
            parameter.add_(torch.randn_like(parameter))
    states = model.encode(source, after).states
    early = [name for name in before if name.startswith(("encoder.0.", "encoder.1."))]
    assert all(torch.equal(before[name], after[name]) for name in early)
    assert not torch.allclose(before["encoder.2.ffn_residual.sum"], after["encoder.2.ffn_residual.sum"], atol=0.1)
    (states * torch.randn_like(states)).sum().backward()
    gradient = model.get_parameter("encoder.0.ffn.outer.weight").grad
    assert gradient is not None
    assert gradient.abs().max() > 1e-3


@pytest.mark.article("X33", "C27")
def test_the_decoder_is_given_vectors_and_no_attention_matrix():
    """The same vectors with no encoder behind them give the same translation."""
    model, source, target = small_model(), sentences([5]), sentences([4])
    record = Record()
    memory = model.encode(source, record)
    assert memory.states.shape == (1, 5, 30)
    assert record["encoder.0.self.pattern"].shape == (1, 3, 5, 5)
    vectors_alone = Memory(memory.states.clone(), torch.ones(1, 5, dtype=torch.bool))
    torch.testing.assert_close(model.decode(target, vectors_alone), model.decode(target, memory))
    other_vectors = Memory(-memory.states, vectors_alone.mask)
    assert not torch.allclose(model.decode(target, other_vectors), model.decode(target, memory), atol=1e-2)


@pytest.mark.article("X34", "A29")
@pytest.mark.parametrize("kind", ["pre", "post"])
def test_each_sublayer_has_a_residual_of_its_own(kind):
    """With one sum around both, a feed-forward that gives nothing would leave nothing of what attention found."""
    layer = add_noise(EncoderLayer(small_config(norm=kind)).double().eval())
    with torch.no_grad():
        layer.ffn.outer.weight.zero_()
        layer.ffn.outer.bias.zero_()
    x, record = torch.randn(1, 5, 30).double(), Record()
    output = layer(x, everyone(1, 1, 1, 5), torch.arange(5), Positions(), watch=record)
    after_attention = x + record["self.output"]
    if kind == "post":
        after_attention = layer.ffn_residual.norm(layer.self_residual.norm(after_attention))
    torch.testing.assert_close(output, after_attention)
    assert not torch.allclose(output, x if kind == "pre" else layer.ffn_residual.norm(x), atol=1e-2)


@pytest.mark.article("X35", "E6")
def test_every_head_reads_every_dimension_of_the_embedding():
    """Queries, keys and values are split after the projection; a head has its own columns, and no section of x."""
    layer = add_noise(SelfAttention(24, 4, 0.0).double())
    for part in range(3):
        section_of_weights = layer.qkv.weight[24 * part : 24 * part + 24].view(4, 6, 24)  # head, its width, embedding
        assert (section_of_weights.abs().amax(dim=1) > 0).all()
    x, at = torch.randn(1, 5, 24).double(), torch.arange(5)
    before, after = Record(), Record()
    layer(x, everyone(1, 1, 5, 5), at, Positions(), watch=before)
    changed = x.clone()
    changed[..., 0] += 1.0
    layer(changed, everyone(1, 1, 5, 5), at, Positions(), watch=after)
    for name in "qkv":
        moved = (after[name] - before[name]).abs().amax(dim=(0, 2, 3))
        assert moved.shape == (4,)
        assert (moved > 1e-2).all()


@pytest.mark.article("X36", "E8")
def test_scores_are_made_before_the_values_come_in_and_z_of_them():
    torch.manual_seed(1)
    q, k, v, other_v = torch.randn(4, 1, 2, 5, 7, dtype=torch.float64)
    first, second = Record(), Record()
    z = attend(q, k, v, everyone(1, 1, 5, 5), watch=first)
    other_z = attend(q, k, other_v, everyone(1, 1, 5, 5), watch=second)
    assert torch.equal(first["scores"], second["scores"])
    assert first["scores"].shape == (1, 2, 5, 5)
    assert not torch.allclose(z, other_z, atol=0.1)
    assert z.shape == (1, 2, 5, 7)
