"""Similar units: training reads some sources after a similar translation, and so does translation with a memory."""

import re
from collections import Counter

import numpy as np
import pytest

import pellucid
from pellucid.data.batching import EncodedPairs
from pellucid.data.context import count_context, read_after_similar
from pellucid.data.corpus import SentencePairs
from pellucid.data.pair_similar import SimilarPairs
from pellucid.data.stream import Stage, Stream, encode_pairs
from pellucid.data.tokenizer import MEMORY_MARK, Tokenizer, TokenizerConfig, strip_eos
from pellucid.decode.request import SearchConfig
from pellucid.decode.translator import Translator
from pellucid.localize.translation_memory import TranslationMemory, measure_similarity
from pellucid.store.directory import save_bundle
from tests.decode.models import random_model
from tests.laws.test_marked_terms import MOST_PIECES, make_texts, rows_of


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    options = {"seed": 1, "max_sentences": 1000, "marks": [MEMORY_MARK]}
    return Tokenizer.train(*make_texts(500), TokenizerConfig(vocabulary=380), **options)


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> EncodedPairs:
    return encode_pairs(SentencePairs.from_lists(*make_texts(300), "here"), tokenizer, MOST_PIECES)[0]


@pytest.fixture(scope="module")
def similar(tokenizer, encoded) -> SimilarPairs:
    return SimilarPairs(encoded, tokenizer, 1.0, MOST_PIECES)


def test_a_source_is_read_after_the_translation_of_a_similar_one(tokenizer, encoded, similar):
    every, own = np.arange(300), rows_of(encoded)
    translations: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for source, target in own:
        translations.setdefault(tuple(strip_eos(target)), set()).add(tuple(source))
    planted, renamed = rows_of(similar.plant(encoded, every, every, seed=1)), 0
    for (source, target), (before, target_before) in zip(planted, own, strict=True):
        start = count_context(source)
        assert source[start:] == before
        assert source[start - 2] == tokenizer.memory_mark
        if target != target_before:
            # A word that both translations have became another, in both.
            renamed += 1
            words, told, own_words = (
                Counter(re.findall(r"\w+", tokenizer.decode_target(side)))
                for side in (target, source[:start], target_before)
            )
            assert words - own_words
            assert (words - own_words).keys() <= told.keys()
        else:
            sources = translations[tuple(source[: start - 2])] - {tuple(before)}
            assert max(measure_similarity(list(other), before) for other in sources) >= 0.6
    assert 170 < renamed < 260


def test_text_without_spaces_is_read_after_similar_text_too():
    sources, targets = make_texts(300)
    # Kana for the letters, and no space in between, so that hardly a piece begins a word.
    targets = ["".join(chr(0x3040 + ord(letter) % 80) for letter in text if letter.isalpha()) for text in targets]
    options = {"seed": 1, "max_sentences": 300, "marks": [MEMORY_MARK]}
    tokenizer = Tokenizer.train(sources, targets, TokenizerConfig(vocabulary=380), **options)
    encoded = encode_pairs(SentencePairs.from_lists(sources, targets, "here"), tokenizer, MOST_PIECES)[0]
    similar, every = SimilarPairs(encoded, tokenizer, 1.0, MOST_PIECES), np.arange(len(encoded))
    similar.begins_word, similar.first_tokens = frozenset(), []
    planted = rows_of(similar.plant(encoded, every, every, seed=1))
    assert [target for _, target in planted] == [target for _, target in rows_of(encoded)]
    assert sum(count_context(source) > 0 for source, _ in planted) > 100


def test_which_pair_is_similar_does_not_depend_on_what_else_is_chosen(encoded, similar):
    every, chosen = np.arange(300), np.arange(300)[::-7]
    half = similar.share
    similar.share = 0.5
    whole = rows_of(similar.plant(encoded, every, every, seed=4))
    assert rows_of(similar.plant(encoded, chosen, chosen, seed=4)) == [whole[i] for i in chosen]
    assert rows_of(similar.plant(encoded, chosen, chosen, seed=5)) != [whole[i] for i in chosen]
    assert sum(count_context(source) > 0 for source, _ in whole) == pytest.approx(150, abs=35)
    similar.share = half


def test_backwards_nothing_stands_before(encoded, similar):
    stream = Stream(encoded, 100, seed=3, similar=similar)
    stream.enter(Stage(both_directions=True))
    marked: dict[bool, list[bool]] = {True: [], False: []}
    for spec in stream.upcoming(len(stream.order)):
        marked[spec.backwards] += [bool((batch.source == similar.mark).any()) for batch in spec.make_batches()]
    assert marked[True]
    assert not any(marked[True])
    assert sum(marked[False]) > len(marked[False]) / 2


def test_a_line_like_one_of_the_memory_is_read_after_its_translation(tokenizer):
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    translator, read = Translator(model, tokenizer), []
    translator.memory_mark = tokenizer.memory_mark

    class SpiedEngine:
        batch_size = 8

        def search_all(self, batches, config):
            read.extend(request.source for batch in batches for request in batch)
            return translator.torch.search_all(batches, config)

    translator.engine = SpiedEngine()  # pyright: ignore[reportAttributeAccessIssue]
    memory = TranslationMemory([("The red dog sees the cat.", "El perro  rojo ve el gato.")])
    lines = ["The red dog sees the horse.", "The window.", "The red dog sees the cat."]
    translations = translator.translate(lines, SearchConfig(max_extra=3, repetition="keep"), translation_memory=memory)
    plain = tokenizer.encode_source(lines)
    told = strip_eos(tokenizer.encode_target(["El perro rojo ve el gato."])[0])
    assert sorted(read) == sorted([read_after_similar(plain[0], told, tokenizer.memory_mark), plain[1]])
    assert [translation.stop == "memory" for translation in translations] == [False, False, True]
    assert translations[0].source_pieces == tokenizer.source_pieces(plain[0])


def test_a_trace_shows_the_similar_translation_before_the_source(tokenizer, tmp_path):
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    save_bundle(tmp_path / "read", model, tokenizer, memory=0.2)
    loaded = pellucid.load(tmp_path / "read")
    memory = TranslationMemory([("The red dog sees the cat.", "El perro rojo ve el gato.")])
    lines = ["The red dog sees the horse.", "The window."]
    found = loaded.translate(lines, translation_memory=memory, max_extra=50)
    for line, translation in zip(lines, found, strict=True):
        trace = loaded.trace(line, translation_memory=memory)
        assert (trace.facts.text, trace.facts.score) == (translation.text, pytest.approx(translation.score, abs=1e-4))
        told = tokenizer.source_names[tokenizer.memory_mark]
        assert trace.source.text == (f"El perro rojo ve el gato. {told} <s> {line}" if line == lines[0] else line)
        assert trace.provenance == loaded.translate(line, translation_memory=memory, provenance=True).provenance
    assert loaded.trace(lines[0]).provenance is None
    assert loaded.trace(lines[0], translation_memory=memory, target="El perro.").provenance is None
    plain = loaded.trace(lines[1])
    assert plain.facts.id == loaded.trace(lines[1], translation_memory=memory).facts.id
    assert loaded.trace(lines[0], translation_memory=memory).facts.id != loaded.trace(lines[0]).facts.id
    with pytest.raises(ValueError, match=r"pair 1 of the memory is this sentence; trace it with target="):
        loaded.trace("The red dog sees the cat.", translation_memory=memory)
