"""Small random models, and a tokenizer learned from a few lines."""

from functools import cache

import torch

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model import ModelConfig, Transformer

LINES = [
    "The ball is blue.",
    "La bola es azul.",
    "The black cat drank the milk, and the dog drank the water.",
    "El gato negro bebió la leche.",
    "Where is the house?",
    "¿Dónde está la casa?",
    "Yes.",
]


def random_model(seed: int, source: int, target: int, **sizes) -> Transformer:
    """Return an untrained model in evaluation mode, its output scaled so that its distributions are far from even."""
    torch.manual_seed(seed)
    defaults = {"d_model": 6, "d_ff": 11, "heads": 2, "encoder_layers": 2, "decoder_layers": 3, "max_positions": 97}
    model = Transformer(ModelConfig(source, target, tie="none", **{**defaults, **sizes})).eval()
    with torch.no_grad():
        model.output_embedding.weight.mul_(5.0)
    return model


def model_that_writes(piece: int, source: int, target: int) -> Transformer:
    """Return a model that gives one piece nearly all the probability, whatever came before."""
    model = random_model(1, source, target)
    with torch.no_grad():
        model.get_parameter("decoder_norm.bias").fill_(1.0)
        model.output_embedding.weight.zero_()[piece] = 9.0
    return model


@cache
def small_tokenizer() -> Tokenizer:
    config = TokenizerConfig(kind="bpe", vocabulary=307, joint=True)
    return Tokenizer.train(LINES, LINES, config, seed=1, max_sentences=100)
