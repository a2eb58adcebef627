"""Reads the two files of sentences inside of a ZIP archive, as OPUS packs them, without unpacking it."""

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import PurePosixPath

from pellucid.data.formats.units import Sides, Unit, choose_sides, find_language, is_code
from pellucid.data.lines import split_stream

# Bytes up to which any file of an archive is read, and how many times its packed size a larger one
# may have.
LARGEST_UNCHECKED, MOST_EXPANSION = 64 * 2**20, 200


def read_moses_zip(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the lines of two files of an archive whose names differ in their ending alone, a language.

    Raises ValueError for an archive that is damaged, encrypted or expands too far, for one without
    two such files or with several pairs of them, and for files of unequal length.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        reason = f"{path} is no ZIP archive, or a damaged one ({error}); fetch it again"
        raise ValueError(reason) from None
    with archive, ExitStack() as opened:
        members = _choose_members(path, archive, sides)
        names = [f"{path} ({member.filename!r})" for member in members]
        try:
            streams = [opened.enter_context(archive.open(member)) for member in members]
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise ValueError(f"{path} cannot be unpacked: {error}") from None

        left = split_stream(streams[0], names[0], "archive")
        right = split_stream(streams[1], names[1], "archive")

        number = 0
        for number, (source, target) in enumerate(zip_longest(left, right), start=1):
            if source is None or target is None:
                longer = number + sum(1 for _ in (left if target is None else right))
                shorter = names[source is not None]
                raise ValueError(
                    f"{shorter} has {number - 1:,} lines and {names[source is None]} {longer:,}: line n of one must "
                    "translate line n of the other, so nothing was read"
                )
            yield Unit(number, source, target)


def _choose_members(path: str, archive: zipfile.ZipFile, sides: Sides) -> list[zipfile.ZipInfo]:
    """Return the two files of an archive that make pairs."""
    stems: dict[str, dict[str, zipfile.ZipInfo]] = {}
    for member in archive.infolist():
        name = PurePosixPath(member.filename)
        language = name.suffix.removeprefix(".")
        if not member.is_dir() and is_code(language):
            stems.setdefault(str(name.with_suffix("")), {})[language] = member

    texts = {stem: languages for stem, languages in stems.items() if len(languages) > 1}
    if len(texts) != 1:
        problem = "no pair of files"
        if texts:
            names = ", ".join(map(repr, list(texts)[:8]))
            problem = f"several pairs of files ({names}); unpack it and name two"
        raise ValueError(f"{path} has {problem}; names such as NAME.en and NAME.de make a pair")

    [(stem, members)] = texts.items()
    languages = list(members)
    choose_sides(sides, languages, path, inner_name=stem)

    chosen = []
    for side in (sides.source, sides.target):
        member = members[languages[find_language(side or "", languages) or 0]]
        chosen.append(member)
        if member.flag_bits & 1:
            name = repr(member.filename)
            raise ValueError(f"{path}: {name} is encrypted; unpack it with its password")
        refuse_bomb(path, member)
    return chosen


def refuse_bomb(path: str, member: zipfile.ZipInfo) -> None:
    """Raise ValueError for a large file of an archive that expands as no text does."""
    if member.file_size > max(LARGEST_UNCHECKED, MOST_EXPANSION * member.compress_size):
        raise ValueError(
            f"{path}: {member.filename!r} has {member.compress_size:,} bytes and would expand to "
            f"{member.file_size:,}, more than {MOST_EXPANSION} times as many; is it a text?"
        )
