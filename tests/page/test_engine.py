"""The engine of a page is the model of Python: the same ids, texts, scores, steps, trees and tensors, run in Node."""

import gzip
import io
import random
import unicodedata
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from benchmarks.garbage import draw_lines
from pellucid.api import Model
from pellucid.data.source_profile import SourceProfile
from pellucid.data.text.protected import list_protected
from pellucid.data.text.sentences import (
    ABBREVIATIONS,
    ABBREVIATIONS_BEFORE_NUMBERS,
    ABBREVIATIONS_IN_SMALL_LETTERS,
    FIRST_WORDS,
    GERMAN_MONTHS,
    LEADING_ABBREVIATIONS,
    NAME_PARTICLES,
)
from pellucid.data.text.spelling import plain_counterpart
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.decode.alarms import ALARMS
from pellucid.decode.translator import Translator
from pellucid.demo.phrasebook import generate_phrases
from pellucid.interop.marian import import_marian
from pellucid.interpret.trace import Hide
from pellucid.interpret.trace.model_page import save_model_page
from pellucid.interpret.trace.session import Trace, perform_act
from pellucid.store.directory import Bundle
from tests.decode.models import LINES, random_model
from tests.interop.marian_models import quiet, write_marian_model
from tests.page.engines import EngineInNode, read_floats
from tests.page.traces import Read
from tests.text.test_sentences import CASES, list_sentences
from tests.tolerances import approx_log_prob, approx_sum, relative_rounding
from tests.trace.traced import make_model, small_traced
from tests.variants import mark_others_slow

KINDS: dict[str, dict[str, Any]] = {
    "pre": {"norm": "pre", "positions": "sinusoidal", "activation": "relu", "tie": "all", "output_bias": False},
    "post": {"norm": "post", "positions": "rotary", "activation": "swiglu", "tie": "none"},
    "learned": {"norm": "pre", "positions": "learned", "activation": "gelu", "tie": "decoder", "max_positions": 29},
    "rms": {"norm": "rms", "positions": "rotary", "activation": "silu", "tie": "all"},
    "none": {"norm": "post", "positions": "none", "activation": "silu", "tie": "none"},
}
SENTENCES = ["The ball is blue.", "  Where is  the house? 😀", "zebra Ü 犬", "the the the the the the the the the", "?"]
ODDITIES = [
    *"\u2581\u2585\ufdd0\ufeff\u200b\u00a0\u3000\u0301\u0130ßﬁ½ＡñÅ犬😀👩🏽‍🚀\u2028\x1f\x85\0\t\u05d0\uffff\U0010ffff"
]
ODDITIES += ["  ", " ", "house", "<s>", "</s>", "<unk>", "<0x41>", ">>spa<<", "\ufdd01", "leche", "12345"]


def assert_equal_numbers(ours: np.ndarray, theirs: np.ndarray, name: str, tolerance: float = 1e-4) -> None:
    """Equal within a share of the largest number."""
    assert ours.shape == theirs.shape, name
    largest = float(np.abs(theirs).max(initial=0.0))
    assert float(np.abs(ours - theirs).max(initial=0.0)) <= tolerance * largest, name


