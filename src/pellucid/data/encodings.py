"""Encodings that a file may name for its text: the encodings of the web, each with all its names."""

import codecs
import re

# Each encoding of the WHATWG Encoding Standard: its codec in Python, and after it every label of
# the standard. Other codecs of Python are left out on purpose: some are no encodings (rot13, zlib),
# and some take a time that grows with the square of the text (punycode, idna), with which a small
# file of a stranger would occupy a server for hours.
_ENCODINGS = """
utf-8: unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8
cp866: 866 cp866 csibm866 ibm866
iso8859-2: csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2
iso8859-3: csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3
iso8859-4: csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4
iso8859-5: csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988
iso8859-6: arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i
    iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
iso8859-7: csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7
    iso_8859-7:1987 sun_eu_greek
iso8859-8: csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8
    iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical
iso8859-10: csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso8859-13: iso-8859-13 iso8859-13 iso885913
iso8859-14: iso-8859-14 iso8859-14 iso885914
iso8859-15: csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9
iso8859-16: iso-8859-16
koi8-r: cskoi8r koi koi8 koi8-r koi8_r
koi8-u: koi8-ru koi8-u
mac-roman: csmacintosh mac macintosh x-mac-roman
cp874: dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874
cp1250: cp1250 windows-1250 x-cp1250
cp1251: cp1251 windows-1251 x-cp1251
cp1252: ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1
    iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252 x-user-defined
cp1253: cp1253 windows-1253 x-cp1253
cp1254: cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254
    x-cp1254
cp1255: cp1255 windows-1255 x-cp1255
cp1256: cp1256 windows-1256 x-cp1256
cp1257: cp1257 windows-1257 x-cp1257
cp1258: cp1258 windows-1258 x-cp1258
mac-cyrillic: x-mac-cyrillic x-mac-ukrainian
gb18030: chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030
big5hkscs: big5 big5-hkscs cn-big5 csbig5 x-x-big5
euc-jp: cseucpkdfmtjapanese euc-jp x-euc-jp
iso2022-jp: csiso2022jp iso-2022-jp
cp932: csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis
cp949: cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949
utf-16-be: unicodefffe utf-16be
utf-16-le: csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le
"""

CODECS: dict[str, str] = {}
"""The codec in Python for each label of an encoding, as browsers read it."""

for _line in _ENCODINGS.replace("\n    ", " ").strip().splitlines():
    _codec, _labels = _line.split(": ", 1)
    CODECS |= dict.fromkeys(_labels.split(), _codec)

# Browsers read these names as larger encodings of Windows. Files of
# translators mean exactly the encoding they name.
_EXACT_CODECS = {"cp1252": "iso8859-1", "cp1254": "iso8859-9", "cp874": "iso8859-11"}
_ASCII_LABELS = ("ascii", "us-ascii", "ansi_x3.4-1968")
_WINDOWS_LABELS = ("cp", "x-cp", "windows-", "dos-")

_SURROGATE = re.compile("[\ud800-\udfff]")
# Code pages of Windows with bytes of 80 to 9F that stand for nothing.
_WITH_FREE_BYTES = ("cp125", "cp874")
_KEEP_FREE_BYTES = "pellucid.free-bytes"  # the name of an error handler


def find_codec(label: str, *, exact: bool = False) -> str | None:
    """Return Python's codec for a label of an encoding; None for a label that is not known.

    Browsers read ISO-8859-1 as windows-1252; with `exact`, it is itself.

    >>> find_codec("ISO-8859-1"), find_codec("ISO-8859-1", exact=True), find_codec("rot13")
    ('cp1252', 'iso8859-1', None)
    """
    label = label.strip().lower()
    codec = CODECS.get(label)
    if exact and label in _ASCII_LABELS:
        return "ascii"
    is_of_windows = label.startswith(_WINDOWS_LABELS) and label != "cp819"
    if exact and codec in _EXACT_CODECS and not is_of_windows:
        return _EXACT_CODECS[codec]
    return codec


def decode_bytes(content: bytes, codec: str) -> str:
    """Return the text of bytes in a codec of `find_codec`; UnicodeDecodeError for bytes that are not in it."""
    errors = _KEEP_FREE_BYTES if codec.startswith(_WITH_FREE_BYTES) else "strict"
    return content.decode(codec, errors)


def encode_text(text: str, codec: str) -> bytes:
    """Return the bytes of an XML or HTML text; characters that the encoding has not are written as references."""
    errors = _KEEP_FREE_BYTES if codec.startswith(_WITH_FREE_BYTES) else "xmlcharrefreplace"
    return text.encode(codec, errors)


def join_surrogates(text: str) -> str:
    """Return a text in which characters that are written as two halves are put together; a half alone becomes U+FFFD.

    >>> join_surrogates("a" + chr(0xD83D) + chr(0xDE00)), join_surrogates(chr(0xD83D) + "b") == chr(0xFFFD) + "b"
    ('a😀', True)
    """
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _keep_free_bytes(error: UnicodeError) -> tuple[str | bytes, int]:
    """Let a byte of 80 to 9F that the code pages of Windows leave free be the control character of that number.

    So do browsers, and bytes that have slipped into a page come out as they went in.
    """
    if isinstance(error, UnicodeDecodeError) and 0x80 <= error.object[error.start] < 0xA0:
        return chr(error.object[error.start]), error.start + 1
    if isinstance(error, UnicodeEncodeError):
        # All of a run at once: Python looks for the end of the run again at each call.
        run = error.object[error.start : error.end]
        return b"".join(_encode_or_refer(character) for character in run), error.end
    raise error


def _encode_or_refer(character: str) -> bytes:
    return (
        character.encode("latin-1") if "\x80" <= character < "\xa0" else b"&#%d;" % ord(character)
    )


codecs.register_error(_KEEP_FREE_BYTES, _keep_free_bytes)
