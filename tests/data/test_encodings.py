"""Encodings that files name: those of the web, in time that grows with the size."""

import codecs
import time
from contextlib import suppress

import pytest

from pellucid.data.encodings import CODECS, decode_bytes, encode_text, find_codec
from pellucid.data.formats.po import decode_catalogue
from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.xml_tree import decode_xml
from tests.growth import assert_linear

NO_ENCODINGS = ["rot13", "rot_13", "hex", "zlib", "bz2", "base64", "uu", "quopri", "idna", "punycode", "undefined"]
NOT_OF_THE_WEB = ["unicode_escape", "raw_unicode_escape", "utf-7", "utf-32", "mbcs", "iso-2022-kr", "hz-gb-2312"]


def test_every_label_names_a_codec_of_text():
    for label, codec in CODECS.items():
        assert label == label.lower().strip()
        assert codecs.lookup(codec)._is_text_encoding  # pyright: ignore[reportAttributeAccessIssue]
        assert find_codec(f" {label.upper()}\n") == codec


@pytest.mark.parametrize("label", NO_ENCODINGS + NOT_OF_THE_WEB)
def test_what_is_no_encoding_of_the_web_is_refused_in_every_format(label):
    xliff = f'<?xml version="1.0" encoding="{label}"?><xliff version="1.2"/>'.encode()
    page = f'<meta charset="{label}"><p>The ball.</p>'.encode()
    catalogue = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={label}\\n"\n'.encode()
    for name, content in (("a.xliff", xliff), ("a.tmx", xliff), ("a.html", page), ("a.po", catalogue)):
        with pytest.raises(
            ValueError, match=f"{name} is in the encoding {label}.* is not known; convert it"
        ) as refusal:
            read_document(name, content, ("en", "es"))
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("label", "content", "text"),
    [
        ("windows-1252", b"\x93caf\xe9\x94", "“café”"),
        ("ISO-8859-1", b"\x93caf\xe9\x94", "“café”"),
        ("windows-1252", b"\x81\x8d\x8f\x90\x9d", "\x81\x8d\x8f\x90\x9d"),
        ("windows-1251", b"\xcc\xff\xf7", "Мяч"),
        ("koi8-r", b"\xed\xd1\xde", "Мяч"),
        ("Shift_JIS", b"\x83{\x81[\x83\x8b", "ボール"),
        ("x-sjis", b"\x87\x40", "①"),
        ("euc-kr", b"\xb0\xf8", "공"),
        ("gb2312", b"\xc7\xf2", "球"),
        ("big5", b"\xb2y", "球"),
        ("iso-2022-jp", b"\x1b$B5e\x1b(B", "球"),
        ("tis-620", b"\xc5\xd9\xa1", "ลูก"),
    ],
)
def test_a_page_is_read_and_written_in_the_encoding_it_names_as_browsers_read_it(label, content, text):
    page = b'<meta charset="' + label.encode() + b'"><p>' + content + b"</p>"
    document = read_document("a.html", page)
    codec = find_codec(label)
    assert codec is not None
    assert decode_bytes(content, codec) == text
    assert document.write(document.texts) == page
    assert encode_text(text, codec) == content


def test_latin_1_of_a_translators_file_is_itself_and_in_a_page_it_is_that_of_windows():
    declaration = b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\x93</a>'
    assert decode_xml("a.xml", declaration)[0].endswith("<a>\x93</a>")
    assert decode_xml("a.xml", declaration.replace(b"ISO-8859-1", b"windows-1252"))[0].endswith("<a>“</a>")
    header = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-1\\n"\n#\x93'
    assert decode_catalogue("a.po", header)[0].endswith("#\x93")
    assert decode_catalogue("a.po", header.replace(b"iso-8859-1", b"CP1252"))[0].endswith("#“")


def test_a_header_that_nobody_has_filled_in_names_no_encoding():
    text, codec = decode_catalogue(
        "a.pot", b'msgstr "Content-Type: text/plain; charset=CHARSET\\n"\n# \xc3\xa9'.strip()
    )
    assert codec == "utf-8"
    assert text.endswith("é")


def test_a_declaration_that_can_be_read_byte_by_byte_is_not_in_utf_16():
    declaration = '<?xml version="1.0" encoding="utf-16"?><a>é</a>'
    assert decode_xml("a.xml", declaration.encode()) == (declaration, "utf-8")
    assert decode_xml("a.xml", declaration.encode("utf-16-le")) == (declaration, "utf-16-le")


def test_xml_in_ascii_is_written_in_ascii():
    codec = find_codec("US-ASCII", exact=True)
    assert codec is not None
    assert encode_text("\u00c0", codec) == b"&#192;"


def test_a_character_that_an_encoding_has_not_is_written_as_a_reference():
    assert encode_text("č漢\x81!", "cp1252") == b"&#269;&#28450;\x81!"
    for codec in sorted(set(CODECS.values())):
        text = decode_bytes(encode_text("a\U0001f600b", codec), codec)
        assert text in ("a\U0001f600b", "a&#128512;b")


@pytest.mark.slow  # it takes time itself, and so it depends on what else the machine does
@pytest.mark.parametrize("codec", sorted(set(CODECS.values())))
@pytest.mark.parametrize("unit", [b"abc ", b"\x81", b"\xe4", b"\xa4\xa2", b"\x1b$B0!\x1b(B", b"\0a"])
def test_twice_the_bytes_take_about_twice_the_time(codec, unit):
    def measure_seconds(size: int) -> float:
        start = time.perf_counter()
        with suppress(UnicodeDecodeError):
            encode_text(decode_bytes(unit * size, codec) + "č漢\x81" * size, codec)
        return time.perf_counter() - start

    assert_linear(measure_seconds, 20_000)
