"""Each cause is found where it was planted and nowhere else, and its numbers are those of the model."""

import json
import random
from dataclasses import replace
from itertools import permutations
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from pellucid.api import Model
from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import BOS, EOS, FORBIDDEN, UNK, Tokenizer
from pellucid.decode.translator import Translator
from pellucid.interpret.trace.attribution import erase_prefix, erase_source
from pellucid.interpret.trace.diagnosis import (
    ErasureEffects,
    TranslationCase,
    add_alarms,
    compare_with_reference,
    find_doubled_words,
    find_hallucination,
    find_odd_pieces,
    find_omissions,
    find_repetitions,
    repeated_runs,
    where_search_lost,
)
from pellucid.interpret.trace.doubt import Doubt
from pellucid.interpret.trace.edits import Hide, Prefix
from pellucid.interpret.trace.facts import SearchTree, TreeNode
from pellucid.model import ModelConfig, Transformer
from pellucid.serve.doubt_counts import MOST_MISTAKES, DoubtCounts, count_doubts
from pellucid.store.directory import Bundle
from tests.decode.models import small_tokenizer
from tests.model.models import EVERY_PAIR
from tests.tolerances import approx_log_prob, relative_rounding
from tests.trace.copying import WORDS, copying_model, word_tokenizer
from tests.trace.traced import ball, small_traced


def copier() -> Model:
    """A model that has learned to copy, so that a copy is no alarm."""
    bundle = Bundle(copying_model(), word_tokenizer(), {}, Path("runs/copy/best"))
    copies = SourceProfile(sources=1, shared=1)
    return Model(bundle, Translator(bundle.model, bundle.tokenizer, profile=copies))


def finding_kinds(verdict):
    return [finding.kind for finding in verdict.findings]


def table_model(table: dict[str, dict[str, float]]) -> Model:
    """A model that writes words with these probabilities after each word; "" is the beginning, "." the end token.

    Each piece is embedded as a vector with a single one; attention and feed-forward add nothing; the last norm gives
    that vector back; and the output embedding holds the logarithms.
    """
    tokenizer = word_tokenizer()
    size, ids = tokenizer.target_vocabulary, {"": BOS, ".": EOS}
    ids |= {word: tokenizer.encode_target([word])[0][0] for word in WORDS}
    model = Transformer(ModelConfig(size, size, size, 1, 1, 1, 1, tie="none", positions="none")).eval()
    with torch.no_grad():
        for name, weight in model.decoder.named_parameters():
            if not name.endswith("norm.weight"):
                weight.zero_()
        model.get_parameter("target_embedding.weight").copy_(torch.eye(size))
        normed = model.decoder_norm(torch.eye(size)[0] * size**0.5)
        model.get_parameter("decoder_norm.weight").fill_(1 / (normed[0] - normed[1]))
        model.get_parameter("decoder_norm.bias").fill_(-normed[1] / (normed[0] - normed[1]))
        model.output_embedding.weight.fill_(-30.0)
        for last, following in table.items():
            for word, probability in following.items():
                model.output_embedding.weight[ids[word], ids[last]] = log(probability)
    bundle = Bundle(model, tokenizer, {}, Path("runs/table/best"))
    return Model(bundle, Translator(model, tokenizer))


GARDEN = {"": {"kima": 0.6, "lopu": 0.4}, "kima": {".": 0.5, "tesa": 0.2, "runo": 0.3}, "lopu": {".": 0.9, "runo": 0.1}}


def make_case(text: str, translation: str, tokenizer: Tokenizer | None = None, **options) -> TranslationCase:
    tokenizer = tokenizer or small_tokenizer()
    [source], [target] = tokenizer.encode_source([text]), tokenizer.encode_target([translation])
    unknown = [piece.startswith("<0x") for piece in tokenizer.source_pieces(source)]
    settings = {"unknown": unknown, "searched": True, "length_penalty": 1.0, **options}
    return TranslationCase(
        ball().origin.bundle.model,
        tokenizer,
        text,
        source,
        translation=translation,
        target=target,
        **settings,
    )


# ---------------------------------------------------------------- search and model