def assert_same_tree(nodes: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """The candidates of each step are the same; where totals differ by rounding alone, they may have changed places."""
    assert len(nodes) == len(expected)
    for ours, theirs in zip(nodes, expected, strict=True):
        assert [ours["step"], ours["rank"], ours["best"]] == [theirs["step"], theirs["rank"], theirs["best"]]
        assert ours["total"] == approx_log_prob(theirs["total"])
        assert ours["score"] == approx_log_prob(theirs["score"])
        if any(ours[name] != theirs[name] for name in ("parent", "piece_id", "fate")):
            rivals = [node for node in expected if node["step"] == ours["step"] and node["id"] != ours["id"]]
            assert any(ours["total"] == approx_log_prob(node["total"]) for node in rivals)


def assert_same_doubt(ours: dict[str, Any] | None, theirs: dict[str, Any] | None) -> None:
    """The same word is doubted, and the same word could stand there instead."""
    if theirs is None:
        assert ours is None
        return
    close = {name: pytest.approx(theirs[name], rel=1e-4) for name in ("prob", "instead_prob")}
    assert ours == {**theirs, **close}


def assert_same_trace(manifest: dict[str, Any], trace: Trace, words: bool = True) -> None:
    """The facts of both are the same, and their numbers are close; the `words` of pieces are compared if asked for."""
    expected = trace.manifest()
    if not words:
        for table in (manifest, expected):
            for side in ("source", "target"):
                table[side] = {**table[side], "words": []}
    for name in ("sentence", "source", "inputs", "forced", "stop", "edits"):
        assert manifest[name] == expected[name], name
    assert manifest["target"] == expected["target"]
    assert manifest["run"]["search"] == expected["run"]["search"]
    assert manifest["log_prob"] == approx_log_prob(expected["log_prob"])
    assert manifest["score"] == approx_log_prob(expected["score"])
    for ours, theirs in zip(manifest["steps"], expected["steps"], strict=True):
        assert [ours["chosen"]["id"], ours["rank"]] == [theirs["chosen"]["id"], theirs["rank"]]
        assert ours["entropy"] == approx_log_prob(theirs["entropy"])
        assert ours["others"] == pytest.approx(theirs["others"], abs=1e-4)
    assert_same_doubt(manifest["doubt"], expected["doubt"])
    if expected["tree"] is None:
        assert manifest["tree"] is None
    else:
        assert_same_tree(manifest["tree"]["nodes"], expected["tree"]["nodes"])
    rows = {row["name"]: row for row in expected["tensors"]}
    for row in manifest["tensors"]:
        theirs = rows[row["name"]]
        for name in ("dims", "shape", "captured", "edited", "op"):
            assert row.get(name) == theirs.get(name), (row["name"], name)
    failed = [check for check in manifest["checks"] if not check["passed"]]
    assert failed == []


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_texts_scores_and_every_tensor_are_those_of_python(options: dict[str, Any], tmp_path: Path):
    model = small_traced(**{"ends": 9.0, "max_positions": 23, **options})
    engine = EngineInNode(model, tmp_path)
    # One kind is asked about every sentence: what a sentence brings is the same for all.
    sentences = SENTENCES if options == KINDS["pre"] else SENTENCES[:2]
    traces = [
        model.trace(sentence, beam=beam)
        for sentence in sentences
        for beam in ((1, 4) if sentence in SENTENCES[:2] else (4,))
    ]
    questions: list[tuple[str, Any]] = []
    for trace in traces:
        beam = trace.facts.run.search["beam"]
        questions += [("trace", {"sentence": trace.sentence, "beam": beam})]
        questions += [("tensor", name) for name in trace]
        questions += [("translate", {"text": trace.sentence, "beam": beam})]
        if "logits" in trace:
            questions += [("account", {"step": 0, "piece": trace.target.ids[0]})]
    answers = iter(engine.ask_all(questions))
    for trace in traces:
        assert_same_trace(next(answers), trace)
        for name in trace:
            values = trace.tensor(name)
            assert_equal_numbers(read_floats(next(answers), values.shape), values, name)
        translated = model.translate(trace.sentence, beam=int(trace.facts.run.search["beam"]))
        ours = next(answers)
        assert [ours["text"], ours["stop"], ours["pieces"]] == [translated.text, translated.stop, translated.pieces]
        assert ours["score"] == approx_log_prob(translated.score)
        if "logits" not in trace:
            continue
        account, theirs = next(answers), trace.account(0).as_json()
        assert [part["name"] for part in account["parts"]] == [part["name"] for part in theirs["parts"]]
        largest = max(abs(part["value"]) for part in theirs["parts"])
        for part, other in zip(account["parts"], theirs["parts"], strict=True):
            assert part["value"] == approx_sum(other["value"], size=largest), part["name"]


EDITS: list[dict[str, Any]] = [
    {"kind": "silence", "attention": "decoder.1.cross", "head": 2},
    {"kind": "pattern", "attention": "encoder.0.self", "head": 1, "row": 1, "values": [0.0, 1.0]},
    {"kind": "hide", "word": 1},
    {"kind": "without", "part": "scaling"},
    {"kind": "without", "part": "positions"},
    {"kind": "without", "part": "residual"},
    {"kind": "without", "part": "mask"},
    {"kind": "prefix", "text": "La bola"},
]


@pytest.mark.parametrize("options", mark_others_slow({name: KINDS[name] for name in ("pre", "post")}, "pre"))
def test_every_edit_changes_what_it_changes_in_python(options: dict[str, Any], tmp_path: Path):
    model = small_traced(**{**options, "output_bias": True, "ends": 9.0, "max_positions": 19})
    engine = EngineInNode(model, tmp_path)
    base = model.trace("The ball is blue.")
    weights = [0.0] * len(base.source.ids)
    weights[2] = 1.0
    edits = [{**edit, "values": weights} if edit["kind"] == "pattern" else edit for edit in EDITS]
    cases = [
        (edit, keep)
        for edit in edits
        for keep in (False, True)
        # A search has no later pieces to hide, and without the residual pieces in another order tie; a beginning makes
        # another translation.
        if not (edit.get("part") in ("mask", "residual") and not keep) and not (edit["kind"] == "prefix" and keep)
    ]
    questions: list[tuple[str, Any]] = []
    for edit, keep in cases:
        questions += [("trace", {"sentence": base.sentence}), ("edit", {"edits": [edit], "keep_target": keep})]
        questions += [("tensor", "logits")]
    answers = iter(engine.ask_all(questions))
    for edit, keep in cases:
        next(answers)
        trace = base.edited(edit, keep_target=keep)
        assert_same_trace(next(answers), trace)
        assert_equal_numbers(
            read_floats(next(answers), trace.tensor("logits").shape), trace.tensor("logits"), str(edit)
        )


def test_what_cannot_be_traced_is_refused_in_a_sentence(tmp_path: Path):
    engine = EngineInNode(small_traced(), tmp_path)
    sentence = {"sentence": "The ball is blue."}
    refused = {
        "nothing to trace": {"sentence": "  😀 "},
        "2 parts": {"sentence": "Yes.\tNo.", "target": "Sí."},
        "whole number": {**sentence, "beam": 0},
        "decoder.9.cross is no attention": {
            **sentence,
            "edits": [{"kind": "silence", "attention": "decoder.9.cross", "head": 0}],
        },
        "Word 7 is not": {**sentence, "edits": [{"kind": "hide", "word": 7}]},
        "by chance": {**sentence, "drawing": {"temperature": 1, "top_k": 0, "top_p": 1, "seed": 1}},
        "piece 3": {**sentence, "prefix_ids": [3]},
        "id 2": {**sentence, "target_ids": [2]},
        "mask": {**sentence, "edits": [{"kind": "without", "part": "mask"}]},
        "lone surrogate": {"sentence": "a \ud800"},
    }
    answers = engine.ask_all([("trace", question) for question in refused.values()])
    for words, answer in zip(refused, answers, strict=True):
        assert isinstance(answer, str), answer
        assert words in answer


def test_prefixes_and_given_targets_are_those_of_python(tmp_path: Path):
    model = small_traced()
    engine = EngineInNode(model, tmp_path)
    base = model.trace("The ball is blue.")
    prefix, target = list(base.target.ids[:1]), "La bola."
    questions = [
        ("trace", {"sentence": base.sentence, "prefix_ids": prefix}),
        ("trace", {"sentence": base.sentence, "target": target}),
        ("trace", {"sentence": base.sentence, "target_ids": base.target.ids[:2]}),
    ]
    expected = [
        model.trace(base.sentence, prefix_ids=prefix),
        model.trace(base.sentence, target=target),
        model.trace(base.sentence, target=base.target.ids[:2]),
    ]
    for answer, trace in zip(engine.ask_all(questions), expected, strict=True):
        assert_same_trace(answer, trace)


def test_runs_beside_the_trace_are_those_of_python(tmp_path: Path):
    model = small_traced(max_positions=19)
    engine = EngineInNode(model, tmp_path)
    trace = model.trace("The ball is blue.")
    other = {"sentence": "Where is the house?"}
    _, masking, diagonals = engine.ask_all(
        [("trace", {"sentence": trace.sentence}), ("masking", {}), ("identity", other)]
    )
    expected = perform_act(trace, "masking", {})
    assert isinstance(expected, dict)
    for name in ("size", "unmasked", "parted"):
        assert masking[name] == approx_sum(expected[name], size=expected["size"]), name
    assert len(masking["kept"]) == len(expected["kept"])
    assert max(masking["kept"]) < relative_rounding() * expected["size"]
    assert np.array(masking["products"]["rows"]) == approx_sum(np.array(expected["products"]["rows"]))
    theirs = perform_act(trace, "identity", other)
    assert isinstance(theirs, dict)
    assert [diagonals[name] for name in ("source", "target", "pieces")] == [
        theirs[name] for name in ("source", "target", "pieces")
    ]
    for ours, row in zip(diagonals["attentions"], theirs["attentions"], strict=True):
        assert ours["section"] == row["section"]
        for name in ("written", "read"):
            assert ours[name] == pytest.approx(row[name], abs=1e-5), name


def model_with_tokenizer(tokenizer: Tokenizer) -> Model:
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    bundle = Bundle(model, tokenizer, {}, Path("runs/small/best"))
    return Model(bundle, Translator(model, tokenizer, trained=19))


def odd_lines(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    letters = [*ODDITIES, *"aeiou .,¿?"]
    return ["".join(generator.choices(letters, k=generator.randrange(14))) for _ in range(count)]


TOKENIZERS = {
    "bpe": TokenizerConfig(kind="bpe", vocabulary=307),
    "unigram": TokenizerConfig(kind="unigram", vocabulary=307),
    "char": TokenizerConfig(kind="char", vocabulary=311),
    "word": TokenizerConfig(kind="word", vocabulary=293),
    "two, lower case": TokenizerConfig(kind="bpe", vocabulary=293, joint=False, lowercase=True),
}


def assert_same_tokenizer(tokenizer: Tokenizer, engine: EngineInNode, lines: list[str]) -> None:
    """Every line has the same ids on both sides, and ids drawn at random the same text."""
    generator = random.Random(4)
    drawn = [
        [generator.randrange(tokenizer.target_vocabulary) for _ in range(generator.randrange(9))] for _ in range(500)
    ]
    sources, targets, texts = engine.ask_all(
        [
            ("encode", {"side": "source", "lines": lines}),
            ("encode", {"side": "target", "lines": lines}),
            ("decode", drawn),
        ]
    )
    assert differing(lines, sources, tokenizer.encode_source(lines)) == []
    assert differing(lines, targets, tokenizer.encode_target(lines)) == []
    assert differing(drawn, texts, [tokenizer.decode_target(ids) for ids in drawn]) == []


def differing(questions: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    assert len(questions) == len(ours) == len(theirs)
    return [triple for triple in zip(questions, ours, theirs, strict=True) if triple[1] != triple[2]][:3]


@pytest.mark.parametrize("config", mark_others_slow(TOKENIZERS, *(name for name in TOKENIZERS if name != "char")))
def test_every_line_has_the_ids_of_python(config: TokenizerConfig, tmp_path: Path):
    tokenizer = Tokenizer.train(LINES, LINES, config, seed=1, max_sentences=100)
    phrases = [phrase.source for phrase in islice(generate_phrases(seed=5), 300)]
    garbage = [line for _, line in draw_lines(300, seed=6)]
    engine = EngineInNode(model_with_tokenizer(tokenizer), tmp_path)
    assert_same_tokenizer(tokenizer, engine, [*phrases, *garbage, *odd_lines(700, seed=7), "", " ", *LINES])


@pytest.mark.parametrize(
    "separate", mark_others_slow({"one vocabulary": False, "two vocabularies": True}, "two vocabularies")
)
@quiet
def test_an_imported_model_is_that_of_python(separate: bool, tmp_path: Path):
    options: dict[str, Any] = {"share_encoder_decoder_embeddings": False} if separate else {}
    directory = write_marian_model(tmp_path / "theirs", separate=separate, end=3.0, **options)
    bundle = import_marian(directory, tmp_path / "ours")
    model = Model(bundle, Translator(bundle.model, bundle.tokenizer))
    engine = EngineInNode(model, tmp_path)
    sentences = ["The ball is blue.", "She said “no” to the ½ price.", ">>spa<< Yes."]
    traces = [model.trace(sentence, beam=3) for sentence in sentences]
    for answer, trace in zip(
        engine.ask_all([("trace", {"sentence": sentence, "beam": 3}) for sentence in sentences]), traces, strict=True
    ):
        # Its tokenizer rewrites text, and which letters belong to which word is guessed in another way.
        assert_same_trace(answer, trace, words=False)
    assert_same_tokenizer(bundle.tokenizer, engine, [*odd_lines(1000, seed=8), *sentences])


def test_a_source_has_no_end_where_the_model_was_trained_without_it(tmp_path: Path):
    bundle = small_traced().bundle
    tokenizer = replace(bundle.tokenizer, config=replace(bundle.tokenizer.config, source_end=False))
    bundle = Bundle(bundle.model, tokenizer, {}, tmp_path)
    ours = Model(bundle, Translator(bundle.model, bundle.tokenizer))
    sentences = ["The ball is blue.", "Yes.", "Where is the house? The ball is blue."]
    answers = EngineInNode(ours, tmp_path).ask_all([("trace", {"sentence": text, "beam": 2}) for text in sentences])
    for answer, sentence in zip(answers, sentences, strict=True):
        trace = ours.trace(sentence, beam=2)
        assert trace.source.pieces[-1] != "</s>"
        assert_same_trace(answer, trace)


@pytest.mark.parametrize("translates_numbers", [False, True])
def test_lines_are_split_and_joined_as_in_python(translates_numbers: bool, tmp_path: Path):
    model = small_traced()
    model.translator.lengths = type(model.translator.lengths)(19, 40)
    profile = SourceProfile(sources=9, sentences=(9,), without_letters=9) if translates_numbers else None
    model.translator.reader = replace(model.translator.reader, profile=profile)
    engine = EngineInNode(model, tmp_path)
    lines = [
        "The ball is blue.\tYes. 😀",
        'Where is the house? Dr. A. Bee paid 3.50 on May 3. "Why?" she asked. He (I know...) left!',
        "是。不。" * 9,
        "e\u0301x👩🏽‍🚀🇺🇦🇵🇪" * 9,
        "abc; def, ghi — jkl: " * 4,
        "   ",
        "",
        "👍🏽 2 * 3 = 6 ☺️ 1️⃣ ",
        "12\t12,5\tThe ball\t½ ℃ Ⅷ 〇",
        "2024-01-01 10:30, +34 600 000 000. 1/2; 100 % (€ 12.50)",
        "二〇二四\t12 x\tª\tʰ\t\u0301\t☎️ 5",
        "{name} <b>12</b> `x` # 5",
    ]
    expected = [model.translate(line, markup="text") for line in lines]
    for line, ours, theirs in zip(
        lines, engine.ask_all([("translate", {"text": line}) for line in lines]), expected, strict=True
    ):
        assert [ours["text"], ours["stop"], ours["pieces"]] == [theirs.text, theirs.stop, theirs.pieces], line
        assert ours["score"] == approx_log_prob(theirs.score)


WORDS = (
    "the",
    "ball",
    "is",
    "blue",
    "house",
    "John",
    "NATO",
    "it",
    "new",
    "where",
    "l'eau",
    "straße",
    "yes",
    "language",
)
PROFILES = {
    "alone": SourceProfile(sources=100, sentences=(100,), words=WORDS, small_letters=0),
    "pairs": SourceProfile(
        sources=100, sentences=(70, 20, 10), continuations={"it": 9, "yes": 3}, marks={"numbers": 4}, words=WORDS
    ),
    "learned": SourceProfile(
        sources=100,
        sentences=(100,),
        without_letters=5,
        capitals=5,
        title_case=5,
        marks={"quotes": 5, "brackets": 5, "bullets": 5},
        spellings={"’": 3, "\u00a0": 3, "“": 3, "”": 3},
        small_letters=5,
    ),
    "nouns": SourceProfile(sources=100, sentences=(100,), words=("Haus", "Ball", "ist")),
    "none": None,
}
READ_LINES = [
    "The ball is blue. Where is the house? It is new. Yes. It is. No!",
    "It is new. It is blue. It is new.\tYes. The ball is blue.",
    "Don’t\u00a0go to “the house”… Zoe\u0308 paid 12\u202f000 € — or ½ of Ａ ﬁne m².",
    "THE BALL IS BLUE. JOHN'S HOUSE IS NEW. I AM. NATO. {NAME} IS AT HTTPS://A.EXAMPLE/B",
    "THE BALL’S NEW, L'EAU AND STRASSE.",
    "The Ball Is Blue. Where Is The House? John Smith",
    "The House Of The New Ball",
    "the ball is blue. john's house is new! where is it? it is... new. nato etc. and so on",
    "BLUE HOUSE: the ball is new. HOUSE: THE BALL and the blue ball. John saw THE NEW “BLUE” HOUSE, NATO.",
    "“The ball is blue. It is new,” he said. “Where is the house?",
    '—The ball is blue.» The ball: 5" "Yes. -The house. -it is. The new house.” (the ball”',
    "The ball is blue.¹ It is new. [2] Yes.* - [x] The house is blue.† *It* is.*",
    "| The ball | is {{ a | b }} |  || blue\\nIt is. C:\\new \\\\n \\n",
    "%5'i ve %20. %5 ball. %1 ball %2. {-term} &amp; &nbsp; &#160; &#39; &eacute; Ali'nin %3 artış",
    "The ball (THE HOUSE) is blue – THE NEW HOUSE. {NAME} THE HOUSE. NATO: IT IS. It is THE BALL.",
    '1. "The ball is blue." (2) Where is it? - Yes. • [The house] 12 %',
    "a) The ball. IV. It is new. 1.2.3 The house 3 – The ball",
    "«The ball» is «blue». „The ball is blue“. “Yes,” he said, “no.” 'It's new.' 「はい。」（いいえ）",
    "12,5. 13. The ball. 14",
    "See https://a.example/x.The house (www.b.example). Ask me@c.example. Now.",
    "The `code. It` is new. %s is. ${HOME}. Yes.",
    "The ball is blue.The house is new. 😀 It is. 👍🏽",
    "\u00a0 The ball.\u2009It is new.\u200b ",
    "The hosue is bleu, wehre it is. HOSUE! THE HOUUSE IS NEWW. Hosue or Jhon; The Lnaguage of the langauge, lamguage.",
    "www.hosue.com {hosue} l'hosue hosue-hosue hosue.x x.hosue hosue: hosue_ 'hosue' “hosue” straßße STARSSE Wehre",
    "@tom Come. #ball Where is it? 12:45 pm: The ball! https://a.example/b?c=(d) The house: 3:1 No. AB-1234 Yes.",
    "[12:45] The ball is blue. (1234) 12:45 Uhr. The house is new. me@a.example #house @tom",
    "@tom Yes. 12",
    "www.a.example – «The ball» is blue! http://b.example/(c",
    "  ",
    "12",
]


def odd_sentences(count: int, seed: int) -> list[str]:
    """Sentences with the oddities of text that people paste."""
    generator = random.Random(seed)
    words = ["the", "ball", "is", "Blue", "house", "it", "John", "NATO", "12", "Zoe\u0308", "don’t", "l'eau", "犬", "É"]
    marks = [" ", " ", " ", ". ", "? ", "! ", "… ", "\u00a0", "\u2009", ", ", " — ", "\u00ad", "\u0301", "…", ".\u00a0"]
    before = ["", "", "1. ", "(2) ", "- ", "• ", "“", '"', "«", "(", "[", "a) ", "\u200b", "@tom ", "12:45 ", "AB-123 "]
    behind = [".", "?", "", "”", '"', '."', "».", ")", "]", " 😀", "!)", ". #ball", "! a@b.example"]
    spell = [str, str.upper, str.title, str.lower, lambda text: f"John {text.upper()}", lambda text: f"THE {text}"]
    lines = []
    for _ in range(count):
        parts = []
        for _ in range(generator.randrange(1, 4)):
            text = "".join(generator.choice(words) + generator.choice(marks) for _ in range(generator.randrange(1, 7)))
            parts += [generator.choice(before) + generator.choice(spell)(text).strip() + generator.choice(behind)]
        lines.append(" ".join(parts))
    return lines


# Each profile and each language once: they do not meet but where a language has its own letters or its own capitals.
READINGS = {
    f"{language}-{name}": (PROFILES[name], language) for language in ("es", "en", "tr", "el") for name in PROFILES
}


@pytest.mark.parametrize(
    ("profile", "language"),
    mark_others_slow(READINGS, "en-alone", "es-pairs", "tr-nouns", "el-learned", "es-none"),
)
def test_lines_are_read_and_cut_as_a_profile_of_the_training_text_says(
    profile: SourceProfile | None, language: str, tmp_path: Path
):
    model = small_traced(ends=9.0)
    model.translator.reader = replace(model.translator.reader, profile=profile, target_language=language)
    engine = EngineInNode(model, tmp_path)
    lines = [*READ_LINES, *odd_sentences(30, seed=len(language))]
    answers = iter(engine.ask_all([("translate", {"text": line, "beam": 1}) for line in lines]))
    for line in lines:
        theirs = model.translate(line, markup="text", beam=1)
        ours = next(answers)
        assert [ours["text"], ours["stop"], ours["pieces"]] == [theirs.text, theirs.stop, theirs.pieces], line
        # The page raises no alarm but that on a translation that repeats itself.
        told = [[note for note in notes if note not in ALARMS.values()] for notes in (ours["notes"], theirs.notes)]
        assert told[0] == told[1], line
        assert ours["score"] == approx_log_prob(theirs.score)


@pytest.mark.parametrize("profile", mark_others_slow({name: PROFILES[name] for name in ("pairs", "alone")}, "pairs"))
def test_every_part_of_a_line_is_traced_as_in_python(profile: SourceProfile, tmp_path: Path):
    model = small_traced(ends=9.0)
    model.translator.reader = replace(model.translator.reader, profile=profile)
    engine = EngineInNode(model, tmp_path)
    edits = [{"kind": "prefix", "text": "La"}]
    asked: list[dict[str, Any]] = []
    for line in [line for line in READ_LINES if line.strip() and not any(sign in line for sign in "{`@$:%[|😀")]:
        if model.translate(line).stop == "empty":
            continue
        part = model.trace(line, beam=2).facts.part
        asked += [
            {"sentence": line, "beam": 2, "segment": number + 1} for number in range(len(part.segments) if part else 1)
        ]
    line = READ_LINES[0]
    asked += [{"sentence": line, "beam": 2}, {"sentence": line, "segment": 2, "target": "Sí."}]
    asked += [{"sentence": line, "target": "Sí."}, {"sentence": line, "segment": 2, "edits": edits}]
    for question, manifest in zip(asked, engine.ask_all([("trace", question) for question in asked]), strict=True):
        trace = model.trace(**question)
        assert not isinstance(manifest, str), (question, manifest)
        assert_same_trace(manifest, trace)
        for name in ("part", "context"):
            assert manifest[name] == trace.manifest()[name], question
        told = [
            [note for note in notes if "around the sentence" not in note and note not in ALARMS.values()]
            for notes in (manifest["notes"], trace.notes)
        ]
        assert told[0] == told[1], question


def test_the_page_is_refused_a_part_that_the_line_does_not_have(tmp_path: Path):
    engine = EngineInNode(small_traced(), tmp_path)
    lines = [
        {"sentence": "Yes. No.", "segment": 3},
        {"sentence": "Yes.", "segment": 2},
        {"sentence": "Yes.\tNo.", "target": "Sí"},
    ]
    answers = engine.ask_all([("trace", question) for question in lines])
    expected = ["no part 3; they are 1 to 2", "no part 2; it is one", "in 2 parts"]
    assert all(words in answer for words, answer in zip(expected, answers, strict=True)), answers


def test_every_character_has_the_counterpart_that_it_has_in_python(tmp_path: Path):
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    # A newer Unicode than that of one side may know more of them.
    characters = [character for character in characters if unicodedata.category(character) not in ("Cn", "Co")]
    [answer] = EngineInNode(small_traced(), tmp_path).ask_all([("counterparts", characters)])
    assert differing(characters, answer, list(map(plain_counterpart, characters))) == []


def test_protected_text_is_that_of_python(tmp_path: Path):
    generator = random.Random(3)
    signs = [
        *"{}%$#:`'<>[]()_@.!,|-&= \\;5",
        "&amp;",
        "ş",
        "name",
        "0",
        "1f",
        "s",
        "d",
        "{{",
        "}}",
        "{%",
        "%}",
        "``",
        "__",
        "https://",
        "www.",
    ]
    signs += [
        "a.b",
        "and",
        "number",
        "choice",
        "{0}",
        "%s",
        "%(x)s",
        "${",
        "é",
        "犬",
        "\u00a0",
        "textbf",
        ":name:",
        "st",
    ]
    lines = ["".join(generator.choices(signs, k=generator.randrange(2, 12))) for _ in range(20_000)]
    lines += [case for line in READ_LINES for case in (line, line.lower())]
    [answer] = EngineInNode(small_traced(), tmp_path).ask_all([("protected", lines)])
    assert differing(lines, answer, list(map(list_protected, lines))) == []


def test_sentences_end_where_they_do_in_python(tmp_path: Path):
    """Cases of all languages, alone and in each other's company, and lines of odd characters."""
    random_lines = random.Random(9)
    pieces = [
        *"aZ1.?!…;\u00a0\u3000\"'“”„«»()[]-–*_¿。！？」।؟ก\u200b",
        *" .",
        "Mr",
        "z",
        "B",
        "etc",
        "The",
        "Le",
        "am",
        "II",
        "No",
    ]
    pieces += [
        "Τι",
        "Inc",
        "😀",
        "\U00010400",
        "e\u0301",
        "Ǆ",
        "ﬁ",
        "ª",
        "²",
        "Ⅳ",
        "\U00020000",
        "\U0001f1fa",
        "İ",
        "ß",
        "\x85",
    ]
    texts = [case.replace("|", "") for table in CASES for case in table.strip().split("\n")]
    texts += [" ".join(random_lines.sample(texts, 3)) for _ in range(500)]
    lists = (
        LEADING_ABBREVIATIONS,
        ABBREVIATIONS,
        ABBREVIATIONS_BEFORE_NUMBERS,
        ABBREVIATIONS_IN_SMALL_LETTERS,
        FIRST_WORDS,
        GERMAN_MONTHS,
        NAME_PARTICLES,
    )
    for word in sorted(frozenset().union(*lists)):
        texts += [
            f"Das {word}. Wal {word}. 5 {word}. II und 12. {word} sah J. {word} hin. Zoo {word.capitalize()}. Wal"
        ]
        texts += [f"das {word.lower()}. wal {word.lower()}. 5 {word.lower()}? so"]
    texts += ["".join(random_lines.choices(pieces, k=random_lines.randrange(20))) for _ in range(5000)]
    texts += [text.lower() for text in texts]
    [answer] = EngineInNode(small_traced(), tmp_path).ask_all([("sentences", texts)])
    assert answer == [list_sentences(text) for text in texts]


@pytest.mark.slow  # the test before it has text of all these kinds, and more oddities
def test_sentences_of_real_text_end_where_they_do_in_python(pellucid_data: Path, tmp_path: Path):
    files = [f"wmt_news/newstest2013.{language}.gz" for language in ("en", "de", "fr", "es", "cs")]
    files += [
        "messy/emoji_uk-en/generaltest2022.uk.gz",
        "messy/nospace_ja-en/generaltest2022.ja.gz",
        "pydocs_en-es/test.es.gz",
    ]
    texts: list[str] = []
    for file in files:
        lines = gzip.decompress((pellucid_data / file).read_bytes()).decode().split("\n")
        texts += [*lines, *map(" ".join, zip(lines, lines[1:], lines[2:], strict=False))]
    [answer] = EngineInNode(small_traced(), tmp_path).ask_all([("sentences", texts)])
    assert answer == [list_sentences(text) for text in texts]


def round_parameter(parameter: torch.Tensor, precision: str) -> torch.Tensor:
    if precision == "float16":
        return parameter.half().float()
    scales = parameter.abs().amax(dim=-1, keepdim=True) / 127
    return (parameter / scales).round() * scales if parameter.ndim == 2 else parameter


@pytest.mark.parametrize("precision", [pytest.param("float16", marks=pytest.mark.slow), "int8"])
def test_weights_are_rounded_and_nothing_else(precision: str, tmp_path: Path):
    model = small_traced(max_positions=23)
    engine = EngineInNode(model, tmp_path, precision)
    for parameter in model.bundle.model.parameters():
        parameter.data = round_parameter(parameter.data, precision)
    trace = make_model(model.bundle.model).trace("The ball is blue.")
    [manifest] = engine.ask_all([("trace", {"sentence": "The ball is blue."})])
    assert_same_trace(manifest, trace)


@pytest.mark.parametrize("precision", mark_others_slow({name: name for name in ("float16", "float32", "int8")}, "int8"))
def test_the_trace_recorded_in_the_file_is_the_one_that_the_engine_computes(precision: str, tmp_path: Path):
    sentence = "The <b>ball</b> is blue: https://a.example"
    engine = EngineInNode(small_traced(), tmp_path, precision, sentence)
    page = Read(engine.page.read_text(encoding="utf-8"))
    recorded, drawn = page.manifest, page.arrays("tensor")
    assert {name.rpartition(".")[2] for name in drawn} >= {"embedding", "pattern", "allowed", "memory", "states"}
    questions: list[tuple[str, Any]] = [("trace", {"sentence": sentence})]
    manifest, *tensors = engine.ask_all([*questions, *(("tensor", name) for name in drawn)])
    for name in ("sentence", "source", "target", "inputs", "forced", "stop", "edits", "axes", "model"):
        assert manifest[name] == recorded[name], name
    assert manifest["run"]["search"] == recorded["run"]["search"]
    assert manifest["score"] == approx_log_prob(recorded["score"])
    assert_same_tree(manifest["tree"]["nodes"], recorded["tree"]["nodes"])
    for ours, theirs in zip(manifest["tensors"], recorded["tensors"], strict=True):
        assert [ours[name] for name in ("name", "shape", "captured")] == [
            theirs[name] for name in ("name", "shape", "captured")
        ]
    for text, (name, values) in zip(tensors, drawn.items(), strict=True):
        assert_equal_numbers(read_floats(text, values.shape), values.astype(np.float32), name)


def test_a_model_with_a_part_of_its_own_is_not_exported(tmp_path: Path):
    model = small_traced()
    trace = model.trace("Yes.")
    model.bundle.model.get_submodule("encoder.0.ffn").activation = np.tanh  # pyright: ignore
    with pytest.raises(ValueError, match="has the activation tanh"):
        save_model_page(trace, tmp_path / "model.html")
    with pytest.raises(ValueError, match="float16, float32, int8"):
        save_model_page(trace, tmp_path / "model.html", "int4")
    assert not (tmp_path / "model.html").exists()


def test_a_tokenizer_that_the_page_cannot_follow_is_refused_in_a_sentence(tmp_path: Path):
    model = small_traced()
    trace = model.trace("Yes.")
    file = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 3),
        model_writer=file,
        vocab_size=60,
        hard_vocab_limit=False,
        user_defined_symbols=["<ctx>"],
        minloglevel=2,
    )
    odd = SentencePieceProcessor(model_proto=file.getvalue())
    odd_tokenizer = Tokenizer(odd, odd, TokenizerConfig(vocabulary=307))
    trace.origin.bundle.tokenizer = odd_tokenizer
    with pytest.raises(ValueError, match="it has symbols that a user defined"):
        save_model_page(trace, tmp_path / "model.html")


CORPORA = ["multi30k/train.de", "multi30k/val.cs", "pydocs_en-es/train.es", "alignments/hansards_en-fr.fr"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_every_line_of_four_corpora_and_of_garbage_has_the_ids_of_python(
    kind: Any, pellucid_data: Path, tmp_path: Path
):
    lines: list[str] = []
    for name in CORPORA:
        with gzip.open(pellucid_data / f"{name}.gz", "rt", encoding="utf-8", newline="\n") as file:
            lines += [line.removesuffix("\n") for line in islice(file, 9_000)]
    config = TokenizerConfig(kind=kind, vocabulary=4000)
    tokenizer = Tokenizer.train(lines[::3], lines[::3], config, seed=1, max_sentences=9000)
    garbage = [line for _, line in draw_lines(10_000, seed=9)]
    engine = EngineInNode(model_with_tokenizer(tokenizer), tmp_path)
    assert_same_tokenizer(tokenizer, engine, [*lines, *garbage, *odd_lines(10_000, seed=10)])


def test_a_sentence_after_another_is_traced_as_python_does_it(tmp_path: Path):
    model, before = small_traced(ends=9.0), "  Where is the house? zebra 犬"
    model.bundle.manifest["context"] = model.translator.context = 1
    engine = EngineInNode(model, tmp_path)
    trace = model.trace("The ball is blue.", context=before)
    hidden = trace.edited(Hide(3), keep_target=True)
    edit = {"edits": [{"kind": "hide", "word": 3}], "keep_target": True}
    asked = {"sentence": trace.sentence, "context": before}
    names = [name for name in trace if name.endswith((".pattern", "logits"))]
    ours, *numbers, ours_hidden, alone, long = engine.ask_all(
        [
            ("trace", asked),
            *(("tensor", name) for name in names),
            ("edit", edit),
            ("trace", {"sentence": trace.sentence}),
            ("trace", {**asked, "context": "the " * 200}),
        ]
    )
    assert_same_trace(ours, trace)
    assert_same_trace(ours_hidden, hidden)
    assert [ours[name] for name in ("context", "source")] == [trace.manifest()[name] for name in ("context", "source")]
    for name, values in zip(names, numbers, strict=True):
        assert_equal_numbers(read_floats(values, trace.tensor(name).shape), trace.tensor(name), name)
    assert_same_trace(alone, model.trace(trace.sentence))
    assert alone["id"] != ours["id"]
    assert long.startswith("Both sentences have more than ")
    [refused] = EngineInNode(small_traced(), tmp_path).ask_all([("trace", asked)])
    assert refused == "This model was trained on single sentences and reads none before another."
