"""The proof that evidence is causal: wrong pairs are planted, named, and with them the mistake goes."""

from pathlib import Path

import pytest

from benchmarks.evidence import SETTINGS, WRONG, phrasebook_pairs, plant_mistakes, prove, split_words


def test_planted_pairs_are_the_lines_that_the_text_has_wrong():
    text, mistakes = plant_mistakes(phrasebook_pairs(3000), 3)
    for mistake in mistakes:
        with_word = [line for line, (source, _) in enumerate(text, start=1) if mistake.source in split_words(source)]
        wrong = {line for line in with_word if mistake.wrong in split_words(text[line - 1][1])}
        assert mistake.planted == wrong
        assert len(wrong) == WRONG
        assert all(mistake.right in split_words(text[line - 1][1]) for line in {*with_word} - wrong)
        assert mistake.tests
        assert not {*mistake.tests} & {source for source, _ in text}


@pytest.mark.slow
def test_removing_what_the_evidence_names_removes_the_mistake_and_removing_others_does_not(tmp_path: Path):
    result = prove(phrasebook_pairs(8000), count=6, settings=SETTINGS["phrasebook"] | {"steps": 400}, folder=tmp_path)
    evidence = result["evidence"]
    assert len(evidence) >= 5
    assert sum(found.planted >= WRONG // 2 for found in evidence.values()) >= len(evidence) - 1
    gone = sum(not result["after"]["named"][source] for source in evidence)
    stayed = sum(result["after"]["drawn"][source] > 0 for source in evidence)
    assert gone >= len(evidence) - 1
    assert stayed >= len(evidence) - 1
