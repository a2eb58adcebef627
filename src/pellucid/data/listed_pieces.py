"""Pieces numbered by a list of their own, as Marian numbers them, beside the SentencePiece model that cuts the text."""

from collections.abc import Iterable, Sequence

from sentencepiece import SentencePieceProcessor

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The same four ids in every vocabulary: padding, unknown, start, end. No text ever encodes to one of them."""

_SPECIAL = (PAD, UNK, BOS, EOS)


class ListedPieces:
    """Text is cut by a SentencePiece model; the number of a piece is its place in a list of names.

    What is cut and not listed is unknown. What is listed and never cut, such as pieces of the other language, can still
    be written by a model. A line may begin with a mark for the language it is to be translated into, such as >>fra<<:
    that is one piece, known or not, whatever the SentencePiece model would make of it. These are MarianTokenizer's
    rules in transformers 5, but for one: the names of special pieces are text like any other.
    """

    def __init__(self, model: SentencePieceProcessor, names: Sequence[str]):
        self.model = model
        self.names = tuple(names)
        self.ids = {name: i for i, name in enumerate(names) if i not in _SPECIAL}

    def vocab_size(self) -> int:
        """Names in the list, the four special ones counted."""
        return len(self.names)

    def id_to_piece(self, number: int) -> str:
        """The name with this number."""
        return self.names[number]

    def encode(self, lines: Iterable[str], add_eos: bool, num_threads: int) -> list[list[int]]:
        """The ids of each line; TypeError, as from SentencePiece, for a line that is no text."""
        marked = [language_mark(line) for line in lines]
        cut = self.model.encode([text for _, text in marked], out_type=str, num_threads=num_threads)
        return [
            [self.ids.get(piece, UNK) for piece in (*mark, *pieces)] + [EOS] * add_eos
            for (mark, _), pieces in zip(marked, cut, strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of one sentence, without the space that stands before its first word."""
        text = self.model.decode_pieces([self.names[i] for i in ids] or [""])
        return text.replace("▁", " ").strip()  # a piece that the model does not know keeps its mark

    def serialized_model_proto(self) -> bytes:
        """The SentencePiece model; the list is not in it."""
        return self.model.serialized_model_proto()


def language_mark(line: str) -> tuple[tuple[str, ...], str]:
    """What a line begins with if that is >>...<<, and the rest.

    >>> language_mark(">>fra<< Good morning."), language_mark("Good morning.")
    ((('>>fra<<',), ' Good morning.'), ((), 'Good morning.'))
    """
    end = line.find("<<")
    if not line.startswith(">>") or end < 0:
        return (), line
    return (line[: end + 2],), line[end + 2 :]
