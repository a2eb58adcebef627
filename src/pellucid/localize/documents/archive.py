"""Documents that are ZIP archives of XML files: read within limits, written with the same files in the same order."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pellucid.data.encodings import encode_text
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.reading import DocumentReading, DocumentTooLarge
from pellucid.localize.documents.slots import Parts
from pellucid.localize.documents.xml_tree import decode_xml

_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    struct.error,
)

Split: TypeAlias = Callable[[str, str, DocumentReading], Parts]
"""Takes the text of a file in an archive apart, given its name."""


def read_members(
    name: str,
    content: bytes,
    archive: dict[str, bytes],
    members: Mapping[str, Split],
    reading: DocumentReading,
) -> Document:
    """Return the document of an archive in which these members are taken apart, each by a function of its own."""
    texts = {member: decode_xml(f"{name}/{member}", archive[member]) for member in members}
    bodies = []
    for member, split in members.items():
        text, _ = texts[member]
        bodies.append(split(f"{name}/{member}", text, reading))

    def write(filled: list[str]) -> bytes:
        changed = {}
        for member, new in zip(texts, filled, strict=True):
            old, encoding = texts[member]
            if new != old:
                changed[member] = encode_text(new, encoding)
        return _write_archive(content, archive, changed) if changed else content

    return Document(bodies, write, reading)


def read_archive(name: str, content: bytes, reading: DocumentReading) -> dict[str, bytes]:
    """Return the files of a ZIP archive, within the limits; raise ValueError for one that is damaged or encrypted."""
    limits = reading.limits
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(
            f"{name} is encrypted or of an old format such as .doc; save it without a password in "
            "a new one"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if len(infos) > limits.members:
                raise DocumentTooLarge(
                    f"{name} has {len(infos):,} files in it; {limits.members:,} are taken"
                )
            if len({info.filename for info in infos}) < len(infos):
                raise ValueError(
                    f"{name} has two files of one name in it, so it is not clear which counts"
                )

            files, left = {}, limits.unpacked
            for info in infos:
                if info.flag_bits & 1:
                    raise ValueError(f"{name} is encrypted; save it without a password")
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(
                        f"{name}: {info.filename:.80} is compressed in a way that documents are not"
                    )

                expected = limits.ratio * max(1, info.compress_size)
                is_bomb = info.file_size > max(2**20, expected)
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
    except _DAMAGES as error:
        reason = f"{error!s:.120}"
        raise ValueError(f"{name} is not a document of this format, or damaged: {reason}") from None


def _write_archive(content: bytes, files: dict[str, bytes], changed: dict[str, bytes]) -> bytes:
    """Return the archive with some of its files changed; order, dates and attributes stay."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        new.comment = old.comment
        for info in old.infolist():
            # The first file of ODT stays uncompressed, by which programs recognise the format.
            file = changed.get(info.filename, files[info.filename])
            new.writestr(info, file, compress_type=info.compress_type)
    return out.getvalue()
