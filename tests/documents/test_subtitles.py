"""Subtitles: what players show is translated, and times, positions, tags and dashes stay."""

import pytest

from pellucid.localize.documents.readers import read_document
from tests.growth import assert_linear_work

TIMES = "00:00:01,000 --> 00:00:02,000\n"
WEBVTT = "WEBVTT\n\n"


def read_texts(name: str, content: str) -> list[str]:
    document = read_document(name, content.encode(), ("en", "es"))
    assert document.write(document.texts).decode() == content
    return document.texts


def write_capitals(name: str, content: str) -> str:
    document = read_document(name, content.encode(), ("en", "es"))
    return document.write([text.upper() for text in document.texts], language="es").decode()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("- a\n- b", "- A\n- B"),
        ("<i>- a\n- b</i>", "<i>- A\n- B</i>"),
        ("<i>- a</i>\n<i>- b</i>", "<i>- A</i>\n<i>- B</i>"),
        ("{\\an8}<i>- a\n- b</i>", "{\\an8}<i>- A\n- B</i>"),
        ("{\\an8}{\\i1}– a\n– b{\\i0}", "{\\an8}{\\i1}– A\n– B{\\i0}"),
        ('"- a."\n"- b."', '"- A."\n"- B."'),
        ("“— a”\n“— b”", "“— A”\n“— B”"),
        (">> a\n>> b", ">> A\n>> B"),
        ("-a\n-b", "-A\n-B"),
        ("- <b>a</b> c\n- b", "- <b>A</b> C\n- B"),
        ("a.\n- b", "A.\n- B"),
        ("a?\n<i>-b</i>", "A?\n<i>-B</i>"),
        ("- a\nc d\n- b", "- A\nC D\n- B"),
        ("ANN: a\nTOM 2: b", "ANN: A\nTOM 2: B"),
        ("♪ a ♪\n♪ b ♪", "♪ A ♪\n♪ B ♪"),
        ('<font color="#ffff00" size="1">a b</font>', '<font color="#ffff00" size="1">A B</font>'),
        ("<i>a</i>\n\nb", "<i>A</i>\n\nB"),
        ("I <3 a", "I <3 A"),
        ("a &amp; b", "A &AMP; B"),
    ],
)
def test_each_person_who_speaks_has_a_line_with_a_dash_and_its_marks(text, written):
    before, after = f"1\n{TIMES}", f"\n\n2\n{TIMES}"
    assert write_capitals("a.srt", f"{before}{text}{after}x\n") == f"{before}{written}{after}X\n"


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("-5 degrees\nand -3.", ["-5 degrees and -3."]),
        ("the ball\n- the blue one -", ["the ball - the blue one -"]),
        ("<i>the ball</i>", ["the ball"]),
        ("<i>the</i> ball", ["<0>the</0> ball"]),
        ("the <i>ball</i>", ["the <0>ball</0>"]),
        ("<i>the</i> <i>ball</i>", ["<0>the</0> <1>ball</1>"]),
        ("<i>the\nball</i>", ["the ball"]),
    ],
)
def test_a_dash_that_is_no_dialogue_stays_and_tags_around_all_of_a_text_are_not_in_it(text, texts):
    assert read_texts("a.srt", f"1\n{TIMES}{text}\n") == texts


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_empty_line_ends_no_subtitle_and_the_next_number_is_no_text(end):
    content = f"1\n{TIMES}a\n\nb\n42\n \nc\n\n\n2\n{TIMES}d\n3\n{TIMES}\n4\n{TIMES}e".replace("\n", end)
    assert read_texts("a.srt", content) == ["a", "b 42", "c", "d", "e"]


@pytest.mark.parametrize(
    "times",
    [
        "00:01,000 --> 00:02,000",
        "0:00:01.5 --> 0:00:02.5",
        "00:00:01,000 --> 00:00:02,000 X1:100 X2:200 Y1:1 Y2:2",
        " 00:00:01,000-->00:00:02,000",
        "00:00:01 --> 00:00:02",
    ],
)
def test_times_are_known_as_players_know_them(times):
    assert read_texts("a.srt", f"1\n{times}\na ball\n") == ["a ball"]


def test_the_format_is_that_of_the_content_whatever_the_name_says():
    cue = "00:01.000 --> 00:02.000\na &lt; b\n\nlost\n"
    for name in ("a.srt", "a.vtt", "a.sbv"):
        assert read_texts(name, WEBVTT + cue) == ["a < b"]
        assert read_texts(name, f"\ufeff1\n{TIMES}a &lt; b\n\nfound\n") == ["a &lt; b", "found"]


def test_only_what_webvtt_shows_is_translated():
    content = (
        "WEBVTT Kind: captions; Language: en\nKind: captions\nLanguage: en-US\n\nNOTE\na remark\n\n"
        "STYLE\n::cue(b) { color: red }\n\nREGION\nid:fred\n\n"
        "an identifier\n00:01.000 --> 00:02.000 region:fred align:start\n<v.loud Ann>a</v>\n<v Tom>b & c\n\n"
        "lost\n\n00:03.000 --> 00:04.000\nd<00:00:03.500><c> e</c>\n00:04.000 --> 00:05.000\nf\n"
    )
    document = read_document("a.vtt", content.encode(), ("en", "es"))
    assert document.texts == ["a", "b & c", "d<0/><1> e</1>", "f"]
    assert document.kept["other"] == 1
    written = document.write(["A", "B & <C>", "D<0/><1> E</1>", "F"], language="es").decode()
    expected = (
        content.replace("Language: en-US", "Language: es").replace(">a<", ">A<").replace("b & c", "B &amp; &lt;C&gt;")
    )
    assert written == expected.replace("\nd<", "\nD<").replace("<c> e", "<c> E").replace("\nf\n", "\nF\n")


