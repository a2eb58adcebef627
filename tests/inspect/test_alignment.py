"""Laws of the readings of cross-attention: each by its formula, and each of the right row."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid.data.text.word_pieces import AlignedWord
from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.alignment import align_sentences
from pellucid.interpret.studies.alignment_readings import (
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
    every_reading,
    measure_cross_attention,
    measure_readings,
    reading_strengths,
    reading_values,
)
from pellucid.interpret.trace.edits import Record
from pellucid.model import Transformer
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


def words_of_one_piece(count: int) -> list[AlignedWord]:
    return [AlignedWord(range(i, i + 1)) for i in range(count)]


def test_every_kind_is_its_formula(model: Transformer, pairs: list[EncodedPair]):
    pair = pairs[2]
    [(_, [measured])] = measure_cross_attention(model, [pair])
    record = Record(["decoder.*.cross.pattern", "decoder.*.cross.v"])
    with torch.no_grad():
        model(torch.tensor([pair.source]), torch.tensor([[BOS, *pair.target[:-1]]]), watch=record)
    heads = model.config.heads
    assert measured.shape == (3, 2 + 2 * heads, len(pair.target), len(pair.source))
    for layer in range(3):
        pattern, v = (record[f"decoder.{layer}.cross.{name}"][0] for name in ("pattern", "v"))
        weight = model.get_parameter(f"decoder.{layer}.cross.output.weight").detach()
        vectors = [pattern[h, :, :, None] * (v[h] @ weight[:, 3 * h : 3 * h + 3].T) for h in range(heads)]
        whole = sum(vectors)
        assert isinstance(whole, Tensor)
        norms = [vector.norm(dim=2) for vector in vectors]
        expected = torch.stack([whole.norm(dim=2), pattern.mean(dim=0), *norms, *pattern])
        torch.testing.assert_close(measured[layer], expected)


def test_the_output_side_writes_a_piece_and_the_input_side_reads_it(model: Transformer):
    """A row knows the pieces it has read and no other: a change of piece 2 is seen on its input side, and only later
    rows' output sides."""
    before = EncodedPair([4, 7, 9, EOS], [6, 8, 5, 10, EOS], words_of_one_piece(3), words_of_one_piece(4))
    after = replace(before, target=[6, 8, 11, 10, EOS])
    readings = every_reading(model.config)
    rows = []
    for pair in (before, after):
        [(_, [measured])] = measure_cross_attention(model, [pair])
        rows.append(reading_values(measured, pair))
    changed = (rows[0] != rows[1]).any(dim=2)
    for reading, has_changed in zip(readings, changed.tolist(), strict=True):
        assert has_changed == (
            [False, False, False, True] if reading.side == "output" else [False, False, True, True]
        ), reading


def test_planted_attention_is_read_on_the_input_side():
    """Planted weights: the row that reads word j looks at source word 3 - j alone, in layer 1 of 2."""
    pair = EncodedPair([4, 5, 6, 7, EOS], [8, 9, 10, 11, EOS], words_of_one_piece(4), words_of_one_piece(4))
    measured = torch.full((2, 4, 5, 5), 0.2)
    measured[1, :, 1:] = torch.eye(5)[[3, 2, 1, 0]]
    readings = [
        Reading(side, kind, layer, head)
        for side in SIDES
        for layer, kind, head in [
            *((n, kind, head) for n in range(2) for head in (None, 0) for kind in KINDS),
            *((None, kind, None) for kind in KINDS),
        ]
    ]
    matrices = reading_values(measured, pair)
    expected = torch.eye(4).flip(0)
    for reading, matrix in zip(readings, matrices, strict=True):
        if reading.side == "input" and reading.layer == 1:
            assert torch.equal(matrix, expected)
        elif reading.layer == 1:
            assert matrix[1:].argmax(dim=1).tolist() == [3, 2, 1]
        elif reading.layer == 0:
            torch.testing.assert_close(matrix, torch.full((4, 4), 0.2))


