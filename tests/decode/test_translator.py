"""Translating lines: batches, splitting, alternatives, draws, progress, scores and refusals."""

import dataclasses
import math
from dataclasses import replace

import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.request import SearchConfig, batch_by_length
from pellucid.decode.scoring import score_pairs
from pellucid.decode.segment_search import SearchSegments
from pellucid.decode.stages.repetition import EMPTIED
from pellucid.decode.translation import Translation
from pellucid.decode.translator import Translator
from pellucid.localize.terminology import Terms
from tests.decode.models import LINES, model_that_writes, random_model, small_tokenizer
from tests.tolerances import approx_log_prob

SHORT = SearchConfig(beam=3, max_extra=5)


@pytest.fixture(scope="module")
def translator():
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


@pytest.mark.article("A31", "B4")
def test_a_translation_says_what_was_written_and_why_it_stopped(translator):
    for line, translation in zip(LINES, translator.translate(LINES, SHORT), strict=True):
        [source] = translator.tokenizer.encode_source([line])
        assert translation.source_pieces == translator.tokenizer.source_pieces(source)
        assert len(translation.pieces) == len(translation.piece_log_probs) <= len(source) - 1 + 5
        assert translation.log_prob == pytest.approx(sum(translation.piece_log_probs))
        assert translation.score == pytest.approx(translation.log_prob / ((5 + len(translation.pieces)) / 6))
        assert translation.stop == ("eos" if translation.pieces[-1] == "</s>" else "length")
        assert translation.alternatives == []


def test_a_translation_that_is_cut_has_all_the_pieces_it_may_have(translator):
    translations = translator.translate(LINES, dataclasses.replace(SHORT, method="greedy"))
    cut = [(line, t) for line, t in zip(LINES, translations, strict=True) if t.stop == "length"]
    assert cut
    for line, translation in cut:
        assert len(translation.pieces) == len(translator.tokenizer.encode_source([line])[0]) - 1 + 5


def test_alternatives_are_the_others_best_first(translator):
    for translation in translator.translate(LINES, dataclasses.replace(SHORT, n_best=3)):
        assert len(translation.alternatives) == 2
        candidates = [translation, *translation.alternatives]
        assert candidates == sorted(candidates, key=lambda t: (t.stop != "eos", -t.score))
        assert len({tuple(t.pieces) for t in candidates}) == 3
        assert all(alternative.alternatives == [] for alternative in translation.alternatives)


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0", "\u2028"])
def test_a_blank_line_stays_as_it_is(translator, blank):
    empty = Translation(blank, 0.0, 0.0, "empty", [], [], [])
    assert translator.translate([blank], SHORT) == [empty]
    assert [t.stop == "empty" for t in translator.translate(["Yes.", blank, "Yes."], SHORT)] == [False, True, False]


def test_equal_lines_are_searched_once_and_drawn_each_time(translator, monkeypatch):
    lines, numbers = ["Yes.", "The ball.", "Yes.", "", "Yes."], []
    search_all = translator.engine.search_all

    def record_numbers(batches, config):
        numbers.extend(request.number for batch in batches for request in batch)
        return search_all(batches, config)

    monkeypatch.setattr(translator.engine, "search_all", record_numbers)
    translations = translator.translate(lines, SHORT)
    assert sorted(numbers) == [1, 2]
    assert [translation.text for translation in translations] == [
        translator.translate([line], SHORT)[0].text for line in lines
    ]
    numbers.clear()
    translator.translate(lines, SearchConfig(method="sample", max_extra=5))
    assert sorted(numbers) == [1, 2, 3, 5]


def test_no_lines_give_no_translations(translator):
    assert translator.translate([], SHORT) == []
    assert list(translator.translate_stream([], SHORT)) == []
    assert score_pairs(translator, [], [], batch=3) == []


def test_a_beam_of_one_is_greedy_search(translator):
    narrow = translator.translate(LINES, SearchConfig(beam=1, max_extra=5))
    assert narrow == translator.translate(LINES, SearchConfig(method="greedy", max_extra=5))


