"""Laws of what must not be translated: placeholders, code, marks and text without a letter stay; prose is none."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.source_profile import SourceProfile
from pellucid.data.text.line_splitting import SplitLine, SplitRules, describe_split, has_letters, join_line, split_line
from pellucid.data.text.markup import extract_tags, find_tags, restore_tags
from pellucid.data.text.protected import list_protected
from pellucid.decode.request import SearchConfig
from pellucid.decode.translator import Translator
from pellucid.localize.terminology import Terms
from tests.decode.models import random_model, small_tokenizer

PLACEHOLDERS = [
    *["%{name}", "%{user.name}", "%<name>s", "%<price>.2f"],  # Ruby, Elixir
    *["%name%", "%USERPROFILE%", "%user_name%"],  # Symfony, Windows
    *[":name", ":user_id", ":maxLength"],  # Laravel, Rails
    *["$name", "$HOME", "$user_name", "${HOME}", "${user.name}", "${name:-you}", "$(name)", "$t(menu.save)"],
    *["{0}", "{name}", "{}", "{user.name}", "{rows[0]}", "{row['a']}", "{name!r}", "{price:.2f}", "{price:{width}.2f}"],
    *["{0:N2}", "{0,-10}", "{0,10:yyyy-MM-dd HH:mm}", "{0,number,integer}", "{day, date, short}", "{day:%d %B}"],
    *["{{ name }}", "{{name}}", "{{ name | upper }}", "{{{ name }}}", "{ $name }", "{$name}", "{ name }", "{!name}"],
    *["{ -brand-name }", "{-term}", "&amp;", "&lt;", "&#39;", "&#x27;", "&hellip;"],  # Fluent; HTML
    *["{% if name %}", "{# a note #}", "<%= name %>", "<%= user->name %>", "<?php echo $name ?>", "[% name %]"],
    *["%s", "%d", "%@", "%1$s", "%1$ld", "%-10s", "%5.2f", "%lld", "%zu", "%*d", "%.*f", "%+d", "%'d", "%2$-5s"],
    *["%(name)s", "%(price).2f", "%(user.name)s", "%1", "%2", "%L1", "%1%", "%n", "%Y", "%B"],
    *["[1]", "{1]", "#{name}", "__name__", ":smile:", ":+1:"],
    *["`x`", "``x``", "`a b`", "`` ` ``"[:0] or "``a`b``", ":ref:`x`", ":c:func:`PyList_New`", "`the docs <x.html>`_"],
    *["https://example.com/a_b?c=%20", "me@example.com"],
]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
@pytest.mark.parametrize("around", ["{} is blue.", "The ball is {}.", "({})", "El {}, 5 % de {} y “{}”"])
def test_placeholders_of_every_kind_are_protected_as_a_whole(placeholder: str, around: str):
    text = around.replace("{}", placeholder)
    marked = extract_tags(text)
    # The part of "%<name>s" that looks like a tag is put back as a tag.
    expected = [extract_tags(placeholder).text] * around.count("{}")
    assert list_protected(marked.text) == expected
    assert restore_tags(marked, marked.text, []) == text


@pytest.mark.parametrize(
    "text",
    [
        "50% of people, 50 % of all, 10%off, 100%sure, %sale, 100 %a year, +5%, 5-10%.",
        "Come at 5:30 or 17:05:09, won 3:1, the ratio a:b, Note: this; Gen 1:1, a::b, std::vector, http:x",
        "I like it :D, you :-) do :p, they :( :/ :'( :3 don't 8:)",
        "It cost $5, $5.50, US$ 5, 5 $US, $CAN 7, $ 5, A$AP, $m",
        r"C:\path\to, \n, \frac{a}{b}, \textbf{word}, 10\%",
        "rock 'n' roll, `tis, don`t and can`t, the ``quoted'' and `single' words of `one' book",
        "No. #5, #1, C#, F# minor, #hashtag, # 5",
        "[a], [sic], [...], {a b}, { }, { and }, f(x), x[i], (1), <3, a < b > c, [12345], ['A' by B]['C' by D]",
        "R&B; &c; & amp; &eacute; &copyright; &;",
        "one_two, _, __, a * b, @home, a@b, me @ home, ~5, 5^2, A&B, AT&T",
    ],
)
def test_ordinary_text_is_not_protected(text: str):
    assert list_protected(text) == []
    assert find_tags(text) == []


@pytest.mark.parametrize(
    ("text", "plain", "tags"),
    [
        ("The **ball** is *blue*.", "The ball is blue.", ["**", "**", "*", "*"]),
        ("__The whole ball__ and _it_, ~~not~~ ***all***", "The whole ball and it, not all", None),
        ("See [the *red* ball](a_b.md) now.", "See the red ball now.", ["[", "*", "*", "](a_b.md)"]),
        ("[![A cat](cat.png)](https://a.b/c_(d)) is [here][1].", "A cat is here.", None),
        ('[ball](ball.md "The ball")', "ball", ["[", '](ball.md "The ball")']),
        ("这是**粗体**文字。", "这是粗体文字。", ["**", "**"]),
        ("**<b>a</b>**", "a", ["**", "<b>", "</b>", "**"]),
        ("2*3*4 = 24, f**k, s*it, a * b * c, snake_case_name, Price* and *Size", None, []),
        (r"\*not\* [a] (b) [c]( d) *** ** _", None, []),
        ("`*a*` and https://a.b/_x_/*y* and {a_b} __init__ %a_b%", None, []),
        ("*a [b* c](d)", "a [b c](d)", ["*", "*"]),
        ("Use `<b>` or :ref:`the ball <ball>`", None, []),
    ],
)
def test_marks_of_markdown_are_tags_where_they_come_in_pairs(text: str, plain: str | None, tags: list[str] | None):
    marked = extract_tags(text)
    assert marked.text == (text if plain is None else plain)
    if tags is not None:
        assert [tag.text for tag in marked.tags] == tags
    assert restore_tags(marked, marked.text, []) == text


@pytest.mark.parametrize(
    ("line", "segment"),
    [
        ("> Yes.", "Yes."),
        (">> Yes.", "Yes."),
        (">>spa<< Yes.", ">>spa<< Yes."),
        ("> >>cmn_Hans<< Yes.", ">>cmn_Hans<< Yes."),
    ],
)
def test_the_mark_of_a_language_to_write_is_no_quotation(line: str, segment: str):
    assert split_line(line).segments == (segment,)


def test_marks_go_around_the_translations_of_their_words():
    marked = extract_tags("The *white* [house](x.md) is **here**.")
    translation = restore_tags(marked, "La casa blanca está aquí.", [(0, 0), (1, 2), (2, 1), (3, 3), (4, 4)])
    assert translation == "La [casa](x.md) *blanca* está **aquí**."


@pytest.mark.parametrize(
    ("source", "translation", "alignment", "expected"),
    [
        # The alignment says that "the" became the placeholder: the tag goes around all of it.
        ("<b>the</b> {name}", "{name} la", [(0, 0), (1, 1)], "<b>{name}</b> la"),
        ("<b>the</b> {{ name }}", "la {{ name }}", [(0, 2)], "la <b>{{ name }}</b>"),
        ("the<br/> {{ name }}", "{{ name }} la", [(1, 1)], "{{ name }}<br/> la"),
        ("*the* v{name}.", "v{name}.", [(0, 0)], "*v{name}*."),
        ("{na<b>me} is</b>", "{name} es", [(0, 0), (1, 1)], None),
    ],
)
def test_no_tag_goes_into_a_placeholder_that_had_none(source, translation, alignment, expected: str | None):
    restored = restore_tags(extract_tags(source), translation, alignment)
    assert restored == expected or (expected is None and sorted(restored) == sorted(f"{translation}<b></b>"))


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from([*"*_~[]()!`\\ab é.", "](x)", "**", "<b>", "</b>", "粗"]), max_size=14).map("".join))
def test_marks_that_are_not_translated_come_back_as_they_were(text: str):
    marked = extract_tags(text)
    assert restore_tags(marked, marked.text, []) == text
    words = [(i, i) for i in range(len(marked.text.split()))]
    assert restore_tags(marked, marked.text, words) == text
    # Each opening tag of Markdown has its closing tag.
    marks = [tag for tag in find_tags(text) if not text[tag.start : tag.end].startswith("<")]
    assert sum(tag.kind == "opening" for tag in marks) == sum(tag.kind == "closing" for tag in marks)


@pytest.mark.parametrize(
    "text",
    [
        *[
            "*" * 20_000,
            "*a " * 9000,
            "a* " * 9000,
            "*a* " * 5000,
            "**a " * 9000,
            "[" * 20_000,
            "[a](" * 9000,
            "_a" * 9000,
        ],
        *["![" * 9000 + "a" + "](b)" * 9000, "](" * 9000, '](a "' * 5000, "](a(" * 9000, "~~a~" * 9000, "\\*" * 9000],
        *[
            "`" * 20_000,
            "`a" * 9001,
            "``a" * 9000,
            "`` `" * 9000,
            ":a" * 9000,
            ":a:" * 9000,
            ":a:`" * 9000,
            "{%" * 9000,
        ],
        *["<%" * 9000, "<?" * 9000, "<%%" * 9000, "$t(" * 9000, "${" * 9000, "%<a" * 9000, "%a" * 9000, "{a[" * 9000],
        *["{0,choice," * 5000, "{ " * 9000, "{" + " " * 20_000, "{a, number" * 5000, "%*." * 9000, "%1%" * 9000],
        *[
            "\\ab{a}" * 9000,
            "'{" * 9000,
            "__a" * 9000,
            "[% " * 9000,
            "{1," * 9000,
            "{a:{" * 9000,
            "#{" * 9000,
            "> " * 9000,
        ],
    ],
)
def test_hostile_marks_take_no_longer_than_other_text(text: str):
    list_protected(text)
    find_tags(text)
    line = split_line(text, lambda _: True)
    assert join_line(line, line.segments) == text


@pytest.mark.parametrize(
    "line",
    [
        *["12", "12,5", "2024-01-01", "€ 12.50", "—", "10:30", "1/2", "100 %", "+34 600 000 000", "...", "?!", "№ 5"],
        *[
            "½",
            "Ⅷ",
            "℃",
            "١٢٣",
            "१२",
            "§ 5",
            "[1]",
            "\t12\t 7 ",
            "<b>12</b>",
            "<br/>5<br/>",
            "{name}",
            "%s: %d",
            "`code`",
        ],
        *[
            "https://example.com",
            "{0} / {1}",
            "**12**",
            "[12](a.md)",
            "# 5",
            "> 12",
            "{{ name }} (12 %)",
            "{n, plural, one {1}}",
        ],
    ],
)
def test_a_line_without_a_letter_stays_as_it_is(line: str):
    assert split_line(line, lambda _: True) == SplitLine((), (line,))


@pytest.mark.parametrize(
    "line", ["5 km", "B2", "3 PM", "Nº 5", "二〇二四", "٥ كم", "5 <b>km</b>", "{name} km", "x", "Ü"]
)
def test_a_line_with_a_letter_is_translated_with_its_numbers(line: str):
    assert split_line(line, lambda _: True).segments == (line,)


def test_cells_and_parts_without_a_letter_stay_too():
    line = split_line("2024\tThe ball\t12,5\t\tYes.", lambda _: True)
    assert line == SplitLine(("The ball", "Yes."), ("2024\t", "\t12,5\t\t", ""))
    cut = split_line("We came in. 123456 7890 12345! They left.", lambda text: len(text) <= 20)
    assert cut == SplitLine(("We came in.", "They left."), ("", " 123456 7890 12345! ", ""))


def test_all_is_translated_where_that_is_asked_for():
    assert split_line("12\t{name}", rules=SplitRules(keep_without_letters=False)).segments == ("12", "{name}")
    assert split_line("# {name}\t12", rules=SplitRules(keep_markup=False)).segments == ("# {name}",)


@pytest.mark.parametrize(
    ("line", "marks"),
    [("# A", "# "), ("### A", "### "), ("> A", "> "), (" > > ## A", " > > ## "), (">A", ">")],
)
def test_the_marks_of_headings_and_quotations_stay_outside(line: str, marks: str):
    assert split_line(line, lambda _: True) == SplitLine(("A",), (marks, ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%5'i", []),
        ("%5’lik indirim", []),
        ("%5 ile %20 arasında", []),
        ("Faiz %5 oldu, %7,5 değil", []),
        ("Faiz %5 arttı ve düştü", []),
        ("Copy %1 to %2.", ["%1", "%2"]),
        ("%2 files", ["%2"]),
        ("%1 dosya, %2'si açık", ["%1", "%2"]),
        ("%02d of %2", ["%02d", "%2"]),
        ("%5 %", ["%5"]),
    ],
)
def test_a_percentage_with_its_sign_before_it_is_no_placeholder(text: str, expected: list[str]):
    assert list_protected(text) == expected


@pytest.mark.parametrize(
    ("line", "segments"),
    [
        ("| The ball | Blue |", ["The ball", "Blue"]),
        ("|---|:---:|", []),
        ("Home | The ball || Blue", ["Home", "The ball", "Blue"]),
        ("a|b and x|y", ["a|b and x|y"]),
        ("{{ a | b }} is blue", ["{{ a | b }} is blue"]),
        (r"The ball.\nIt is blue.\n\nYes", ["The ball.", "It is blue.", "Yes"]),
        (r"Open C:\new or C:\temp", [r"Open C:\new or C:\temp"]),
        (r"100\% of \textbf{x}", [r"100\% of \textbf{x}"]),
    ],
)
def test_bars_and_line_ends_as_programs_spell_them_separate_cells(line: str, segments: list[str]):
    split = split_line(line, lambda _: True)
    assert list(split.segments) == segments
    assert join_line(split, split.segments) == line


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("The ball ☂ is blue.", "The ball is blue."),
        ("The ball is blue ☂.", "The ball is blue."),
        ("The ball👩🏽‍🚀☂is blue.", "The ball is blue."),
        ("The&nbsp;ball is&#160;blue.", "The ball is blue."),
    ],
)
def test_pictures_and_spaces_as_html_spells_them_are_put_back(translator: Translator, line: str, read: str):
    [translation], [plain] = translator.translate([line], FAST), translator.translate([read], FAST)
    assert translation.source_pieces == plain.source_pieces
    for sign in (*"☂🚀", "&nbsp;", "&#160;"):
        assert translation.text.count(sign) == line.count(sign)
    config = SearchConfig(method="greedy", max_extra=5, alignments=True)
    [aligned] = translator.translate([line], config)
    assert aligned.alignment
    # Each word of the line has its own number, whatever stands between the words.
    assert {i for i, _ in aligned.alignment} <= set(range(len(line.split())))
    # `markup = "text"` gives the model everything.
    [as_text] = translator.translate([line], SearchConfig(method="greedy", max_extra=5, markup="text"))
    assert as_text.source_pieces != plain.source_pieces


@pytest.mark.parametrize("line", ["#hashtag", "#1 is A", "####### A", "A # B", "C# is", "a > b"])
def test_other_number_signs_belong_to_their_text(line: str):
    assert split_line(line, lambda _: True).segments == (line,)


@settings(derandomize=True)
@given(st.characters())
def test_letters_are_those_of_unicode(character: str):
    import unicodedata

    category = unicodedata.category(character)
    joins_emoji = character in "\ufe0e\ufe0f\u20e3"
    assert has_letters(f"12 {character}") == (category[0] in "LM" and not joins_emoji)


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


FAST = SearchConfig(method="greedy", max_extra=5)


def test_a_model_gets_no_text_without_a_letter_unless_it_translates_numbers(translator: Translator):
    lines = ["12", "2024-01-01", "The ball.\t12"]
    kept = translator.translate(lines, FAST)
    assert [t.text for t in kept[:2]] == lines[:2]
    assert [t.stop for t in kept[:2]] == ["empty", "empty"]
    assert kept[2].text.endswith("\t12")
    [model], profile = translator.models.loaded, SourceProfile(sources=9, sentences=(9,), without_letters=9)
    given_to_model = Translator(model, translator.tokenizer, profile=profile).translate(lines, FAST)
    assert all(t.source_pieces for t in given_to_model)
    assert given_to_model[0].stop != "empty"


def test_a_term_says_how_a_line_without_a_letter_is_translated(translator: Translator):
    terms = Terms.from_pairs([("24/7", "bola")])
    first, second = translator.translate(["24/7", "12"], SearchConfig(method="greedy", max_extra=9), terms=terms)
    assert "bola" in first.text
    assert second.text == "12"


def test_the_texts_of_a_message_are_translated_and_its_frame_stays(translator: Translator):
    line = "{n, plural, =0 {The ball.} other {Yes, <b>the</b> {name}}}"
    [translation] = translator.translate([line], FAST)
    frame = r"\{n, plural, =0 \{(.*)\} other \{(.*<b>.*</b>.*)\}\}"
    assert re.fullmatch(frame, translation.text)
    assert "{name}" in translation.text
    assert translation.notes == ()
    assert describe_split(line, split_line(line)) is None