def test_counts_equal_links_drawn_one_by_one(model: Transformer, pairs: list[EncodedPair]):
    """With loops over words, from what was measured: sums over source pieces, means over target pieces."""
    possible = [links | {(0, 0)} for links in GOLD[:3]] + GOLD[3:]
    results = {result.reading: result for result in measure_readings(model, pairs, GOLD, possible)}
    assert list(results) == every_reading(model.config)
    heads = model.config.heads
    cases = [
        (Reading("output", "norms", 1), 1, 0, 0),
        (Reading("input", "weights", 2), 2, 1, 1),
        (Reading("input", "norms", 0, 1), 0, 2 + 1, 1),
        (Reading("output", "weights", 2, 0), 2, 2 + heads, 0),
    ]
    for reading, layer, kind, shift in cases:
        drawn = sure = in_possible = agreed = directions = 0
        for n, pair in enumerate(pairs):
            [(_, [measured])] = measure_cross_attention(model, [pair])
            values = {}
            for j, target_word in enumerate(pair.target_words):
                for i, source_word in enumerate(pair.source_words):
                    if source_word.punctuation == target_word.punctuation:
                        rows = [t + shift for t in target_word.pieces]
                        values[i, j] = sum(
                            float(measured[layer, kind, t, s]) for t in rows for s in source_word.pieces
                        ) / len(rows)
            forward = {max((v, i, j) for (i, j), v in values.items() if j == b)[1:] for b in {j for _, j in values}}
            backward = {max((v, i, j) for (i, j), v in values.items() if i == a)[1:] for a in {i for i, _ in values}}
            drawn, sure, in_possible = (
                drawn + len(forward),
                sure + len(forward & GOLD[n]),
                in_possible + len(forward & possible[n]),
            )
            agreed, directions = agreed + len(forward & backward), directions + len(forward) + len(backward)
        assert results[reading].best_source_word == LinkCounts(drawn, sure, in_possible, 7)
        assert results[reading].disagreement == pytest.approx(1 - 2 * agreed / directions)


def test_the_default_reading_aligns_translations(model: Transformer, pairs: list[EncodedPair]):
    tokenizer = small_tokenizer()
    ids = tokenizer.encode_source(SOURCES), tokenizer.encode_target(TARGETS)
    expected = align_sentences(model, tokenizer, *ids, SOURCES, TARGETS)
    assert list(default_links(model, pairs)) == expected
    drawn = [set(links) for links in expected]
    [house] = [result for result in measure_readings(model, pairs, drawn, drawn) if result.reading == DEFAULT_READING]
    assert house.mutually_best == LinkCounts(*[sum(map(len, drawn))] * 4)
    for pair, links in zip(pairs, expected, strict=True):
        values, pair_links = alignment_table(model, pair)
        assert pair_links == links
        assert tuple(values.shape) == (len(pair.target_words), len(pair.source_words))
        if pair.source_words:
            [(_, [measured])] = measure_cross_attention(model, [pair])
            all_layers = reading_strengths(reading_values(measured, pair), 3, model.config.heads)[
                every_reading(model.config).index(DEFAULT_READING)
            ]
            torch.testing.assert_close(values, all_layers)


def test_other_pairs_change_nothing(model: Transformer, pairs: list[EncodedPair]):
    together = {
        n: values
        for numbers, measured in measure_cross_attention(model, pairs)
        for n, values in zip(numbers, measured, strict=True)
    }
    for n, pair in enumerate(pairs):
        [(_, [by_itself])] = measure_cross_attention(model, [pair])
        torch.testing.assert_close(together[n], by_itself)


def test_the_mean_norm_is_over_all_pieces_but_the_end_tokens(model: Transformer, pairs: list[EncodedPair]):
    [result, *_] = [
        result for result in measure_readings(model, pairs) if result.reading == Reading("output", "norms", 1)
    ]
    norms = torch.cat(
        [
            values[1, 0, :-1, :-1].flatten()
            for _, measured in measure_cross_attention(model, pairs)
            for values in measured
        ]
    )
    assert result.mean_norm == pytest.approx(float(norms.mean()), rel=1e-5)


def test_only_whole_layers_are_chosen_by_agreement_or_norms():
    def make_result(
        side: str, kind: str, layer: int | None, head: int | None, disagreement: float, norm: float | None
    ) -> ReadingResult:
        none = LinkCounts(0, 0, 0, 0)
        return ReadingResult(Reading(side, kind, layer, head), disagreement, norm, none, none)

    rows = [
        make_result("output", "norms", 0, None, 0.3, 1.0),
        make_result("output", "norms", 1, None, 0.2, 2.0),
        make_result("output", "norms", 2, None, 0.25, 3.0),
        make_result("output", "weights", 2, None, 0.1, 9.0),
        make_result("output", "norms", 2, 0, 0.05, None),
        make_result("output", "norms", None, None, 0.01, None),
        make_result("input", "norms", 0, None, 0.4, 8.0),
    ]
    assert [result.reading for result in choose_readings(rows)] == [
        Reading("output", "norms", 1),
        Reading("output", "norms", 2),
    ]
    turned = [*rows[:-1], make_result("input", "norms", 0, None, 0.1, 1.0)]
    assert choose_readings(turned)[0].reading == Reading("input", "norms", 0)


def test_a_pair_too_long_for_the_model_is_named(model: Transformer):
    long = EncodedPair([4] * 97 + [EOS], [4, EOS], words_of_one_piece(1), words_of_one_piece(1))
    with pytest.raises(ValueError, match="line 2 has 98 pieces on a side, this model takes 97"):
        measure_readings(model, [EncodedPair([4, EOS], [4, EOS], words_of_one_piece(1), words_of_one_piece(1)), long])


def test_a_model_in_training_is_in_training_again_afterwards(model: Transformer, pairs: list[EncodedPair]):
    model.train()
    measure_readings(model, pairs)
    assert model.training
    model.eval()
