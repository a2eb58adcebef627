"""A model whose vocabulary, name and languages were written by an attacker."""

import io
from functools import cache
from pathlib import Path

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from pellucid.api import Model
from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig
from pellucid.decode.translator import Translator
from pellucid.store.directory import Bundle
from tests.decode.models import LINES, random_model

IMAGE = "<img/src=x/onerror=alert(1)>"
PIECE = f"</script>{IMAGE}"
"""A piece that ends a script; it needs no space to run, and `IMAGE` is a piece too."""

SENTENCE = f"The {IMAGE} ball < img src=x onerror=alert(1) is"
"""Not markup, which is taken out before the model reads; browsers are more forgiving."""

TARGET = f"La {PIECE} bola </script><img src=x onerror=alert(1)>"
NAME = "<img src=x onerror=alert(2)>"


@cache
def hostile_tokenizer() -> Tokenizer:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type="bpe",
        vocab_size=320,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        byte_fallback=True,
        user_defined_symbols=[PIECE, IMAGE],
        minloglevel=2,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    return Tokenizer(processor, processor, TokenizerConfig(kind="bpe", vocabulary=320, joint=True))


def hostile_model() -> Model:
    """A random model with the hostile vocabulary, language and name."""
    tokenizer = hostile_tokenizer()
    vocabulary = tokenizer.source_vocabulary
    model = random_model(3, vocabulary, vocabulary, d_model=12, heads=2, encoder_layers=1, decoder_layers=1)
    bundle = Bundle(model, tokenizer, {"source_language": NAME}, Path("runs") / NAME)
    return Model(bundle, Translator(model, tokenizer))
