"""Which source words and target words belong together, from how far cross-attention moves the rows of the decoder.

The norms are those of Kobayashi et al. 2020. What becomes of them, and the error rates of that and of its alternatives,
stand in benchmarks/results/alignment.md.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer
from pellucid.model import Transformer

Links = list[tuple[int, int]]
"""Pairs of a source word and a target word, sorted; words are split at white space and counted from 0."""


def align(
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
        read = words(tokenizer.source_pieces(without_end(source)), texts[0])
        written = words(tokenizer.target_pieces(without_end(target)), texts[1])
        found.append(links(norms, read, written))
    return found


def piece_alignments(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[Float[Tensor, "L T S"]]:
    """How far each source piece moved the row that writes each target piece, layer by layer; end marks are left out."""
    if not sources:
        return []
    return [
        norms[:, : len(without_end(target)), : len(without_end(source))].cpu()
        for norms, source, target in zip(cross_norms(model, sources, targets).unbind(1), sources, targets, strict=True)
    ]


def links(norms: Float[Tensor, "L T S"], source_words: Sequence[range], target_words: Sequence[range]) -> Links:
    """The pairs in which one word is the best there is for the other; the words are ranges of pieces.

    The source pieces of a word are added up, its target pieces averaged. A layer values a pair by the product of two
    shares, of what the target word took and of what the source word gave, and the layers are added up. So a word that
    all look at is nobody's best, and a layer that looks everywhere says little (a product of two directions, as in
    Liang et al. 2006). A word that took or gave nothing has no link.
    """
    if not source_words or not target_words:
        return []
    given = torch.stack([norms[..., word.start : word.stop].sum(dim=2) for word in source_words], dim=2)
    taken = torch.stack([given[:, word.start : word.stop].mean(dim=1) for word in target_words], dim=1).nan_to_num()
    shares = taken / taken.sum(dim=2, keepdim=True) * (taken / taken.sum(dim=1, keepdim=True))
    value = shares.nan_to_num().sum(dim=0)
    best = torch.zeros_like(value, dtype=torch.bool)
    best.scatter_(0, value.argmax(dim=0, keepdim=True), True)
    best.scatter_(1, value.argmax(dim=1, keepdim=True), True)
    return sorted((i, j) for j, i in (best & (value > 0.0)).nonzero().tolist())


@torch.no_grad()
def cross_norms(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> Float[Tensor, "L B T S"]:
    """`moved` in each decoder layer, for the row that writes each piece of the targets."""
    assert not model.training
    device = next(model.parameters()).device
    written = rectangle([[BOS, *target[:-1]] for target in targets], device)
    outputs = {f"decoder.{n}.cross.": each.get_parameter("cross.output.weight") for n, each in enumerate(model.decoder)}
    watch = CrossNorms(outputs, {})
    model.decode(written, model.encode(rectangle(sources, device)), watch=watch)
    return torch.stack(list(watch.found.values()))


def rectangle(rows: Sequence[list[int]], device: torch.device) -> Int[Tensor, "B S"]:
    """One sentence a row, filled up to the longest."""
    return pad_sequence([torch.tensor(ids) for ids in rows], batch_first=True, padding_value=PAD).to(device)


def without_end(ids: list[int]) -> list[int]:
    """The pieces without the end mark, if there is one."""
    return ids[:-1] if ids[-1:] == [EOS] else ids


@dataclass
class CrossNorms:
    """A watcher that keeps, of every cross-attention, only what `moved` makes of it."""

    outputs: Mapping[str, Float[Tensor, "D D"]]
    """The output projection of each cross-attention, by the beginning of its tensors' names."""
    found: dict[str, Float[Tensor, "B T S"]]
    place: str = ""
    v: Tensor | None = None
    seeing: bool = True

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.place in self.outputs and name == "v":
            self.v = value
        if self.place in self.outputs and name == "pattern":
            assert self.v is not None
            self.found[self.place] = moved(value, self.v, self.outputs[self.place])
        return value

    def within(self, part: str) -> "CrossNorms":
        return CrossNorms(self.outputs, self.found, f"{self.place}{part}.")


def moved(
    pattern: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], output: Float[Tensor, "D D"]
) -> Float[Tensor, "B T S"]:
    """||sum_h pattern[h, t, s] v[h, s] W_O[h]||: how far each source position moves each target row.

    The norm of Kobayashi et al. 2020, ||alpha f(x)||, with the heads of a layer added up. The vector need not be formed
    for every t and s: its length follows from the products of the H vectors v[h, s] W_O[h] of s with one another.
    """
    heads = v.shape[1]
    vectors = torch.einsum("bhse,dhe->bshd", v.to(pattern.dtype), output.to(pattern.dtype).unflatten(1, (heads, -1)))
    mixed = torch.einsum("bhts,bshg->bgts", pattern, vectors @ vectors.mT)
    return (mixed * pattern).sum(dim=1).clamp(min=0.0).sqrt()


def words(pieces: Sequence[str], text: str) -> list[range]:
    """For each word of `text`, split at white space, the pieces that spell it, as a range of their indices.

    A piece of white space alone goes with the word after it, one that holds parts of two words with both. Any white
    space counts that `str.split` knows, so a word may begin inside a piece, or after bytes:

    >>> words(["▁the", "▁", "<0xC3>", "<0xA9>", "t\\u3000a", "▁"], "the ét\\u3000a")
    [range(0, 1), range(1, 5), range(4, 5)]
    """
    if not text.split():
        return []
    letters = list(spelled(pieces))
    of_letters = numbers("".join(letter for letter, _, _ in letters), text)
    solid = [(first, last) for letter, first, last in letters if not letter.isspace()]
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for word, (first, last) in zip(of_letters, solid, strict=True):
        begin.setdefault(word, first)
        end[word] = last + 1
    found, after = [], 0
    for word in range(len(text.split())):
        found.append(range(min(begin.get(word, after), after), end.get(word, after)))
        after = found[-1].stop
    return found


def spelled(pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The letters the pieces spell, each with the first and the last piece that has a byte of it."""
    parts = [spelling(piece) for piece in pieces]
    owners = [number for number, part in enumerate(parts) for _ in part]
    at = 0
    # A model may write bytes that are no text: each of them becomes a letter of its own.
    for letter in b"".join(parts).decode("utf-8", "surrogateescape"):
        end = at + len(letter.encode("utf-8", "surrogateescape"))
        yield letter, owners[at], owners[end - 1]
        at = end


def spelling(piece: str) -> bytes:
    """What a piece adds to the text.

    >>> spelling("▁a"), spelling("<0x41>")
    (b' a', b'A')
    """
    byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace("▁", " ").encode()


def numbers(written: str, text: str) -> list[int]:
    """For each letter of `written` but its white space the number of its word in `text`.

    Our pieces spell the words of their text one for one. Those of another's tokenizer, which rewrites the text before
    it cuts it, and those of a text that had its marks put back, may not: the parts that are equal decide then.

    >>> numbers("a bc", "a bc"), numbers("1 ⁄2 x", "½ x")
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
