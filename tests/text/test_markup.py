"""Laws of tags: each comes out once, nested as it was, around the translations of its words, and adds nothing."""

import re
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pellucid.data.text.markup import TAG, extract_tags, restore_tags
from pellucid.data.text.protected import PROTECTED, list_protected
from pellucid.data.text.tag_placement import link_pieces

law = settings(derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])

WORDS = st.sampled_from(["big", "H2O", "l'eau", "(sea),", "—", "“Why?”", "6", "½", "e\u0301", "海"])
SPACE = st.sampled_from(["", " ", " ", "  ", "\u00a0"])
SINGLES = st.sampled_from(["<br/>", "<br>", '<img src="a.png" alt="1 > 0" />', "</p>", "<x id='7'/>", "</1>"])
OPENING = st.sampled_from(["<b>", "<p>", "<li>", '<a href="https://a.b/?c=d&e">', "<w:t>", "<0>"])


def closing_tag(tag: str) -> str:
    return "</" + re.match(r"<([\w:]+)", tag)[1] + ">"  # type: ignore[index]


def well_formed_text(depth: int = 3) -> st.SearchStrategy[str]:
    """Return a strategy for words, white space and pairs of tags, nested."""
    parts = [WORDS, SPACE, st.sampled_from(["<br/>", "<x id='7'/>"])]
    if depth:
        inner = well_formed_text(depth - 1)
        parts.append(st.tuples(OPENING, inner).map(lambda pair: pair[0] + pair[1] + closing_tag(pair[0])))
    return st.lists(st.one_of(parts), max_size=5).map("".join)


def any_text() -> st.SearchStrategy[str]:
    """Return a strategy for words, white space and tags in any order."""
    closers = OPENING.map(closing_tag)
    return st.lists(st.one_of(WORDS, SPACE, SINGLES, OPENING, closers, st.sampled_from("<>/ =b\"'")), max_size=15).map(
        "".join
    )


PLAIN = st.lists(st.one_of(WORDS, SPACE), max_size=9).map("".join)


def draw_alignment(data: st.DataObject, source: str, target: str) -> list[tuple[int, int]]:
    source_words, target_words = len(source.split()), len(target.split())
    if not source_words or not target_words:
        return []
    return data.draw(
        st.lists(st.tuples(st.integers(0, source_words - 1), st.integers(0, target_words - 1)), max_size=12)
    )


def list_tags(text: str) -> list[str]:
    return [match[0] for match in TAG.finditer(text)]


def nesting_tree(text: str):
    """Return which tags are nested in which, sorted; None if tags stay open or are closed in another order."""
    above: list[list] = [[]]
    names: list[str] = []
    for match in TAG.finditer(text):
        close, _name, single = match.groups()
        if single:
            above[-1].append((match[0], ()))
        elif not close:
            above.append([])
            names.append(match[0])
        elif names and closing_tag(names[-1]) == match[0]:
            inner = above.pop()
            above[-1].append((names.pop(), tuple(sorted(inner))))
        else:
            return None
    return sorted(above[0]) if not names else None


@law
@given(st.one_of(any_text(), well_formed_text()), st.booleans())
@example("a<br>b", True)
@example("Hi <b> </b>", True)
@example("<b>a</b><i>b</i>,<u>!</u>", True)
@example("<<b>b> c", True)
def test_text_that_is_not_translated_comes_back_as_it_was(text: str, aligned: bool):
    marked = extract_tags(text)
    alignment = [(i, i) for i in range(len(marked.text.split()))] if aligned else []
    assert restore_tags(marked, marked.text, alignment) == text


@law
@given(st.data(), st.one_of(any_text(), well_formed_text()), PLAIN)
def test_every_tag_of_the_source_comes_out_once_and_nothing_else_changes(data, text: str, translation: str):
    marked = extract_tags(text)
    restored = restore_tags(marked, translation, draw_alignment(data, marked.text, translation))
    assert sorted(list_tags(restored)) == sorted(list_tags(text)) == sorted(tag.text for tag in marked.tags)
    assert "".join(TAG.sub("", restored).split()) == "".join(translation.split())
    if not any(tag.before or tag.after or tag.shares_space for tag in marked.tags):
        assert TAG.sub("", restored) == translation
    elif not any(tag.shares_space for tag in marked.tags):
        assert TAG.sub("", restored).split() == translation.split()


