"""Laws of XLIFF and memories as training text: what nobody stands by is left out, and no two words are glued."""

from pathlib import Path

import pytest

from pellucid.data.corpus import read_pairs
from pellucid.data.formats.inline_codes import Join, judge_code
from pellucid.data.formats.units import Sides
from pellucid.data.formats.xml_characters import CharacterFilter

SDL = 'xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0"'
MQ, M = 'xmlns:mq="MQXliff"', 'xmlns:m="http://www.memsource.com/mxlf/2.0"'


def write_first(path: Path, *units: str, more: str = "") -> Path:
    """Write a file of XLIFF 1.2 with these units."""
    path.write_text(
        f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" {more}><file original="a" datatype="x" '
        f'source-language="en" target-language="es"><body>\n{"".join(units)}\n</body></file></xliff>',
        encoding="utf-8",
    )
    return path


def write_second(path: Path, *units: str) -> Path:
    """Write a file of XLIFF 2 with these units."""
    path.write_text(
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="es"><file id="f">\n'
        f"{''.join(units)}\n</file></xliff>",
        encoding="utf-8",
    )
    return path


def write_memory(path: Path, *pairs: tuple[str, str]) -> Path:
    """Write a memory with these segments."""
    units = "\n".join(
        f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv><tuv xml:lang="es"><seg>{target}</seg></tuv></tu>'
        for source, target in pairs
    )
    path.write_text(f'<tmx version="1.4"><header srclang="en"/><body>\n{units}\n</body></tmx>', encoding="utf-8")
    return path


