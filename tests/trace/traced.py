"""Small random models that can be traced, and sentences for them."""

from functools import cache
from pathlib import Path

import torch

from pellucid.api import Model
from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import EOS
from pellucid.decode.translator import Translator
from pellucid.interpret.trace import Trace
from pellucid.interpret.trace.facts import SearchTree
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import Bundle
from tests.decode.models import small_tokenizer
from tests.model.models import add_noise

SENTENCES = [
    "The ball is blue.",
    "Yes.",
    "  Where is  the house? 😀",
    "El gato <b>negro</b> bebió la leche.",
    "zebra Ü 犬",
    "?",
    "the the the the the the the the the",
]


def small_traced(seed: int = 1, *, double: bool = False, ends: float = 6.0, **options) -> Model:
    """A model that ends sooner or later: `ends` is added to the logit of the end token."""
    torch.manual_seed(seed)
    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"d_model": 12, "d_ff": 11, "heads": 3, "encoder_layers": 2, "decoder_layers": 3, "max_positions": 97}
    settings = {"tie": "none", "output_bias": True, **options}
    model = add_noise(Transformer(ModelConfig(vocabulary, vocabulary, **{**sizes, **settings})).eval())
    with torch.no_grad():
        model.output_embedding.weight.mul_(4.0)
        if model.output_bias is not None:
            model.output_bias[EOS] = ends
    return make_model(model.double() if double else model)


def make_model(model: Transformer) -> Model:
    """Return the model as `pellucid.load` would."""
    bundle = Bundle(model, small_tokenizer(), {}, Path("runs/small/best"))
    # "?" is the shortest sentence, and has no letter.
    profile = SourceProfile(sources=9, sentences=(9,), without_letters=9)
    return Model(bundle, Translator(model, bundle.tokenizer, profile=profile))


@cache
def ball() -> Trace:
    """A trace that is made once and that no test changes."""
    return small_traced().trace("The ball is blue.", beam=3)


def tree_of_ball() -> SearchTree:
    """The search tree of `ball()`."""
    tree = ball().tree
    assert tree is not None
    return tree