@law
@given(st.data(), well_formed_text(), PLAIN)
def test_tags_stay_nested_as_they_were(data, text: str, translation: str):
    marked = extract_tags(text)
    restored = restore_tags(marked, translation, draw_alignment(data, marked.text, translation))
    assert nesting_tree(text) is not None
    assert nesting_tree(restored) == nesting_tree(text)


@law
@given(st.data(), st.lists(st.sampled_from(["big", "red", "cat"]), min_size=1, max_size=7), st.integers(0, 7))
def test_a_pair_of_tags_holds_the_translations_of_its_words_and_no_more_than_it_must(data, words, extra_words: int):
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    text = " ".join([*words[:first], "<b>" + " ".join(words[first : last + 1]) + "</b>", *words[last + 1 :]])
    translation = " ".join(f"w{i}" for i in range(1 + extra_words))
    alignment = draw_alignment(data, " ".join(words), translation)
    aligned = [t for s, t in alignment if first <= s <= last]
    restored = restore_tags(extract_tags(text), translation, alignment)
    inside = re.search("<b>(.*)</b>", restored)[1].split()  # type: ignore[index]
    if aligned:
        assert inside == [f"w{i}" for i in range(min(aligned), max(aligned) + 1)]
    elif alignment:
        assert inside == []
    else:
        assert len(inside) >= 1


@pytest.mark.parametrize(
    ("source", "translation", "alignment", "expected"),
    [
        ("The <b>ball</b> is <i>blue</i>.", "La bola es azul.", "0-0 1-1 2-2 3-3", "La <b>bola</b> es <i>azul</i>."),
        ("the <i>white</i> <b>house</b>", "la casa blanca", "0-0 1-2 2-1", "la <b>casa</b> <i>blanca</i>"),
        ("I <b>eat</b> it today.", "Ich will es heute essen.", "0-0 1-4 2-2 3-3", "Ich will es heute <b>essen</b>."),
        ("See <a href='x'>the docs</a>.", "Siehe Doku.", "0-0 1-1 2-1", "Siehe <a href='x'>Doku</a>."),
        ("do <b>not</b> go", "ne va pas", "0-1 1-0 1-2 2-1", "<b>ne va pas</b>"),
        ("<b>Hello, world!</b>", "¡Hola, mundo!", "0-0 1-1", "<b>¡Hola, mundo!</b>"),
        ("(<b>Hello</b>)", "„Hola“", "0-0", "„<b>Hola</b>“"),
        ("<b>a</b> <i>b</i>", "x y", "0-1 1-0", "<i>x</i> <b>y</b>"),
        ("<p>one <b>two <i>three</i></b></p>", "3 2 1", "0-2 1-1 2-0", "<p><b><i>3</i> 2</b> 1</p>"),
        ("H<sub>2</sub>O is wet", "Nass ist H2O.", "0-2 1-1 2-0", "Nass ist H<sub>2</sub>O."),
        ("un<b>believ</b>able", "increíble", "0-0", "<b>increíble</b>"),
        ("one<br/>two", "uno dos", "0-0 1-1", "uno<br/>dos"),
        ("<li>one</li><li>two</li>", "uno dos", "0-0 1-1", "<li>uno</li><li>dos</li>"),
        ("one <br/> two", "dos uno", "0-1 1-0", "<br/> dos uno"),
        ("one<br/> two", "uno dos", "0-0 1-1", "uno<br/> dos"),
        ("one <br/>two", "uno dos", "0-0 1-1", "uno <br/>dos"),
        ("a <b> big </b> cat", "gato grande", "0-0 1-1 2-0", "gato <b> grande </b>"),
        ("<b>one</b> two", "uno dos", "", "<b>uno</b> dos"),
        ("<b>one two</b> three four", "1 2", "", "<b>1</b> 2"),
        ("one <b>two</b>", "", "", "<b></b>"),
        ("<b></b>", "x", "", "<b></b>x"),
        ("(c <br/> b", "(b", "1-0", "(<br/>b"),
        ("0 1 2 3 <b>4 5 6 7 8 9 <br/></b>", "x", "0-0", "<b><br/> </b>x"),
        ("<i>a</i> <b>b c</b>", "x", "0-0 1-0 2-0", "<i></i><b>x</b>"),
        ("<b>a b <br/> c</b> <i>d</i>", "a b d c", "0-0 1-1 2-3 3-2", "<b>a b <br/> </b><i>d</i> c"),
        ("<b>a <br/></b> c", "a c a", "0-0 0-2 1-1", "<b>a c a<br/> </b>"),
        # browsermt/bergamot-translator#288: a tag was swallowed
        ('<b>d</b><i>o</i><a id="1">g</a>', "perro", "0-0", '<i></i><b>perro</b><a id="1"></a>'),
    ],
)
def test_tags_go_where_a_reader_would_put_them(source: str, translation: str, alignment: str, expected: str):
    pairs = [(int(s), int(t)) for s, t in (pair.split("-") for pair in alignment.split())]
    assert restore_tags(extract_tags(source), translation, pairs) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("{na<b>me</b>} is blue.", "{name} limón es azul.", "{na<b>me</b>} limón es azul."),
        ("x{na<b>me</b>}", "y {name} z", "y {na<b>me</b>} z"),
        ("{n<b>ame</b>} and {na<i>me</i>}", "{name} y {name}", "{n<b>ame</b>} y {na<i>me</i>}"),
    ],
)
def test_tags_inside_a_placeholder_stay_at_their_position_in_it(source, translation, expected):
    marked = extract_tags(source)
    words = range(len(translation.split()))
    for alignment in ([], [(0, 0)], [(0, n) for n in words]):
        assert restore_tags(marked, translation, alignment) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "I <3 you",
        "x <- y -> z",
        "<me@example.com>",
        "<https://example.com>",
        "a <b and c> d",
        "1<2, 3>2",
        "if (a<b || c>d)",
        "<>",
        "</>",
        "< b>",
        "&lt;b&gt; &amp; co",
        "<!-- no -->",
        "<b",
        "b>",
        "<ß>",
        "<b/ >",
    ],
)
def test_text_that_is_no_tag_stays_in_the_text(text: str):
    assert extract_tags(text).text == text
    assert extract_tags(text).tags == ()


