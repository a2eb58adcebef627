"""Which source words and target words belong together, from how far cross-attention moves the rows of the decoder.

The norms are those of Kobayashi et al. 2020. What becomes of them, and the error rates of that and of its alternatives,
stand in benchmarks/results/alignment.md.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer
from pellucid.decode.word_edges import Links
from pellucid.model import Transformer

SPOKEN_PUNCTUATION = frozenset("%‰&@#§*")
"""Punctuation, as Unicode has it, that stands for a word."""


@dataclass(frozen=True)
class AlignedWord:
    """What is aligned of a word: the pieces of its letters, without the punctuation around them; or a mark alone."""

    pieces: range
    punctuation: bool = False


def align_sentences(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    source_texts: Sequence[str],
    target_texts: Sequence[str],
) -> list[Links]:
    """The links of each sentence, from one pass over all of them by a model in evaluation mode.

    The texts are what the ids were made from, and into: they say what the words are. A sentence's links do not depend
    on the others.
    """
    found = []
    every = piece_alignments(model, sources, targets)
    for norms, source, target, *texts in zip(every, sources, targets, source_texts, target_texts, strict=True):
        read = words_without_punctuation(tokenizer.source_pieces(strip_eos(source)), texts[0])
        written = words_without_punctuation(tokenizer.target_pieces(strip_eos(target)), texts[1])
        found.append(link_words(norms, read, written))
    return found


def piece_alignments(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[Float[Tensor, "L T S"]]:
    """How far each source piece moved the row that writes each target piece, layer by layer; end marks are left out."""
    if not sources:
        return []
    return [
        norms[:, : len(strip_eos(target)), : len(strip_eos(source))].cpu()
        for norms, source, target in zip(cross_norms(model, sources, targets).unbind(1), sources, targets, strict=True)
    ]


def link_words(
    norms: Float[Tensor, "L T S"], source_words: Sequence[AlignedWord], target_words: Sequence[AlignedWord]
) -> Links:
    """The pairs in which one word is the best there is for the other.

    A layer values a pair by the product of two shares, of what the target word took and of what the source word gave,
    and the layers are added up. So a word that all look at is nobody's best, and a layer that looks everywhere says
    little (a product of two directions, as in Liang et al. 2006). A word that took or gave nothing has no link.
    """
    if not source_words or not target_words:
        return []
    return list_links(
        mark_row_and_column_maxima(link_strengths(norms_by_word(norms, source_words, target_words)).sum(dim=0))
    )


def norms_by_word(
    values: Float[Tensor, "L T S"], source_words: Sequence[AlignedWord], target_words: Sequence[AlignedWord]
) -> Float[Tensor, "L N M"]:
    """For N target and M source words: the source pieces of a word are added up, its target pieces averaged.

    Marks go with marks and words with words: between a mark and a word there is nothing.
    """
    given = torch.stack([values[..., word.pieces.start : word.pieces.stop].sum(dim=2) for word in source_words], dim=2)
    rows = [given[:, word.pieces.start : word.pieces.stop].mean(dim=1) for word in target_words]
    alike = torch.tensor(
        [[read.punctuation == written.punctuation for read in source_words] for written in target_words]
    )
    return torch.stack(rows, dim=1).nan_to_num() * alike.to(values.device)


def link_strengths(taken: Float[Tensor, "L N M"]) -> Float[Tensor, "L N M"]:
    """The share of what the target word took, times the share of what the source word gave."""
    return (taken / taken.sum(dim=2, keepdim=True) * (taken / taken.sum(dim=1, keepdim=True))).nan_to_num()


def mark_row_and_column_maxima(values: Float[Tensor, "*L N M"]) -> Bool[Tensor, "*L N M"]:
    """Whether a value is the largest of its row or of its column, and more than nothing."""
    best = torch.zeros_like(values, dtype=torch.bool)
    best.scatter_(-2, values.argmax(dim=-2, keepdim=True), True)
    best.scatter_(-1, values.argmax(dim=-1, keepdim=True), True)
    return best & (values > 0.0)


def list_links(best: Bool[Tensor, "N M"]) -> Links:
    """The pairs of a source word and a target word where it is true."""
    return sorted((i, j) for j, i in best.nonzero().tolist())


@torch.no_grad()
def cross_norms(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]], measure: "Measure | None" = None
) -> Float[Tensor, "L B *C T S"]:
    """`contribution_norms`, or another measure, in each decoder layer, for the row that writes each piece of the
    targets."""
    assert not model.training
    device = next(model.parameters()).device
    written = pad_ids([[BOS, *target[:-1]] for target in targets], device)
    outputs = {f"decoder.{n}.cross.": each.get_parameter("cross.output.weight") for n, each in enumerate(model.decoder)}
    watch = CrossNorms(outputs, measure or contribution_norms, {})
    model.decode(written, model.encode(pad_ids(sources, device)), watch=watch)
    return torch.stack(list(watch.norms.values()))


def pad_ids(rows: Sequence[list[int]], device: torch.device) -> Int[Tensor, "B S"]:
    """One sentence a row, filled up to the longest."""
    return pad_sequence([torch.tensor(ids) for ids in rows], batch_first=True, padding_value=PAD).to(device)


def strip_eos(ids: list[int]) -> list[int]:
    """The pieces without the end mark, if there is one."""
    return ids[:-1] if ids[-1:] == [EOS] else ids


Measure = Callable[[Tensor, Tensor, Tensor], Tensor]
"""What to make of the pattern, the values and the output projection of a cross-attention: `contribution_norms`, for
one."""


@dataclass
class CrossNorms:
    """A watcher that keeps, of every cross-attention, only what a measure makes of it."""

    outputs: Mapping[str, Float[Tensor, "D HE"]]
    """The output projection of each cross-attention, by the beginning of its tensors' names."""
    measure: Measure
    norms: dict[str, Float[Tensor, "B *C T S"]]
    prefix: str = ""
    v: Tensor | None = None
    seeing: bool = True

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.prefix in self.outputs and name == "v":
            self.v = value
        if self.prefix in self.outputs and name == "pattern":
            assert self.v is not None
            self.norms[self.prefix] = self.measure(value, self.v, self.outputs[self.prefix])
        return value

    def within(self, part: str) -> "CrossNorms":
        return CrossNorms(self.outputs, self.measure, self.norms, f"{self.prefix}{part}.")


