"""What `check` keeps of every pair is small, and says what the pairs themselves say."""

from collections import Counter

import numpy as np

from pellucid.data.links import WordIds
from pellucid.workflows.check.corpus_faults import BOILERPLATE, RepeatedPairs, hash_pairs
from pellucid.workflows.check.examine import examine_corpus
from pellucid.workflows.check.packed_words import PackedWords


def draw_words(random: np.random.Generator, sentences: int) -> WordIds:
    lengths = random.integers(0, 9, sentences)
    ids = random.integers(0, 2**20, lengths.sum()).astype(np.int32)
    return WordIds.from_lengths(ids, lengths)


def test_packed_words_are_the_words():
    random = np.random.default_rng(5)
    blocks = [draw_words(random, sentences) for sentences in (7, 0, 50, 1, 23)]
    packed = PackedWords()
    for block in blocks:
        packed.append(block)

    ids = np.concatenate([block.ids for block in blocks])
    lengths = np.concatenate([block.lengths for block in blocks])
    words = WordIds.from_lengths(ids, lengths)
    assert packed.lengths.tolist() == words.lengths.tolist()
    assert packed.count_words().tolist() == words.count_words().tolist()
    for chosen in (np.arange(81), random.permutation(81), random.integers(0, 81, 200), np.arange(0)):
        for mine, theirs in zip(packed.select(chosen), words.select(chosen), strict=True):
            assert mine.tolist() == theirs.tolist()


def test_repetitions_are_those_that_counting_finds():
    random = np.random.default_rng(7)
    sources = [f"Yes {'a' * (number // 3)} {number % 3}." for number in random.integers(0, 90, 400)]
    targets = [f"Sí {'b' * number}!" for number in random.integers(0, 30, 400)]
    # Boilerplate that repeats, and forms without letters, which say nothing.
    sources += ["Next page"] * (BOILERPLATE + 3) + ["1", "2", "3", ""]
    targets += [f"Otra {'c' * (number // 2)}" for number in range(BOILERPLATE + 3)] + ["1", "2", "3", "Sí"]

    repeated = RepeatedPairs()
    filled = np.array([bool(source) for source in sources])
    for start in range(0, len(sources), 64):
        block = slice(start, start + 64)
        repeated.add(hash_pairs(sources[block], targets[block]), filled[block])
    found = repeated.find(np.array([len(source) for source in sources if source]))

    pairs = list(zip(sources, targets, strict=True))[:-1]
    forms = [tuple("".join(filter(str.isalpha, text)).lower() for text in pair) for pair in pairs]
    often = [Counter(form[side] for form in forms) for side in (0, 1)]
    targets_of = Counter(source for source, _ in dict.fromkeys(pairs))
    expected: dict[str, dict[int, float]] = {name: {} for name in found}
    for place, (pair, form) in enumerate(zip(pairs, forms, strict=True)):
        is_repeated, is_near = pair in pairs[:place], form in forms[:place] and all(form)
        times = max(often[0][form[0]], often[1][form[1]])
        if is_near and times >= BOILERPLATE:
            expected["boilerplate"][place] = times
        elif is_repeated or is_near:
            expected["duplicate" if is_repeated else "near_duplicate"][place] = len(pair[0]) + 1
        if not is_repeated and targets_of[pair[0]] > 1:
            expected["many_targets"][place] = targets_of[pair[0]]

    for name, marks in found.items():
        assert dict(zip(marks.places.tolist(), marks.degrees.tolist(), strict=True)) == expected[name], name
    assert all(expected.values())


def test_a_text_of_empty_sides_has_that_fault_alone():
    report = examine_corpus(lambda: ((line, "", "Sí.") for line in range(1, 501)))
    assert {name: finding.pairs for name, finding in report.findings.items()} == {"empty": 500}
    assert report.notes[0].startswith("0 pairs are too few to learn which words belong together")
