"""Laws of splitting lines: nothing is lost, and only what does not fit is cut, where a reader would cut it."""

import re
import unicodedata
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pellucid.data.text.line_splitting import (
    BREAKS,
    EACH_SENTENCE,
    OUTER_RUN,
    SplitLine,
    SplitRules,
    character_ends,
    describe_split,
    join_line,
)
from pellucid.data.text.line_splitting import split_line as split_any_line
from pellucid.data.text.sentences import sentence_ends

law = settings(derandomize=True, deadline=None, max_examples=75, suppress_health_check=[HealthCheck.too_slow])

# What stays as it is has laws of its own, in test_untranslated_text.py: here every text is to be translated.
PLAIN = SplitRules(keep_without_letters=False, keep_markup=False)
split_line = partial(split_any_line, rules=PLAIN)

PIECES = [*"ab.?!,;:–。、，!\"')(»… \t\r\u2028\u3000\u00a0\ufeff\0️‍e\u0301", "😀", "👩🏽‍🚀", "🇺🇦", "1️⃣", "❤️", "漢", "ก"]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.characters()), max_size=80).map("".join)


def always_fits(text: str) -> bool:
    return True


def fits_bytes(limit: int):
    """Return a `fits` that counts bytes, as a tokenizer that has learned nothing would."""
    return lambda text: len(text.encode("utf-8", "surrogatepass")) <= limit


def list_segments(line: str, limit: int) -> list[str]:
    return list(split_line(line, lambda text: len(text) <= limit).segments)


@law
@given(TEXTS, st.integers(4, 90))
@example(" \t😀 ", 4)
def test_the_segments_joined_are_the_line(text: str, limit: int):
    line = split_line(text, fits_bytes(limit))
    assert join_line(line, line.segments) == text
    for segment in line.segments:
        assert segment.strip() == segment != ""
        assert not set(segment) & set(BREAKS)
        assert fits_bytes(limit)(segment)
        assert not OUTER_RUN.fullmatch(segment)


@law
@given(TEXTS)
def test_a_line_that_fits_is_cut_at_tabs_only(text: str):
    line = split_line(text, always_fits)
    cells = [cell for cell in re.split(f"[{BREAKS}]", text) if not OUTER_RUN.fullmatch(cell) and cell]
    assert len(line.segments) == len(cells)
    assert all(segment in cell for segment, cell in zip(line.segments, cells, strict=True))
    for gap in line.gaps:
        assert gap == "" or OUTER_RUN.fullmatch(gap)
    assert describe_split(text, line, PLAIN) is None


@law
@given(TEXTS, st.integers(4, 90))
def test_only_cells_that_do_not_fit_are_cut(text: str, limit: int):
    whole, line = split_line(text, always_fits), split_line(text, fits_bytes(limit))
    assert [segment for segment in whole.segments if fits_bytes(limit)(segment)] == [
        p for p in line.segments if p in whole.segments
    ]


@law
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(4, 90))
def test_a_cell_is_cut_as_if_it_stood_alone(cells: list[str], limit: int):
    expected = [segment for cell in cells for segment in split_line(cell, fits_bytes(limit)).segments]
    assert list(split_line("\t".join(cells), fits_bytes(limit)).segments) == expected


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0", "\u2028", "😀", " 👩🏽‍🚀\t🇺🇦 1️⃣ ❤️ ™️", "\ufeff\u200b", "→️"])
def test_a_line_with_nothing_to_translate_stays_as_it_is(blank: str):
    assert split_line(blank, always_fits) == SplitLine((), (blank,))


@pytest.mark.parametrize(
    ("line", "segment"),
    [
        ("  The ball.  ", "The ball."),
        ("\u2028 😀😀 The ball! 👍🏽\r", "The ball!"),
        ("☎ 555 2368", "555 2368"),
        ("¡Hola! 🇺🇦🇵🇪", "¡Hola!"),
        ("2️⃣ The ball", "The ball"),
        ("2 * 3 = #", "2 * 3 = #"),
        ("Turn by 90°", "Turn by 90°"),
        ("© Pellucid™", "© Pellucid™"),
        ("№ 5", "№ 5"),
        ("...", "..."),
        ("—", "—"),
        ("I 😀 you", "I 😀 you"),
        ("می‌خواهم‌", "می‌خواهم‌"),  # a joiner shapes the letter before it
    ],
)
def test_white_space_and_emoji_stay_outside_and_all_else_inside(line: str, segment: str):
    split = split_line(line, always_fits)
    assert split.segments == (segment,)
    assert "".join(split.gaps) == line.replace(segment, "")