def contribution_norms(
    pattern: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], output: Float[Tensor, "D HE"]
) -> Float[Tensor, "B T S"]:
    """||sum_h pattern[h, t, s] v[h, s] W_O[h]||: how far each source position moves each target row.

    The norm of Kobayashi et al. 2020, ||alpha f(x)||, with the heads of a layer added up. The vector need not be formed
    for every t and s: its length follows from the products of the H vectors v[h, s] W_O[h] of s with one another.
    """
    vectors = project_values(v.to(pattern.dtype), output.to(pattern.dtype))
    mixed = torch.einsum("bhts,bshg->bgts", pattern, vectors @ vectors.mT)
    return (mixed * pattern).sum(dim=1).clamp(min=0.0).sqrt()


def project_values(v: Float[Tensor, "B H S E"], output: Float[Tensor, "D HE"]) -> Float[Tensor, "B S H D"]:
    """v[h, s] W_O[h]: what each head would add for a source position that has all of its weight."""
    return torch.einsum("bhse,dhe->bshd", v, output.unflatten(1, (v.shape[1], v.shape[3])))


def word_piece_ranges(pieces: Sequence[str], text: str) -> list[range]:
    """For each word of `text`, split at white space, the pieces that spell it, as a range of their indices.

    A piece of white space alone goes with the word after it, one that holds parts of two words with both. Any white
    space counts that `str.split` knows, so a word may begin inside a piece, or after bytes:

    >>> word_piece_ranges(["▁the", "▁", "<0xC3>", "<0xA9>", "t\\u3000a", "▁"], "the ét\\u3000a")
    [range(0, 1), range(1, 5), range(4, 5)]
    """
    if not text.split():
        return []
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for word, _, first, last in letters_by_word(pieces, text):
        begin.setdefault(word, first)
        end[word] = last + 1
    found, after = [], 0
    for word in range(len(text.split())):
        found.append(range(min(begin.get(word, after), after), end.get(word, after)))
        after = found[-1].stop
    return found


