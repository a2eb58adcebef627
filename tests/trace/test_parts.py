"""A line that is translated in several parts is traced in one of them, and its parts are listed."""

import json
from dataclasses import replace

import pytest

from pellucid.api import Model
from pellucid.data.source_profile import SourceProfile
from pellucid.decode.stages.splitting import SENTENCE_BY_SENTENCE
from pellucid.interpret.trace import Hide, Prefix
from pellucid.interpret.trace.facts import LinePart
from pellucid.interpret.trace.session import perform_act
from tests.trace.traced import small_traced

LINE = "The ball is blue. 😀 Where is the house?\tYes."
PARTS = ["The ball is blue.", "Where is the house?", "Yes."]


def joined_model() -> Model:
    """A model whose sources held two sentences as often as one, and no capitals, quotes or numbers."""
    model = small_traced()
    profile = SourceProfile(
        sources=10, sentences=(5, 5), continuations={"it": 5}, words=("the", "ball", "is", "blue", "it", "new")
    )
    model.translator.reader = replace(model.translator.reader, profile=profile)
    return model


def test_the_first_part_is_traced_or_the_one_asked_for():
    model = small_traced()
    for number, text in enumerate(PARTS, 1):
        trace = model.trace(LINE, segment=number)
        alone = model.trace(text)
        assert trace.facts.part == LinePart(LINE, PARTS, number)
        assert (trace.sentence, trace.source, trace.target) == (text, alone.source, alone.target)
        assert trace.facts.text == model.translate(text).text
        assert f"the line is translated in 3 parts; this is part {number}" in trace.notes
        assert alone.facts.part is None
        assert trace.id != alone.id
        assert all(check.passed for check in trace.checks())
    assert model.trace(LINE).id == model.trace(LINE, segment=1).id


def test_equal_parts_of_a_line_are_two_traces():
    first, second = (small_traced().trace("Yes. Yes.", segment=number) for number in (1, 2))
    assert first.target == second.target
    assert first.id != second.id


def test_edits_beginnings_and_targets_go_on_with_the_part():
    model = small_traced()
    trace = model.trace(LINE, segment=2)
    for changed in (trace.edited(Hide(1)), trace.edited(Hide(1), keep_target=False), trace.edited(Prefix("La"))):
        assert (changed.sentence, changed.facts.part) == (trace.sentence, trace.facts.part)
    assert trace.edited(Prefix("La")).target.text.startswith("La")
    # By its own text it is a line of one part; by the line and its number it is a part with that target.
    assert trace.again(trace.sentence, target="Sí.").facts.part is None
    given = model.trace(LINE, segment=2, target="Sí.")
    assert (given.source, given.facts.part, given.forced) == (trace.source, trace.facts.part, True)
    other = trace.again(LINE, segment=3)
    assert other.sentence == "Yes."


def test_a_pair_of_which_no_part_is_named_is_read_whole():
    trace = small_traced().trace("The ball is blue. Yes.", target="La bola es azul. Sí.")
    assert trace.source.text == "The ball is blue. Yes."
    assert trace.facts.part is None


def test_a_page_asks_for_a_part_and_is_told_of_all():
    answer = perform_act(small_traced().trace("Yes."), "trace", {"sentence": LINE, "segment": 2})
    assert not isinstance(answer, dict)
    manifest = json.loads(json.dumps(answer.manifest()))
    assert manifest["sentence"] == PARTS[1]
    assert manifest["part"] == {"line": LINE, "segments": PARTS, "segment": 2, "context": ""}
    with pytest.raises(ValueError, match="segment is 9"):
        perform_act(answer, "trace", {"sentence": LINE, "segment": 9})


def test_the_part_before_is_the_context_of_a_model_that_reads_one():
    model = small_traced()
    model.bundle.manifest["context"] = model.translator.context = 1
    trace = model.trace(LINE, context="The cat sleeps.", segment=2)
    alone = model.trace(PARTS[1], context=PARTS[0])
    assert (trace.facts.context, trace.source, trace.target) == (PARTS[0], alone.source, alone.target)
    first = model.trace(LINE, context="The cat sleeps.")
    assert first.facts.context == "The cat sleeps."
    # Another part of the line is reached with the context of the line.
    assert trace.again(LINE, segment=1).source == first.source
    assert trace.edited(Hide(6)).facts.context == PARTS[0]


def test_the_last_sentences_of_a_context_are_read_as_in_a_translation():
    model = small_traced()
    model.bundle.manifest["context"] = model.translator.context = 1
    trace = model.trace("Yes.", context="The cat sleeps. Where is the house?")
    assert trace.source.text.startswith("Where is the house? ")
    assert trace.facts.context == "The cat sleeps. Where is the house?"


def test_sentences_that_the_model_learned_together_are_one_part():
    model = joined_model()
    trace = model.trace("The ball is blue. It is new. The ball is new.")
    assert trace.facts.part is not None
    assert trace.facts.part.segments == ["The ball is blue. It is new.", "The ball is new."]


def test_a_part_that_loses_a_sentence_is_shown_as_it_is_with_what_translate_would_do():
    model = joined_model()
    lines = [
        f"The ball is {word}. It is {other}." for word in ("blue", "new", "zebra") for other in ("blue", "new", "?")
    ]
    lost = [line for line in lines if model.translate(line, sentences="keep").missing_sentences]
    assert lost
    for line in lost:
        trace = model.trace(line)
        assert trace.facts.part is None
        assert trace.facts.text == model.translate(line, sentences="keep").text
        assert any("`translate` then tries each sentence of the text by itself" in note for note in trace.notes)
    assert any(SENTENCE_BY_SENTENCE in model.translate(line).notes for line in lost)


def test_the_model_reads_its_own_case_and_spelling_and_the_facts_keep_what_was_written():
    trace = joined_model().trace("THE BALL\u00a0IS BLUE.")
    assert trace.source.text == "The ball is blue."
    assert trace.sentence == "THE BALL\u00a0IS BLUE."
    assert trace.facts.text == trace.facts.text.upper()
    assert "read without its capitals, of which the training text has few" in trace.notes
    assert "the model reads “The ball is blue.”" in trace.notes
    curly = joined_model().trace("“The ball” is\u00a0blue.")
    assert curly.source.text == '"The ball" is blue.'
    [note] = [note for note in curly.notes if "reads" in note]
    assert note == (
        'the model reads “"The ball" is blue.”, because its training text has few of the characters that were written'
    )


def test_a_note_about_the_capitals_of_another_part_is_left_out():
    first, second = (joined_model().trace("THE BALL IS BLUE. The ball is new.", segment=number) for number in (1, 2))
    assert any("capitals" in note for note in first.notes)
    assert not any("capitals" in note for note in second.notes)
