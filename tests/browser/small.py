"""A model of two and three layers that learns some lines of the phrasebook by heart in seconds, words as pieces."""

from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from pellucid.data.tokenizer import BOS, PAD, Tokenizer, TokenizerConfig
from pellucid.model import ModelConfig, Transformer
from pellucid.phrasebook import generate_phrases
from pellucid.phrasebook.chunk import Phrase
from pellucid.store.directory import save_bundle

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

    return list(islice(filter(fits, generate_phrases(seed=3)), LINES))


@cache
def tokenizer() -> Tokenizer:
    """A tokenizer with one piece for nearly every word of those lines."""
    sources, targets = zip(*[(pair.source, pair.target) for pair in learned_pairs()], strict=True)
    config = TokenizerConfig(kind="bpe", vocabulary=850, joint=True)
    return Tokenizer.train(list(sources), list(targets), config, seed=1, max_sentences=2 * LINES)


@cache
def trained_model() -> Transformer:
    """A model that writes the translation of each line it has learned, then the end token."""
    torch.manual_seed(1)
    vocabulary = tokenizer().source_vocabulary
    model = Transformer(ModelConfig(vocabulary, vocabulary, dropout=0.0, **SIZES))
    source = pad_rows(tokenizer().encode_source(pair.source for pair in learned_pairs()))
    target = pad_rows(tokenizer().encode_target(pair.target for pair in learned_pairs()))
    decoder_inputs = torch.cat([torch.full((LINES, 1), BOS), target[:, :-1]], dim=1)
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