def test_a_search_that_cannot_see_ahead_is_to_blame():
    """kima is likelier than lopu, .6 to .4, and "kima" .30 less likely than "lopu" .36: a beam of 1 takes it."""
    trace = table_model(GARDEN).trace("kima lopu", beam=1)
    assert trace.target.text == "kima"
    finding = trace.verdict("lopu").findings[0]
    assert (finding.kind, finding.step) == ("search", 0)
    assert finding.numbers["score"] == approx_log_prob(log(0.30) / (7 / 6))
    assert finding.numbers["reference_score"] == approx_log_prob(log(0.36) / (7 / 6))
    assert finding.says == (
        "The model gives the reference the score -0.88 and this translation -1.03: the search missed the reference. "
        "It was dropped at piece 1, “▁lopu”, which was number 2 of 2 candidates, of which the beam keeps 1."
    )


def test_the_model_is_to_blame_for_what_no_search_would_choose():
    trace = table_model(GARDEN).trace("kima lopu", beam=2)
    assert trace.target.text == "lopu"
    finding = trace.verdict("kima").findings[0]
    assert (finding.kind, finding.step) == ("model", 0)
    assert finding.numbers["reference_score"] == approx_log_prob(log(0.30) / (7 / 6))
    assert finding.numbers["log_prob"] == approx_log_prob(log(0.4))
    assert finding.numbers["reference_log_prob"] == approx_log_prob(log(0.6))
    later = table_model(GARDEN).trace("kima lopu", beam=1).verdict("kima tesa").findings[0]
    assert (later.kind, later.step) == ("model", 1)
    assert later.numbers["reference_log_prob"] == approx_log_prob(log(0.2))


@pytest.mark.parametrize("options", EVERY_PAIR[::4], ids=[" ".join(options.values()) for options in EVERY_PAIR[::4]])
def test_the_better_score_decides(options):
    """Scores are made of `Model.score` and the formula, for any two texts."""
    model, blamed = small_traced(max_positions=43, **options), set()
    texts = ["La bola es azul.", "Yes.", "¿Dónde está la casa?", "The"]
    for ours, theirs in permutations(texts, 2):
        scores = [s.log_prob / ((5 + len(s.pieces)) / 6) for s in model.score(["Yes."] * 2, [ours, theirs])]
        for searched in (True, False):
            case = replace(make_case("Yes.", ours, searched=searched), model=model.bundle.model)
            findings = compare_with_reference(case, theirs)
            better = ["search"] if searched else []
            assert [finding.kind for finding in findings] == (better if scores[1] > scores[0] else ["model"])
            for finding in findings:
                assert [finding.numbers["score"], finding.numbers["reference_score"]] == approx_log_prob(scores)
                blamed.add(finding.kind)
    assert blamed == {"search", "model"}


def test_the_tree_says_where_a_search_dropped_the_reference():
    """In a search of width 1, piece 5 is kept, 6 is second and 7 is no candidate; under 5 the end token comes first."""
    tree = SearchTree(
        1,
        0.6,
        "",
        2,
        [
            make_node(0, None, 0, 5, 1, "kept"),
            make_node(1, None, 0, 6, 2, "pruned"),
            make_node(2, 0, 1, EOS, 1, "finished"),
        ],
    )
    case = make_case("Yes.", "Yes.", tree=tree)
    assert where_search_lost(case, [6, EOS]) == (
        0,
        f"It was dropped at piece 1, {quote(6)}, which was number 2 of 2 candidates, of which the beam keeps 1.",
    )
    assert where_search_lost(case, [7, EOS]) == (
        0,
        f"It was dropped at piece 1, {quote(7)}, which was not among the 2 candidates, of which the beam keeps 1.",
    )
    assert where_search_lost(case, [5, 8, EOS]) == (
        1,
        f"It was dropped at piece 2, {quote(8)}, which was not among the 2 candidates, of which the beam keeps 1.",
    )
    assert where_search_lost(case, [5, EOS]) == (1, "The search completed it as well.")
    kept_tree = replace(tree, nodes=[*tree.nodes[:2], make_node(2, 0, 1, 9, 1, "kept")])
    assert where_search_lost(replace(case, tree=kept_tree), [5, 9, 9, EOS]) == (
        2,
        f"The search ended before its piece 3, {quote(9)}.",
    )


