"""Laws of word alignments: the formula, which word each piece belongs to, and links that are known."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.data.text.word_pieces import AlignedWord, is_punctuation, word_piece_ranges, words_without_punctuation
from pellucid.data.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from pellucid.decode.alignment import (
    align_sentences,
    contribution_norms,
    cross_norms,
    link_words,
    list_links,
    mark_row_and_column_maxima,
    piece_alignments,
)
from pellucid.demo.phrasebook import split_into_words, split_phrases
from pellucid.evaluate.alignment_rates import GoldLinks, alignment_rates
from pellucid.interpret.trace.edits import Record
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import load_bundle
from pellucid.training.loss import loss_sum
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.demo_model import DEMO, needs_demo
from tests.model.models import small_model
from tests.tolerances import assert_same_sums

law = settings(derandomize=True, deadline=None, max_examples=100)

SOURCES = [[4, 7, 9, 11, 5, EOS], [5, EOS], [12, 8, 4, 12, EOS]]
TARGETS = [[6, 6, 4, EOS], [9, 4, 7, 8, 10, EOS], [11, EOS]]

# ---------------------------------------------------------------- the norms


def test_the_norms_are_those_of_the_vectors_written_out():
    pattern = torch.rand(2, 3, 5, 7, dtype=torch.float64)
    v = torch.randn(2, 3, 7, 4, dtype=torch.float64)
    output = torch.randn(12, 12, dtype=torch.float64)
    norms = contribution_norms(pattern, v, output)
    for b, t, s in ((0, 0, 0), (1, 4, 6), (0, 3, 5), (1, 2, 1)):
        vector = sum(pattern[b, h, t, s] * (output[:, 4 * h : 4 * h + 4] @ v[b, h, s]) for h in range(3))
        assert isinstance(vector, Tensor)
        assert norms[b, t, s].item() == pytest.approx(vector.norm().item(), rel=1e-12)


@pytest.mark.parametrize("options", [{"norm": "pre"}, {"norm": "post", "positions": "rotary"}, {"tie": "none"}])
def test_vectors_from_all_source_positions_add_up_to_cross_attention(options: dict[str, Any]):
    model = small_model(**options)
    norms = cross_norms(model, [SOURCES[0]], [TARGETS[0]])
    record = Record(["decoder.*.cross.pattern", "decoder.*.cross.v", "decoder.*.cross.output"])
    with torch.no_grad():
        model(torch.tensor([SOURCES[0]]), torch.tensor([[BOS, *TARGETS[0][:-1]]]), watch=record)
    for layer in range(2):
        pattern, v, output = (record[f"decoder.{layer}.cross.{name}"] for name in ("pattern", "v", "output"))
        weight = model.get_parameter(f"decoder.{layer}.cross.output.weight").detach()
        vectors = sum(
            pattern[0, h, :, :, None] * (v[0, h] @ weight[:, 10 * h : 10 * h + 10].T) for h in range(model.config.heads)
        )
        assert isinstance(vectors, Tensor)
        bias = model.get_parameter(f"decoder.{layer}.cross.output.bias").detach()
        torch.testing.assert_close(vectors.sum(dim=1) + bias, output[0])
        torch.testing.assert_close(norms[layer, 0], vectors.norm(dim=2))


@pytest.mark.usefixtures("both_attentions")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_neighbours_and_padding_change_nothing(dtype: torch.dtype):
    model = small_model().to(dtype)
    batched = piece_alignments(model, SOURCES, TARGETS)
    assert [tuple(norms.shape) for norms in batched] == [(2, 3, 5), (2, 5, 1), (2, 1, 4)]
    assert all(bool((norms > 0).all()) for norms in batched)
    for i in range(3):
        [single] = piece_alignments(model, SOURCES[i : i + 1], TARGETS[i : i + 1])
        assert_same_sums(batched[i], single)


def test_nothing_comes_from_padding():
    norms = cross_norms(small_model(), SOURCES, TARGETS)
    assert tuple(norms.shape) == (2, 3, 6, 6)
    assert torch.equal(norms[:, 1] > 0, torch.tensor([True, True, False, False, False, False]).expand(2, 6, 6))


def test_a_target_that_was_cut_off_is_read_like_one_that_ended():
    model = small_model()
    cut = [target[:-1] for target in TARGETS]
    for a, b in zip(piece_alignments(model, SOURCES, cut), piece_alignments(model, SOURCES, TARGETS), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_target_as_long_as_the_model_takes_is_read():
    model = small_model()
    longest = [4 + i % 20 for i in range(model.config.max_positions)]
    [norms] = piece_alignments(model, [SOURCES[0]], [longest])
    assert tuple(norms.shape) == (2, 53, 5)
    assert bool((norms > 0).all())


def test_a_model_in_training_fails_an_assertion():
    with pytest.raises(AssertionError):
        cross_norms(small_model().train(), SOURCES, TARGETS)


def test_each_piece_has_the_row_that_writes_it():
    """A piece is written from those before it: changing the last changes no row, the first all but its own."""
    model = small_model()
    [unchanged] = piece_alignments(model, [SOURCES[0]], [[6, 7, 4, EOS]])
    [last_changed] = piece_alignments(model, [SOURCES[0]], [[6, 7, 5, EOS]])
    [first_changed] = piece_alignments(model, [SOURCES[0]], [[8, 7, 4, EOS]])
    assert torch.equal(unchanged, last_changed)
    assert torch.equal(unchanged[:, 0], first_changed[:, 0])
    assert not torch.allclose(unchanged[:, 1:], first_changed[:, 1:], rtol=1e-3)


# ---------------------------------------------------------------- links


def words_between(*boundaries: int) -> list[AlignedWord]:
    return [AlignedWord(range(start, stop)) for start, stop in pairwise(boundaries)]


def test_the_links_one_can_find_by_hand():
    """Both rows look most at the first column; shares of row times column: .457 .067 over .257 .267."""
    matrix = torch.tensor([[[4.0, 1.0], [3.0, 2.0]]])
    assert link_words(matrix, words_between(0, 1, 2), words_between(0, 1, 2)) == [(0, 0), (1, 1)]


def test_words_of_several_pieces_add_up_on_the_source_side_and_are_averaged_on_the_target_side():
    """Words have [[3, 2], [1, 2]]: rows .6 .4 / .333 .667, columns .75 .5 / .25 .5, so .45 .2 / .083 .333."""
    matrix = torch.tensor([[[1.0, 2.0, 1.0], [2.0, 1.0, 3.0], [1.0, 0.0, 2.0]]])
    assert link_words(matrix, words_between(0, 2, 3), words_between(0, 2, 3)) == [(0, 0), (1, 1)]


def test_a_word_can_have_several_links():
    matrix = torch.tensor([[[5.0, 5.0, 1.0], [1.0, 1.0, 5.0]]])
    assert link_words(matrix, words_between(0, 1, 2, 3), words_between(0, 1, 2)) == [(0, 0), (1, 0), (2, 1)]
    assert link_words(matrix.mT, words_between(0, 1, 2), words_between(0, 1, 2, 3)) == [(0, 0), (0, 1), (1, 2)]


def test_a_layer_that_looks_everywhere_changes_no_link():
    sharp = torch.eye(3) + 0.01
    even = torch.full((3, 3), 100.0)
    assert link_words(torch.stack([even, sharp, even]), words_between(0, 1, 2, 3), words_between(0, 1, 2, 3)) == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]


def test_words_that_take_or_give_nothing_have_no_link():
    matrix = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    assert link_words(matrix, words_between(0, 1, 2), words_between(0, 1, 2)) == [(1, 0)]
    assert link_words(
        matrix, [AlignedWord(range(0)), AlignedWord(range(1, 2))], [AlignedWord(range(1)), AlignedWord(range(1, 1))]
    ) == [(1, 0)]
    assert link_words(matrix, [], words_between(0, 1, 2)) == link_words(matrix, words_between(0, 1, 2), []) == []


def test_punctuation_is_linked_with_punctuation_and_words_with_words():
    """The largest number of each row and column would link a word with punctuation."""
    matrix = torch.tensor([[[1.0, 9.0], [9.0, 1.0]]])
    word, mark = AlignedWord(range(1)), AlignedWord(range(1, 2), punctuation=True)
    assert link_words(matrix, words_between(0, 1, 2), words_between(0, 1, 2)) == [(0, 1), (1, 0)]
    assert link_words(matrix, [word, mark], [word, mark]) == [(0, 0), (1, 1)]
    assert link_words(matrix, [word], [mark]) == []


def test_punctuation_changes_no_link_between_words():
    torch.manual_seed(5)
    matrix = torch.rand(2, 4, 4)
    words_only = [AlignedWord(range(i, i + 1)) for i in range(3)]
    expected = link_words(matrix[:, :3, :3], words_only, words_only)
    mark = AlignedWord(range(3, 4), punctuation=True)
    assert link_words(matrix, [*words_only, mark], [*words_only, mark]) == [*expected, (3, 3)]


@law
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10_000))
def test_links_are_the_maxima_of_every_row_and_every_column(rows: int, columns: int, seed: int):
    values = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) - 0.1
    expected = [
        (i, j)
        for i in range(columns)
        for j in range(rows)
        if values[j, i] > 0 and (values[j, i] == values[j].max() or values[j, i] == values[:, i].max())
    ]
    assert list_links(mark_row_and_column_maxima(values)) == expected


# ---------------------------------------------------------------- which word each piece belongs to

TEXT = st.lists(
    st.one_of(
        st.sampled_from([" ", "  ", "\t", "\xa0", "\u3000", "\u2028", "\x1c", "\x85", "\u200b", "▁", "▅", "\ufdd0"]),
        st.sampled_from(
            ["the", "black", "cat", ".", "¿", "…", "犬", "😀", "<s>", "<0x41>", "ß", "İ", "é", "1", "a\xa0b"]
        ),
        st.characters(exclude_categories=["Cs"], exclude_characters="\n"),
    ),
    max_size=12,
).map("".join)

TOKENIZERS = {
    "bpe": {"kind": "bpe"},
    "unigram": {"kind": "unigram"},
    "lowercase": {"lowercase": True, "joint": False},
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    config = TokenizerConfig(**{"vocabulary": 331, **TOKENIZERS[request.param]})
    lines = [*LINES, "a\xa0b a\xa0b", "one\ttwo\tthree", "犬\u3000猫 犬\u3000猫"] * 3
    return Tokenizer.train(lines, lines, config, seed=1, max_sentences=100)


def assert_words_have_their_pieces(pieces: list[str], text: str, spell: Callable[[range], str]) -> None:
    """Assert that every word has pieces that spell it, in order, and that pieces between words are white space."""
    ranges = word_piece_ranges(pieces, text)
    assert len(ranges) == len(text.split())
    for word, span in zip(text.split(), ranges, strict=True):
        assert word in spell(span)
    for before, after in pairwise(ranges):
        assert 0 <= before.start < before.stop
        assert before.stop - 1 <= after.start <= before.stop
    covered = {i for span in ranges for i in span}
    assert not ranges or covered >= set(range(ranges[-1].stop))
    assert not spell(range(ranges[-1].stop if ranges else 0, len(pieces))).split()


@law
@given(TEXT)
@example("a\xa0b\u3000c\td  。\u3000e ▁ ok\u2028")
@example(" \ufdd01 ▁▁  x")
@example("\u3000\xa0")
def test_every_word_of_a_text_has_the_pieces_that_spell_it(tokenizer: Tokenizer, text: str):
    normalized = text.lower() if tokenizer.config.lowercase else text
    [source], [target] = tokenizer.encode_source([text]), tokenizer.encode_target([text])
    assert_words_have_their_pieces(
        tokenizer.source_pieces(source[:-1]),
        normalized,
        lambda span: tokenizer.decode_source(source[span.start : span.stop]),
    )
    assert_words_have_their_pieces(
        tokenizer.target_pieces(target[:-1]),
        normalized,
        lambda span: tokenizer.decode_target(target[span.start : span.stop]),
    )
    assert len(word_piece_ranges(tokenizer.source_pieces(source[:-1]), text)) == len(text.split())


@law
@given(
    st.lists(st.one_of(st.integers(4, 330), st.integers(4, 259), st.sampled_from([4 + 0xC2, 4 + 0xA0])), max_size=15)
)
@example([4 + 0xE3, 4 + 0x80, 4 + 0x80, 4 + 0xE3, 4 + 0x80, 300, 4 + 0xC0, 4 + 0xA0, 4 + 0xED, 4 + 0xA0, 4 + 0x80])
def test_every_word_a_model_writes_has_its_pieces_even_of_bytes_that_are_no_text(tokenizer: Tokenizer, ids: list[int]):
    ids = [i for i in ids if i < tokenizer.target_vocabulary]
    text = tokenizer.decode_target(ids)
    assert_words_have_their_pieces(
        tokenizer.target_pieces(ids), text, lambda span: tokenizer.decode_target(ids[span.start : span.stop])
    )


@pytest.mark.parametrize(
    ("pieces", "text", "expected"),
    [
        ("▁1 ⁄ 2 ▁x", "½ x", [range(3), range(3, 4)]),  # compatibility forms taken apart
        ("▁a ▁b ▁c", "a\u200bb c", [range(2), range(2, 3)]),  # a character of no width taken for a space
        ("▁the <unk> ▁dog", "the 猫 dog", [range(1), range(1, 2), range(2, 3)]),  # and with it, the space is unknown
        ("▁Hola ▁Ana", "Hola <b> Ana </b>", [range(1), range(1, 1), range(1, 2), range(2, 2)]),  # marks put back
        ("▁Hola ▁Ana", "Hola Ana<br />", [range(1), range(1, 2), range(2, 2)]),
        (">>fra<< ▁Good", ">>fra<<Good", [range(2)]),
        ("▁ ▁", "x", [range(0)]),
    ],
)
def test_pieces_that_do_not_spell_the_text_are_matched_with_it(pieces: str, text: str, expected: list[range]):
    ranges = word_piece_ranges(pieces.split(" "), text)
    assert [list(span) for span in ranges] == [list(span) for span in expected]


@law
@given(TEXT)
@example("«No», ... (¿sí?) 5% -3 don't 50 % &")
def test_words_without_punctuation_have_the_pieces_of_their_letters(tokenizer: Tokenizer, text: str):
    [source] = tokenizer.encode_source([text])
    pieces = tokenizer.source_pieces(source[:-1])
    ranges, bare_words = word_piece_ranges(pieces, text), words_without_punctuation(pieces, text)
    assert len(bare_words) == len(ranges)
    for word, span, bare in zip(text.split(), ranges, bare_words, strict=True):
        assert span.start <= bare.pieces.start < bare.pieces.stop <= span.stop
        are_marks = [is_punctuation(letter) for letter in word]
        assert bare.punctuation == all(are_marks)
        if bare.punctuation or not (are_marks[0] or are_marks[-1]):
            assert bare.pieces == span
        first, last = (
            (0, len(word)) if all(are_marks) else (are_marks.index(False), len(word) - are_marks[::-1].index(False))
        )
        letters = word[first:last].lower() if tokenizer.config.lowercase else word[first:last]
        assert letters in tokenizer.decode_source(source[bare.pieces.start : bare.pieces.stop])


def test_punctuation_is_taken_from_words_and_a_mark_alone_stays():
    words = words_without_punctuation(
        ["▁«", "No", "»,", "▁—", "▁5", "%", ".", "▁don", "'", "t", "▁("], "«No», — 5%. don't ("
    )
    assert words == [
        AlignedWord(range(1, 2)),
        AlignedWord(range(3, 4), punctuation=True),
        AlignedWord(range(4, 6)),
        AlignedWord(range(7, 10)),
        AlignedWord(range(10, 11), punctuation=True),
    ]
    assert words_without_punctuation(["▁Hola"], "Hola <b> Ana")[1:] == [
        AlignedWord(range(1, 1)),
        AlignedWord(range(1, 1)),
    ]


def test_sentences_are_aligned_from_end_to_end():
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary).double()
    sources, targets = (
        ["The black\u3000cat.", "Where?", "Yes.", "The ball"],
        ["El gato negro.", "", "Sí", "La\tbola es"],
    )
    source_ids, target_ids = tokenizer.encode_source(sources), tokenizer.encode_target(targets)
    alignments = align_sentences(model, tokenizer, source_ids, target_ids, sources, targets)
    for source, target, links in zip(sources, targets, alignments, strict=True):
        assert links == sorted(set(links))
        assert {j for _, j in links} == set(range(len(target.split())))
        assert {i for i, _ in links} == (set(range(len(source.split()))) if target else set())
    one_by_one = [
        align_sentences(model, tokenizer, source_ids[i:], target_ids[i:], sources[i:], targets[i:])[0] for i in range(4)
    ]
    assert one_by_one == alignments
    assert align_sentences(model, tokenizer, [], [], [], []) == []


# ---------------------------------------------------------------- links that are known

VOCABULARY = 17


def swapped_order(source: list[int]) -> list[int]:
    """Return the indices in an order where each word of some kinds changed places with the next of the other kinds."""
    order, i = [], 0
    while i < len(source):
        step = 2 if source[i] < 9 and any(piece >= 9 for piece in source[i + 1 : i + 2]) else 1
        order += reversed(range(i, i + step))
        i += step
    return order


TASKS = {  # for each target piece the index of its source piece, and what becomes of that piece
    "reverse": (lambda source: list(range(len(source)))[::-1], lambda piece: piece),
    "lexicon with swaps": (swapped_order, lambda piece: 4 + 5 * piece % 13),
}


def draw_pairs(task: str, count: int, generator: torch.Generator) -> tuple[list[list[int]], list[list[int]], list[set]]:
    """Draw sentences of four to seven pieces, and return them with their translations and the links."""
    order, translate = TASKS[task]
    lengths = torch.randint(4, 8, (count,), generator=generator).tolist()
    sources = [torch.randint(4, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]
    targets = [[translate(source[i]) for i in order(source)] for source in sources]
    gold = [{(i, j) for j, i in enumerate(order(source))} for source in sources]
    return [[*source, EOS] for source in sources], [[*target, EOS] for target in targets], gold


def pad_rows(sentences: list[list[int]]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sentences], batch_first=True)


@pytest.mark.parametrize(
    ("task", "norm"), [("reverse", "pre"), pytest.param("lexicon with swaps", "post", marks=pytest.mark.slow)]
)
def test_the_links_of_a_tiny_model_show_what_it_learned(task: str, norm: str):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    config = ModelConfig(VOCABULARY, VOCABULARY, 32, 64, 2, 1, 2, dropout=0.0, norm=norm)  # pyright: ignore[reportArgumentType]
    model = Transformer(config)
    steps = 300 if task == "lexicon with swaps" else 200
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min((step + 1) / 50, 1 - step / steps)
        sources, targets, _ = draw_pairs(task, 32, generator)
        labels = pad_rows(targets)
        states = model.decode(pad_rows([[BOS, *ids[:-1]] for ids in targets]), model.encode(pad_rows(sources)))
        loss = loss_sum(states.flatten(0, 1), model.output_embedding.weight, labels.flatten(), 0.1) / labels.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    sources, targets, gold = draw_pairs(task, 101, torch.Generator().manual_seed(3))
    links = []
    for source, target, norms in zip(sources, targets, piece_alignments(model.eval(), sources, targets), strict=True):
        links.append(set(link_words(norms, words_between(*range(len(source))), words_between(*range(len(target))))))
    rate = alignment_rates(links, GoldLinks(gold, gold)).aer
    assert rate is not None
    assert rate <= 0.05


@needs_demo
@pytest.mark.slow  # a tiny model that learns in seconds is held to its links, above
def test_the_demo_model_aligns_its_phrases():
    phrases = split_phrases(train=0, dev=0, test=211).test
    sources, targets = [phrase.source for phrase in phrases], [phrase.target for phrase in phrases]
    spaced_sources, spaced_targets = (
        [" ".join(split_into_words(text)) for text in side] for side in (sources, targets)
    )
    model = load_bundle(DEMO / "best")

    ids = model.tokenizer.encode_source(sources), model.tokenizer.encode_target(targets)
    links = align_sentences(model.model, model.tokenizer, *ids, spaced_sources, spaced_targets)

    gold = [set(phrase.links) for phrase in phrases]
    rate = alignment_rates([set(pairs) for pairs in links], GoldLinks(gold, gold)).aer
    assert rate is not None
    assert rate < 0.05
