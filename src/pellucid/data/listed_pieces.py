"""Vocabularies as Marian has them: a SentencePiece model cuts the text, and a list beside it gives the ids."""

from collections.abc import Iterable, Sequence

from sentencepiece import SentencePieceProcessor

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of the special tokens in every vocabulary: padding, unknown, start, end. No text ever encodes to one of them."""

_SPECIAL = (PAD, UNK, BOS, EOS)


class ListedPieces:
    """A SentencePiece model with a list of pieces, in which the index of a piece is its id.

    A piece of the model that is not listed is unknown. A piece of the list that the model never cuts, such as one of
    the other language, can still be predicted. A line may begin with the code of the language it is to be translated
    into, such as >>fra<<: that is one piece, known or not, however the SentencePiece model would cut it. These are the
    rules of MarianTokenizer in transformers 5, except that the names of special tokens are text like any other.
    """

    def __init__(self, model: SentencePieceProcessor, names: Sequence[str]):
        self.model = model
        self.names = tuple(names)
        # Without the special tokens: a text that spells "</s>" must not end the sentence.
        self.ids = {name: i for i, name in enumerate(names) if i not in _SPECIAL}

    def vocab_size(self) -> int:
        """Return the number of pieces in the list, including the four special tokens."""
        return len(self.names)

    def id_to_piece(self, number: int) -> str:
        """Return the piece with this id."""
        return self.names[number]

    def encode(self, lines: Iterable[str], add_eos: bool, num_threads: int) -> list[list[int]]:
        """Return the ids of each line; TypeError, as from SentencePiece, for a line that is not a text."""
        marked = [language_mark(line) for line in lines]
        cut = self.model.encode([text for _, text in marked], out_type=str, num_threads=num_threads)
        return [
            [self.ids.get(piece, UNK) for piece in (*mark, *pieces)] + [EOS] * add_eos
            for (mark, _), pieces in zip(marked, cut, strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of one sentence, without the space before its first word."""
        text = self.model.decode_pieces([self.names[i] for i in ids] or [""])
        return text.replace("▁", " ").strip()  # a piece that the model does not know keeps its "▁"

    def serialized_model_proto(self) -> bytes:
        """Return the bytes of the SentencePiece model, which do not contain the list."""
        return self.model.serialized_model_proto()


def language_mark(line: str) -> tuple[tuple[str, ...], str]:
    """Split a line into the language code >>...<< that it may begin with, and the rest.

    >>> language_mark(">>fra<< Good morning."), language_mark("Good morning.")
    ((('>>fra<<',), ' Good morning.'), ((), 'Good morning.'))
    """
    end = line.find("<<")
    if not line.startswith(">>") or end < 0:
        return (), line
    return (line[: end + 2],), line[end + 2 :]