def test_tabs_separate_cells():
    line = split_line("\tName \t\t 👍 the ball\t7", always_fits)
    assert line == SplitLine(("Name", "the ball", "7"), ("\t", " \t\t 👍 ", "\t", ""))
    assert join_line(line, ["Nombre", "la bola", "7"]) == "\tNombre \t\t 👍 la bola\t7"


def test_whole_sentences_go_together_as_long_as_they_fit():
    text = "One two. Three four! Five six? Seven."
    assert list_segments(text, 37) == [text]
    assert list_segments(text, 36) == ["One two. Three four! Five six?", "Seven."]
    assert list_segments(text, 20) == ["One two. Three four!", "Five six? Seven."]
    assert list_segments(text, 19) == ["One two.", "Three four!", "Five six? Seven."]
    assert list_segments("我们走。你呢？他说“好。”再见！", 7) == ["我们走。你呢？", "他说“好。”", "再见！"]


def test_a_sentence_is_cut_only_where_it_must_be():
    text = "One two. Three four, five six. Seven. Eight nine ten, eleven twelve."
    split = split_line(text, lambda segment: len(segment) <= 16, lambda segment: len(segment) <= 22)
    assert split.segments == ("One two.", "Three four, five six.", "Seven.", "Eight nine ten,", "eleven twelve.")


def test_a_sentence_that_does_not_fit_is_cut_at_clauses_then_words_then_characters():
    text = "Short. We came, we saw the whole of it; and left. End."
    assert list_segments(text, 24) == ["Short.", "We came,", "we saw the whole of it;", "and left.", "End."]
    assert list_segments(text, 12) == ["Short.", "We came,", "we saw the", "whole of it;", "and left.", "End."]
    assert list_segments("a bcdefghij k. l", 4) == ["a", "bcde", "fghi", "j", "k. l"]
    assert list_segments("e\u0301" * 5, 5) == ["e\u0301" * 2, "e\u0301" * 2, "e\u0301"]
    assert list_segments("x👩🏽‍🚀" * 3, 5) == ["x", "x", "x"]  # pictures at the ends of parts stay outside
    assert list_segments("a\u0301\u0302\u0303\u0304", 2) == [
        "a\u0301",
        "\u0302\u0303",
        "\u0304",
    ]  # it cannot be avoided


def test_a_single_character_is_never_lost_whatever_fits():
    assert split_line("aé ", lambda text: False) == SplitLine(("a", "é"), ("", "", " "))


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Bee and Mr. Sea met Prof. Dee.",
        "It costs 3.50 or 1.000.000 Euro.",
        "Am 3. Mai kam er.",
        "J. R. R. Tolkien",
        "Das gilt z. B. Heute, vgl. Abb. 3.",
        "Wait... and see.",
        "“Why?” she asked.",
        "Yahoo! is a name.",
        "See www.example.com. now",
        "U.S.A. News",
    ],
)
def test_what_only_looks_like_the_end_of_a_sentence_is_not_taken_for_one(sentence: str):
    assert sentence_ends(sentence, 0, len(sentence)) == [len(sentence)]


@pytest.mark.parametrize(
    "text",
    [
        "He left.| She stayed.",
        "“He left.”| “She stayed.”",
        "He left (I saw it!).| She stayed.",
        "Why?!| Because…| Well.",
        "In 1999.| Then.",
        "是。|不是！|“是吗？”|好",
        "वह गया।| वह आया।",
        "هل ذهب؟| نعم.",
        "Il part.| « Non. »| Bon.",
        "„Er ging.“| »Sie blieb.«| „Gut.“",
        "End of list.| 2. Next",
    ],
)
def test_sentences_end_where_a_reader_says(text: str):
    plain, ends = text.replace("|", ""), sentence_ends(text.replace("|", ""), 0, len(text) - text.count("|"))
    assert "|".join(plain[i:j] for i, j in pairwise([0, *ends])) == text


