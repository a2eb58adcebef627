"""Laws of context: a sentence is read with the one before it in its document, in training as in translation."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.api import Model, load
from pellucid.data.context import count_context, encode_with_context, join_context, split_context
from pellucid.data.corpus import read_pairs
from pellucid.data.tokenizer import BOS
from pellucid.decode.corpus_sources import join_document
from pellucid.decode.line_segments import LengthLimits
from pellucid.interpret.studies.alignment_readings import default_links, encode_alignment_pairs
from pellucid.interpret.studies.head_studies import study_patterns
from pellucid.interpret.studies.pattern_measures import encode_study_pairs
from pellucid.training.loop import train_run
from tests.decode.models import small_tokenizer
from tests.tolerances import approx_log_prob
from tests.trace.traced import small_traced
from tests.training.corpora import small_run

SENTENCES = ["The ball is blue.", "Yes.", "Where is the house?", "The dog drank the water."]
SENTENCE = st.sampled_from(SENTENCES)


def context_model(longest: int = 97) -> Model:
    """Return a random model that takes one sentence before each."""
    model = small_traced()
    model.translator.context = 1
    model.translator.lengths = LengthLimits(longest, 97)
    return model


@settings(derandomize=True, deadline=None)
@given(st.lists(st.lists(SENTENCE, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(1, 3))
def test_sources_have_the_sentences_before_them_in_their_document(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[str]], count: int
):
    folder = tmp_path_factory.mktemp("corpus")
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    for name in ("a.en", "a.es"):
        (folder / name).write_text(text, encoding="utf-8")
    pairs = read_pairs(folder / "a.en", folder / "a.es", max_characters=99, context=count)
    expected = [(" ".join(d[max(0, i - count) : i]), d[i]) for d in documents for i in range(len(d))]
    assert [split_context(source) for source in pairs.sources] == expected
    assert pairs.targets == [sentence for document in documents for sentence in document]
    assert not pairs.skipped  # the empty lines between documents are no pairs


def test_a_pair_that_is_skipped_is_context_and_an_empty_source_ends_a_document(tmp_path: Path):
    (tmp_path / "a.en").write_text("One.\nTwo.\nThree.\n\nFour.\n", encoding="utf-8")
    (tmp_path / "a.es").write_text("Uno.\n\nTres.\n?\nCuatro.\n", encoding="utf-8")
    pairs = read_pairs(tmp_path / "a.en", tmp_path / "a.es", max_characters=99, context=1)
    assert pairs.sources == ["One.", "Two.\nThree.", "Four."]
    assert pairs.skipped.counts == {"empty target": 1, "empty source": 1}
    alone = read_pairs(tmp_path / "a.en", tmp_path / "a.es", max_characters=99)
    assert alone.sources == ["One.", "Three.", "Four."]


@given(st.sampled_from(["", *SENTENCES]), SENTENCE)
def test_the_ids_of_a_source_are_those_of_both_sentences_with_bos_between(context: str, sentence: str):
    tokenizer = small_tokenizer()
    [ids] = encode_with_context(tokenizer, [join_context(context, sentence)])
    before, alone = tokenizer.encode_source([context, sentence])
    assert ids == ([*before[:-1], BOS, *alone] if context else alone)
    assert ids[count_context(ids) :] == alone


@pytest.mark.parametrize("block", [1, 2, 2048])
def test_a_document_is_translated_with_the_sentence_before_each(block: int):
    model, lines = context_model(), ["The ball is blue.", "Yes.", "", "Where is the house?", "Yes."]
    contexts = ["", lines[0], "", "", lines[3]]
    pairs = [join_context(*pair) for pair in zip(contexts, lines, strict=True)]
    sources = encode_with_context(model.translator.tokenizer, pairs)
    translations = list(model.translate_stream(lines, block, document=True, alignments=True))
    tokenizer, ended = model.translator.tokenizer, 0
    for ids, translation in zip(sources, translations, strict=True):
        if translation.stop == "eos":
            target = [tokenizer.target_names.index(piece) for piece in translation.pieces]
            with model.translator.models.inference():
                [log_probs] = model.translator.torch.log_probs([ids], [target])
            assert translation.log_prob == approx_log_prob(sum(log_probs))
            assert translation.source_pieces == tokenizer.source_pieces(ids[count_context(ids) :])
            ended += 1
    assert ended >= 3
    assert translations[1].score != translations[4].score
    # Links count the words of the line alone.
    assert all(i == 0 for i, _ in translations[4].alignment or [])
    assert [t.text for t in model.translate_document(lines)] == [t.text for t in translations]


def test_tags_terms_and_segments_are_those_of_the_sentence_alone():
    model = context_model()
    translations = model.translate_document(["The <b>ball</b> is {blue}.", "Yes.\tYes."], terms={"ball": "bola"})
    assert "<b>" not in translations[1].text
    assert "bola" not in translations[1].text.split()
    assert "{blue}" not in translations[1].text
    assert "\t" in translations[1].text


def test_a_sentence_that_is_too_long_with_its_context_is_translated_alone_and_says_so():
    model = context_model(longest=20)
    first, second = model.translate_document(["The dog drank the water.", "The ball is blue."])
    note = "translated without the sentence before it: both together are too long"
    assert (note in first.notes, note in second.notes) == (False, True)
    assert second.text == model.translate("The ball is blue.").text
    with pytest.raises(ValueError, match="more than 20 pieces, which the longest source of training had; shorten"):
        model.trace("The ball is blue.", context="The dog drank the water.")


def test_a_model_without_context_refuses_a_document_in_one_sentence():
    model, message = small_traced(), "trained on single sentences .* leave out .*, or train a model with data.context"
    with pytest.raises(ValueError, match=message):
        model.translate_document(["Yes."])
    with pytest.raises(ValueError, match=message):
        model.trace("Yes.", context="Yes.")


def test_a_trace_marks_the_pieces_of_the_context():
    model = context_model()
    trace = model.trace("The ball is blue.", context="Where is the house?")
    source = trace.source
    assert source.text == "Where is the house? <s> The ball is blue."
    assert source.pieces[source.context - 1] == "<s>"
    assert source.context == count_context(source.ids)
    assert trace.manifest()["source"]["context"] == source.context
    assert [word for word in source.words if word is not None][-1] == 8
    assert trace["decoder.0.cross.pattern"].values.shape[-1] == len(source.pieces)
    document = model.translate_document(["Where is the house?", "The ball is blue."])
    assert trace.target.text == document[1].text
    assert trace.log_prob == approx_log_prob(document[1].log_prob)
    # What is not translated cannot be left out of a translation.
    omissions = [finding.word for finding in trace.verdict().findings if finding.kind == "omission"]
    assert all(word is None or word > 4 for word in omissions)
    assert trace.again("The ball is blue.", beam=1).source == source
    assert trace.again("Yes.").source.context == 0
    assert trace.facts.id != model.trace("The ball is blue.").facts.id


def test_a_trained_model_says_that_it_takes_context_and_translates_its_reference_with_it(tmp_path: Path):
    run = small_run(tmp_path / "data", data={"context": 1, "max_pieces": 41})
    train_run(run, tmp_path / "out")
    model = load(tmp_path / "out" / "best")
    assert model.manifest["context"] == model.translator.context == 1
    assert model.verify().passed


def test_scores_links_and_studies_of_a_document_read_what_its_translation_read():
    model, lines = context_model(), [*SENTENCES[:2], "", SENTENCES[3]]
    translations = model.translate_document(lines, alignments=True)
    sources, texts = join_document(model.translator, lines), [translation.text for translation in translations]
    assert sources == ["The ball is blue.", "The ball is blue.\nYes.", "", "The dog drank the water."]
    tokenizer = model.translator.tokenizer
    targets = tokenizer.encode_target(texts)
    ids = encode_with_context(tokenizer, sources)
    with model.translator.models.inference():
        expected = model.translator.torch.log_probs(ids, targets)
    assert [score.log_prob for score in model.score(lines, texts, document=True)] == approx_log_prob(
        [sum(row) for row in expected]
    )
    pairs = encode_alignment_pairs(tokenizer, sources, texts)
    with model.translator.models.inference():
        links = list(default_links(model.bundle.model, pairs))
    assert [[*map(tuple, found)] for found in links] == [
        [*map(tuple, translation.alignment or [])] for translation in translations
    ]
    study = encode_study_pairs(tokenizer, model.bundle.model.config, sources, texts)
    [source, words] = study.sources[1]
    assert source == ids[1]
    # The pieces of the sentence before are of no word, and those of the sentence are counted from 0.
    start = count_context(source)
    assert start > 1
    assert words[:start] == [-1] * start
    assert words[start] == 0
    study_patterns(model.bundle.model, tokenizer, study, None)


def test_a_document_is_joined_only_where_both_sentences_fit():
    model = context_model(longest=20)
    assert join_document(model.translator, ["The dog drank the water.", "The ball is blue."])[1] == "The ball is blue."
    with pytest.raises(ValueError, match="trained on single sentences"):
        small_traced().score("Yes.", "Sí.", document=True)
