"""The lexicon of shortlists: IBM model 1 against plain loops, what a shortlist allows, and its file."""

from collections import defaultdict
from itertools import islice, pairwise
from math import log

import ctranslate2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.lines import read_lines
from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.demo.phrasebook import generate_phrases, split_into_words
from pellucid.interop import shortlists as module
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.shortlists import (
    Lexicon,
    Shortlist,
    likeliest_targets,
    make_shortlist,
    measure_coverage,
    read_vmap,
    train_lexicon,
    write_vmap,
)
from pellucid.store.directory import load_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.demo_model import DEMO, needs_demo


def make_dict(table: Lexicon) -> dict[tuple[int, int], float]:
    return {(s, t): p for s, t, p in zip(table.source.tolist(), table.target.tolist(), table.probability, strict=True)}


def train_by_loops(sources, targets, iterations):
    """Model 1 with dictionaries."""
    p: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for t in target[:-1]:
                total = sum(p[s, t] for s in source)
                for s in source:
                    counts[s, t] += p[s, t] / total
                    totals[s] += p[s, t] / total
        p = defaultdict(float, {(s, t): count / totals[s] for (s, t), count in counts.items()})
    return dict(p)


sides = st.lists(st.integers(4, 9), max_size=6).map(lambda ids: [*ids, EOS])
corpora = st.lists(st.tuples(sides, sides), min_size=1, max_size=12)


def test_two_iterations_come_out_as_by_hand():
    # 5 is written 7, twice; 6 is written 8; the end token (3) is the empty word. First all are shared in halves, so
    # p(7|3) = 2/3 and p(8|3) = 1/3. Then 7 is shared as 1 : 2/3 and 8 as 1 : 1/3, so the empty word gets
    # 2 * 2/5 = 4/5 of 7 and 1/4 of 8: p(7|3) = 16/21 and p(8|3) = 5/21.
    table = make_dict(train_lexicon([[5, 3], [6, 3], [5, 3]], [[7, 3], [8, 3], [7, 3]], iterations=2))
    assert table == {(5, 7): 1.0, (6, 8): 1.0, (3, 7): pytest.approx(16 / 21), (3, 8): pytest.approx(5 / 21)}


@settings(max_examples=60, deadline=None)
@given(corpus=corpora, chunk=st.integers(1, 40))
def test_the_table_is_that_of_plain_loops_whatever_the_chunks(corpus, chunk):
    sources, targets = [s for s, _ in corpus], [t for _, t in corpus]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LINKS_AT_ONCE", chunk)
        table = make_dict(train_lexicon(sources, targets, iterations=3))
    assert table == pytest.approx(train_by_loops(sources, targets, iterations=3))


@settings(max_examples=30, deadline=None)
@given(corpora)
def test_each_iteration_makes_the_corpus_likelier(corpus):
    sources, targets = [s for s, _ in corpus], [t for _, t in corpus]
    likelihoods = []
    for n in range(1, 6):
        p = make_dict(train_lexicon(sources, targets, iterations=n))
        likelihoods.append(sum(log(sum(p[s, t] for s in source)) for source, target in corpus for t in target[:-1]))
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(likelihoods))


def test_of_a_large_corpus_every_nth_pair_is_read():
    draw = np.random.default_rng(1)
    sources, targets = ([[*draw.integers(4, 30, size=5).tolist(), EOS] for _ in range(40)] for _ in range(2))
    lexicon = train_lexicon(sources, targets, most_links=400)  # 40 pairs of 6 * 5 links: every third is read
    assert make_dict(lexicon) == make_dict(train_lexicon(sources[::3], targets[::3]))


def test_no_pair_at_all_makes_an_empty_table():
    assert make_dict(train_lexicon([[EOS]], [[EOS]])) == {}
    assert likeliest_targets(train_lexicon([], []), 3) == {}


def test_words_of_the_phrasebook_find_their_translations():
    pairs = list(islice(generate_phrases(1), 3000))
    ids: dict[str, int] = defaultdict(lambda: len(ids) + 4)
    sources, targets = (
        [[*(ids[word] for word in split_into_words(text.lower())), EOS] for text in side]
        for side in ((pair.source for pair in pairs), (pair.target for pair in pairs))
    )
    first = likeliest_targets(train_lexicon(sources, targets), 1)
    pairs_of_words = {"cat": "gato", "dog": "perro", "water": "agua", "milk": "leche", "house": "casa", "and": "y"}
    assert {en: ids[es] in first[ids[en]] for en, es in pairs_of_words.items()} == dict.fromkeys(pairs_of_words, True)


@pytest.mark.parametrize("joint", [True, False])
@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=20))
def test_any_text_can_be_copied_letter_by_letter(joint, text):
    tokenizer, short = make_shortlist_of_lines(joint)
    [source], pieces = tokenizer.encode_source([text]), tokenizer.target_names
    allowed = {pieces[i] for i in short.allowed_tokens(source)}
    for character in "".join(tokenizer.source_pieces(source[:-1])) if is_plain(tokenizer, source) else "":
        assert character in allowed or {f"<0x{b:02X}>" for b in character.encode()} <= allowed
    if not is_plain(tokenizer, source):
        assert {f"<0x{b:02X}>" for b in range(256)} <= allowed
    if joint:
        assert set(tokenizer.encode_target([text])[0]) <= short.allowed_tokens(source)


def is_plain(tokenizer: Tokenizer, source: list[int]) -> bool:
    return not any(piece.startswith("<0x") for piece in tokenizer.source_pieces(source))


def make_shortlist_of_lines(joint: bool) -> tuple[Tokenizer, Shortlist]:
    tokenizer = small_tokenizer() if joint else separate_tokenizer()
    return tokenizer, make_shortlist(train_lexicon([], []), [], tokenizer)


