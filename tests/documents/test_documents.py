import io
import re
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from pellucid.localize.documents.formats import DOCUMENT_FORMATS, document_suffix
from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.reading import DocumentLimits, DocumentTooLarge
from tests.documents.samples import (
    DOCX,
    ODT,
    SAMPLES,
    TMX,
    XLIFF,
    XLIFF2,
    W,
    make_docx,
    make_odt,
    make_zip,
    read_zip,
)

EN_ES = ("en", "es")
BILINGUAL = ("xliff", "xlf", "sdlxliff", "mqxliff", "mxliff", "tmx", "po", "ts")
MONOLINGUAL = [name for name in SAMPLES if name.rpartition(".")[2] not in BILINGUAL]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_texts_of_a_document_are_found_with_their_markup_as_tags(name):
    content, texts = SAMPLES[name]
    assert read_document(name, content, EN_ES).texts == texts


@pytest.mark.parametrize("name", MONOLINGUAL)
def test_a_document_translated_into_itself_keeps_every_byte(name):
    content, texts = SAMPLES[name]
    assert read_document(name, content).write(texts) == content


@pytest.mark.parametrize("name", SAMPLES)
def test_a_document_is_written_although_nobody_waits_for_its_reading_any_more(name):
    content, texts = SAMPLES[name]
    is_read = False

    def stop_once_read() -> None:
        assert not is_read

    document = read_document(name, content, EN_ES, go_on=stop_once_read)
    is_read = True
    assert document.write([f"{text} 1. *a*" for text in texts])