@pytest.mark.parametrize(
    "tag",
    [
        "<b>",
        "</b>",
        "<br/>",
        "<br />",
        '<a href="x y">',
        "<a href='>'>",
        "<a href=x/y>",
        "<img src=a.png/>",
        "<w:t xml:space='p'>",
        "<0>",
        "</12>",
        "<h1 class = 'x'  id=y>",
        "<x-1 @click='a()' data-a=\"b\"/>",
        '<a title="">',
    ],
)
def test_tags_are_taken_out_and_the_words_beside_them_keep_their_spaces(tag: str):
    assert extract_tags(f"one {tag}two").text == "one two"
    assert extract_tags(f"one{tag} two").text == "one two"
    assert extract_tags(f"one {tag} two").text == "one two"
    assert extract_tags(f"{tag} two").text == "two"
    assert extract_tags(f"one {tag}").text == "one"
    assert [t.text for t in extract_tags(f"a{tag}, b").tags] == [tag]


@pytest.mark.parametrize(
    "text",
    [
        "<a " * 5000,
        "<a x=" * 5000,
        "<a x='" * 5000,
        '<a x="' * 5000,
        "<a x=1 " * 5000,
        "<a" + " " * 20000,
        "<b>" * 3000 + "x" + "</b>" * 3000,
        "<b>x</b>" * 3000,
        "<br>" * 9000,
        "<a></b>" * 3000,
        "a" * 30000,
        "a@" * 9000,
        "a.b@a." * 5000,
        "http://" + "." * 20000,
        "http://(" * 5000,
        "{{" * 9000,
        "{a:" * 9000,
        "%" * 20000,
        "%9" * 9000,
        "%(a" * 9000,
        "www." * 5000,
        "$" + "{a" * 9000,
        "http://" + "(a)" * 9000 + ".",
    ],
)
def test_hostile_text_takes_no_longer_than_other_text(text: str):
    marked = extract_tags(text)
    assert sorted(list_tags(restore_tags(marked, "x y", []))) == sorted(list_tags(text))
    list_protected(text)


