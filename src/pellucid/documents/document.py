"""Documents of all formats: recognised by their names, read within limits, and written with translations in place."""

import codecs
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pellucid.data.formats.po import decode_catalogue
from pellucid.documents import DOCUMENT_FORMATS, document_suffix
from pellucid.documents.bilingual import LanguagePair, mark_xliff, split_po, split_tmx, split_xliff
from pellucid.documents.chapters import Chapter, divide_chapters
from pellucid.documents.html import split_html
from pellucid.documents.office import list_heading_styles, split_docx, split_odt
from pellucid.documents.plain import decode_text, split_subtitles, split_text
from pellucid.documents.slots import MOST_TAGS, Parts, Review, fill_slots, list_slots
from pellucid.documents.xml_tree import decode_xml, encode_xml


@dataclass(frozen=True)
class DocumentLimits:
    """Bounds on a document, so that a small file cannot fill the memory."""

    bytes: int = 2**26
    unpacked: int = 2**28  # bytes of all files in an archive together, and of any one
    members: int = 10_000
    # How many times larger than its compressed form a file in an archive of more than a megabyte may be.
    ratio: int = 200
    texts: int = 200_000
    characters: int = 20_000_000  # characters of all texts to translate together


class DocumentTooLarge(ValueError):
    """Raised for a document beyond a limit."""


class Document:
    """A document taken apart: the texts to translate in their order, and everything else, which stays as it is."""

    def __init__(
        self,
        bodies: Sequence[Parts],
        write: Callable[[list[str]], bytes],
        limits: DocumentLimits,
        mark_units: Callable[[str, Mapping[int, list[Review]]], str] | None = None,
    ):
        self._bodies = bodies
        self._mark_units = mark_units
        self._write = write
        self._slots = [slot for body in bodies for slot in list_slots(body)]
        translatable = [[slot for slot in list_slots(body) if slot.is_translatable] for body in bodies]
        self.texts = [slot.text for slots in translatable for slot in slots]
        self._levels = [[slot.heading for slot in slots] for slots in translatable]
        characters = sum(map(len, self.texts))
        if len(self.texts) > limits.texts or characters > limits.characters:
            raise DocumentTooLarge(
                f"{len(self.texts):,} texts of {characters:,} characters together; {limits.texts:,} texts and "
                f"{limits.characters:,} characters are taken"
            )
        if any(len(slot.tags) > MOST_TAGS for slot in self._slots):
            raise ValueError(f"a paragraph has more than {MOST_TAGS:,} inline tags")

    @property
    def chapters(self) -> list[Chapter]:
        """Chapters of `texts`; each of the files in a document, such as its footnotes, has its own."""
        chapters: list[Chapter] = []
        start = 0
        for levels in self._levels:
            chapters += divide_chapters(self.texts[start : start + len(levels)], levels, start)
            start += len(levels)
        return chapters

    def write(self, translations: Iterable[str], reviews: Sequence[Review | None] = ()) -> bytes:
        """Return the document with these translations of its `texts`, in their order.

        `reviews` has what is to be marked in a document of a format in `MARKED_FORMATS`, one for each text or none.
        """
        remaining = iter(translations)
        filled = iter([next(remaining) if slot.is_translatable else slot.text for slot in self._slots])
        marked: dict[int, Review] = {}
        units: dict[int, list[Review]] = {}
        if reviews:
            translatable = (slot for slot in self._slots if slot.is_translatable)
            for slot, review in zip(translatable, reviews, strict=True):
                if review is not None:
                    marked[id(slot)] = review
                    if slot.unit is not None:
                        units.setdefault(slot.unit, []).append(review)

        bodies = [fill_slots(body, filled, marked) for body in self._bodies]
        if units and self._mark_units is not None:
            bodies = [self._mark_units(body, units) for body in bodies]
        return self._write(bodies)


Reader = Callable[[str, bytes, LanguagePair | None, DocumentLimits], Document]