@law
@given(TEXTS)
def test_no_combining_mark_is_cut_from_its_letter(text: str):
    ends = character_ends(text, 0, len(text))
    for end in ends[:-1]:
        assert not unicodedata.category(text[end]).startswith("M")
        assert "\u200d" not in text[end - 1 : end + 1]


def test_flags_are_not_cut():
    assert character_ends("a🇺🇦🇵🇪🇺b", 0, 7) == [1, 3, 5, 6, 7]


@pytest.mark.parametrize(
    "text",
    [
        "A word, and another; the end is near. " * 4000,
        "word " * 20_000,
        "x" * 50_000,
        "x " + "y" * 50_000 + ". z",
        "汉" * 20_000,
        " " * 50_000 + "x" + " " * 50_000 + "y" * 200,
        "😀" * 50_000 + "x",
        "." * 50_000,
        ". " * 20_000,
        "<a@" * 20_000,
        "e" + "\u0301" * 20_000,
    ],
)
def test_a_very_long_line_is_cut_with_few_calls(text: str):
    lengths = []

    def fits(segment: str) -> bool:
        lengths.append(len(segment))
        return len(segment) <= 100

    line = split_line(text, fits)
    assert join_line(line, line.segments) == text
    assert all(len(segment) <= 100 for segment in line.segments)
    assert len(lengths) <= 30 + 40 * len(line.segments)
    assert sum(lengths) <= 10 * len(text) + 40 * 200 * len(line.segments)


def test_a_split_is_described_where_a_line_was_too_long():
    def describe(line: str, limit: int, rules: SplitRules = PLAIN) -> str | None:
        return describe_split(line, split_line(line, lambda text: len(text) < limit, rules=rules), rules)

    assert describe("One two. Three four. Five.", 15) == "split into 3 parts"
    assert describe("One two. Three\tfour. Five.", 12) == "split into 3 parts"
    assert describe("One two.\tThree four.", 99) is None
    # Sentences that are translated one by one are no reason for a note; a sentence that was cut is.
    assert describe("One two. Three four. Five.", 99, EACH_SENTENCE) is None
    assert describe("One two. Three four, five.", 12, EACH_SENTENCE) == "split into 3 parts"


def test_translations_get_a_space_only_where_their_language_has_them():
    line = split_line("我们走。你呢？", lambda text: len(text) <= 4)
    assert line == SplitLine(("我们走。", "你呢？"), ("", "", ""))
    assert join_line(line, ["We go.", "And you?"]) == "We go. And you?"
    assert join_line(line, ["行こう。", "君は？"]) == "行こう。君は？"
    assert join_line(line, ["", "And you?"]) == "And you?"
    assert join_line(split_line("aaaa", lambda text: len(text) <= 2), ["b", "c"]) == "bc"


MARKUP = ["{{ not? Yes! }}", "{{a. B}}", '<a title="Why? Yes.">', "<b>", "{name}", "%s", "https://a.example/b?C=d"]
WORDS = ["Yes.", "Why?", "no,", "dog", "3."]


@law
@given(st.lists(st.sampled_from([*MARKUP, *WORDS]), max_size=25), st.integers(25, 60))
def test_tags_and_placeholders_that_fit_are_never_cut(words: list[str], limit: int):
    """A limit of 25 is longer than each of them."""
    line = " ".join(words)
    segments = list_segments(line, limit)
    assert all(len(segment) <= limit for segment in segments)
    for text in MARKUP:
        assert sum(segment.count(text) for segment in segments) == line.count(text)


def test_a_placeholder_longer_than_fits_is_cut_all_the_same():
    line = "Yes. {{" + "no? " * 20 + "}} Why?"
    segments = list_segments(line, 20)
    assert all(len(segment) <= 20 for segment in segments)
    assert "".join("".join(segments).split()) == "".join(line.split())
