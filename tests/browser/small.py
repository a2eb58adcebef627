"""A model of two and three layers that learns some lines of the phrasebook by heart in seconds, words as pieces."""

from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from pellucid.data.context import encode_with_context
from pellucid.data.tokenizer import BOS, PAD, Tokenizer, TokenizerConfig
from pellucid.demo.phrasebook import Phrase
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import save_bundle
from tools.phrasebook import draw_phrases

SENTENCE, OTHER = "Does the queen drink the coffee?", "My sister is ten years old."
"""Two sentences: 8 pieces against 9, and 9 against 8, the end tokens counted."""

LINES = 31
SIZES: dict[str, Any] = {
    "d_model": 36,
    "d_ff": 44,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "max_positions": 64,
}
STEPS = 60


@cache
def learned_pairs() -> list[Phrase]:
    """Pairs of 4 to 8 source words, none as long as its translation."""

    def fits(phrase: Phrase) -> bool:
        source_words, target_words = len(phrase.source.split()), len(phrase.target.split())
        return 4 <= source_words <= 8 and source_words != target_words

    return list(islice(filter(fits, draw_phrases(seed=3)), LINES))


@cache
def tokenizer() -> Tokenizer:
    """A tokenizer with one piece for nearly every word of those lines."""
    sources, targets = zip(*[(pair.source, pair.target) for pair in learned_pairs()], strict=True)
    config = TokenizerConfig(kind="bpe", vocabulary=850, joint=True)
    return Tokenizer.train(list(sources), list(targets), config, seed=1, max_sentences=2 * LINES)


@cache
def trained_model() -> Transformer:
    """A model that writes the translation of each line it has learned, then the end token."""
    sources = tokenizer().encode_source(pair.source for pair in learned_pairs())
    return learn_by_heart(tokenizer(), sources, [pair.target for pair in learned_pairs()])


def learn_by_heart(pieces: Tokenizer, sources: list[list[int]], targets: list[str]) -> Transformer:
    """Train a model until it writes each target from its source."""
    torch.manual_seed(1)
    vocabulary = pieces.source_vocabulary
    model = Transformer(ModelConfig(vocabulary, vocabulary, dropout=0.0, **SIZES))
    source, target = pad_rows(sources), pad_rows(pieces.encode_target(targets))
    decoder_inputs = torch.cat([torch.full((len(targets), 1), BOS), target[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min((step + 1) / 20, 1 - step / STEPS)
        logits = model(source, decoder_inputs).flatten(0, 1)
        loss = cross_entropy(logits, target.flatten(), ignore_index=PAD, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def pad_rows(rows: list[list[int]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def save_trained_model(directory: Path) -> Path:
    """Save the model as a directory."""
    save_bundle(directory, trained_model(), tokenizer(), step=STEPS)
    return directory


NOUNS = {"key": "la llave", "house": "la casa", "ball": "la pelota"}
NOUNS |= {"ring": "el anillo", "book": "el libro", "hat": "el sombrero"}
VERBS = {"sold": "vendió", "lost": "perdió", "found": "encontró"}


def save_context_model(directory: Path) -> Path:
    """Save a model that reads the sentence before: of "Paul sold it." it tells whether a key or a ring was sold."""
    cases = [(noun, verb) for noun in NOUNS for verb in VERBS]
    first = [(f"Mary saw the {noun}.", f"Mary vio {NOUNS[noun]}.") for noun in NOUNS]
    second = [
        (f"Paul {verb} it.", f"Paul {'la' if NOUNS[noun].startswith('la') else 'lo'} {VERBS[verb]}.")
        for noun, verb in cases
    ]
    source_texts, texts = (list(side) for side in zip(*first, *second, strict=True))
    pieces = Tokenizer.train(
        source_texts, texts, TokenizerConfig(kind="word", vocabulary=300, joint=True), seed=1, max_sentences=99
    )
    documents = [f"Mary saw the {noun}.\nPaul {verb} it." for noun, verb in cases]
    sources = encode_with_context(pieces, [source for source, _ in first] + documents)
    model = learn_by_heart(pieces, sources, texts)
    save_bundle(directory, model, pieces, step=STEPS, context=1, longest_source=max(map(len, sources)))
    return directory
