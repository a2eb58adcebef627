"""Finds the characters that XML cannot hold, and files that are not in the encoding that they name."""

import codecs
import re

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that an XML file cannot hold in any spelling."""

# Stands for such a character while a file is parsed: Unicode promises that it is none, and XML
# allows it.
_STAND_IN = "\ufdd0"
_BAD = re.compile(f"{_STAND_IN}([0-9a-f]{{1,6}});|&#x{ord(_STAND_IN):X};([0-9a-f]{{1,6}});")

_CONTROLS = bytes({*range(32)} - {9, 10, 13})
_SIGNS = (b"&#", b"\xed", b"\xef")  # each other character that is looked for has one
_REFERENCE = rb"&#(?:[xX]([0-9A-Fa-f]{1,9})|([0-9]{1,10}));"
# Controls, references, and in UTF-8 halves of pairs of UTF-16, U+FFFE and U+FFFF.
_SUSPECT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|" + _REFERENCE)
_SUSPECT_UTF8 = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]|\xed[\xa0-\xbf][\x80-\xbf]"
    rb"|\xef\xbf[\xbe\xbf]|" + _REFERENCE
)
_SUSPECT_TEXT = re.compile(
    rf"<!\[CDATA\[|<!--|{FORBIDDEN.pattern}|&#(?:[xX]([0-9A-Fa-f]{{1,9}})|([0-9]{{1,10}}));"
)
# The first half of a character (U+D800 to U+DBFF) as a reference.
_HIGH = rb"&#(?:[xX]0*[dD][89abAB][0-9A-Fa-f]{2}|0*(?:55(?:29[6-9]|[3-9]\d\d)|56(?:[0-2]\d\d|3[01]\d)));"
# What may go on in the next chunk: such a half, the beginning of a reference, and of bytes of UTF-8.
_UNFINISHED = re.compile(
    rb"(?:" + _HIGH + rb")?(?:&[#0-9A-Za-z]{0,12}|\xed[^&]{0,5}|\xef[^&]{0,2})?\Z"
)

_FIRST_HALF = re.compile(_HIGH)

_DECLARED = re.compile(rb"""\A(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)["']""")


class CharacterFilter:
    """Takes characters that XML cannot hold out of the bytes of a file, chunk by chunk, and puts stand-ins there.

    `find_bad_character` finds these in what was parsed. A character that is written as two halves
    (&#xD83D;&#xDE00;) is put together.
    """

    def __init__(self) -> None:
        self._waiting = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoding = ""
        self._pattern: re.Pattern[bytes] | None = None

    def clean(self, chunk: bytes) -> bytes:
        """Return what is known of the file's next bytes without such characters; an empty chunk ends the file."""
        if self._pattern is None:
            self._begin(chunk)
        is_end = not chunk
        if self._decoder is not None:
            # UTF-16: as bytes of UTF-8 while it is cleaned.
            chunk = self._decoder.decode(chunk, is_end).encode(errors="surrogatepass")
        content = self._waiting + chunk
        self._waiting = b""

        if not is_end:
            tail = content[-40:]
            unfinished = _UNFINISHED.search(tail)
            if unfinished and unfinished[0]:
                cut = len(content) - len(unfinished[0])
                content, self._waiting = content[:cut], content[cut:]

        assert self._pattern is not None
        has_signs = any(sign in content for sign in _SIGNS)
        if has_signs or len(content.translate(None, _CONTROLS)) < len(content):
            content = self._pattern.sub(_replace_bytes, _join_halves(content))

        if self._decoder is not None:
            text = content.decode(errors="surrogatepass")
            content = text.encode(self._encoding, errors="surrogatepass")
        return content

    def _begin(self, head: bytes) -> None:
        """Find out how the characters of a file are written, by its first bytes."""
        self._pattern = _SUSPECT_UTF8
        if head.startswith((codecs.BOM_UTF16_LE, b"<\0")):
            self._encoding = "utf-16-le"
        elif head.startswith((codecs.BOM_UTF16_BE, b"\0<")):
            self._encoding = "utf-16-be"
        elif (declared := _DECLARED.match(head)) and declared[1].lower() not in (b"utf-8", b"utf8"):
            self._pattern = _SUSPECT

        if self._encoding:
            self._decoder = codecs.getincrementaldecoder(self._encoding)(errors="surrogatepass")


def _join_halves(content: bytes) -> bytes:
    """Return bytes in which a character beyond U+FFFF that is written as two references is written as one."""
    if not _FIRST_HALF.search(content):
        return content

    def join(match: re.Match[bytes]) -> bytes:
        high, low = (int(match[i] or b"0", 16) or int(match[i + 1] or b"0") for i in (1, 3))
        if 0xD800 <= high < 0xDC00 <= low < 0xE000:
            return b"&#x%X;" % (0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)
        return match[0]

    return re.sub(_REFERENCE + _REFERENCE, join, content)


