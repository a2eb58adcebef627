"""Laws of cutting: nothing is lost, nothing that fits is cut, and what does not fit is cut where a reader would."""

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pellucid.text.line_splitting import (
    BREAKS,
    OUTER_RUN,
    SplitLine,
    character_ends,
    describe_split,
    join_line,
    sentence_ends,
    split_line,
)

law = settings(derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

PIECES = [*"ab.?!,;:–。、，!\"')(»… \t\r\u2028\u3000\u00a0\ufeff\0️‍e\u0301", "😀", "👩🏽‍🚀", "🇺🇦", "1️⃣", "❤️", "漢", "ก"]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.characters()), max_size=80).map("".join)


def anything(text: str) -> bool:
    return True


def bytes_within(limit: int):
    """As many bytes as a tokenizer that has learned nothing would make pieces of."""
    return lambda text: len(text.encode("utf-8", "surrogatepass")) <= limit


def parts(line: str, limit: int) -> list[str]:
    return list(split_line(line, lambda text: len(text) <= limit).segments)


@law
@given(TEXTS, st.integers(4, 90))
@example(" \t😀 ", 4)
def test_the_parts_joined_are_the_line(text: str, limit: int):
    line = split_line(text, bytes_within(limit))
    assert join_line(line, line.segments) == text
    for part in line.segments:
        assert part.strip() == part != ""
        assert not set(part) & set(BREAKS)
        assert bytes_within(limit)(part)
        assert not OUTER_RUN.fullmatch(part)


@law
@given(TEXTS)
def test_a_line_that_fits_is_cut_at_tabs_only(text: str):
    line = split_line(text, anything)
    cells = [cell for cell in re.split(f"[{BREAKS}]", text) if not OUTER_RUN.fullmatch(cell) and cell]
    assert len(line.segments) == len(cells)
    assert all(part in cell for part, cell in zip(line.segments, cells, strict=True))
    for gap in line.gaps:
        assert gap == "" or OUTER_RUN.fullmatch(gap)
    assert describe_split(line) is None


@law
@given(TEXTS, st.integers(4, 90))
def test_only_cells_that_do_not_fit_are_cut(text: str, limit: int):
    whole, line = split_line(text, anything), split_line(text, bytes_within(limit))
    assert [part for part in whole.segments if bytes_within(limit)(part)] == [
        p for p in line.segments if p in whole.segments
    ]


@law
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(4, 90))
def test_a_cell_is_cut_as_if_it_stood_alone(cells: list[str], limit: int):
    alone = [part for cell in cells for part in split_line(cell, bytes_within(limit)).segments]
    assert list(split_line("\t".join(cells), bytes_within(limit)).segments) == alone


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0", "\u2028", "😀", " 👩🏽‍🚀\t🇺🇦 1️⃣ ❤️ ™️", "\ufeff\u200b", "→️"])
def test_a_line_with_nothing_to_translate_stays_as_it_is(blank: str):
    assert split_line(blank, anything) == SplitLine((), (blank,))


@pytest.mark.parametrize(
    ("line", "part"),
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
def test_white_space_and_emoji_stay_outside_and_all_else_inside(line: str, part: str):
    found = split_line(line, anything)
    assert found.segments == (part,)
    assert "".join(found.gaps) == line.replace(part, "")


def test_tabs_part_cells():
    line = split_line("\tName \t\t 👍 the ball\t7", anything)
    assert line == SplitLine(("Name", "the ball", "7"), ("\t", " \t\t 👍 ", "\t", ""))
    assert join_line(line, ["Nombre", "la bola", "7"]) == "\tNombre \t\t 👍 la bola\t7"


def test_whole_sentences_go_together_as_long_as_they_fit():
    text = "One two. Three four! Five six? Seven."
    assert parts(text, 37) == [text]
    assert parts(text, 36) == ["One two. Three four! Five six?", "Seven."]
    assert parts(text, 20) == ["One two. Three four!", "Five six? Seven."]
    assert parts(text, 19) == ["One two.", "Three four!", "Five six? Seven."]
    assert parts("我们走。你呢？他说“好。”再见！", 7) == ["我们走。你呢？", "他说“好。”", "再见！"]


def test_a_sentence_is_cut_only_where_it_must_be():
    text = "One two. Three four, five six. Seven. Eight nine ten, eleven twelve."
    found = split_line(text, lambda part: len(part) <= 16, lambda part: len(part) <= 22)
    assert found.segments == ("One two.", "Three four, five six.", "Seven.", "Eight nine ten,", "eleven twelve.")


def test_a_sentence_that_does_not_fit_is_cut_at_clauses_then_words_then_characters():
    text = "Short. We came, we saw the whole of it; and left. End."
    assert parts(text, 24) == ["Short.", "We came,", "we saw the whole of it;", "and left.", "End."]
    assert parts(text, 12) == ["Short.", "We came,", "we saw the", "whole of it;", "and left.", "End."]
    assert parts("a bcdefghij k. l", 4) == ["a", "bcde", "fghi", "j", "k. l"]
    assert parts("e\u0301" * 5, 5) == ["e\u0301" * 2, "e\u0301" * 2, "e\u0301"]
    assert parts("x👩🏽‍🚀" * 3, 5) == ["x", "x", "x"]  # pictures at the ends of parts stay outside
    assert parts("a\u0301\u0302\u0303\u0304", 2) == ["a\u0301", "\u0302\u0303", "\u0304"]  # it cannot be avoided


def test_a_single_character_is_never_lost_whatever_fits():
    assert split_line("aé ", lambda text: False) == SplitLine(("a", "é"), ("", "", " "))


@pytest.mark.parametrize(
    "one",
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
def test_what_only_looks_like_the_end_of_a_sentence_is_none(one: str):
    assert sentence_ends(one, 0, len(one)) == [len(one)]


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
def test_no_mark_is_parted_from_its_letter(text: str):
    ends = character_ends(text, 0, len(text))
    for end in ends[:-1]:
        assert not unicodedata.category(text[end]).startswith("M")
        assert "\u200d" not in text[end - 1 : end + 1]


def test_the_parts_of_flags_are_not_parted():
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
def test_a_very_long_line_is_cut_with_few_questions(text: str):
    asked = []

    def fits(part: str) -> bool:
        asked.append(len(part))
        return len(part) <= 100

    line = split_line(text, fits)
    assert join_line(line, line.segments) == text
    assert all(len(part) <= 100 for part in line.segments)
    assert len(asked) <= 30 + 40 * len(line.segments)
    assert sum(asked) <= 10 * len(text) + 40 * 200 * len(line.segments)


def test_what_was_split_is_said():
    assert describe_split(split_line("One two. Three four. Five.", lambda text: len(text) < 15)) == "split into 3 parts"
    assert (
        describe_split(split_line("One two. Three\tfour. Five.", lambda text: len(text) < 12)) == "split into 3 parts"
    )
    assert describe_split(split_line("One two.\tThree four.", anything)) is None


def test_translations_get_a_space_only_where_their_language_has_them():
    line = split_line("我们走。你呢？", lambda text: len(text) <= 4)
    assert line == SplitLine(("我们走。", "你呢？"), ("", "", ""))
    assert join_line(line, ["We go.", "And you?"]) == "We go. And you?"
    assert join_line(line, ["行こう。", "君は？"]) == "行こう。君は？"
    assert join_line(line, ["", "And you?"]) == "And you?"
    assert join_line(split_line("aaaa", lambda text: len(text) <= 2), ["b", "c"]) == "bc"