def test_the_model_never_ends_a_line(translator):
    line_feed = translator.tokenizer.target.piece_to_id("<0x0A>")
    assert line_feed in translator.engine.forbidden
    tokenizer = small_tokenizer()
    model = model_that_writes(line_feed, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    for config in (SHORT, SearchConfig(method="greedy", max_extra=5), SearchConfig(method="sample", max_extra=5)):
        assert not any(
            "\n" in t.text for t in Translator(model, tokenizer).translate(["The ball.", "Is blue."], config)
        )
    [translation] = translator.translate(["The ball.\n\nIs blue."], SHORT)
    assert translation.text.count("\n") == 2  # those of a caller stay where they are


def test_a_seed_draws_the_same_again_and_another_draws_others(translator):
    config = SearchConfig(method="sample", n_best=2, max_extra=5)
    first = translator.translate(LINES, config)
    assert translator.translate(LINES, config) == first
    assert translator.translate(LINES, dataclasses.replace(config, seed=2)) != first
    twins = translator.translate(["The ball is blue."] * 2, config)
    assert twins[0].text != twins[1].text


def test_a_stream_is_read_no_further_than_it_must_be(translator):
    lines_read = []

    def yield_lines():
        for line in LINES * 3:
            lines_read.append(line)
            yield line

    stream = translator.translate_stream(yield_lines(), SHORT, block=5)
    next(stream)
    assert len(lines_read) == 5
    assert len(list(stream)) == 20


def test_a_stream_that_begins_in_the_middle_of_a_file_goes_on_as_the_whole(translator, monkeypatch):
    """Draws depend on the number of the line, and a document is read with the line before."""
    monkeypatch.setattr(translator, "context", 1)
    config = SearchConfig(method="sample", seed=3)
    lines = ["Yes.", "No.", "", "Where is the house?", "Yes.", "Yes."]
    whole = list(translator.translate_stream(lines, config, document=True))
    for cut in range(1, len(lines)):
        before, rest = lines[:cut], lines[cut:]
        end = translator.translate_stream(rest, config, document=True, first_line=cut + 1, before=before)
        assert [translation.text for translation in end] == [translation.text for translation in whole[cut:]]


def test_lines_the_model_cannot_take_are_named_before_anything_is_translated(translator, monkeypatch):
    long, refuse = "a b " * 97, dataclasses.replace(SHORT, too_long="refuse")
    with monkeypatch.context() as patch:
        patch.setattr(SearchSegments, "__call__", lambda *given: pytest.fail("nothing is searched for"))
        with pytest.raises(ValueError, match=r"takes 97 pieces a line, line 2 has \d+, line 3 has \d+; split"):
            translator.translate(["Yes.", long, long], refuse)
    with pytest.raises(ValueError, match="line 7 has"):
        list(translator.translate_stream(["Yes."] * 6 + [long], refuse, block=5))
    with pytest.raises(ValueError, match=r"line 5 has \d+, and 2 more lines are too long; split"):
        translator.translate([long] * 7, refuse)
    with pytest.raises(ValueError, match=r"target: .* line 2 has"):
        score_pairs(translator, ["Yes.", "Yes."], ["Sí.", long], batch=2)


def test_long_lines_are_split_at_sentence_ends_with_a_note(translator):
    sentences = [f"{word} is the house" * 3 + "?" for word in ("Where", "There", "That", "This", "What")]
    together = dataclasses.replace(SHORT, sentences="keep")
    [translation] = translator.translate(["  ".join(sentences) + " 😀"], together)
    assert "split into 3 parts" in translation.notes
    assert translation.text.endswith(" 😀")
    assert translation.pieces.count("</s>") == 3 * (translation.stop == "eos") or translation.stop == "length"
    segments = ["  ".join(sentences[:2]), "  ".join(sentences[2:4]), sentences[4]]
    alone = translator.translate(segments, together)
    assert translation.text == "  ".join(segment.text for segment in alone) + " 😀"
    assert translation.log_prob == pytest.approx(sum(segment.log_prob for segment in alone))


@pytest.mark.article("B15", "X17")
def test_a_model_trained_on_short_sentences_is_given_no_longer_ones():
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    line = "The ball is blue. Where is the house? Yes."
    together = dataclasses.replace(SHORT, sentences="keep")
    [whole] = Translator(model, tokenizer).translate([line], together)
    [split] = Translator(model, tokenizer, trained=20).translate([line], together)
    assert ("split into 2 parts" in whole.notes, "split into 2 parts" in split.notes) == (False, True)
    [uncut] = Translator(model, tokenizer, trained=4).translate(["The black cat drank the milk"], SHORT)
    assert uncut.notes == ()  # a single sentence is given to the model as long as the model takes it


def test_a_line_as_long_as_the_model_takes_is_translated(translator):
    line = "x" + "☃" * 31  # three bytes each
    [ids] = translator.tokenizer.encode_source([line])
    assert 93 < len(ids) <= 97
    [translation] = translator.translate([line], SearchConfig(beam=2))
    assert len(translation.pieces) <= 97


def test_scores_are_the_models_log_probabilities(translator):
    sources, targets = LINES[0::2], [*LINES[1::2], ""]
    for batch in (1, 2, 64):
        for source, target, score in zip(
            sources, targets, score_pairs(translator, sources, targets, batch), strict=True
        ):
            [source_ids], [target_ids] = (
                translator.tokenizer.encode_source([source]),
                translator.tokenizer.encode_target([target]),
            )
            logits = translator.models.loaded[0](torch.tensor([source_ids]), torch.tensor([[BOS, *target_ids[:-1]]]))[0]
            expected = logits.log_softmax(1)[torch.arange(len(target_ids)), target_ids]
            assert score.per_piece == approx_log_prob(expected.tolist())
            assert score.log_prob == pytest.approx(sum(score.per_piece))
            assert score.pieces == translator.tokenizer.target_pieces(target_ids)
    assert score_pairs(translator, ["Yes."], [""], batch=1)[0].pieces == ["</s>"]


def test_unequal_sides_are_refused(translator):
    with pytest.raises(ValueError, match="2 sources and 1 targets: each source needs its target"):
        score_pairs(translator, ["a", "b"], ["c"], batch=2)


def test_a_damaged_model_is_refused_not_believed():
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    with torch.no_grad():
        model.output_embedding.weight[:] = math.nan
    translator = Translator(model, tokenizer)
    for config in (SHORT, SearchConfig(method="greedy"), SearchConfig(method="sample")):
        with pytest.raises(
            ValueError, match=r"the model is damaged: it has weights that are .* not a number, in output"
        ):
            translator.translate(["Yes."], config)
    with pytest.raises(ValueError, match=r"the model is damaged: it has weights that are .* not a number, in output"):
        score_pairs(translator, ["Yes."], ["Sí."], batch=1)


def translator_spoiled_by(translator: Translator, piece: str) -> Translator:
    """Return a translator whose model computes no number for a source with this piece, but does for all others."""
    tokenizer = translator.tokenizer
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    with torch.no_grad():
        model.source_embedding.weight[tokenizer.source_names.index(piece)] = 3e38
    return Translator(model, tokenizer)


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
def test_a_line_that_gets_no_probability_stays_as_it_is_and_spoils_no_other_line(translator, method):
    config = dataclasses.replace(SHORT, method=method, n_best=1)
    lines = ["The ball is blue.", "It costs \\ 3.", "Yes."]
    [piece] = {*translator.tokenizer.source_pieces(translator.tokenizer.encode_source(["\\"])[0])} - {"▁", "</s>"}
    first, failed, last = translator_spoiled_by(translator, piece).translate(lines, config)
    assert (failed.text, failed.stop, failed.notes) == (
        lines[1],
        "failed",
        ("the model gives no translation of it a probability",),
    )
    expected = translator.translate(lines, config)
    assert [first.text, last.text] == [expected[0].text, expected[2].text]
    with pytest.raises(ValueError, match="the model gives line 2 the log-probability nan, where a finite number is"):
        score_pairs(translator_spoiled_by(translator, piece), lines, lines, batch=0)


def test_terms_without_room_leave_their_line_as_it_is_and_the_others_are_translated(translator):
    terms = Terms.from_pairs([("ball", "bola y bola y bola y bola y bola y bola y bola y bola y bola")])
    config = dataclasses.replace(SHORT, max_extra=3)
    lines = ["Yes.", "The ball.", "Where is the house?"]
    first, failed, last = translator.translate(lines, config, terms=terms)
    assert (failed.text, failed.stop) == ("The ball.", "failed")
    assert "its 1 terms take" in failed.notes[0]
    assert [first, last] == translator.translate([lines[0], lines[2]], config)


def test_a_model_in_training_translates_without_dropout_and_trains_on(translator):
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary, dropout=0.5).train()
    translations = Translator(model, tokenizer).translate(LINES, SHORT)
    assert translations == translator.translate(LINES, SHORT)
    assert model.training
    assert all(module.training for module in model.modules())
    with pytest.raises(ValueError, match="split them"):
        Translator(model, tokenizer).translate(["a b " * 97], dataclasses.replace(SHORT, too_long="refuse"))
    assert model.training