def test_the_model_is_blamed_at_the_first_piece_where_the_texts_differ():
    trace = copier().trace("kima lopu tesa runo")
    verdict = trace.verdict("kima lopu goxi runo")
    [finding] = verdict.findings
    assert (finding.kind, finding.step, verdict.reference) == ("model", 2, "kima lopu goxi runo")
    log_probs = {candidate.piece: candidate.log_prob for candidate in trace.steps[2].top}
    assert finding.numbers["log_prob"] == approx_log_prob(log_probs["▁tesa"])
    assert finding.numbers["reference_log_prob"] < -1
    assert "“▁tesa”" in finding.says
    assert "“▁goxi”" in finding.says


def test_a_reference_equal_to_the_translation_blames_nobody():
    trace = copier().trace("kima lopu tesa runo")
    assert finding_kinds(trace.verdict("kima lopu tesa runo")) == ["fine"]


def test_the_search_is_not_blamed_for_a_given_target_or_prefix():
    model = copier()
    assert "search" not in finding_kinds(model.trace("kima lopu", target="vadi").verdict("kima lopu"))
    prefix = model.trace("kima lopu").edited(Prefix("vadi"))
    assert "search" not in finding_kinds(prefix.verdict("kima lopu"))
    [other] = model.bundle.tokenizer.encode_target(["vadi"])
    assert "search" not in finding_kinds(model.trace("kima lopu", prefix_ids=other[:1]).verdict("kima lopu"))


def test_the_search_is_blamed_for_a_translation_that_was_cut_off():
    trace = small_traced(ends=-50.0, max_positions=23).trace("Yes.")
    assert trace.stop == "length"
    finding = next(finding for finding in trace.verdict("La bola").findings if finding.kind == "search")
    assert f"cut off at {len(trace.steps)} pieces" in finding.says
    assert finding.step == len(trace.steps) - 1


def test_a_reference_with_unknown_pieces_is_a_matter_of_tokens():
    case = make_case("Yes.", "Yes.")
    tokenizer = SimpleNamespace(encode_target=lambda _: [[9, UNK, UNK, EOS]], decode_target=str)
    [finding] = compare_with_reference(replace(case, tokenizer=tokenizer), "犬")
    assert (finding.kind, finding.numbers) == ("tokens", {"pieces": 4, "unknown": 2})


def test_blank_and_long_references_are_refused():
    with pytest.raises(ValueError, match="the reference is blank"):
        ball().verdict("  ")
    with pytest.raises(ValueError, match=r"the reference has \d+ pieces, this model takes 97"):
        ball().verdict("犬" * 99)


# ---------------------------------------------------------------- pieces


def test_rare_characters_and_words_in_splinters_are_found():
    case = make_case("kima amikupolaset 犬 lopu", "kima", word_tokenizer())
    findings = {finding.word: finding for finding in find_odd_pieces(case)}
    assert set(findings) == {1, 2}
    assert all(finding.kind == "tokens" for finding in findings.values())
    assert findings[1].numbers["unknown"] == 0
    assert findings[1].numbers["pieces"] >= 4
    assert findings[1].numbers["letters_per_piece"] < 2.5
    assert findings[2].numbers["unknown"] == 3
    assert "“amikupolaset”" in findings[1].says
    assert "“犬”" in findings[2].says


def test_whole_word_pieces_digits_and_other_scripts_are_not_odd():
    assert not find_odd_pieces(make_case(" ".join(WORDS), "kima", word_tokenizer()))
    text = "1234567 日本語日本語"
    assert not find_odd_pieces(make_case(text, "kima", word_tokenizer(), unknown=[False] * 99))


# ---------------------------------------------------------------- omission and hallucination


def sentences_to_copy(count: int, least: int = 3):
    rng = random.Random(3)
    return [rng.sample(WORDS, rng.randrange(least, 7)) for _ in range(count)]