def test_lines_of_ass_are_translated_and_drawings_and_styles_stay():
    lines = [
        "[Script Info]",
        "[V4+ Styles]",
        "Format: Name, Fontname",
        "Style: Default,Arial",
        "[Events]",
        "Format: Start, End, Text",
        r"Dialogue: 0:00:01.00,0:00:02.00,{\an8}a, b\N{\i1}c d{\i0}",
        r"Dialogue: 1,2,- a\N- b",
        r"Dialogue: 1,2,{\p1}m 0 0",
        "Comment: 1,2,a",
    ]
    content = "".join(f"{line}\r\n" for line in lines)
    document = read_document("a.ass", content.encode())
    assert document.texts == ["a, b <0/>c d", "a", "b"]
    assert (document.kept["code"], document.kept["comments"]) == (1, 1)
    written = document.write(["A, B <0/>C D", "A", "B"]).decode()
    assert written == content.replace(r"a, b\N{\i1}c d", r"A, B\N{\i1}C D").replace(r"- a\N- b", r"- A\N- B")


SBV_TIMES = "0:00:01.000,0:00:02.000\n"


@pytest.mark.parametrize(
    ("text", "texts", "written"),
    [
        # The middle of "and" is at 17.5 of 35 characters, so that it stands on the second of two even lines.
        ("the ball is red[br]and it is here", ["the ball is red and it is here"], "THE BALL IS RED[br]AND IT IS HERE"),
        # Three lines of five of its fifteen characters: the middles of the words are at 1.5, 6, 10 and 13.5.
        ("the ball\nis [BR] red", ["the ball is red"], "THE\nBALL[BR]IS RED"),
        ("the ball[br]\nis red", ["the ball is red"], "THE BALL[br]\nIS RED"),
        ("- the ball[br]- the house", ["the ball", "the house"], "- THE BALL[br]- THE HOUSE"),
        ("[br]the ball[br]", ["the ball"], "[br]THE BALL[br]"),
        ("[br]", [], "[br]"),
    ],
)
def test_a_line_of_sbv_ends_with_its_mark_or_with_a_line_end(text, texts, written):
    content = f"{SBV_TIMES}{text}\n\n"
    assert read_texts("a.sbv", content) == texts
    assert write_capitals("a.sbv", content) == f"{SBV_TIMES}{written}\n\n"


@pytest.mark.parametrize(
    ("name", "text", "texts", "written"),
    [
        ("a.srt", "{\\an8}the ball\\Nis red", ["the ball is red"], "{\\an8}THE BALL\\NIS RED"),
        ("a.srt", "the ball<br>is<br />red\\hnow", ["the ball is red<0/>now"], "THE BALL<br>IS<br />RED\\hNOW"),
        ("a.srt", "- the ball\\N- the house", ["the ball", "the house"], "- THE BALL\\N- THE HOUSE"),
        ("a.vtt", "the ball\\Nis red", ["the ball is red"], "THE BALL\\NIS RED"),
        ("a.ass", "the ball \\N is\\hred\\N", ["the ball is<0/>red"], "THE BALL\\NIS\\hRED\\N"),
    ],
)
def test_ends_of_lines_as_other_formats_have_them_are_no_words(name, text, texts, written):
    head = {"a.srt": f"1\n{TIMES}", "a.vtt": WEBVTT + TIMES, "a.ass": "[Events]\nDialogue: 1,2,3,4,5,6,7,8,9,"}[name]
    assert read_texts(name, f"{head}{text}\n") == texts
    assert write_capitals(name, f"{head}{text}\n") == f"{head}{written}\n"


def test_other_encodings_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match="byte 0xE9 is not UTF-8; convert the file, such as with iconv"):
        read_document("a.vtt", f"{WEBVTT}{TIMES}caf\xe9".encode("latin-1"))


GROWING = [
    *("a b\n", "- a\n", "<i>", "</i>", "<i>a</i> ", "{\\an8}", "{", "<", "-", ">>", "A: ", "\n1\n", "a\n\n", TIMES),
    *("\\N", '"- a"\n', "[br]", "a [br] ", " "),
]


@pytest.mark.parametrize("name", ["a.srt", "a.vtt", "a.ass"])
@pytest.mark.parametrize("unit", GROWING)
def test_twice_the_subtitles_are_twice_the_work(name, unit):
    head = {"a.srt": TIMES, "a.vtt": WEBVTT + TIMES, "a.ass": "[Events]\nDialogue: 1,2,3,4,5,6,7,8,9,"}[name]

    def work(size: int) -> None:
        document = read_document(name, (head + unit * size).encode())
        document.write([f"{text} x" for text in document.texts])

    assert_linear_work(work, 100, "documents")