def test_batches_hold_what_they_may_and_lose_nothing():
    lengths = {i: 1 + i * 7 % 13 for i in range(29)}
    for sentences, tokens in ((1, 100), (3, 17), (64, 1), (64, 10**6)):
        batches = list(batch_by_length(lengths, sentences, tokens))
        assert sorted(i for batch in batches for i in batch) == list(range(29))
        for batch in batches:
            assert len(batch) <= sentences
            assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= tokens


def test_a_translation_may_be_only_the_end_token():
    tokenizer = small_tokenizer()
    model = model_that_writes(EOS, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    translator = Translator(model, tokenizer)
    [translation] = translator.translate(["Yes."], replace(SHORT, empty="keep"))
    assert (translation.text, translation.stop, translation.pieces) == ("", "eos", ["</s>"])
    [translation] = translator.translate(["Yes."], SHORT)
    assert (len(translation.pieces), translation.pieces[-1], translation.notes[0]) == (2, "</s>", EMPTIED)


@pytest.mark.parametrize("terms", [None, Terms.from_pairs({"ball": "123"})])
@pytest.mark.parametrize("method", ["beam", "greedy"])
def test_a_translation_that_nobody_wants_any_more_stops_between_two_steps(translator, method: str, terms):
    class Unwanted(Exception):
        pass

    def count_checks(most: float) -> int:
        checks = 0

        def check_wanted() -> None:
            nonlocal checks
            checks += 1
            if checks > most:
                raise Unwanted

        try:
            config = dataclasses.replace(SHORT, method=method)
            translator.translate(["The ball is blue."], config, terms=terms, check_wanted=check_wanted)
        except Unwanted:
            assert checks == most + 1
        return checks

    # Once for the line, once for its batch, and once for each piece, of which there are several.
    whole = count_checks(math.inf)
    assert whole > 5
    assert [count_checks(most) for most in range(0, whole, 7)] == [most + 1 for most in range(0, whole, 7)]
