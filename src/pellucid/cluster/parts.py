"""Parts of files: a range of lines, or a whole document, that one worker takes at a time."""

import hashlib
import os.path
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pellucid.data.lines import decompress, split_stream, strip_compression
from pellucid.store.atomic import file_sha256


@dataclass(frozen=True)
class Work:
    """Files to read side by side, line by line, and the name of their result; a document is read whole.

    Files that `are_left_to_worker` are one part, which has their hashes alone: whoever works on it
    reads them.
    """

    files: tuple[str, ...]
    name: str
    is_document: bool = False
    are_left_to_worker: bool = False

    @property
    def title(self) -> str:
        """The files as messages name them, from here."""
        return " and ".join(map(os.path.relpath, self.files))

    @property
    def size(self) -> int:
        """Bytes of the files, for the time that is left."""
        return sum(Path(file).stat().st_size for file in self.files)


@dataclass(frozen=True)
class Part:
    """A range of lines of each file of some work, or the bytes of a document.

    `before` are the lines of the first file that stand before it, where they are read as context. `size`
    is the number of bytes, as they are on the disk, that were read for it.
    """

    number: int
    first_line: int
    texts: tuple[bytes, ...]
    """The lines of each file, with a line feed behind each; or the document; or the hash of each file."""
    before: tuple[str, ...]
    size: int

    def lines(self, file: int = 0) -> list[str]:
        """Return the lines of one of the files."""
        return self.texts[file].decode().removesuffix("\n").split("\n") if self.texts[file] else []

    def sha256(self) -> str:
        """Return the SHA-256 of all that the result depends on in the files: lines, their place and their context."""
        digest = hashlib.sha256(f"{self.first_line}\n{len(self.before)}\n".encode())
        for text in (_join_lines(self.before), *self.texts):
            # The lengths, so that no line can move from one text to another unseen.
            digest.update(f"{len(text)}\n".encode())
            digest.update(text)

        return digest.hexdigest()


def name_works(files: Sequence[str], documents: frozenset[str]) -> tuple[Work, ...]:
    """Return the work of translating each file by itself, into results of the same names without compression.

    Raises ValueError where two would have the same name.
    """
    works: list[Work] = []
    for file in files:
        name = Path(file).name if file in documents else strip_compression(Path(file).name)
        works.append(Work((file,), name, file in documents))

    refuse_equal_names(works)
    return tuple(works)


def refuse_equal_names(works: Sequence[Work]) -> None:
    """Raise ValueError where the results of two works would have the same name."""
    by_name: dict[str, Work] = {}
    for work in works:
        if work.name in by_name:
            both = f"{by_name[work.name].title} and {work.title}"
            advice = "name one after the other, with two folders"
            raise ValueError(f"{both} would both be written to {work.name}; {advice}")

        by_name[work.name] = work


def read_parts(work: Work, lines_per_part: int, context: int = 0) -> Iterator[Part]:
    """Yield the parts of some work in order, each with so many lines before it as context.

    Files without a line have one part, which is empty. Raises ValueError naming file and line for what
    `read_lines` refuses, and for files of unequal length; OSError for files that cannot be read.
    """
    if work.are_left_to_worker:
        hashes = [file_sha256(Path(file)).encode() for file in work.files]
        yield Part(0, 1, tuple(hashes), (), work.size)
        return

    if work.is_document:
        [file] = work.files
        content = Path(file).read_bytes()
        yield Part(0, 1, (content,), (), len(content))
        return

    before: deque[str] = deque(maxlen=context)
    with ExitStack() as opened:
        streams = [opened.enter_context(Path(file).open("rb")) for file in work.files]
        iterators = [
            split_stream(decompress(stream), file)
            for stream, file in zip(streams, work.files, strict=True)
        ]

        number, first_line, position = 0, 1, 0
        while True:
            blocks = [list(islice(lines, lines_per_part)) for lines in iterators]
            _refuse_unequal(work.files, blocks, first_line)
            if not blocks[0] and number:
                return

            texts = tuple(_join_lines(block) for block in blocks)
            read = sum(stream.tell() for stream in streams)
            yield Part(number, first_line, texts, tuple(before), read - position)
            if len(blocks[0]) < lines_per_part:
                return

            before.extend(blocks[0])
            number, first_line, position = number + 1, first_line + lines_per_part, read


def _join_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _refuse_unequal(files: Sequence[str], blocks: Sequence[Sequence[str]], first_line: int) -> None:
    """Raise ValueError where one file ends before another."""
    for file, block in zip(files[1:], blocks[1:], strict=True):
        if len(block) == len(blocks[0]):
            continue

        is_shorter = len(block) < len(blocks[0])
        shorter, ended = (file, block) if is_shorter else (files[0], blocks[0])
        raise ValueError(
            f"{files[0]} and {file} have different numbers of lines: {shorter} ends after line "
            f"{first_line + len(ended) - 1:,}; line n of one must belong to line n of the other"
        )
