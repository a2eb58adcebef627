"""The campaign of joined sentences: which lines it holds a model to, and what it finds, with a random model."""

import dataclasses

import pytest

from benchmarks import joined
from benchmarks.joined import JoinedLine, Row, is_cut_at_joints, is_read_alone, join_sentences, measure_text
from pellucid.data.source_profile import SourceProfile
from pellucid.decode.request import SearchConfig
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.translator import Translator
from tests.decode.models import random_model, small_tokenizer

SENTENCES = [
    "The ball is blue.",
    "Where is the house?",
    "Yes.",
    "They go.",
    "By Mr.",
    "Bee is blue!",
    "The cat drank the milk.",
]
PAIRS = [(sentence, sentence.lower()) for sentence in SENTENCES]
SHORT = SearchConfig(beam=2, max_extra=5)


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


def translate_with(translator: Translator):
    return lambda lines, sentences: translator.translate(lines, dataclasses.replace(SHORT, sentences=sentences))


def test_lines_have_one_sentence_up_to_eight_and_then_one_again():
    lines = join_sentences([str(number) for number in range(40)], "  ")
    assert [len(line.sentences) for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 1]
    assert lines[2] == JoinedLine(3, ("3", "4", "5"), "3  4  5")


@pytest.mark.parametrize("separator", joined.SEPARATORS.values())
def test_a_line_is_sure_only_where_it_is_cut_at_its_joints(separator):
    def is_sure(*sentences: str) -> bool:
        return is_cut_at_joints(JoinedLine(0, sentences, separator.join(sentences)), separator)

    assert is_sure("We go.")
    assert is_sure("We go.", "Do you?", "Yes!")
    assert not is_sure("We go. Do you?", "Yes!")  # a sentence that is two
    assert not is_sure("A heading", "Do you?")  # no end at the joint
    assert not is_sure("By Mr.", "Bee is here.")


def test_a_line_is_not_sure_where_the_model_has_learned_two_sentences_together():
    line = JoinedLine(0, ("We go.", "They stay."), "We go. They stay.")
    together = SourceProfile(sources=9, sentences=(4, 5), continuations={"they": 5})
    assert is_read_alone(line, SourceReader(small_tokenizer()))
    assert not is_read_alone(line, SourceReader(small_tokenizer(), together))
    assert is_read_alone(JoinedLine(0, ("They go.", "We stay."), ""), SourceReader(small_tokenizer(), together))


def test_a_model_translates_joined_sentences_like_each_alone(translator):
    rows = dict(measure_text(translate_with(translator), translator.reader, PAIRS))
    assert rows.keys() == joined.SEPARATORS.keys()
    for row in rows.values():
        # One sentence, two, three, and one; in the third line no sentence ends behind "Mr.".
        assert (row.lines, row.sure, row.equal, row.different) == (4, 3, 3, ())
        assert row.ends_noted <= row.ends_lost
    assert not joined.has_broken_promise([*rows.values()])


def test_a_sentence_that_is_lost_is_a_broken_promise_and_counted(translator):
    translate = translate_with(translator)

    def translate_first_sentence(lines, sentences):
        return [
            dataclasses.replace(translation, text=source.split(".")[0] + ".", missing_sentences=0)
            for source, translation in zip(lines, translate(lines, sentences), strict=True)
        ]

    row = dict(measure_text(translate_first_sentence, translator.reader, [("We go.", "We go."), *PAIRS[2:4]]))["space"]
    assert (row.lines, row.sure, row.equal, row.ends_lost, row.ends_noted) == (2, 2, 1, 1, 0)
    assert row.different == (("Yes. They go.", "Yes.", "Yes. They go."),)
    assert joined.has_broken_promise([row])


def test_the_page_has_a_row_for_each_text_and_the_lines_that_differ():
    row = Row(40, 30, 29, 3, 2, 41.5, 41.25, 20.0, (("A. B.", "X.", "X. Y."),))
    page = "\n".join(joined.page_lines(720, {("runs/m", "TED en-de", "space"): row}))
    assert "| runs/m | TED en-de | space | 40 | 30 | 96.67% | 41.50 | 41.25 | 20.00 | 3 | 2 |" in page
    assert "`'A. B.'` became 'X.', not 'X. Y.'" in page
