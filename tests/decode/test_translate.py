import dataclasses
import math

import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.assemble import Translation
from pellucid.decode.config import SearchConfig
from pellucid.decode.terms import Terms
from pellucid.decode.translate import Translator, batch_by_length
from tests.decode.models import LINES, model_that_writes, random_model, small_tokenizer

SHORT = SearchConfig(beam=3, max_extra=5)


@pytest.fixture(scope="module")
def translator():
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


@pytest.mark.article("A31", "B4")
def test_a_translation_says_what_was_written_and_why_it_stopped(translator):
    for line, found in zip(LINES, translator.translate(LINES, SHORT), strict=True):
        [source] = translator.tokenizer.encode_source([line])
        assert found.source_pieces == translator.tokenizer.source_pieces(source)
        assert len(found.pieces) == len(found.piece_log_probs) <= len(source) - 1 + 5
        assert found.log_prob == pytest.approx(sum(found.piece_log_probs))
        assert found.score == pytest.approx(found.log_prob / ((5 + len(found.pieces)) / 6) ** 0.6)
        assert found.stop == ("eos" if found.pieces[-1] == "</s>" else "length")
        assert found.alternatives == []


def test_a_translation_that_is_cut_has_all_the_pieces_it_may_have(translator):
    found = translator.translate(LINES, dataclasses.replace(SHORT, method="greedy"))
    cut = [(line, t) for line, t in zip(LINES, found, strict=True) if t.stop == "length"]
    assert cut
    for line, translation in cut:
        assert len(translation.pieces) == len(translator.tokenizer.encode_source([line])[0]) - 1 + 5


def test_alternatives_are_the_others_best_first(translator):
    for found in translator.translate(LINES, dataclasses.replace(SHORT, n_best=3)):
        assert len(found.alternatives) == 2
        some = [found, *found.alternatives]
        assert some == sorted(some, key=lambda t: (t.stop != "eos", -t.score))
        assert len({tuple(t.pieces) for t in some}) == 3
        assert all(other.alternatives == [] for other in found.alternatives)


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0", "\u2028"])
def test_a_blank_line_stays_as_it_is(translator, blank):
    empty = Translation(blank, 0.0, 0.0, "empty", [], [], [])
    assert translator.translate([blank], SHORT) == [empty]
    assert [t.stop == "empty" for t in translator.translate(["Yes.", blank, "Yes."], SHORT)] == [False, True, False]


def test_equal_lines_are_searched_once_and_drawn_each_time(translator, monkeypatch):
    lines, asked, done = ["Yes.", "The ball.", "Yes.", "", "Yes."], [], []
    search_all = translator.engine.search_all

    def counting(batches, config):
        asked.extend(request.number for batch in batches for request in batch)
        return search_all(batches, config)

    monkeypatch.setattr(translator.engine, "search_all", counting)
    found = translator.translate(lines, SHORT, done.append)
    assert sorted(asked) == [1, 2]
    assert done == [2, 3, 4, 5]
    assert [each.text for each in found] == [translator.translate([line], SHORT)[0].text for line in lines]
    asked.clear()
    translator.translate(lines, SearchConfig(method="sample", max_extra=5))
    assert sorted(asked) == [1, 2, 3, 5]


def test_no_lines_give_no_translations(translator):
    assert translator.translate([], SHORT) == []
    assert list(translator.translate_stream([], SHORT)) == []
    assert translator.score([], [], batch=3) == []


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
    [found] = translator.translate(["The ball.\n\nIs blue."], SHORT)
    assert found.text.count("\n") == 2  # those of a caller stay where they are


def test_a_seed_draws_the_same_again_and_another_draws_others(translator):
    config = SearchConfig(method="sample", n_best=2, max_extra=5)
    first = translator.translate(LINES, config)
    assert translator.translate(LINES, config) == first
    assert translator.translate(LINES, dataclasses.replace(config, seed=2)) != first
    twins = translator.translate(["The ball is blue."] * 2, config)
    assert twins[0].text != twins[1].text


