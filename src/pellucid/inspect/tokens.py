"""How a tokenizer cuts a text: what it makes of it first, its pieces, their ids, and the text again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, read_pieces
from pellucid.trace.facts import TraceSide
from pellucid.trace.provenance import make_side

MANY_PIECES = 3
"""Pieces of a word above which it is told, as of a rare one."""

SIDES = ("source", "target")


@dataclass(frozen=True)
class CutText(TraceSide):
    """A text in pieces, as a trace has it, and `back`, the text that these pieces give again."""

    back: str

    @property
    def many(self) -> list[tuple[str, int]]:
        """Words that were cut into more than `MANY_PIECES` pieces, and into how many."""
        texts = self.text.split()
        counts = [self.words.count(number) for number in range(len(texts))]
        return [(word, count) for word, count in zip(texts, counts, strict=True) if count > MANY_PIECES]


Cutter = Callable[[str], CutText]
"""What cuts a text."""


def cutter_of_tokenizer(tokenizer: Tokenizer, side: str = "source") -> Cutter:
    """As a model reads its source, or its target; ValueError for another side."""
    if side not in SIDES:
        raise ValueError(f"side is {side!r}, it must be source or target")
    encode, name, decode = (getattr(tokenizer, f"{verb}") for verb in tokenizer_methods(side))
    processor = getattr(tokenizer, side)
    normalise = make_normaliser(getattr(processor, "model", processor), tokenizer.lowercase)

    def cut(text: str) -> CutText:
        [ids] = encode([text])
        found = make_side(name(ids), ids, text, normalise(text))
        return CutText(**vars(found), back=decode(ids))

    return cut


def tokenizer_methods(side: str) -> tuple[str, str, str]:
    """What the methods of a side are called."""
    return f"encode_{side}", f"{side}_pieces", f"decode_{side}"


def make_normaliser(processor: Any, lowercase: bool) -> Callable[[str], str]:
    """What a SentencePiece model makes of a text before it cuts it, with spaces where it has ▁."""
    return lambda text: processor.normalize(text.lower() if lowercase else text).replace("▁", " ").strip()


def cutter_of_file(path: str | Path) -> Cutter:
    """A SentencePiece model by itself, whoever made it: no mark is added at the end. ValueError for another file."""
    processor, _ = read_pieces(Path(path))
    marks = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
    normalise = make_normaliser(processor, lowercase=False)

    def cut(text: str) -> CutText:
        ids = processor.encode(text)
        pieces = [processor.id_to_piece(i) for i in ids]
        # side_of knows our numbers of the marks; a stranger's piece with such a number is a piece like any other.
        known = [UNK if i == marks[1] else -1 for i in ids] if marks != (PAD, UNK, BOS, EOS) else ids
        found = make_side(pieces, known, text, normalise(text))
        return CutText(**{**vars(found), "ids": ids}, back=processor.decode(ids))

    return cut


def count_words_and_pieces(cuts: Sequence[CutText]) -> tuple[int, int, int]:
    """Words, pieces that are no marks, and unknown pieces of several texts."""
    words = sum(len(cut.text.split()) for cut in cuts)
    pieces = sum(word is not None for cut in cuts for word in cut.words)
    return words, pieces, sum(sum(cut.unknown) for cut in cuts)
