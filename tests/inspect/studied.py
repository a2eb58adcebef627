"""Sentence pairs for studies of heads, and patterns made by hand."""

import torch
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.interpret.studies.pattern_measures import BatchSide, PieceFrequencies, StudyPairs, encode_study_pairs
from pellucid.model import ModelConfig
from tests.decode.models import small_tokenizer

SOURCES = ["The ball is blue.", "Yes.", "The black cat drank the milk.", "Where is the house?", "the dog drank"]
TARGETS = ["La bola es azul.", "Sí.", "El gato negro bebió la leche.", "¿Dónde está la casa?", "el perro bebió"]


def small_pairs(config: ModelConfig) -> StudyPairs:
    """Sentence pairs of five lengths, so that every batch has padding."""
    return encode_study_pairs(small_tokenizer(), config, SOURCES, TARGETS)


def source_side(lengths: list[int], vocabulary: int = 101, seed: int = 1) -> BatchSide:
    """Random pieces from 4 on, the end token last, then padding; each piece a word.

    Piece i stands i times in the text, and none is common.
    """
    torch.manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths) + 1), PAD)
    words = torch.full_like(ids, -1)
    for row, numbers, length in zip(ids, words, lengths, strict=True):
        row[:length] = 4 + torch.randperm(vocabulary - 4)[:length]
        row[length] = EOS
        numbers[:length] = torch.arange(length)
    counts = torch.arange(vocabulary).float()
    return BatchSide(
        ids, words, torch.arange(ids.shape[1]), PieceFrequencies(counts, torch.zeros(vocabulary, dtype=torch.bool))
    )


def target_side(lengths: list[int]) -> BatchSide:
    """Random pieces after a start token, as a decoder reads them."""
    source = source_side(lengths)
    ids, words = torch.roll(source.ids, 1, dims=1), torch.roll(source.words, 1, dims=1)
    ids[ids == EOS] = PAD
    ids[:, 0], words[:, 0] = BOS, -1
    return BatchSide(ids, words, torch.arange(ids.shape[1]) - 1, source.commonness)


def random_pattern(queries: BatchSide, keys: BatchSide, heads: int, causal: bool = False, seed: int = 1) -> Tensor:
    """Random weights that add up to 1 over the keys that may be read."""
    generator = torch.Generator().manual_seed(seed)
    shape = len(keys.ids), heads, queries.ids.shape[1], keys.ids.shape[1]
    allowed = keys.not_padding[:, None, None, :].expand(shape)
    if causal:
        allowed = allowed & (keys.positions[None, :] <= queries.positions[:, None])
    scores = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)


def shifted_pattern(side: BatchSide, offset: int) -> Tensor:
    """A head that reads the piece at an offset; the end token where there is no such piece."""
    length = side.ids.shape[1]
    pattern = torch.zeros(len(side.ids), 1, length, length, dtype=torch.float64)
    for row, is_piece in zip(pattern[:, 0], side.not_special.tolist(), strict=True):
        pieces = sum(is_piece)
        for query in range(length):
            key = query + offset
            row[query, key if 0 <= key < pieces else pieces] = 1.0
    return pattern