def words_without_punctuation(pieces: Sequence[str], text: str) -> list[AlignedWord]:
    """The words of `text` without the punctuation around them.

    What follows from a full stop would otherwise be said of the word before it.

    >>> words_without_punctuation(["▁«", "No", "»,", "▁—", "▁she"], "«No», — she")  # doctest: +NORMALIZE_WHITESPACE
    [Word(pieces=range(1, 2), mark=False), Word(pieces=range(3, 4), mark=True), Word(pieces=range(4, 5), mark=False)]
    """
    letters: dict[int, list[tuple[str, int, int]]] = {}
    for word, letter, first, last in letters_by_word(pieces, text) if text.split() else ():
        letters.setdefault(word, []).append((letter, first, last))
    return [
        strip_punctuation(whole, letters.get(word, [])) for word, whole in enumerate(word_piece_ranges(pieces, text))
    ]


def strip_punctuation(whole: range, letters: Sequence[tuple[str, int, int]]) -> AlignedWord:
    """A word with the pieces `whole`; each letter comes with the first and the last piece that has a byte of it."""
    inside = [n for n, (letter, _, _) in enumerate(letters) if not is_punctuation(letter)]
    if not inside:
        return AlignedWord(whole, punctuation=bool(letters))
    first, last = inside[0], inside[-1]
    begin = letters[first][1] if first else whole.start
    return AlignedWord(range(begin, letters[last][2] + 1 if last + 1 < len(letters) else whole.stop))


def is_punctuation(letter: str) -> bool:
    """Whether it is punctuation that nobody reads out.

    >>> [is_punctuation(letter) for letter in ".»¿-%$a"]
    [True, True, True, True, False, False, False]
    """
    return unicodedata.category(letter).startswith("P") and letter not in SPOKEN_PUNCTUATION


def letters_by_word(pieces: Sequence[str], text: str) -> Iterator[tuple[int, str, int, int]]:
    """The letters the pieces spell but white space: the word of `text` each stands in, and its first and last piece."""
    letters = list(spell_letters(pieces))
    of_letters = word_indices("".join(letter for letter, _, _ in letters), text)
    solid = [each for each in letters if not each[0].isspace()]
    for word, (letter, first, last) in zip(of_letters, solid, strict=True):
        yield word, letter, first, last


def spell_letters(pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The letters the pieces spell, each with the first and the last piece that has a byte of it."""
    parts = [piece_bytes(piece) for piece in pieces]
    owners = [number for number, part in enumerate(parts) for _ in part]
    at = 0
    # A model may write bytes that are no text: each of them becomes a letter of its own.
    for letter in b"".join(parts).decode("utf-8", "surrogateescape"):
        end = at + len(letter.encode("utf-8", "surrogateescape"))
        yield letter, owners[at], owners[end - 1]
        at = end


def piece_bytes(piece: str) -> bytes:
    """What a piece adds to the text.

    >>> piece_bytes("▁a"), piece_bytes("<0x41>")
    (b' a', b'A')
    """
    byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace("▁", " ").encode()


def word_indices(written: str, text: str) -> list[int]:
    """For each letter of `written` but its white space the number of its word in `text`.

    Our pieces spell the words of their text one for one. Those of another's tokenizer, which rewrites the text before
    it cuts it, and those of a text that had its marks put back, may not: the parts that are equal decide then.

    >>> word_indices("a bc", "a bc"), word_indices("1 ⁄2 x", "½ x")
    ([0, 1, 1], [0, 0, 0, 1])
    """
    if len(written.split()) == len(text.split()):
        text = written
    there = [number for number, word in enumerate(text.split()) for _ in word]
    here, text = "".join(written.split()), "".join(text.split())
    if here == text:
        return there
    found = []
    for _, a, b, c, d in SequenceMatcher(None, here, text, autojunk=False).get_opcodes():
        found += [there[min(c + (at - a) * (d - c) // (b - a), len(there) - 1)] for at in range(a, b)]
    return found
