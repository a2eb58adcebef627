"""Laws of the readings of cross-attention: each by its formula, and each of the right row."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.alignment import AlignedWord, align_sentences
from pellucid.inspect.alignment import (
    DEFAULT_READING,
    KINDS,
    SIDES,
    EncodedPair,
    LinkCounts,
    Reading,
    ReadingResult,
    alignment_table,
    choose_readings,
    default_links,
    encode_alignment_pairs,
    existing_readings,
    measure_cross_attention,
    measure_readings,
    reading_strengths,
    reading_values,
)
from pellucid.model import Transformer
from pellucid.trace.record import Record
from tests.decode.models import random_model, small_tokenizer

SOURCES = ["The ball is blue.", "Yes.", "The black cat drank the milk.", "", "Where is the house?"]
TARGETS = ["La bola es azul.", "Sí.", "El gato negro bebió la leche.", "Sí.", "¿Dónde está la casa?"]
GOLD = [{(0, 0), (3, 3)}, {(0, 0)}, {(1, 2), (2, 1), (5, 5)}, set(), {(1, 1)}]


@pytest.fixture(scope="module")
def model() -> Transformer:
    vocabulary = small_tokenizer().source_vocabulary
    return random_model(3, vocabulary, vocabulary)


@pytest.fixture(scope="module")
def pairs() -> list[EncodedPair]:
    return encode_alignment_pairs(small_tokenizer(), SOURCES, TARGETS)


def one(count: int) -> list[AlignedWord]:
    return [AlignedWord(range(i, i + 1)) for i in range(count)]


def test_every_kind_is_its_formula(model: Transformer, pairs: list[EncodedPair]):
    pair = pairs[2]
    [(_, [found])] = measure_cross_attention(model, [pair])
    seen = Record(["decoder.*.cross.pattern", "decoder.*.cross.v"])
    with torch.no_grad():
        model(torch.tensor([pair.source]), torch.tensor([[BOS, *pair.target[:-1]]]), watch=seen)
    heads = model.config.heads
    assert found.shape == (3, 2 + 2 * heads, len(pair.target), len(pair.source))
    for layer in range(3):
        pattern, v = (seen[f"decoder.{layer}.cross.{name}"][0] for name in ("pattern", "v"))
        weight = model.get_parameter(f"decoder.{layer}.cross.output.weight").detach()
        vectors = [pattern[h, :, :, None] * (v[h] @ weight[:, 3 * h : 3 * h + 3].T) for h in range(heads)]
        whole = sum(vectors)
        assert isinstance(whole, Tensor)
        norms = [each.norm(dim=2) for each in vectors]
        expected = torch.stack([whole.norm(dim=2), pattern.mean(dim=0), *norms, *pattern])
        torch.testing.assert_close(found[layer], expected)


def test_the_output_side_is_the_row_that_writes_a_piece_and_the_input_side_the_one_that_reads_it(model: Transformer):
    """A row knows the pieces it has read and no other: a change of piece 2 is seen on its input side, and only later
    rows' output sides."""
    before = EncodedPair([4, 7, 9, EOS], [6, 8, 5, 10, EOS], one(3), one(4))
    after = replace(before, target=[6, 8, 11, 10, EOS])
    names = existing_readings(model)
    rows = []
    for pair in (before, after):
        [(_, [every])] = measure_cross_attention(model, [pair])
        rows.append(reading_values(every, pair))
    changed = (rows[0] != rows[1]).any(dim=2)
    for name, told in zip(names, changed.tolist(), strict=True):
        assert told == ([False, False, False, True] if name.side == "output" else [False, False, True, True]), name


def test_a_model_that_looks_at_what_it_has_read_is_read_on_the_input_side():
    """Planted weights: the row that reads word j looks at source word 3 - j alone, in layer 1 of 2."""
    pair = EncodedPair([4, 5, 6, 7, EOS], [8, 9, 10, 11, EOS], one(4), one(4))
    every = torch.full((2, 4, 5, 5), 0.2)
    every[1, :, 1:] = torch.eye(5)[[3, 2, 1, 0]]
    names = [
        Reading(side, kind, layer, head)
        for side in SIDES
        for layer, kind, head in [
            *((n, kind, head) for n in range(2) for head in (None, 0) for kind in KINDS),
            *((None, kind, None) for kind in KINDS),
        ]
    ]
    found = reading_values(every, pair)
    right = torch.eye(4).flip(0)
    for name, matrix in zip(names, found, strict=True):
        if name.side == "input" and name.layer == 1:
            assert torch.equal(matrix, right)
        elif name.layer == 1:
            assert matrix[1:].argmax(dim=1).tolist() == [3, 2, 1]
        elif name.layer == 0:
            torch.testing.assert_close(matrix, torch.full((4, 4), 0.2))