def read(path: Path) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return the pairs of a file, and the reasons why others are none, counted."""
    pairs = read_pairs(path, max_characters=1000, sides=Sides())
    return list(zip(pairs.sources, pairs.targets, strict=True)), dict(pairs.skipped.counts)


GOOD = "<trans-unit id='0'><source>Good.</source><target>Bueno.</target></trans-unit>"


def unit(source: str, target: str, more: str = "", of_target: str = "", behind: str = "") -> str:
    target = target and f"<target {of_target}>{target}</target>"
    return f"<trans-unit id='1' {more}><source>{source}</source>{target}{behind}</trans-unit>"


@pytest.mark.parametrize(
    ("more", "of_target", "reason"),
    [
        ("", "", None),
        ("", 'state="translated"', None),
        ("", 'state="signed-off"', None),
        ('approved="yes"', "", None),
        ('approved="no"', 'state="translated"', None),
        ("", 'state="final" state-qualifier="leveraged-mt"', None),
        ('approved="yes"', 'state-qualifier="leveraged-mt"', None),
        ("", 'state-qualifier="exact-match"', None),
        ("", 'state="needs-review-translation"', "the state needs-review-translation"),
        ('approved="yes"', 'state="needs-adaptation"', "the state needs-adaptation"),
        ("", 'state="x-rejected"', "the state x-rejected"),
        ("", 'state="x-mt-draft"', "the state x-mt-draft"),
        ('approved="no"', "", 'approved="no" and no state'),
        ("", 'state-qualifier="leveraged-mt"', "the state qualifier leveraged-mt"),
        ("", 'state="translated" state-qualifier="mt-suggestion"', "the state qualifier mt-suggestion"),
        ("", 'state="final" state-qualifier="rejected-grammar"', "the state qualifier rejected-grammar"),
        ('translate="no"', 'state="final"', "marked as not to be translated"),
        ('restype="x-gettext-domain-header"', "", "the header of a message catalogue"),
        # memoQ and Phrase
        (f'{MQ} mq:status="ManuallyConfirmed"', "", None),
        (f'{MQ} mq:status="Reviewer1Confirmed"', "", None),
        (f'{MQ} mq:status="Proofread"', "", None),
        (f'{MQ} mq:status="PreTranslated"', "", "the state PreTranslated of memoQ"),
        (f'{MQ} mq:status="MachineTranslated"', "", "the state MachineTranslated of memoQ"),
        (f'{MQ} mq:status="PartiallyEdited"', "", "the state PartiallyEdited of memoQ"),
        (f'{MQ} mq:status="Rejected"', "", "the state Rejected of memoQ"),
        (f'{M} m:confirmed="1" m:trans-origin="mt"', "", None),
        (f'{M} m:confirmed="2"', "", None),
        (f'{M} m:confirmed="0"', "", "not confirmed in Phrase"),
        (f'{M} m:confirmed="0" m:trans-origin="mt"', "", "not confirmed in Phrase, machine translation"),
        ('xmlns:o="urn:other" o:status="Rejected"', "", None),  # of a program that is not known
    ],
)
def test_only_translations_that_somebody_stands_by_are_pairs(tmp_path: Path, more: str, of_target: str, reason: str):
    path = write_first(tmp_path / "a.xlf", GOOD, unit("One.", "Uno.", more, of_target))
    pairs, skipped = read(path)
    assert pairs == [("Good.", "Bueno.")] + ([("One.", "Uno.")] if reason is None else [])
    assert skipped == ({} if reason is None else {reason: 1})


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ('conf="Translated" origin="mt"', None),
        ('conf="ApprovedTranslation"', None),
        ('conf="ApprovedSignOff"', None),
        ('conf="Draft"', "the state Draft of Trados"),
        ('conf="Draft" origin="nmt"', "the state Draft of Trados, machine translation"),
        ('conf="RejectedTranslation"', "the state RejectedTranslation of Trados"),
        ('conf="RejectedSignOff"', "the state RejectedSignOff of Trados"),
        ("", "the state Unspecified of Trados"),
    ],
)
def test_each_segment_of_trados_has_a_state_of_its_own(tmp_path: Path, attributes: str, reason: str | None):
    sides = [
        f'<mrk mtype="seg" mid="7">{first}</mrk> <g id="1"><mrk mtype="seg" mid="8">{second}</mrk></g>'
        for first, second in (("One.", "Two."), ("Uno.", "Dos."))
    ]
    states = f'<sdl:seg-defs><sdl:seg id="7" conf="Translated"/><sdl:seg id="8" {attributes}/></sdl:seg-defs>'
    whole = (
        f"<trans-unit id='1'><source>One. Two.</source><seg-source>{sides[0]}</seg-source><target>{sides[1]}</target>"
    )
    pairs, skipped = read(write_first(tmp_path / "a.sdlxliff", f"{whole}{states}</trans-unit>", more=SDL))
    assert pairs == [("One.", "Uno.")] + ([("Two.", "Dos.")] if reason is None else [])
    assert skipped == ({} if reason is None else {reason: 1})


def test_a_half_translated_unit_gives_the_pairs_that_it_holds_and_no_more(tmp_path: Path):
    source = "".join(f'<mrk mtype="seg" mid="{n}">Number {n}.</mrk> ' for n in range(4))
    target = (
        '<mrk mtype="seg" mid="2">Número 2.</mrk> <mrk mtype="seg" mid="0">Número 0.</mrk><mrk mtype="seg" mid="3"/>'
    )
    behind = f"<seg-source>{source}</seg-source><target>{target}</target>"
    half = unit("All.", "", behind=behind)
    without_source_marks = unit("One. Two.", '<mrk mtype="seg" mid="0">Uno.</mrk> <mrk mtype="seg" mid="1"/>')
    as_a_whole = unit("One. Two.", "Uno y dos.", behind="<seg-source><mrk mtype='seg' mid='0'>One.</mrk></seg-source>")
    codes = unit("Three.", '<g id="1"> <x id="2"/></g><!-- soon -->')
    pairs, skipped = read(write_first(tmp_path / "a.xlf", half, without_source_marks, as_a_whole, codes))
    assert pairs == [("Number 0.", "Número 0."), ("Number 2.", "Número 2."), ("One. Two.", "Uno y dos.")]
    assert skipped == {"no target": 1, "empty target": 2, "a target of which some segments are empty": 1}


def test_what_is_said_innermost_about_translation_counts_for_pairs(tmp_path: Path):
    def second(n: int, more: str = "", state: str = "") -> str:
        return f'<unit id="{n}" {more}><segment {state}><source>{n}a</source><target>{n}b</target></segment></unit>'

    first = second(1, 'translate="yes"')
    units = f'<group id="g" translate="no">{first}{second(2)}</group>'
    states = second(3, state='state="translated" subState="pellucid:machine"') + second(4, state='state="reviewed"')
    states += second(5, state='state="final" subState="pellucid:look"') + second(6, state='subState="my:mt-draft"')
    pairs, skipped = read(write_second(tmp_path / "a.xlf", units, states))
    assert pairs == [("1a", "1b"), ("4a", "4b"), ("5a", "5b")]
    assert skipped == {
        "marked as not to be translated": 1,
        "the substate pellucid:machine": 1,
        "the substate my:mt-draft": 1,
    }


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ("First<ph>&lt;br/&gt;</ph>second", "First second"),
        ("First<ph>&lt;BR clear='all'&gt;</ph>second", "First second"),
        ("First.<ph>\n</ph>Second", "First. Second"),
        ("Note<ph>\\t</ph>text", "Note text"),
        ("Note <ph>\\n</ph> text", "Note text"),
        ("Note<ph type='lb'/>text", "Note text"),
        ("Note<ph>&lt;w:tab/&gt;</ph>text", "Note text"),
        ("Note<ut>\\tab </ut>text", "Note text"),
        ("One<bpt i='1'>&lt;/p&gt;&lt;p&gt;</bpt>two<ept i='1'/>", "One two"),
        ("See<ph>&lt;img src='a.png'/&gt;</ph>it", "See it"),
        ("See <ph type='fnote'/> it<ph/>.", "See it."),
        ("See it <ph/>.", "See it."),
        ("<ph/> See it <ph/>", "See it"),
        ("Press <ph>{0}</ph> now", "Press {0} now"),
        ("<ph>%1$s</ph> of <ph>${total}</ph>, <ph>{{ name }}</ph>", "%1$s of ${total}, {{ name }}"),
        ("<ph>&lt;mq:rxt displaytext='x' val='%d' /&gt;</ph> files", "%d files"),
        ("<bpt i='1'>&lt;b&gt;</bpt>W<ept i='1'>&lt;/b&gt;</ept>ord", "Word"),
        ("W<bpt i='1'>{}</bpt>or<ept i='1'>{}</ept>d", "Word"),
        ("W<it pos='begin'>[i]</it>ord", "Word"),
        ("W<hi type='bold'>o</hi>rd", "Word"),
        ("W<ph type='bold'/>ord", "Word"),
        ("W<ph>&lt;b&gt;</ph>o<ph>&lt;/b&gt;</ph>rd", "Word"),
        ("hyphen<ph>&amp;shy;</ph>ation", "hyphenation"),
        ("A<ph>&amp;mdash;</ph>B", "A—B"),
        ("A <bpt i='1'/> b<ept i='1'/> c", "A b c"),
        ("第一行<ph>&lt;br/&gt;</ph>第二行", "第一行第二行"),
        ("a &lt; b &lt;b&gt;as text&lt;/b&gt;", "a < b <b>as text</b>"),
        ("No  code  here", "No  code  here"),
    ],
)
def test_a_code_that_is_left_out_never_glues_two_words(tmp_path: Path, marked: str, text: str):
    pairs, _ = read(write_memory(tmp_path / "a.tmx", (marked, marked)))
    assert pairs == [(text, text)]


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ('The ball<x id="1" ctype="lb"/>is blue', "The ball is blue"),
        ('The ball<x id="LINE_BREAK"/>is blue', "The ball is blue"),
        ('The ball<ph id="1" equiv-text="&lt;br&gt;"/>is blue', "The ball is blue"),
        ('Hello <x id="INTERPOLATION" equiv-text="{{name}}"/>!', "Hello {{name}}!"),
        (
            'W<x id="START_BOLD_TEXT" ctype="x-b" equiv-text="&lt;b&gt;"/>o<x id="CLOSE_BOLD_TEXT" ctype="x-b"/>rd',
            "Word",
        ),
        ('<g id="1">W</g><bx id="2"/>or<ex id="3"/>d', "Word"),
        ('<g id="1" ctype="x-html-p">One</g><g id="2" ctype="x-html-p">two</g>', "One two"),
        ('O<mrk mtype="x-sdl-deleted">ld</mrk>ne <mrk mtype="term">two</mrk>', "One two"),
    ],
)
def test_the_codes_of_xliff_1_tell_what_they_are(tmp_path: Path, marked: str, text: str):
    assert read(write_first(tmp_path / "a.xlf", unit(marked, marked)))[0] == [(text, text)]


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ('The ball<ph id="1" type="fmt" subType="xlf:lb"/>is blue', "The ball is blue"),
        ('The ball<ph id="1" dataRef="d1"/>is blue', "The ball is blue"),
        ('Hello <ph id="1" dataRef="d2"/>!', "Hello %s!"),
        ('Hello <ph id="1" equiv="INTERPOLATION" disp="{{name}}"/>!', "Hello {{name}}!"),
        ('W<sc id="1" type="fmt" subType="xlf:b"/>or<ec startRef="1"/>d', "Word"),
        ('The ball<cp hex="000B"/>is blue', "The ball is blue"),
        ('<pc id="1" dispStart="&lt;p&gt;">One</pc>two', "One two"),
        ('The <mrk id="m" translate="no">Black Cat</mrk>', "The Black Cat"),
    ],
)
def test_the_codes_of_xliff_2_tell_what_they_are(tmp_path: Path, marked: str, text: str):
    data = '<originalData><data id="d1">&lt;br/&gt;</data><data id="d2">%s</data></originalData>'
    segment = f"<segment><source>{marked}</source><target>{marked}</target></segment>"
    assert read(write_second(tmp_path / "a.xlf", f'<unit id="1">{data}{segment}</unit>'))[0] == [(text, text)]


def test_the_tags_of_phrase_are_text_only_where_they_are_no_tags(tmp_path: Path):
    def phrase(text: str, *contents: str) -> str:
        marks = "".join(
            f'<m:mark id="{n}"><m:content>{content}</m:content></m:mark>' for n, content in enumerate(contents, start=1)
        )
        return unit(text, text, 'm:confirmed="1"', behind=f"<m:tunit-metadata>{marks}</m:tunit-metadata>")

    units = [
        phrase("The spring{1}is broken.", "&lt;br/&gt;"),
        phrase("The {1&gt;spr&lt;1}ing {b&gt;is&lt;b} broken.", "&lt;i&gt;"),
        phrase("Press {1} now.", "{0}"),
        phrase("Press {1} now."),
        phrase("Press{1}now."),
    ]
    pairs, _ = read(write_first(tmp_path / "a.mxliff", *units, more=M))
    assert [source for source, _ in pairs] == [
        "The spring is broken.", "The spring is broken.", "Press {0} now.", "Press {1} now.", "Press now.",
    ]  # fmt: skip
    plain = write_first(tmp_path / "a.xlf", unit("Press{1}now.", "Press{1}now."))
    assert read(plain)[0] == [("Press{1}now.", "Press{1}now.")]


def test_a_code_is_judged_by_its_content_before_its_name():
    assert judge_code(True, ("<br/>",), ("x-bold",)) is Join.SPACED
    assert judge_code(False, ("{0}",)) is Join.CLOSE
    assert judge_code(True, (), ("image",)) is Join.APART
    assert judge_code(True, ("an image {0} of",)) is Join.APART


@pytest.mark.parametrize("bad", ["&#x1F;", "&#31;", "&#x0B;", "\x02", "\x0b", "\x00", "\ufffe", "\uffff", "&#xDC00;"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_one_character_that_xml_cannot_hold_costs_its_unit_and_not_the_memory(tmp_path: Path, bad: str, encoding: str):
    if encoding == "iso-8859-1" and bad in "\ufffe\uffff":
        return  # this encoding has none of them
    path = write_memory(
        tmp_path / "a.tmx", ("One.", "Uno."), (f"T{bad}wo.", "Dos."), ("Three.", f"T{bad}res."), ("Four.", "Señor.")
    )
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n' + path.read_text(encoding="utf-8")
    path.write_bytes(text.encode(encoding))
    pairs = read_pairs(path, max_characters=1000, sides=Sides())
    assert pairs.targets == ["Uno.", "Señor."]
    [reason] = pairs.skipped.counts
    assert reason.startswith("U+")
    assert reason.endswith(", which XML cannot hold")
    assert pairs.skipped.examples[0] == f"{path}:4 (unit 2) {reason}"


def test_such_a_character_outside_the_texts_costs_nothing_and_halves_are_put_together(tmp_path: Path):
    path = write_memory(tmp_path / "a.tmx", ("Smile &#xD83D;&#xDE00; &#55357;&#56832;", "Sonrisa"))
    path.write_text(
        path.read_text(encoding="utf-8").replace("<tuv", '<prop type="x">a&#x1F;b</prop><note>\x02</note><tuv', 1)
    )
    assert read(path) == ([("Smile 😀 😀", "Sonrisa")], {})


def test_a_character_is_found_wherever_the_file_is_cut_into_chunks():
    content = "a&#x1F;b\x02 &#xD83D;&#xDE00; & &amp; é\ufffe ü&#233; end &#x".encode()
    whole = CharacterFilter()
    expected = whole.clean(content) + whole.clean(b"")
    assert b"&#xFDD0;1f;" in expected
    assert b"&#x1F600;" in expected
    for size in range(1, 12):
        pieces = CharacterFilter()
        chunks = [content[i : i + size] for i in range(0, len(content), size)]
        assert b"".join(pieces.clean(chunk) for chunk in [*chunks, b""]) == expected


@pytest.mark.parametrize(
    ("named", "encoding", "message"),
    [
        ("UTF-16", "utf-8", "names the encoding UTF-16 in its first line, but it is written in one that has a byte"),
        ("windows-1252", "utf-8", "names the encoding windows-1252 in its first line, but it is written in UTF-8"),
        ("UTF-8", "iso-8859-1", "its bytes are not in the encoding that it names"),
    ],
)
def test_a_memory_that_lies_about_its_encoding_is_refused_in_a_sentence(
    tmp_path: Path, named: str, encoding: str, message: str
):
    path = write_memory(tmp_path / "a.tmx", ("Mr.", "Señor."))
    path.write_bytes((f'<?xml version="1.0" encoding="{named}"?>' + path.read_text(encoding="utf-8")).encode(encoding))
    with pytest.raises(ValueError, match=message):
        read(path)


def test_translations_that_a_machine_wrote_into_a_memory_are_no_pairs(tmp_path: Path):
    path = write_memory(
        tmp_path / "a.tmx", ("One.", "Uno."), ("Two.", "Dos."), ("Three.", "Tres."), ("Four.", "Cuatro.")
    )
    text = path.read_text(encoding="utf-8")
    ours = '<tuv xml:lang="es" creationtool="pellucid"'
    text = text.replace('<tuv xml:lang="es"><seg>Dos', f"{ours}><seg>Dos")
    text = text.replace('<tuv xml:lang="es"><seg>Tres', f'{ours} changeid="ana"><seg>Tres')
    text = text.replace(
        '<tuv xml:lang="es"><seg>Cua', '<tuv xml:lang="es"><prop type="x-ConfirmationLevel">Draft</prop><seg>Cua'
    )
    path.write_text(text, encoding="utf-8")
    pairs, skipped = read(path)
    assert [target for _, target in pairs] == ["Uno.", "Tres."]
    assert skipped == {"a translation by pellucid that nobody has changed": 1, "the state Draft of Trados": 1}
