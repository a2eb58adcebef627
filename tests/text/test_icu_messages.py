"""Laws of messages of ICU: exactly their texts are translated, whatever is nested in what, and other text is whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.text.icu_messages import find_message_texts
from pellucid.data.text.line_splitting import join_line, split_line
from pellucid.data.text.protected import list_protected


def list_texts(line: str) -> list[str]:
    return [line[start:end] for start, end in find_message_texts(line)]


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("{n, plural, =0 {No files.} other {# files.}}", ["No files.", "# files."]),
        ("{n,plural,=0{None}one{One}other{#}}", ["None", "One", "#"]),
        ("{n, plural, offset:1 =0 {no one} one {you and {who}} other {#}}", ["no one", "you and {who}", "#"]),
        ("You have {n, plural, one {a file} other {# files}} left.", ["You have ", "a file", "# files", " left."]),
        ("{g, select, male {He} female {She} other {They}} came.", ["He", "She", "They", " came."]),
        ("{n, selectordinal, one {#st day} two {#nd} other {#th}}", ["#st day", "#nd", "#th"]),
        ("{a, select, x {{n, plural, one {one} other {many}} of it} other {No}}", ["one", "many", " of it", "No"]),
        ("{VAR_PLURAL, plural, =1 {{{name}} has one} other {<0/> many}}", ["{{name}} has one", "<0/> many"]),
        ("{n, plural, one {{{ name }} ball} other {{name} balls}}", ["{{ name }} ball", "{name} balls"]),
        ("{n, plural,\n  one {# ball}\n  other {# balls}\n}", ["# ball", "# balls"]),
        ("{n, plural, one {a {price, number, ::currency/EUR} b} other {}}", ["a {price, number, ::currency/EUR} b"]),
        ("{n, plural, one {don't} other {it''s}}", ["don't", "it''s"]),
        ("{n, plural, one {a '{' b '}' c} other {'{x}' d}}", ["a '{' b '}' c", "'{x}' d"]),
        ("{n, plural, one {see '{two words}' here} other {}}", ["see ", "two words", " here"]),
        ("{n, plural, one {l'{name}} other {d'{name}}}", ["l'{name}", "d'{name}"]),
        ("{n, plural, one {the '{{name}} ball} other {}}", ["the '{{name}} ball"]),  # quoted, it would be no message
        ("{n, plural, one {x#} other {#x, # x}}", ["x", "x, # x"]),
        ("{0, plural, other {a}}{1, select, other {b}}", ["a", "b"]),
        ("{type, select, in-app {A} e_mail {B} other {C}}", ["A", "B", "C"]),
    ],
)
def test_the_texts_of_a_message_are_found(line: str, texts: list[str]):
    assert list_texts(line) == texts


@pytest.mark.parametrize(
    "line",
    [
        "The ball is blue.",
        "{name} has {n, number} of {0}",
        "",
        "plural, select {",
        "{n, plural}",
        "{n, plural,}",
        "{n, plural, one}",
        "{n, plural, one {a}",
        "{n, plural, one {a} other {b}",
        "{n, plural, one {a} b}",
        "{n, plural, one {a {b}",
        "{n, plurals, one {a}}",
        "{n m, plural, one {a}}",
        "{n, plural, one {a '{ b}}"[:-2],
    ],
)
def test_what_is_no_message_is_one_text(line: str):
    assert list_texts(line) == [line]


TEXT = st.sampled_from(["a ball", "x", "{name} it", "it's", "# of {0}", "", "''", "<b>y</b>", "{{ z }}"])


@st.composite
def draw_message(draw: st.DrawFn, depth: int = 3) -> tuple[str, list[str]]:
    """Draw a message, and the texts in it in their order."""
    line, texts = "", []
    for _ in range(draw(st.integers(1, 2))):
        text = draw(TEXT)
        line, texts = line + text, [*texts, text]
        if not depth or not draw(st.booleans()):
            break
        kind = draw(st.sampled_from(["plural,", " select ,", "selectordinal, offset:2"]))
        line += "{" + draw(st.sampled_from(["n", " n_2", "VAR"])) + "," + kind
        for case in draw(st.lists(st.sampled_from([" one", "=1 ", "other", "\tmale "]), min_size=1, max_size=2)):
            inner, inner_texts = draw(draw_message(depth - 1))
            line, texts = f"{line} {case}{{{inner}}}", texts + inner_texts
        line += draw(st.sampled_from(["}", " }"]))
        texts.append("")
    return line, texts


@settings(derandomize=True, deadline=None)
@given(draw_message())
def test_whatever_is_nested_in_what_exactly_the_texts_are_found(message: tuple[str, list[str]]):
    line, texts = message
    expected = "|".join(text for text in texts if text)
    assert "".join(list_texts(line)) == expected.replace("|", "")


@settings(derandomize=True, deadline=None)
@given(
    st.lists(
        st.sampled_from([*"{}'#, an", "{n, plural, one {", "{n,select,a{", "}}", "other {", "{x}", "\t"]), max_size=20
    )
)
def test_any_text_is_found_once_and_in_order(pieces: list[str]):
    line = "".join(pieces)
    spans = find_message_texts(line)
    edges = [0, *(edge for span in spans for edge in span), len(line)]
    assert edges == sorted(edges)
    split = split_line(line, lambda _: True)
    assert join_line(split, split.segments) == line


@pytest.mark.parametrize(
    "line",
    [
        "{n, plural, one {" * 30_000,
        "{n,plural,one{" * 30_000 + "x" + "}}" * 30_000,
        "{n,plural,one{x}" * 20_000,
        "{n,plural,one{x}}" * 5_000,
        "{n,plural," * 30_000,
        "{n,plural," + " " * 100_000,
        "{n,plural," + "a " * 50_000,
        "{n,plural,one{" + "#x" * 5_000 + "}}",
        "'{" * 50_000 + "{n,plural,one{x}}",
        "{" * 100_000 + "{n,plural,one{x}}",
        "{a," * 50_000 + "{n,plural,one{x}}",
        "{" + "n" * 100_000 + ", {n,plural,one{x}}",
    ],
)
def test_hostile_messages_take_no_longer_than_other_text(line: str):
    texts = find_message_texts(line)
    assert "".join(line[start:end] for start, end in texts) in line or len(texts) > 1


def test_the_number_in_a_text_of_a_message_is_protected():
    assert list_protected("# files of {name}") == ["#", "{name}"]
    assert list_protected("the #th, (#) and #st") == ["#th", "#", "#st"]