@law
@given(
    st.lists(st.sampled_from([*"{}%$#@:/.w()0sd <>aé", "www.", "http://", "%s", "{0}", "a@b.c"]), max_size=12).map(
        "".join
    )
)
def test_protected_text_is_what_its_pattern_finds(text: str):
    assert list_protected(text) == [match[0] for match in PROTECTED.finditer(text)]


@law
@given(st.data(), PLAIN, PLAIN)
def test_words_are_linked_as_they_are_aligned(data, source: str, target: str):
    alignment = draw_alignment(data, source, target)
    source_spans, target_spans, links = link_pieces(source, (), target, alignment)
    for text, spans in ((source, source_spans), (target, target_spans)):
        assert "".join(text[start:end] for start, end in spans) == "".join(text.split())
        assert all(start < end for start, end in spans)

    def word_numbers(text: str, spans: list[tuple[int, int]]) -> dict[int, int]:
        """Return the number of the word of each piece that has letters."""
        words = [[*run] for inside, run in groupby(range(len(text)), key=lambda i: not text[i].isspace()) if inside]
        whole = {i: n for n, run in enumerate(words) for i in run}
        return {n: whole[start] for n, (start, end) in enumerate(spans) if any(map(str.isalnum, text[start:end]))}

    if alignment:
        source_numbers, target_numbers = word_numbers(source, source_spans), word_numbers(target, target_spans)
        assert {
            (source_numbers[s], target_numbers[t]) for s, t in links if s in source_numbers and t in target_numbers
        } == {(s, t) for s, t in alignment if s in source_numbers.values() and t in target_numbers.values()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name} has {0} of {{ total }} in ${HOME}", ["{name}", "{0}", "{{ total }}", "${HOME}"]),
        ("%s, %d%% of %(name)s, %1$s %-5.2f %@ took %dms", ["%s", "%d", "%(name)s", "%1$s", "%-5.2f", "%@", "%d"]),
        (
            "{} {!r} {price:.2f} {user.name} {rows[0]} #{x}",
            ["{}", "{!r}", "{price:.2f}", "{user.name}", "{rows[0]}", "#{x}"],
        ),
        ("5% discount, 50 % off, 100%sure, %sale, {a b}, { }, $5", []),
        ("See https://example.com/a?b=c%20d#e.", ["https://example.com/a?b=c%20d#e"]),
        ("(http://a.b/c_(d)), www.e.fr!", ["http://a.b/c_(d)", "www.e.fr"]),
        ("https://a.b/{id}/%s, ftp://c", ["https://a.b/{id}/%s", "ftp://c"]),
        ("Write to <j.doe+x@mail.example.org>.", ["j.doe+x@mail.example.org"]),
        ("我的地址是me@example.com。看https://a.cn/b。", ["me@example.com", "https://a.cn/b"]),
        ("{größe} {größe}", ["{größe}", "{größe}"]),
        ("No @ sign; me@ home", []),
    ],
)
def test_protected_text_is_found(text: str, expected: list[str]):
    assert list_protected(text) == expected


def test_no_sentence_of_real_corpora_is_taken_for_a_placeholder(pellucid_data: Path):
    import gzip

    for name in ("multi30k/val.en", "tatoeba_en-es/test.es", "wmt_news/newstest2009.de", "wmt_news/newstest2011.en"):
        with gzip.open(pellucid_data / f"{name}.gz", "rt", encoding="utf-8", newline="\n") as file:
            lines = file.read().split("\n")
        for line in lines:
            assert all(re.match(r"https?://|www\.|[\w.+-]+@|&amp;", protected) for protected in list_protected(line)), (
                line
            )
            assert extract_tags(line).text == line