def _read_text(name: str, content: bytes, languages: LanguagePair | None, limits: DocumentLimits) -> Document:
    text, encoding = decode_text(name, content)
    parts = split_subtitles(name, text) if name.lower().endswith(".srt") else split_text(text)
    return Document([parts], lambda bodies: bodies[0].encode(encoding), limits)


_CHARSET = re.compile(rb"<meta[^>]+?charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)


def _read_html(name: str, content: bytes, languages: LanguagePair | None, limits: DocumentLimits) -> Document:
    named = _CHARSET.search(content[:2000])
    encoding = "utf-8" if content.startswith(codecs.BOM_UTF8) or not named else named[1].decode("ascii")
    if encoding.lower() in ("iso-8859-1", "us-ascii", "latin1"):
        encoding = "windows-1252"  # as browsers read it
    if encoding.lower() == "utf-8" or content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, encoding = decode_text(name, content)
    else:
        text, encoding = decode_xml(name, content, encoding)
    return Document([split_html(text)], lambda bodies: encode_xml(bodies[0], encoding), limits)


def _read_po(name: str, content: bytes, languages: LanguagePair | None, limits: DocumentLimits) -> Document:
    text, encoding = decode_catalogue(name, content, "utf-8")

    def write(bodies: list[str]) -> bytes:
        try:
            return bodies[0].encode(encoding)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} is in {encoding}, which has no {error.object[error.start]!r}; convert it with "
                "msgconv --to-code=UTF-8"
            ) from None

    return Document([split_po(name, text)], write, limits)


def _read_pairs(name: str, content: bytes, languages: LanguagePair | None, limits: DocumentLimits) -> Document:
    text, encoding = decode_xml(name, content)
    if name.lower().endswith(".tmx"):
        return Document([split_tmx(name, text, languages)], lambda bodies: encode_xml(bodies[0], encoding), limits)
    return Document(
        [split_xliff(name, text, languages)],
        lambda bodies: encode_xml(bodies[0], encoding),
        limits,
        mark_units=partial(mark_xliff, name),
    )


_OVERRIDE = re.compile(r"<(?:\w+:)?Override\b[^>]*>")
_PART_NAME = re.compile(r"""\bPartName\s*=\s*["']/?([^"']+)["']""")
_TRANSLATED_PART = re.compile(
    r"""\bContentType\s*=\s*["'][^"']*\.(?:document\.main|header|footer|footnotes|endnotes)\+xml["']"""
)


def _read_docx(name: str, content: bytes, languages: LanguagePair | None, limits: DocumentLimits) -> Document:
    archive = _read_archive(name, content, limits)
    types, _ = decode_xml(name, archive.get("[Content_Types].xml", b""))
    overrides = [tag for tag in _OVERRIDE.findall(types) if _TRANSLATED_PART.search(tag)]
    members = [match[1] for tag in overrides if (match := _PART_NAME.search(tag)) and match[1] in archive]
    if not members:
        raise ValueError(f"{name} is not a DOCX document: no file in it is its text")
    levels: dict[str, int] = {}
    if styles := archive.get(f"{members[0].rpartition('/')[0]}/styles.xml"):
        # Headings only divide the text into chapters: a document with damaged styles is translated without them.
        with suppress(ValueError):
            levels = list_heading_styles(name, decode_xml(name, styles)[0])
    return _read_members(name, content, archive, members, partial(split_docx, heading_styles=levels), limits)


def _read_odt(name: str, content: bytes, languages: LanguagePair | None, limits: DocumentLimits) -> Document:
    archive = _read_archive(name, content, limits)
    if b"encryption-data" in archive.get("META-INF/manifest.xml", b""):
        raise ValueError(f"{name} is encrypted; save it without a password")
    members = [member for member in ("content.xml", "styles.xml") if member in archive]
    if "content.xml" not in members:
        raise ValueError(f"{name} is not an ODT document: it has no content.xml")
    return _read_members(name, content, archive, members, split_odt, limits)