def test_progress_counts_the_lines_that_are_done(translator):
    seen = []
    translator.translate([*LINES, ""], dataclasses.replace(SHORT, batch=3), progress=seen.append)
    assert seen == [2, 3, 4, 5, 6, 7, 8]  # the blank one is done from the start


def test_a_stream_is_read_no_further_than_it_must_be(translator):
    read = []

    def lines():
        for line in LINES * 3:
            read.append(line)
            yield line

    stream = translator.translate_stream(lines(), SHORT, block=5)
    next(stream)
    assert len(read) == 5
    assert len(list(stream)) == 20


def test_lines_the_model_cannot_take_are_named_before_anything_is_translated(translator):
    long, seen, refuse = "a b " * 97, [], dataclasses.replace(SHORT, too_long="refuse")
    with pytest.raises(ValueError, match=r"source: .* takes 97 pieces a line, line 2 has \d+, line 3 has \d+; split"):
        translator.translate(["Yes.", long, long], refuse, progress=seen.append)
    assert seen == []
    with pytest.raises(ValueError, match="line 7 has"):
        list(translator.translate_stream(["Yes."] * 6 + [long], refuse, block=5))
    with pytest.raises(ValueError, match=r"line 5 has \d+, and 2 more lines are too long; split"):
        translator.translate([long] * 7, refuse)
    with pytest.raises(ValueError, match=r"target: .* line 2 has"):
        translator.score(["Yes.", "Yes."], ["Sí.", long], batch=2)


def test_or_else_they_are_split_at_sentence_ends_and_say_so(translator):
    sentences = [f"{word} is the house?" * 3 for word in ("Where", "There", "That", "This", "What")]
    [found] = translator.translate(["  ".join(sentences) + " 😀"], SHORT)
    assert found.notes == ("split into 3 parts",)
    assert found.text.endswith(" 😀")
    assert found.pieces.count("</s>") == 3 * (found.stop == "eos") or found.stop == "length"
    parts = ["  ".join(sentences[:2]), "  ".join(sentences[2:4]), sentences[4]]
    assert found.text == "  ".join(each.text for each in translator.translate(parts, SHORT)) + " 😀"
    assert found.log_prob == pytest.approx(sum(each.log_prob for each in translator.translate(parts, SHORT)))


@pytest.mark.article("B15", "X17")
def test_a_model_trained_on_short_sentences_is_given_no_longer_ones():
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    line = "The ball is blue. Where is the house? Yes."
    [whole] = Translator(model, tokenizer).translate([line], SHORT)
    [split] = Translator(model, tokenizer, trained=20).translate([line], SHORT)
    assert (whole.notes, split.notes) == ((), ("split into 2 parts",))
    [uncut] = Translator(model, tokenizer, trained=4).translate(["The black cat drank the milk"], SHORT)
    assert uncut.notes == ()  # a single sentence is given to the model as long as the model takes it


def test_a_line_as_long_as_the_model_takes_is_translated(translator):
    line = "x" + "☃" * 31  # three bytes each
    [ids] = translator.tokenizer.encode_source([line])
    assert 93 < len(ids) <= 97
    [found] = translator.translate([line], SearchConfig(beam=2))
    assert len(found.pieces) <= 97


def test_scores_are_the_models_log_probabilities(translator):
    sources, targets = LINES[0::2], [*LINES[1::2], ""]
    for batch in (1, 2, 64):
        for source, target, score in zip(sources, targets, translator.score(sources, targets, batch), strict=True):
            [read], [written] = (
                translator.tokenizer.encode_source([source]),
                translator.tokenizer.encode_target([target]),
            )
            logits = translator.models[0](torch.tensor([read]), torch.tensor([[BOS, *written[:-1]]]))[0]
            expected = logits.log_softmax(1)[torch.arange(len(written)), written]
            assert score.per_piece == pytest.approx(expected.tolist(), abs=1e-4)
            assert score.log_prob == pytest.approx(sum(score.per_piece))
            assert score.pieces == translator.tokenizer.target_pieces(written)
    assert translator.score(["Yes."], [""], batch=1)[0].pieces == ["</s>"]