def shout(text: str) -> str:
    """Return a text in capital letters, apart from its tags and placeholders."""
    return re.sub(
        r"</?\w+/?>|%\w|\\\w|[a-zé]+", lambda match: match[0] if match[0][0] in "<%\\" else match[0].upper(), text
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_everything_but_the_translated_words_stays_as_it_is(name):
    content, texts = SAMPLES[name]
    document = read_document(name, content, EN_ES)
    translated = document.write([shout(text) for text in texts])
    assert translated != content
    suffix = document_suffix(name)
    assert suffix is not None
    if not DOCUMENT_FORMATS[suffix].is_text:
        before, after = read_zip(content), read_zip(translated)
        assert list(before) == list(after)
        for member, text in before.items():
            # The document's own words in capitals are the translation; white space that Word keeps needs an attribute.
            plain = [
                re.sub(r" xml:space=(\"preserve\"|'preserve')|<w:proofErr[^>]*>", "", part).replace("\n ", "")
                for part in (text, after[member])
            ]
            if member in ("[Content_Types].xml", "mimetype"):
                assert text == after[member]
            elif member != "word/document.xml" or "<w:tab/>" not in text:
                assert plain[1].lower() == plain[0].lower()
    elif name in MONOLINGUAL:
        joined = [re.sub(rb"\s+", b" ", part) for part in (content, translated)]
        assert joined[1].lower() == joined[0].lower().replace(b"&nbsp;", "\xa0".encode())


def test_formatting_of_docx_goes_with_its_words():
    document = read_document("a.docx", DOCX)
    answers = dict(zip(document.texts, document.texts, strict=True))
    answers["The <0>red ball</0> is <1><2>here</2></1><3/>."] = "<1><2>Aquí</2></1><3/> está la <0>bola roja</0> & más."
    main = read_zip(document.write(answers.values()))["word/document.xml"]
    tree = etree.fromstring(main.encode())
    paragraph = tree[0][1]
    space = f"{{{W.split(chr(34))[1]}}}"
    runs = [
        ("".join(run.itertext()), [child.tag.removeprefix(space) for child in run.iterfind(f"{space}rPr/*")])
        for run in paragraph.iter(f"{space}r")
    ]
    assert runs == [("Aquí", ["u"]), ("", []), (" está la ", ["lang"]), ("bola roja", ["b"]), (" & más.", ["lang"])]
    # All else is as it was, byte for byte.
    original = read_zip(DOCX)["word/document.xml"]
    start, end = original.index("<w:p><w:r><w:rPr><w:lang"), original.index("<w:tbl>")
    assert main[:start] == original[:start]
    assert main[main.index("<w:tbl>") :] == original[end:]


def test_a_translation_with_wrong_tags_never_damages_the_document():
    for name in ("a.docx", "a.odt", "a.pptx", "a.xlsx", "a.odp", "a.epub", "a.xliff", "a.html"):
        content, texts = SAMPLES[name]
        for wrong in (
            "Nothing.",
            "<0>a <1>b</0> c</1>",
            "</0>a<0>",
            "<0/><0/>",
            "<0>a</0><0>b</0>",
            "<9>a",
            "a < b & c",
            "\x01",
        ):
            written = read_document(name, content, EN_ES).write([wrong for _ in texts])
            if name == "a.html":
                assert written.count(b"<b>") == written.count(b"</b>") == 1
                continue
            members = read_zip(written) if name != "a.xliff" else {"a.xml": written.decode()}
            for member, text in members.items():
                if member.endswith(".xml"):
                    etree.fromstring(text.encode())
                    for tag in ("</w:hyperlink>", "footnoteReference", "</text:span>", '<x id="2" />'):
                        original = read_zip(content)[member] if name != "a.xliff" else None
                        assert original is None or text.count(tag) == original.count(tag)


TAGS = st.lists(
    st.sampled_from(["a", " ", "<0>", "</0>", "<1>", "</1>", "<2>", "</2>", "<3/>", "b.", "<4>"]), max_size=12
)


@settings(max_examples=100, deadline=None)
@given(TAGS.map("".join))
def test_whatever_the_translation_is_docx_stays_well_formed(translation):
    document = read_document("a.docx", DOCX)
    main = read_zip(document.write([translation for _ in document.texts]))["word/document.xml"]
    etree.fromstring(main.encode())
    original = read_zip(DOCX)["word/document.xml"]
    for tag in ("<w:hyperlink", "w:footnoteReference", "w:bookmarkStart", "w:fldChar", "<w:p>", "<w:tab/>"):
        assert main.count(tag) == original.count(tag) or tag == "<w:tab/>"


def test_a_new_target_is_all_that_xliff_gets():
    for name, content in (("a.xliff", XLIFF), ("a.xlf", XLIFF2)):
        document = read_document(name, content, EN_ES)
        written = document.write([shout(text) for text in document.texts])
        if name == "a.xliff":
            assert b'<target state="needs-review-translation">THE <g id="1">RED BALL</g> IS <x id="2" />' in written
            assert b'<mrk mtype="seg" mid="0">ONE.</mrk> <mrk mtype="seg" mid="1">TWO.</mrk></target>' in written
        else:
            assert written.count(b'state="translated"') == 2
        unmarked = re.sub(rb'(\r\n   )?<target state="needs.*?</target>| (trgLang|target-language)="es"', b"", written)
        if name == "a.xliff":
            assert unmarked == content.replace(b'\r\n   <target state="new"/>', b"")


def test_xliff_and_tmx_between_other_languages_are_refused():
    with pytest.raises(ValueError, match="translates en-US to a language it does not name, not de to es"):
        read_document("a.xliff", XLIFF, ("de", "es"))
    with pytest.raises(ValueError, match="name two of them, such as en and es"):
        read_document("a.tmx", TMX)
    with pytest.raises(ValueError, match="name both, such as en and es"):
        read_document("a.xlf", XLIFF2)


def test_a_text_box_inside_a_paragraph_is_translated_in_its_place():
    box = "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>Inside.</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"
    content = make_docx(f"<w:p><w:r><w:t>One </w:t></w:r>{box}<w:r><w:t>two.</w:t></w:r></w:p>")
    document = read_document("a.docx", content)
    assert document.texts == ["One<0/>two.", "Inside."]
    assert document.write(document.texts) == content
    main = read_zip(document.write(["<0/>Dos.", "Dentro."]))["word/document.xml"]
    assert '<w:t xml:space="preserve">Dentro.</w:t>' in main
    assert main.index("Dentro.") < main.index("Dos.")


def test_characters_that_an_encoding_has_not_are_written_as_references():
    html = '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")
    assert read_document("a.html", html).write(["čaj"]) == b'<meta charset="iso-8859-1"><p>&#269;aj</p>'
    late = b"<head><style>" + b"p { color: red }\n" * 400 + b"</style>" + html
    assert read_document("a.html", late).texts == ["café"]
    utf16 = "\ufeff<xliff srcLang='en' trgLang='es'><segment><source>A</source></segment></xliff>".encode("utf-16-le")
    assert "<target>Č</target>" in read_document("a.xlf", utf16).write(["Č"]).decode("utf-16")


def bomb(name: str, size: int) -> bytes:
    return make_zip({name: b"0" * size, "content.xml": "<a/>"})


def entity_docx(declaration: str) -> bytes:
    main = f'<?xml version="1.0"?><!DOCTYPE a [{declaration}]><w:document {W}><w:body/></w:document>'
    return make_zip({**read_zip(DOCX), "word/document.xml": main})


def test_a_document_type_may_have_brackets_with_nothing_between_them():
    document = read_document("a.docx", entity_docx(" \n"))
    assert document.write(document.texts) == entity_docx(" \n")
    imitation = "<!-- <!DOCTYPE a []> --><!DOCTYPE a [<!ELEMENT a ANY>]><xliff/>"
    for text in (imitation, "<?b <!DOCTYPE a []> ?>" + imitation, '<!DOCTYPE a "<!DOCTYPE a []>" []><xliff/>'):
        with pytest.raises(ValueError, match=r"declarations of its own|not well-formed"):
            read_document("a.xlf", text.encode(), ("en", "es"))


def test_the_elements_of_a_document_are_bounded():
    with pytest.raises(DocumentTooLarge, match="has more than 5 elements"):
        read_document("a.docx", DOCX, limits=DocumentLimits(elements=5))


def with_flag(content: bytes, flag: int) -> bytes:
    """Return an archive whose files say that they are encrypted."""
    changed = bytearray(content)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(signature)
        while place >= 0:
            changed[place + offset] |= flag
            place = content.find(signature, place + 4)
    return bytes(changed)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", b"no zip", "not a document of this format, or damaged"),
        ("a.docx", DOCX[:-30], "damaged"),
        ("a.docx", ODT, "not a DOCX document"),
        ("a.odt", DOCX, "not an OpenDocument file"),
        ("a.docx", b"\xd0\xcf\x11\xe0" + bytes(600), "encrypted or of an old format such as .doc"),
        ("a.odt", with_flag(ODT, 1), "is encrypted; save it without a password"),
        ("a.odt", make_odt("", **{"META-INF/manifest.xml": "<encryption-data/>"}), "is encrypted"),
        ("a.docx", entity_docx('<!ENTITY a "b">'), "has declarations of its own"),
        ("a.docx", entity_docx('<!ENTITY a SYSTEM "file:///etc/passwd">'), "has declarations of its own"),
        ("a.docx", make_docx("<w:p>"), "not well-formed XML: mismatched tag"),
        ("a.odt", make_odt("<a>" * 300 + "</a>" * 300), "more than 200 elements in one another"),
        ("a.xliff", b"<tmx/>", "begins with <tmx>, expected <xliff>"),
        ("a.tmx", b"<tmx>&a;</tmx>", "not well-formed XML: undefined entity"),
        ("a.xliff", b'<?xml version="1.0" encoding="rot13"?><xliff/>', "encoding rot13, which is not known"),
        ("a.po", b'msgid "a\nmsgstr ""\n', "a.po:1: not a message catalogue (PO): the quotes"),
        ("a.po", b'msgid "a"\nmsgstr "\xff"\n', "byte 0xFF is not utf-8"),
        ("a.srt", b"Nothing here.", "holds no subtitles"),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,500\ncaf\xe9", "a.srt:3: byte 0xE9 is not UTF-8"),
        ("a.txt", b"a\0b", "a NUL"),
        ("a.pdf", b"%PDF", "of no known format; those are .txt, .html"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_in_one_sentence(name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        read_document(name, content, EN_ES)
    assert not isinstance(refusal.value, DocumentTooLarge)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "content", "limits"),
    [
        ("a.odt", bomb("big", 2**24), DocumentLimits()),
        ("a.odt", make_odt("<text:p>A.</text:p>", big="0" * 5000), DocumentLimits(unpacked=4000)),
        ("a.odt", make_zip({str(i): "" for i in range(30)}), DocumentLimits(members=20)),
        ("a.txt", b"abc", DocumentLimits(bytes=2)),
        ("a.txt", b"a\nb\nc", DocumentLimits(texts=2)),
        ("a.txt", b"abc\nabc", DocumentLimits(characters=5)),
    ],
)
def test_a_document_beyond_a_limit_is_refused(name, content, limits):
    with pytest.raises(DocumentTooLarge):
        read_document(name, content, EN_ES, limits)


def test_an_archive_that_lies_about_its_sizes_is_refused():
    content = bytearray(make_zip({"content.xml": b"0" * 100_000}))
    # The size in the directory, which is read first, says one byte.
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = (1).to_bytes(4, "little")
    with pytest.raises(ValueError, match="damaged"):
        read_document("a.odt", bytes(content))


def test_two_files_of_one_name_are_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("content.xml", "<a/>")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("content.xml", "<a/>")
    with pytest.raises(ValueError, match="two files of one name"):
        read_document("a.odt", out.getvalue())


@settings(max_examples=75, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damaged_documents_are_read_or_refused(name, data):
    content = bytearray(SAMPLES[name][0])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        document = read_document(name, bytes(content), EN_ES)
        document.write(document.texts)


def test_hostile_documents_take_no_more_time_than_others():
    paragraph = "<w:p><w:r><w:pict><w:txbxContent>"
    nested = (
        paragraph * 40
        + "<w:p><w:r><w:t>In.</w:t></w:r></w:p>"
        + "</w:txbxContent></w:pict><w:t>a</w:t></w:r></w:p>" * 40
    )
    assert len(read_document("a.docx", make_docx(nested)).texts) == 41
    for name, content in (
        ("a.html", b"<b>" * 100_000 + b"</i>" * 100_000),
        ("a.srt", b"00:00:01,000 --> 00:00:02,000\n" * 50_000),
        ("a.po", b"# a\n" * 100_000 + b'msgid "a"\nmsgstr ""\n'),
        ("a.srt", b"00:00:01,000 --> 00:00:02,000\n" + b"a b\n" * 100_000),
        ("a.xliff", b"<xliff>" + b"<a b='>'/>" * 100_000 + b"</xliff>"),
    ):
        document = read_document(name, content, EN_ES)
        document.write([f"{text} x" for text in document.texts])


def test_each_format_has_a_sample():
    # Endings of formats that have another ending, too.
    others = ".htm .pot .ssa .markdown .mdx .yaml .docm .dotx .pptm .ppsx .potx .xlsm .xltx .ott .otp .ots .odg"
    assert {document_suffix(name) for name in SAMPLES} | {*others.split()} == set(DOCUMENT_FORMATS)