def _read_members(
    name: str,
    content: bytes,
    archive: dict[str, bytes],
    members: Sequence[str],
    split: Callable[[str, str], Parts],
    limits: DocumentLimits,
) -> Document:
    """Return the document of an archive in which the texts of these members are translated."""
    texts = {member: decode_xml(f"{name}/{member}", archive[member]) for member in members}
    bodies = [split(f"{name}/{member}", text) for member, (text, _) in texts.items()]

    def write(filled: list[str]) -> bytes:
        written = zip(texts.items(), filled, strict=True)
        changed = {member: encode_xml(new, encoding) for (member, (old, encoding)), new in written if new != old}
        return _write_archive(content, archive, changed) if changed else content

    return Document(bodies, write, limits)


def _read_archive(name: str, content: bytes, limits: DocumentLimits) -> dict[str, bytes]:
    """Return the files of a ZIP archive, within the limits; raise ValueError for one that is damaged or encrypted."""
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(f"{name} is encrypted or of the old format .doc; save it without a password as .docx or .odt")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if len(infos) > limits.members:
                raise DocumentTooLarge(f"{name} has {len(infos):,} files in it; {limits.members:,} are taken")
            if len({info.filename for info in infos}) < len(infos):
                raise ValueError(f"{name} has two files of one name in it, so it is not clear which counts")
            files, left = {}, limits.unpacked
            for info in infos:
                if info.flag_bits & 1:
                    raise ValueError(f"{name} is encrypted; save it without a password")
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{name}: {info.filename:.80} is compressed in a way that documents are not")
                is_bomb = info.file_size > 2**20 and info.file_size > limits.ratio * max(1, info.compress_size)
                # The size that an archive names may be wrong, so what is read is bounded too.
                if is_bomb or info.file_size > left:
                    raise DocumentTooLarge(
                        f"{name}: {info.filename:.80} unpacks to {info.file_size:,} bytes; {limits.unpacked:,} are "
                        f"taken in all, and at most {limits.ratio} times the packed size"
                    )
                with archive.open(info) as member:
                    files[info.filename] = member.read(left + 1)
                left -= len(files[info.filename])
                if left < 0:
                    raise DocumentTooLarge(f"{name} unpacks to more than {limits.unpacked:,} bytes")
            return files
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OverflowError, struct.error) as error:
        raise ValueError(f"{name} is not a document of this format, or damaged: {error!s:.120}") from None


def _write_archive(content: bytes, files: dict[str, bytes], changed: dict[str, bytes]) -> bytes:
    """Return the archive with some of its files changed; order, dates and attributes stay."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        new.comment = old.comment
        for info in old.infolist():
            # The first file of ODT stays uncompressed, by which programs recognise the format.
            new.writestr(info, changed.get(info.filename, files[info.filename]), compress_type=info.compress_type)
    return out.getvalue()


_READERS: dict[str, Reader] = {  # one for each ending in DOCUMENT_FORMATS
    **dict.fromkeys((".txt", ".srt"), _read_text),
    **dict.fromkeys((".html", ".htm"), _read_html),
    **dict.fromkeys((".po", ".pot"), _read_po),
    **dict.fromkeys((".xliff", ".xlf", ".tmx"), _read_pairs),
    ".docx": _read_docx,
    ".odt": _read_odt,
}


def read_document(
    name: str, content: bytes, languages: LanguagePair | None = None, limits: DocumentLimits | None = None
) -> Document:
    """Take a document apart, by the ending of its name; `languages` are those of the translation, if they are known.

    Raises DocumentTooLarge beyond a limit, and ValueError for a format that is not known and for a damaged document.
    """
    limits = limits or DocumentLimits()
    suffix = document_suffix(name)
    if suffix is None:
        raise ValueError(f"{name:.120} is of no known format; those are {', '.join(DOCUMENT_FORMATS)}")
    if len(content) > limits.bytes:
        raise DocumentTooLarge(f"{name} has {len(content):,} bytes; {limits.bytes:,} are taken")
    return _READERS[suffix](name, content, languages, limits)