def test_unequal_sides_are_refused(translator):
    with pytest.raises(ValueError, match="2 sources and 1 targets: each source needs its target"):
        translator.score(["a", "b"], ["c"], batch=2)


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
        translator.score(["Yes."], ["Sí."], batch=1)


def spoiled_by(translator: Translator, piece: str) -> Translator:
    """As a model that computes no number for a source with this piece, but does for all others."""
    tokenizer = translator.tokenizer
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    with torch.no_grad():
        model.source_embedding.weight[tokenizer.source_names.index(piece)] = 3e38
    return Translator(model, tokenizer)


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
def test_a_line_that_gets_no_probability_stays_as_it_is_and_spoils_no_other(translator, method):
    config = dataclasses.replace(SHORT, method=method, n_best=1)
    lines = ["The ball is blue.", "It costs \\ 3.", "Yes."]
    [piece] = {*translator.tokenizer.source_pieces(translator.tokenizer.encode_source(["\\"])[0])} - {"▁", "</s>"}
    heard: list[int] = []
    one, odd, other = spoiled_by(translator, piece).translate(lines, config, heard.append)
    assert (odd.text, odd.stop, odd.notes) == (
        lines[1],
        "failed",
        ("the model gives no translation of it a probability",),
    )
    whole = translator.translate(lines, config)
    assert [one.text, other.text] == [whole[0].text, whole[2].text]
    assert heard == [1, 2, 3]
    with pytest.raises(ValueError, match="the model gives line 2 the log-probability nan, where a finite number is"):
        spoiled_by(translator, piece).score(lines, lines, batch=0)


def test_terms_without_room_leave_their_line_as_it_is_and_the_others_are_translated(translator):
    terms = Terms.of([("ball", "bola y bola y bola y bola y bola y bola y bola y bola y bola")])
    config = dataclasses.replace(SHORT, max_extra=3)
    lines = ["Yes.", "The ball.", "Where is the house?"]
    heard: list[int] = []
    one, odd, other = translator.translate(lines, config, heard.append, terms=terms)
    assert (odd.text, odd.stop) == ("The ball.", "failed")
    assert "its 1 terms take" in odd.notes[0]
    assert [one, other] == translator.translate([lines[0], lines[2]], config)
    assert sorted(heard) == [1, 2, 3]


def test_a_model_in_training_translates_without_dropout_and_trains_on(translator):
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary, dropout=0.5).train()
    found = Translator(model, tokenizer).translate(LINES, SHORT)
    assert found == translator.translate(LINES, SHORT)
    assert model.training
    assert all(module.training for module in model.modules())
    with pytest.raises(ValueError, match="split them"):
        Translator(model, tokenizer).translate(["a b " * 97], dataclasses.replace(SHORT, too_long="refuse"))
    assert model.training


def test_batches_hold_what_they_may_and_lose_nothing():
    lengths = {i: 1 + i * 7 % 13 for i in range(29)}
    for sentences, tokens in ((1, 100), (3, 17), (64, 1), (64, 10**6)):
        made = list(batch_by_length(lengths, sentences, tokens))
        assert sorted(i for some in made for i in some) == list(range(29))
        for some in made:
            assert len(some) <= sentences
            assert len(some) == 1 or len(some) * max(lengths[i] for i in some) <= tokens


def test_the_end_mark_may_be_all_there_is():
    tokenizer = small_tokenizer()
    model = model_that_writes(EOS, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    [found] = Translator(model, tokenizer).translate(["Yes."], SHORT)
    assert (found.text, found.stop, found.pieces) == ("", "eos", ["</s>"])


@pytest.mark.parametrize("terms", [None, Terms.of({"ball": "123"})])
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