def test_a_copy_is_fine():
    model = copier()
    for words in sentences_to_copy(12):
        verdict = model.trace(" ".join(words)).verdict()
        assert finding_kinds(verdict) == ["fine"]
        assert verdict.findings[0].numbers["least"] < 0
        assert verdict.findings[0].numbers["source"] < verdict.findings[0].numbers["least"]


def test_a_word_left_out_is_found():
    """Hardly any other word is reported."""
    model, omissions = copier(), []
    for words in sentences_to_copy(10, least=4):
        for removed in (len(words) - 1, len(words) - 2):
            target = " ".join(words[:removed] + words[removed + 1 :])
            findings = model.trace(" ".join(words), target=target).verdict().findings
            omissions += [(removed, finding) for finding in findings if finding.kind not in ("doubt", "fine")]
            for finding in findings:
                if finding.word is not None:
                    assert finding.numbers["change"] >= finding.numbers["limit"]
                    assert f"“{words[finding.word]}”" in finding.says
    assert {finding.kind for _, finding in omissions} == {"omission"}
    assert sum(removed == finding.word for removed, finding in omissions) >= 19
    assert len(omissions) <= 25


def test_a_model_that_does_not_look_at_its_source_is_found():
    """The model writes from its table: hiding the source changes nothing, hiding the piece before changes much."""
    table = {"": {"goxi": 1.0}, "goxi": {"cyze": 0.99, ".": 0.01}, "cyze": {".": 1.0}}
    trace = table_model(table).trace("kima lopu")
    verdict = trace.verdict()
    [finding] = verdict.findings
    rounding = relative_rounding(terms=1) * float(np.abs(trace["logits"].values).max())
    assert np.abs(verdict.erasure_source).max() <= rounding
    assert finding.kind == "hallucination"
    assert finding.numbers["source"] == pytest.approx(0, abs=rounding)
    assert finding.numbers["prefix"] < -1


def test_a_hallucination_rests_on_the_prefix_and_hardly_on_the_source():
    case = make_case("The ball is blue.", "La bola")
    effects = ErasureEffects(np.ones((4, 3)), np.zeros((3, 3)), -3.9, -10.0, np.full((2, 4), 0.25))
    assert [finding.word for finding in find_omissions(case, effects)] == [0, 1, 2, 3]
    [finding] = find_hallucination(effects)
    assert "falls by 3.90" in finding.says
    assert "falls by 10.00" in finding.says
    assert not find_hallucination(replace(effects, whole_source=-4.1))
    assert not find_hallucination(replace(effects, whole_source=-0.1, whole_prefix=2.0))
    assert find_hallucination(replace(effects, whole_source=0.1, whole_prefix=2.0))


def test_an_empty_translation_is_found():
    [finding] = copier().trace("kima lopu", target="").verdict().findings
    assert finding.kind == "omission"
    assert finding.says.startswith("Nothing was written")
    assert finding.step == 0


# ---------------------------------------------------------------- alarms


def test_an_alarm_is_a_finding_unless_another_one_tells_it_already():
    alarms = ("empty", "copy", "numbers", "repeats")
    case = make_case("It is blue.", "It is blue.", alarms=alarms)
    assert finding_kinds(SimpleNamespace(findings=add_alarms(case, []))) == [
        "omission",
        "copy",
        "numbers",
        "repetition",
    ]
    [omission, *_] = add_alarms(case, [])
    kinds = [finding.kind for finding in add_alarms(case, [omission])]
    assert kinds == ["copy", "numbers", "repetition"]
    assert omission.says == "The translation has no words."


# ---------------------------------------------------------------- repetition


def test_words_written_twice_from_the_same_source_words_are_found():
    case = make_case("The ball is blue.", "La bola es la bola, azul.")
    same, elsewhere = np.eye(4)[[0, 1, 2, 0, 1, 3]], np.eye(4)[[0, 1, 2, 2, 3, 3]]
    [finding] = find_repetitions(case, make_effects(same))
    assert finding.numbers | {"limit": 0.6} == {"first": 0, "second": 3, "words": 2, "share": 1.0, "limit": 0.6}
    assert case.target_words[3].start == finding.step
    assert "“la bola,”" in finding.says
    assert "100%" in finding.says
    assert not find_repetitions(case, make_effects(elsewhere))
    assert find_repetitions(case, make_effects(0.7 * same + 0.3 * elsewhere))
    assert not find_repetitions(case, make_effects(0.5 * same + 0.5 * elsewhere))