def test_each_count_is_that_of_links_drawn_one_by_one(model: Transformer, pairs: list[EncodedPair]):
    """With loops over words, from what was measured: sums over source pieces, means over target pieces."""
    possible = [some | {(0, 0)} for some in GOLD[:3]] + GOLD[3:]
    reads = {each.reading: each for each in measure_readings(model, pairs, GOLD, possible)}
    assert list(reads) == existing_readings(model)
    heads = model.config.heads
    tried = [
        (Reading("output", "norms", 1), 1, 0, 0),
        (Reading("input", "weights", 2), 2, 1, 1),
        (Reading("input", "norms", 0, 1), 0, 2 + 1, 1),
        (Reading("output", "weights", 2, 0), 2, 2 + heads, 0),
    ]
    for name, layer, kind, shift in tried:
        drawn = sure = maybe = both = either = 0
        for n, pair in enumerate(pairs):
            [(_, [every])] = measure_cross_attention(model, [pair])
            taken = {}
            for j, written in enumerate(pair.target_words):
                for i, read in enumerate(pair.source_words):
                    if read.punctuation == written.punctuation:
                        rows = [t + shift for t in written.pieces]
                        taken[i, j] = sum(float(every[layer, kind, t, s]) for t in rows for s in read.pieces) / len(
                            rows
                        )
            forward = {max((v, i, j) for (i, j), v in taken.items() if j == b)[1:] for b in {j for _, j in taken}}
            backward = {max((v, i, j) for (i, j), v in taken.items() if i == a)[1:] for a in {i for i, _ in taken}}
            drawn, sure, maybe = drawn + len(forward), sure + len(forward & GOLD[n]), maybe + len(forward & possible[n])
            both, either = both + len(forward & backward), either + len(forward) + len(backward)
        assert reads[name].best_source_word == LinkCounts(drawn, sure, maybe, 7)
        assert reads[name].disagreement == pytest.approx(1 - 2 * both / either)


def test_the_reading_in_use_is_what_translations_are_aligned_by(model: Transformer, pairs: list[EncodedPair]):
    tokenizer = small_tokenizer()
    ids = tokenizer.encode_source(SOURCES), tokenizer.encode_target(TARGETS)
    expected = align_sentences(model, tokenizer, *ids, SOURCES, TARGETS)
    assert list(default_links(model, pairs)) == expected
    drawn = [set(some) for some in expected]
    [house] = [each for each in measure_readings(model, pairs, drawn, drawn) if each.reading == DEFAULT_READING]
    assert house.mutually_best == LinkCounts(*[sum(map(len, drawn))] * 4)
    for pair, some in zip(pairs, expected, strict=True):
        value, found = alignment_table(model, pair)
        assert found == some
        assert tuple(value.shape) == (len(pair.target_words), len(pair.source_words))
        if pair.source_words:
            [(_, [every])] = measure_cross_attention(model, [pair])
            all_layers = reading_strengths(reading_values(every, pair), 3, model.config.heads)[
                existing_readings(model).index(DEFAULT_READING)
            ]
            torch.testing.assert_close(value, all_layers)


def test_other_pairs_change_nothing(model: Transformer, pairs: list[EncodedPair]):
    together = {
        n: each
        for numbers, some in measure_cross_attention(model, pairs)
        for n, each in zip(numbers, some, strict=True)
    }
    for n, pair in enumerate(pairs):
        [(_, [alone])] = measure_cross_attention(model, [pair])
        torch.testing.assert_close(together[n], alone)


def test_the_mean_norm_is_over_all_pieces_but_the_end_marks(model: Transformer, pairs: list[EncodedPair]):
    [found, *_] = [each for each in measure_readings(model, pairs) if each.reading == Reading("output", "norms", 1)]
    norms = torch.cat(
        [each[1, 0, :-1, :-1].flatten() for _, some in measure_cross_attention(model, pairs) for each in some]
    )
    assert found.mean_norm == pytest.approx(float(norms.mean()), rel=1e-5)


def test_the_layer_is_chosen_by_agreement_or_by_norms_among_whole_layers_only():
    def read(
        side: str, kind: str, layer: int | None, head: int | None, disagreement: float, norm: float | None
    ) -> ReadingResult:
        none = LinkCounts(0, 0, 0, 0)
        return ReadingResult(Reading(side, kind, layer, head), disagreement, norm, none, none)

    rows = [
        read("output", "norms", 0, None, 0.3, 1.0),
        read("output", "norms", 1, None, 0.2, 2.0),
        read("output", "norms", 2, None, 0.25, 3.0),
        read("output", "weights", 2, None, 0.1, 9.0),
        read("output", "norms", 2, 0, 0.05, None),
        read("output", "norms", None, None, 0.01, None),
        read("input", "norms", 0, None, 0.4, 8.0),
    ]
    assert [each.reading for each in choose_readings(rows)] == [
        Reading("output", "norms", 1),
        Reading("output", "norms", 2),
    ]
    turned = [*rows[:-1], read("input", "norms", 0, None, 0.1, 1.0)]
    assert choose_readings(turned)[0].reading == Reading("input", "norms", 0)


def test_a_pair_too_long_for_the_model_is_named(model: Transformer):
    long = EncodedPair([4] * 97 + [EOS], [4, EOS], one(1), one(1))
    with pytest.raises(ValueError, match="line 2 has 98 pieces on a side, this model takes 97"):
        measure_readings(model, [EncodedPair([4, EOS], [4, EOS], one(1), one(1)), long])


def test_a_model_in_training_is_in_training_again_afterwards(model: Transformer, pairs: list[EncodedPair]):
    model.train()
    measure_readings(model, pairs)
    assert model.training
    model.eval()
