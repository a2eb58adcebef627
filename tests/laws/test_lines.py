"""Lines come out as many and in the order they came in, with the white space, tabs and emoji around them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.data.text.line_splitting import SplitRules, split_line
from pellucid.data.text.markup import TAG
from pellucid.data.text.protected import list_protected
from pellucid.data.tokenizer import EOS
from pellucid.decode.request import SearchConfig
from pellucid.decode.translator import Translator
from tests.decode.models import model_that_writes, random_model, small_tokenizer

law = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

PIECES = [
    *"ab.?!,–。\t\r\v\u2028\u3000\u00a0\ufeff\0️‍\u0301▁▅",
    " ",
    "the",
    "<b>",
    "</b>",
    "{x}",
    "😀",
    "👩🏽‍🚀",
    "🇺🇦",
    "1️⃣",
]
# Short enough for the model, whose 97 positions take a byte each at worst.
LINES = st.lists(
    st.lists(st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=["Cs"])), max_size=7).map("".join),
    max_size=9,
)
FAST = SearchConfig(method="greedy", max_extra=3)
PLAIN = SearchConfig(method="greedy", max_extra=3, markup="text", batch=512)
SILENT = replace(PLAIN, empty="keep")


@pytest.fixture(scope="module")
def talkative_translator() -> Translator:
    """Translator with a random model, which may write any byte."""
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


@pytest.fixture(scope="module")
def silent_translator() -> Translator:
    """Translator that ends every sentence at once, so that only the text around the sentences is left of a line."""
    tokenizer = small_tokenizer()
    return Translator(model_that_writes(EOS, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


def list_gaps(line: str, keep_markup: bool = False) -> tuple[str, ...]:
    return split_line(line, rules=SplitRules(together=1, keep_markup=keep_markup)).gaps


def has_gaps(gaps: tuple[str, ...], text: str) -> bool:
    """Return whether the text begins with the first gap, ends with the last and has the others between, in order."""
    first, *inner, last = gaps if len(gaps) > 1 else (*gaps, "")
    at = len(first)
    for gap in inner:
        start = text.find(gap, at)
        if start < 0:
            return False
        at = start + len(gap)
    return text.startswith(first) and text.endswith(last) and at + len(last) <= len(text)


@settings(law, max_examples=10)
@given(LINES)
def test_any_lines_come_out_as_many_and_in_their_order(talkative_translator: Translator, lines: list[str]):
    translations = talkative_translator.translate(lines, FAST)
    assert len(translations) == len(lines)
    for line, translation in zip(lines, translations, strict=True):
        if split_line(line, lambda text: True).segments:
            assert has_gaps(list_gaps(line, keep_markup=True), translation.text)
        else:
            assert (translation.text, translation.stop) == (line, "empty")
    # One line at a time says whether any was answered with another's translation.
    assert [t.text for t in translations] == [talkative_translator.translate([line], FAST)[0].text for line in lines]
    assert [t.text for t in talkative_translator.translate_stream(iter(lines), FAST, block=2)] == [
        t.text for t in translations
    ]


@law
@given(LINES)
def test_text_around_the_sentences_stays_as_it_was(silent_translator: Translator, lines: list[str]):
    assert [t.text for t in silent_translator.translate(lines, SILENT)] == ["".join(list_gaps(line)) for line in lines]


@law
@given(LINES)
def test_every_tag_comes_out_once(silent_translator: Translator, lines: list[str]):
    for line, translation in zip(lines, silent_translator.translate(lines, FAST), strict=True):
        assert sorted(m[0] for m in TAG.finditer(translation.text)) == sorted(m[0] for m in TAG.finditer(line))


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0", "\u2028", "😀", " 👩🏽‍🚀\t🇺🇦 ", "\ufeff"])
def test_a_line_with_nothing_to_translate_stays_as_it_is(talkative_translator: Translator, blank: str):
    [translation] = talkative_translator.translate([blank], SearchConfig(n_best=2))
    assert (translation.text, translation.score, translation.stop, translation.pieces, translation.notes) == (
        blank,
        0.0,
        "empty",
        [],
        (),
    )


@pytest.mark.parametrize("line", ["<b></b>", "<br/>", " <p> </p>\t<br/>", "<b>😀</b>"])
def test_nothing_is_invented_where_there_are_tags_and_no_words(talkative_translator: Translator, line: str):
    assert talkative_translator.translate([line], FAST)[0].text == line


@pytest.mark.parametrize("search", [{"beam": 2, "n_best": 2}, {"method": "sample", "n_best": 2}, {"method": "greedy"}])
def test_alternatives_have_the_same_text_around_them(talkative_translator: Translator, search: dict):
    [translation] = talkative_translator.translate([" \t The ball. 😀 "], SearchConfig(max_extra=3, **search))
    assert len(translation.alternatives) == search.get("n_best", 1) - 1
    for hypothesis in (translation, *translation.alternatives):
        assert hypothesis.text.startswith(" \t ")
        assert hypothesis.text.endswith(" 😀 ")


def test_a_line_too_long_for_the_model_is_split_and_says_so(
    talkative_translator: Translator, silent_translator: Translator
):
    long = "\u3000" + "The ball is blue. " * 60 + "x" * 200 + "\t汉" * 50 + "😀"
    for translator in (talkative_translator, silent_translator):
        short, translation, _ = translator.translate(["The ball.", long, "The ball."], FAST)
        assert not any(note.startswith("split into ") for note in short.notes)
        assert any(note.startswith("split into ") for note in translation.notes)
        assert translation.text.startswith("\u3000")
        assert translation.text.endswith("😀")
        assert translation.text.count("\t") >= 50
    # The sentences are translated whole: nothing but white space stood between them.
    assert silent_translator.translate([long], SILENT)[0].text.split() == ["😀"]
    with pytest.raises(ValueError, match="line 2"):
        silent_translator.translate(["The ball.", long], SearchConfig(too_long="refuse"))


@pytest.mark.slow  # the test before it and test_garbage.py draw such lines
def test_files_of_any_kind_come_out_line_for_line(silent_translator: Translator, pellucid_data: Path):
    files = sorted(path for path in (pellucid_data / "messy").rglob("*") if path.is_file() and path.suffix != ".gz")
    if not files:
        pytest.skip("no messy files among the test corpora")
    lines = [line for path in files for line in path.read_bytes()[:4000].decode("utf-8", "replace").split("\n")]
    assert len(lines) > 1000
    for line, translation in zip(lines, silent_translator.translate_stream(iter(lines), PLAIN), strict=True):
        # Of a line that is too long for one segment, parts without a letter stay, too.
        if len(line.encode()) < silent_translator.lengths.longest:
            assert translation.text == "".join(list_gaps(line))
    few = [line for line in lines if not list_protected(line)][::3]  # placeholders take another search, and time
    for line, translation in zip(few, silent_translator.translate_stream(iter(few), FAST), strict=True):
        gaps = list_gaps(line, keep_markup=True)
        assert has_gaps(gaps if len(gaps) == 1 else (gaps[0], gaps[-1]), translation.text)


@pytest.mark.slow
def test_a_million_lines_come_out_in_order_and_few_are_in_memory(silent_translator: Translator):
    total, block, translated = 1_000_000, 2048, 0

    def make_line(number: int) -> str:
        """Return a word with white space and tabs around it that spell the line's number."""
        return "".join(" \t\u3000\u00a0"[int(digit)] for digit in f"{number % 256:b}") + "The" + "\u2028" * (number % 3)

    def make_lines() -> Iterator[str]:
        for number in range(total):
            assert number - translated < block
            yield make_line(number) if number % 5 else "\t" * (number % 11)

    for translation in islice(silent_translator.translate_stream(make_lines(), PLAIN, block=block), total + 1):
        assert translation.text == (
            make_line(translated).replace("The", "") if translated % 5 else "\t" * (translated % 11)
        )
        translated += 1
    assert translated == total