def test_a_source_word_that_was_written_twice_is_found_where_the_two_stand_apart_and_begin_alike():
    def find(translation: str, *losses: list[float]) -> list:
        """The losses of each word when "they", "closed" and "doors" is hidden; the last word has two pieces."""
        case = SimpleNamespace(
            text="they closed doors",
            translation=translation,
            target_words=[range(1), range(1, 2), range(2, 4)],
        )
        source = -np.array([[*row[:2], row[2] / 2, row[2] / 2] for row in losses])
        return find_doubled_words(
            cast(TranslationCase, case), ErasureEffects(source, np.zeros((4, 4)), 0.0, 0.0, np.zeros((3, 3)))
        )

    losses = [1.0, 0.0, 0.0], [6.0, 1.0, 4.0], [0.0, 9.0, 0.0]
    [finding] = find("cerraron puertas cerradas", *losses)
    assert (finding.kind, finding.word, finding.step) == ("repetition", 1, 2)
    assert finding.says.startswith("“closed” was written twice: if it is hidden, log p of “cerraron” falls by 6.00")
    assert finding.numbers == {"first": 6.0, "second": 4.0, "limit": 3.0}
    assert not find("cerraron puertas abiertas", *losses)
    assert not find("cerraron cerradas puertas", [1.0, 0.0, 0.0], [6.0, 4.0, 1.0], [0.0, 0.0, 9.0])
    assert not find("cerraron puertas cerradas", losses[0], losses[1], [0.0, 9.0, 5.0])
    assert not find("cerraron puertas cerradas", losses[0], [6.0, 1.0, 2.0], losses[2])


def test_words_that_the_source_repeats_may_be_repeated():
    attention = np.full((4, 4), 0.25)
    assert find_repetitions(make_case("It is blue and", "es muy muy azul"), make_effects(attention))
    assert not find_repetitions(make_case("It is very very", "es muy muy azul"), make_effects(attention))


def test_a_translation_in_circles_is_found():
    """A translation in circles is found inside a word too, and where cross-attention is elsewhere each time."""
    text = "a" * 31
    case = make_case("The ball is blue.", text)
    [finding] = find_repetitions(case, make_effects(np.full((1, 4), 0.25)))
    assert finding.kind == "repetition"
    assert not find_repetitions(make_case(text, text), make_effects(np.full((1, 1), 1.0)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cat and the dog", []),
        ("very, very good", [(0, 1, 1)]),
        ("a b c a b c a b c", [(0, 3, 3), (3, 6, 3)]),
        ("- - a - - a", []),
        ("a b x A B. y", [(0, 3, 2)]),
        ("", []),
    ],
)
def test_repeated_runs_are_those_found_by_hand(text, expected):
    assert list(repeated_runs(text.split())) == expected


# ---------------------------------------------------------------- the whole


def test_the_matrices_are_those_of_erasing_word_by_word():
    trace = ball()
    verdict, model = trace.verdict(), trace.origin.bundle.model
    source, target = trace.source.ids, trace.target.ids
    words = [[n for n, word in enumerate(trace.source.words) if word == number] for number in range(4)]
    size = np.abs(trace["logits"].values).max()  # what erasing changes is a difference of sums of logits
    expected = erase_source(model, source, target, words)
    np.testing.assert_allclose(verdict.erasure_source, expected, rtol=0, atol=relative_rounding() * size)
    expected = erase_prefix(model, source, target, [[n] for n in range(len(target))])
    assert len(verdict.erasure_prefix) == len(target)
    for k, row in enumerate(verdict.erasure_prefix):
        assert row[: k + 1] == [None] * min(k + 1, len(target))
        later = np.array(row[k + 1 :], dtype=float)
        np.testing.assert_allclose(later, expected[k, k + 1 :], rtol=0, atol=relative_rounding() * size)


