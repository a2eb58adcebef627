"""Word alignment: links source and target words by how far cross-attention moves the rows of the decoder.

The norms are defined in Kobayashi et al. 2020. What is done with them here, and the error rates of
this method and of its alternatives, stand in benchmarks/results/alignment.md.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.data.context import count_context
from pellucid.data.term_marks import find_own_tokens, find_told_tokens
from pellucid.data.text.word_pieces import AlignedWord, words_without_punctuation
from pellucid.data.tokenizer import BOS, EOS, Tokenizer, strip_eos
from pellucid.decode.request import Links
from pellucid.decode.torch_engine import pad_sentences
from pellucid.model import Transformer
from pellucid.model.watch import Watcher


def align_sentences(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    source_texts: Sequence[str],
    target_texts: Sequence[str],
) -> list[Links]:
    """Return the links of each sentence, from one pass over all of them by a model in evaluation mode.

    `source_texts` and `target_texts` say what the words are. A sentence's links do not depend on
    the other sentences.
    """
    links, all_norms = [], piece_alignments(model, sources, targets)
    for norms, source, target, *texts in zip(all_norms, sources, targets, source_texts, target_texts, strict=True):
        # What stands before a sentence is read, but has no words in its translation.
        # The translations of marked terms have none either; what they give, their terms give.
        start, marks = count_context(source), tokenizer.term_marks
        own = [place for place in find_own_tokens(source, marks) if place >= start]
        terms = find_told_tokens(source, marks)
        if terms:
            norms = norms.clone()
        for term, told in terms:
            norms[:, :, term.start] += norms[:, :, told.start : told.stop].sum(dim=2)
        source_pieces = tokenizer.source_pieces(strip_eos([source[place] for place in own]))
        source_words = words_without_punctuation(source_pieces, texts[0])
        target_pieces = tokenizer.target_pieces(strip_eos(target))
        target_words = words_without_punctuation(target_pieces, texts[1])
        own = own[: len(own) - (source[-1:] == [EOS])]
        links.append(link_words(norms[:, :, own], source_words, target_words))
    return links


def piece_alignments(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[Float[Tensor, "L T S"]]:
    """Return how far each source piece moved the row that writes each target piece, layer by layer, without EOS."""
    if not sources:
        return []
    alignments = []
    all_norms = cross_norms(model, sources, targets).unbind(1)
    for norms, source, target in zip(all_norms, sources, targets, strict=True):
        target_length, source_length = len(strip_eos(target)), len(strip_eos(source))
        alignments.append(norms[:, :target_length, :source_length].cpu())
    return alignments


def link_words(
    norms: Float[Tensor, "L T S"],
    source_words: Sequence[AlignedWord],
    target_words: Sequence[AlignedWord],
) -> Links:
    """Return the links of a sentence: the pairs of words in which one is the best match for the other.

    A layer values a pair by the product of two shares, of what the target word took and of what the
    source word gave (a product of two directions, as in Liang et al. 2006), and the layers are
    added up. A word that took or gave nothing has no link.
    """
    # By the product, a word that all attend to is nobody's best match, and a layer that attends
    # everywhere says little.
    if not source_words or not target_words:
        return []

    strengths = link_strengths(norms_by_word(norms, source_words, target_words))
    return list_links(mark_row_and_column_maxima(strengths.sum(dim=0)))


def norms_by_word(
    values: Float[Tensor, "L T S"],
    source_words: Sequence[AlignedWord],
    target_words: Sequence[AlignedWord],
) -> Float[Tensor, "L N M"]:
    """Sum values over the pieces of each of M source words, and average over the pieces of each of N target words.

    Between punctuation and a word the value is 0.
    """
    columns: list[Float[Tensor, "L T"]] = []
    for word in source_words:
        columns.append(values[..., word.pieces.start : word.pieces.stop].sum(dim=2))
    source_sums = torch.stack(columns, dim=2)

    # A word of no pieces has a mean of NaN: `nan_to_num` below makes it 0, so that it has no link.
    rows: list[Float[Tensor, "L M"]] = []
    for word in target_words:
        rows.append(source_sums[:, word.pieces.start : word.pieces.stop].mean(dim=1))

    source_kinds = torch.tensor([word.punctuation for word in source_words])
    target_kinds = torch.tensor([word.punctuation for word in target_words])
    same_kind = target_kinds[:, None] == source_kinds[None, :]
    return torch.stack(rows, dim=1).nan_to_num() * same_kind.to(values.device)


def link_strengths(norms: Float[Tensor, "L N M"]) -> Float[Tensor, "L N M"]:
    """Return norms as shares of each target word's sum, times norms as shares of each source word's sum."""
    # 0 / 0 where a word took or gave nothing.
    shares_of_target = norms / norms.sum(dim=2, keepdim=True)
    shares_of_source = norms / norms.sum(dim=1, keepdim=True)
    return (shares_of_target * shares_of_source).nan_to_num()


def mark_row_and_column_maxima(values: Float[Tensor, "*L N M"]) -> Bool[Tensor, "*L N M"]:
    """Return whether each value is the largest of its row or of its column, and more than 0."""
    best = torch.zeros_like(values, dtype=torch.bool)
    best.scatter_(-2, values.argmax(dim=-2, keepdim=True), True)
    best.scatter_(-1, values.argmax(dim=-1, keepdim=True), True)
    return best & (values > 0.0)


def list_links(best: Bool[Tensor, "N M"]) -> Links:
    """Return the pairs (source word, target word) where `best` is true."""
    # Rows of the matrix are target words.
    return sorted((i, j) for j, i in best.nonzero().tolist())


@torch.no_grad()
def cross_norms(
    model: Transformer,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    measure: "Measure | None" = None,
) -> Float[Tensor, "L B *C T S"]:
    """Return `contribution_norms`, or another measure, of each decoder layer and row that writes a target piece."""
    assert not model.training  # dropout would change the attention
    device = next(model.parameters()).device
    # The row that reads the token before a piece writes that piece.
    decoder_inputs = pad_sentences([[BOS, *target[:-1]] for target in targets], device)
    layers, measure_layer = enumerate(model.decoder), measure or contribution_norms
    projections: dict[str, Tensor] = {}
    for n, layer in layers:
        projections[f"decoder.{n}.cross"] = layer.get_parameter("cross.output.weight")
    values: dict[str, Tensor] = {}
    norms: list[Float[Tensor, "B *C T S"]] = []

    def see(name: str, value: Tensor) -> Tensor:
        attention, _, tensor = name.rpartition(".")
        if attention in projections and tensor == "v":
            values[attention] = value  # stored until the layer shows its pattern
        elif attention in projections and tensor == "pattern":
            norms.append(measure_layer(value, values.pop(attention), projections[attention]))
        return value

    memory = model.encode(pad_sentences(list(sources), device))
    model.decode(decoder_inputs, memory, watch=Watcher(see))
    return torch.stack(norms)


# Function of the pattern, the values and the output projection of a cross-attention, such as
# `contribution_norms`.
Measure = Callable[[Tensor, Tensor, Tensor], Tensor]


def contribution_norms(
    pattern: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], output: Float[Tensor, "D HE"]
) -> Float[Tensor, "B T S"]:
    """Return ||sum_h pattern[h, t, s] v[h, s] W_O[h]||, which says how far each source position moves each target row.

    It is the norm of Kobayashi et al. 2020, ||alpha f(x)||, with the heads of a layer added up.
    """
    # The vector need not be formed for every t and s: its length follows from the products of the H
    # vectors v[h, s] W_O[h] of s with one another.
    vectors = project_values(v.to(pattern.dtype), output.to(pattern.dtype))
    mixed = torch.einsum("bhts,bshg->bgts", pattern, vectors @ vectors.mT)
    # Rounding may leave a square just below 0.
    return (mixed * pattern).sum(dim=1).clamp(min=0.0).sqrt()


def project_values(v: Float[Tensor, "B H S E"], output: Float[Tensor, "D HE"]) -> Float[Tensor, "B S H D"]:
    """Return v[h, s] W_O[h], the vector each head would add if a source position had all of its weight."""
    return torch.einsum("bhse,dhe->bshd", v, output.unflatten(1, (v.shape[1], v.shape[3])))