def _replace_bytes(match: re.Match[bytes]) -> bytes:
    """Return a stand-in for a character that XML cannot hold, and any other as it is."""
    if match[0].startswith(b"&"):
        number = int(match[1], 16) if match[1] else int(match[2])
        if number < 0x110000 and not FORBIDDEN.match(chr(number)):
            return match[0]
    elif len(match[0]) == 6:  # the two halves of a character, each in three bytes
        halves = match[0].decode(errors="surrogatepass")
        return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()
    else:
        number = ord(match[0].decode(errors="surrogatepass"))
    return b"&#x%X;%x;" % (ord(_STAND_IN), number)


def find_bad_character(text: str) -> str | None:
    """Return the name of the first character in a parsed text that XML cannot hold, such as U+001F; None for none."""
    found = _BAD.search(text) if _STAND_IN in text or "&#xFDD0;" in text else None
    return f"U+{(found[1] or found[2]).upper():>04}" if found else None


def drop_bad_characters(text: str) -> tuple[str, int]:
    """Return an XML text without the characters that XML cannot hold, and how many they were.

    Those that end a line or a page become spaces. A character that
    is written as two halves is put together.

    >>> drop_bad_characters("a&#x1F;b&#x0B;c &#xD83D;&#xDE00; <![CDATA[&#1;]]>")
    ('ab c &#x1F600; <![CDATA[&#1;]]>', 2)
    """
    if "&#" not in text and not FORBIDDEN.search(text):
        return text, 0
    out: list[str] = []
    position = count = 0
    search = _SUSPECT_TEXT.search
    while found := search(text, position):
        end = found.end()
        if found[0].startswith("<!"):
            closing = "]]>" if found[0] == "<![CDATA[" else "-->"
            inside = text.find(closing, end)
            end = len(text) if inside < 0 else inside + len(closing)
            kept, lost = FORBIDDEN.subn("", text[found.start() : end])
            out += [text[position : found.start()], kept]
            count += lost
            position = end
            continue

        number = int(found[1], 16) if found[1] else int(found[2]) if found[2] else ord(found[0])
        low, half = None, 0
        if 0xD800 <= number < 0xDC00 and found[0].startswith("&"):
            low = _SUSPECT_TEXT.match(text, end)
        if low:
            half = int(low[1], 16) if low[1] else int(low[2] or "0")

        out.append(text[position : found.start()])
        if low and 0xDC00 <= half < 0xE000:
            out.append(f"&#x{0x10000 + ((number - 0xD800) << 10) + half - 0xDC00:X};")
            end = low.end()
        elif number < 0x110000 and not FORBIDDEN.match(chr(number)):
            out.append(found[0])
        else:
            out.append(" " if number in (0x0B, 0x0C) else "")
            count += 1

        position = end
    return "".join([*out, text[position:]]), count


class EncodingCheck:
    """Refuses an XML file that is not in the encoding that its first line names, where its bytes show that."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._named = ""
        self._is_first, self._is_done = True, False

    def take(self, chunk: bytes) -> None:
        """Look at the next bytes of the file; raise ValueError where they are of another encoding."""
        if self._is_done:
            return
        if self._is_first:
            self._is_first = False
            declared = _DECLARED.match(chunk)
            self._named = declared[1].decode() if declared else ""
            is_wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"<\0", b"\0<"))
            if declared and _WIDE.match(self._named) and not is_wide:
                self._refuse("one that has a byte for each letter of English, most likely UTF-8")
            self._is_done = is_wide or not _NARROW.match(self._named)
        elif not chunk.isascii():
            self._is_done = True

        if not self._is_done and not chunk.isascii() and _is_utf8(chunk):
            self._refuse("UTF-8")

    def _refuse(self, truth: str) -> None:
        raise ValueError(
            f"{self.name} names the encoding {self._named:.40} in its first line, but it is written in {truth}; "
            "write the true one there"
        )


_WIDE = re.compile("utf-?16|utf-?32|ucs|iso-10646-ucs", re.IGNORECASE)
_NARROW = re.compile(r"iso-8859-|windows-125|cp125|latin-?\d|us-ascii", re.IGNORECASE)


def _is_utf8(chunk: bytes) -> bool:
    """Whether bytes that are not all ASCII are UTF-8; the first and the last character may be cut off."""
    chunk = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", chunk)
    try:
        return not codecs.getincrementaldecoder("utf-8")().decode(chunk).isascii()
    except UnicodeDecodeError:
        return False