def test_the_least_sure_word_is_named_with_what_would_have_been_there():
    model = table_model(GARDEN)
    greedy, searched = (model.trace("kima", beam=beam) for beam in (1, 4))
    assert (greedy.target.text, searched.target.text) == ("kima", "lopu")
    assert greedy.doubt == Doubt(0, "kima", 0, approx_log_prob(0.6), "lopu", approx_log_prob(0.4))
    assert searched.doubt == Doubt(0, "lopu", 0, approx_log_prob(0.4), "kima", approx_log_prob(0.6))
    finding = greedy.verdict().findings[0]
    assert (finding.kind, finding.step) == ("doubt", 0)
    assert finding.says == "The model was least sure of “kima” (60%). Instead it could have been “lopu” (40%)."
    assert searched.verdict().findings[0].says.endswith("“kima” was likelier at that place (60%).")


def test_what_would_have_been_there_is_what_a_search_writes_from_there():
    model = small_traced()
    found = 0
    for sentence in ("The ball is blue.", "the house", "Where is the house?"):
        trace = model.trace(sentence)
        doubt = trace.doubt
        if doubt is None:
            continue
        found += 1
        step = trace.steps[doubt.step]
        assert step.chosen.prob == doubt.prob == min(row.chosen.prob for row in trace.steps[: doubt.step + 1])
        other = next(one.id for one in step.top if one.id != step.chosen.id and one.id not in FORBIDDEN)
        if other == EOS:
            assert doubt.instead == ""
            continue
        again = model.trace(sentence, beam=1, prefix_ids=[*trace.target.ids[: doubt.step], other])
        assert again.target.text.split()[doubt.word] == doubt.instead
        assert again.doubt is None  # its beginning was given
    assert found


def test_sure_words_and_changed_runs_have_no_doubt():
    model = table_model({"": {"kima": 0.8, "lopu": 0.2}, "kima": {".": 0.9, "runo": 0.1}})
    trace = model.trace("kima")
    assert trace.doubt is None
    assert model.trace("kima", target="lopu").doubt is not None
    assert model.trace("kima", target="lopu").edited(Hide(0)).doubt is None


def test_doubts_are_counted_beside_the_mistakes_that_they_tell():
    model = table_model(GARDEN)  # it writes "lopu" with a probability of 0.4, whatever it reads
    pairs = [("kima", "LOPU"), ("kima", "tesa"), ("kima", "lopu tesa")]
    progress: list[int] = []
    counts = count_doubts(model, pairs, lambda: progress.append(1))
    assert counts == DoubtCounts(pairs=3, mistakes=2, doubted=2, named=1, right=1, right_doubted=1)
    assert len(progress) == 3
    assert count_doubts(model, pairs[1:2] * 99, lambda: None).mistakes == MOST_MISTAKES


def test_a_verdict_is_ready_for_the_page():
    table = json.loads(json.dumps(ball().verdict("La bola es azul.").as_json(), allow_nan=False))
    assert list(table) == ["findings", "reference", "erasure_source", "erasure_prefix"]
    for finding in table["findings"]:
        assert {"kind", "says", "numbers"} <= set(finding) <= {"kind", "says", "numbers", "step", "word"}
        assert all(isinstance(value, int | float) for value in finding["numbers"].values())


def test_an_edited_trace_gets_no_verdict():
    with pytest.raises(ValueError, match="ask the trace without edits"):
        ball().edited(Hide(1)).verdict()


def make_effects(attention) -> ErasureEffects:
    return ErasureEffects(np.zeros((0, 0)), np.zeros((0, 0)), 0.0, 0.0, attention)


def make_node(number, parent, step, piece, rank, fate) -> TreeNode:
    return TreeNode(number, parent, step, str(piece), piece, -1.0, -1.0, -1.0, rank, fate, False)


def quote(piece: int) -> str:
    [name] = small_tokenizer().target_pieces([piece])
    return f"“{name}”"
