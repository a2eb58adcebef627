"""Influence by gradients: the closed form is the product of the gradients that autograd computes."""

import pytest
import torch
from torch import Tensor

from pellucid.data.batching import EncodedPairs, collate, pack_sentences
from pellucid.data.tokenizer import BOS, EOS
from pellucid.interpret.influence.word_influence import PieceChoice, pair_influences, select_pairs, sum_influences
from pellucid.model import ModelConfig, Transformer
from pellucid.training.loss import smoothed_cross_entropy
from tests.tolerances import assert_same_sums, largest_size

VOCABULARY = 23


def random_model(seed: int, output_bias: bool = True) -> Transformer:
    """Return a model whose output layer shares no matrix, so that its gradient is that of the layer alone."""
    torch.manual_seed(seed)
    config = ModelConfig(VOCABULARY, VOCABULARY, d_model=14, d_ff=22, heads=2, encoder_layers=1, decoder_layers=2,
                         tie="none", output_bias=output_bias)  # fmt: skip
    model = Transformer(config).eval()
    if model.output_bias is not None:
        torch.nn.init.normal_(model.output_bias)
    return model


def random_pairs(lengths: list[tuple[int, int]]) -> EncodedPairs:
    torch.manual_seed(3)
    rows = [[[*torch.randint(4, VOCABULARY, (n,)).tolist(), EOS] for n in pair] for pair in lengths]
    sources, targets = zip(*rows, strict=True)
    return EncodedPairs(pack_sentences(sources, "u2"), pack_sentences(targets, "u2"))  # type: ignore[arg-type]


PAIRS = random_pairs([(3, 5), (7, 2), (1, 1), (4, 11), (5, 3)])
CHOICE = PieceChoice(source=[7, 9, 5, EOS], target=[11, 4, 8, EOS], index=2)


def output_gradient(model: Transformer, loss: Tensor) -> Tensor:
    """Return the gradient of a loss by the output layer, weights and bias, as one vector."""
    parameters = [model.output_embedding.weight] + ([] if model.output_bias is None else [model.output_bias])
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, parameters)])


def pair_loss(model: Transformer, number: int, smoothing: float) -> Tensor:
    batch = collate(PAIRS, torch.tensor([number]).numpy())
    return smoothed_cross_entropy(model(batch.source, batch.target_in)[0], batch.target_out[0], smoothing)


def choice_loss(model: Transformer, choice: PieceChoice) -> Tensor:
    before = torch.tensor([[BOS, *choice.target[: choice.index]]])
    return -model(torch.tensor([choice.source]), before)[0, -1].log_softmax(dim=0)[choice.token]


@pytest.mark.parametrize("output_bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_closed_form_is_the_product_of_both_gradients(smoothing, output_bias):
    model = random_model(1, output_bias)
    of_choice = output_gradient(model, choice_loss(model, CHOICE))
    expected = [output_gradient(model, pair_loss(model, n, smoothing)) @ of_choice for n in range(len(PAIRS))]
    assert_same_sums(pair_influences(model, PAIRS, CHOICE, smoothing), torch.stack(expected))


def test_a_step_on_a_pair_changes_the_choice_by_the_rate_times_its_influence():
    rate, smoothing = 1e-4, 0.1
    influences = pair_influences(random_model(1), PAIRS, CHOICE, smoothing)
    for number, influence in enumerate(influences.tolist()):
        model = random_model(1).double()
        before = choice_loss(model, CHOICE)
        gradient = output_gradient(model, pair_loss(model, number, smoothing))
        with torch.no_grad():
            model.output_embedding.weight -= rate * gradient[:-VOCABULARY].view_as(model.output_embedding.weight)
            model.output_bias -= rate * gradient[-VOCABULARY:]  # type: ignore[operator]
        gain = (before - choice_loss(model, CHOICE)).item()
        assert gain == pytest.approx(rate * influence, rel=0.05, abs=1e-3 * rate * influences.abs().max().item())


def test_checkpoints_are_summed():
    models = [random_model(1), random_model(2)]
    first, second = (pair_influences(model, PAIRS, CHOICE, 0.1) for model in models)
    assert_same_sums(sum_influences(models, PAIRS, CHOICE, 0.1), first + second)


def test_a_pair_has_the_same_influence_whatever_pairs_stand_beside_it():
    model = random_model(1)
    whole = pair_influences(model, PAIRS, CHOICE, 0.1)
    alone = pair_influences(model, select_pairs(PAIRS, [3, 0]), CHOICE, 0.1)
    assert_same_sums(alone, whole[[3, 0]], size=largest_size(whole))
