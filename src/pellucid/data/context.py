"""Context: what a source has before its sentence, such as the sentences before it (`data.context`)."""

from collections import deque
from collections.abc import Sequence

from pellucid.data.tokenizer import BOS, Tokenizer


class DocumentReader:
    """Reads the sentences of documents in order, and knows the last `count` before each; a blank one ends a document.

    >>> reader = DocumentReader(1)
    >>> [reader.take(line) for line in ["The ball is red.", "It is big.", "", "It is cold."]]
    ['', 'The ball is red.', 'It is big.', '']
    """

    def __init__(self, count: int):
        self.sentences = deque[str](maxlen=count)

    def take(self, sentence: str) -> str:
        """Return the context of the next sentence: those before it in its document, joined by spaces."""
        context = " ".join(self.sentences)
        if sentence.strip():
            self.sentences.append(sentence)
        else:
            self.sentences.clear()
        return context


# A sentence has no line feed, so that one can stand between it
# and its context wherever pairs are text.
def join_context(context: str, sentence: str) -> str:
    """Return the text of a source with its context."""
    return f"{context}\n{sentence}" if context else sentence


def split_context(source: str) -> tuple[str, str]:
    """Return the context of a source, empty where there is none, and its sentence."""
    context, _, sentence = source.rpartition("\n")
    return context, sentence


def encode_with_context(tokenizer: Tokenizer, sources: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each source: its context and BOS, if it has a context, then its sentence and EOS.

    BOS stands in no source otherwise, so it marks the sentence
    to translate without a piece of its own.
    """
    # Most corpora have none, and may be large: they are not taken apart.
    if not any("\n" in source for source in sources):
        return tokenizer.encode_source(sources)
    contexts, sentences = zip(*map(split_context, sources), strict=True)
    before, ids = encode_contexts(tokenizer, contexts), tokenizer.encode_source(sentences)
    return [[*context, *sentence] for context, sentence in zip(before, ids, strict=True)]


def encode_contexts(tokenizer: Tokenizer, contexts: Sequence[str]) -> list[list[int]]:
    """Return what each source begins with: the token ids of its context and BOS, or nothing where that is empty."""
    if not any(contexts):
        return [[] for _ in contexts]
    encoded: list[list[int]] = []
    for context, ids in zip(contexts, tokenizer.encode_source(contexts), strict=True):
        encoded.append([*ids[:-1], BOS] if context else [])
    return encoded


def count_context(source: Sequence[int]) -> int:
    """Return how many of the token ids of a source are context or a language to write, the BOS after it among them."""
    return source.index(BOS) + 1 if BOS in source else 0


def read_after_similar(source: Sequence[int], similar: Sequence[int], mark: int) -> list[int]:
    """Return a source with the translation of a similar sentence before it, without EOS, and a mark behind that.

    It stands where a context stands, before BOS.

    >>> read_after_similar([10, 11, 3], [20, 21], 5), read_after_similar([7, 2, 10, 3], [20], 5)
    ([20, 21, 5, 2, 10, 11, 3], [20, 5, 7, 2, 10, 3])
    """
    has_context = count_context(source) > 0
    return [*similar, mark, *([] if has_context else [BOS]), *source]