def separate_tokenizer(tokenizers: list[Tokenizer] = []) -> Tokenizer:  # noqa: B006  (made once)
    if not tokenizers:
        config = TokenizerConfig(vocabulary=300, joint=False)
        tokenizers.append(Tokenizer.train(LINES[::2], LINES[1::2], config, seed=1, max_sentences=100))
    return tokenizers[0]


def test_coverage_counts_the_pieces_of_references():
    short = Shortlist(frozenset({EOS, 4}), {5: frozenset({6, 7}), 8: frozenset({7})})
    coverage = measure_coverage(short, [[5, EOS], [8, EOS]], [[6, 4, EOS], [6, 9, EOS]])
    assert coverage == (4 / 6, (4 + 3) / 2)


def test_the_file_says_what_the_shortlist_says(tmp_path):
    tokenizer = small_tokenizer()
    ids = tokenizer.encode_source(LINES)
    short = make_shortlist(train_lexicon(ids, ids), ids, tokenizer, per_token=3, always=5)
    assert write_vmap(tmp_path / "vmap.txt", short, tokenizer) == []
    rows = dict(line.split("\t") for line in (tmp_path / "vmap.txt").read_text("utf-8").split("\n")[:-1])
    assert set(rows[""].split(" ")) == set(tokenizer.target_pieces(short.always))
    for i, targets in short.by_source.items():
        assert set(rows[tokenizer.source_pieces([i])[0]].split(" ")) == set(tokenizer.target_pieces(targets))


def test_what_is_read_from_the_file_is_what_the_shortlist_allows(tmp_path):
    tokenizer = small_tokenizer()
    ids = tokenizer.encode_source(LINES)
    short = make_shortlist(train_lexicon(ids, ids), ids, tokenizer, per_token=3, always=5)
    write_vmap(tmp_path / "vmap.txt", short, tokenizer)
    offered = read_vmap(tmp_path / "vmap.txt")
    for source in ids:
        allowed = short.allowed_tokens(source)
        pieces = tokenizer.source_pieces(source)
        assert offered.include(tokenizer.target_pieces(allowed), pieces)
        for token in range(4, tokenizer.target_vocabulary):
            assert offered.include(tokenizer.target_pieces([EOS, token]), pieces) == (token in allowed)
    assert offered.include(["<unk>", "<s>", "</s>"], [])  # CTranslate2 adds these to every list


def test_pieces_that_the_file_cannot_hold_are_named_and_their_targets_always_offered(tmp_path):
    lines = ["a\tb", "b\ta", "c\td\r", *LINES]
    tokenizer = Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=307), seed=1, max_sentences=100)
    tab, letter = map(tokenizer.source_names.index, ("\t", "b"))
    short = Shortlist(frozenset({EOS}), {tab: frozenset({tab, letter}), letter: frozenset({letter, tab})})
    assert write_vmap(tmp_path / "vmap.txt", short, tokenizer) == ["\t"]
    assert (tmp_path / "vmap.txt").read_bytes() == b"\t</s> b\nb\tb\n"


def test_ctranslate2_writes_only_what_the_shortlist_allows(tmp_path):
    tokenizer = small_tokenizer()
    size = tokenizer.source_vocabulary
    by_source = {i: frozenset({7 * i % 290 + 10, 5 * i % 290 + 10}) for i in range(4, size)}
    short = Shortlist(frozenset({EOS}), by_source)
    write_vmap(tmp_path / "vmap.txt", short, tokenizer)
    convert_to_ctranslate2(
        random_model(3, size, size), tokenizer, tmp_path / "out", "float32", vmap=tmp_path / "vmap.txt"
    )
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    not_allowed = 0
    for source in tokenizer.encode_source(LINES):
        batch = [tokenizer.source_pieces(source[:-1])]
        [limited], [free] = (
            translator.translate_batch(batch, use_vmap=use, beam_size=3, max_decoding_length=20)
            for use in (True, False)
        )
        allowed = set(tokenizer.target_pieces([*short.allowed_tokens(source), 1, 2]))
        assert set(limited.hypotheses[0]) <= allowed
        not_allowed += not set(free.hypotheses[0]) <= allowed
    assert not_allowed > 0  # without it other pieces are written


@needs_demo
def test_the_phrasebook_model_writes_the_same_with_its_shortlist(tmp_path):
    loaded = load_bundle(DEMO / "best")
    tokenizer = loaded.tokenizer
    source_ids = tokenizer.encode_source(list(read_lines(DEMO / "data" / "train.en"))[:8_000])
    target_ids = tokenizer.encode_target(list(read_lines(DEMO / "data" / "train.es"))[:8_000])
    short = make_shortlist(train_lexicon(source_ids, target_ids), target_ids, tokenizer)
    write_vmap(tmp_path / "vmap.txt", short, tokenizer)
    convert_to_ctranslate2(loaded.model, tokenizer, tmp_path / "out", "float32", vmap=tmp_path / "vmap.txt")
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    test = tokenizer.encode_source(list(read_lines(DEMO / "data" / "test.en"))[:200])
    lines = [tokenizer.source_pieces(source[:-1]) for source in test]
    limited, free = (
        [result.hypotheses[0] for result in translator.translate_batch(lines, use_vmap=use, max_batch_size=32)]
        for use in (True, False)
    )
    assert sum(map(len, map(short.allowed_tokens, test))) / len(test) < 0.2 * tokenizer.target_vocabulary
    assert sum(
        limited_pieces == free_pieces for limited_pieces, free_pieces in zip(limited, free, strict=True)
    ) >= 0.99 * len(test)
