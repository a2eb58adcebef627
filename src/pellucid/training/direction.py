"""The direction of a run, from which language into which, and what says so."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pellucid.data.corpus import SkippedPairs, read_valid_pairs
from pellucid.data.formats.units import Sides, is_code, languages_of_files, refuse_exchanged_files
from pellucid.data.languages import describe_language, split_code
from pellucid.training.config import CorpusConfig, DataConfig


def read_sides(corpus: CorpusConfig, max_characters: int) -> Sides:
    """Return the languages or columns of a corpus, and what says so.

    Of a file of pairs the beginning is read.

    Raises ValueError where only the order of columns or of files in an archive would decide which
    side is which, and where the names of two files bear the languages in the settings the other way
    round.
    """
    sides, (first, second) = corpus.sides, corpus.files
    asked = bool(sides.source or sides.target)
    if second is not None:
        refuse_exchanged_files(first, second, (sides.source, sides.target))
        if sides.languages is None and (named := languages_of_files(first, second)):
            return Sides(*named, said_by=f"the names of {Path(first).name} and {Path(second).name}")
    elif Path(first).is_file():
        _read_first_pair(first, sides, max_characters)
    if asked and not sides.said_by:
        sides.said_by = "the settings"
    return sides


def _read_first_pair(path: str, sides: Sides, max_characters: int) -> None:
    """Read a file of pairs as far as its first pair: `sides` gets what the file says of itself."""
    next(iter(read_valid_pairs(path, None, max_characters, SkippedPairs(), sides)), None)


def describe_direction(
    data: DataConfig,
    languages: tuple[str, str] | None = None,
    initial: Mapping[str, Any] | None = None,
) -> str:
    """Return the sentence that says which direction a run learns, and what says so.

    `languages` are the ones that shards recorded, as their text may be gone; `initial` has what is
    known of the model that the run starts from: a text that names no language has the direction of
    that model.

    Raises ValueError where nothing says it, and where one corpus has the direction that is the
    opposite of another's.
    """
    read = [(corpus, read_sides(corpus, data.max_characters)) for corpus in data.corpora]
    if data.directions:
        directions = [f"{_name(source)} to {_name(target)}" for source, target in data.directions]
        return f"It learns {_join(directions)}."
    if languages and not any(sides.languages for _, sides in read):
        shards = data.shard_folders[0]
        return f"It learns {_name(languages[0])} to {_name(languages[1])}, as {shards} says."

    _refuse_opposite_directions(read)

    if initial is not None and not any(map(_names_language, (sides for _, sides in read))):
        known = initial.get("languages")
        if not known:
            return "It goes on in the direction of the model that it starts from; no language is named."
        direction = f"{_name(known['source'])} to {_name(known['target'])}"
        return f"It goes on learning {direction}, as the model that it starts from does."

    parts, unnamed = dict[str, None](), []
    for corpus, sides in read:
        if _names_language(sides):
            parts[_describe_sides(sides)] = None
        else:
            unnamed.append((corpus, sides))

    if unnamed:
        parts[_describe_unnamed(unnamed)] = None
    return f"It learns {_join(parts)}."


def _refuse_opposite_directions(corpora: Iterable[tuple[CorpusConfig, Sides]]) -> None:
    """Raise ValueError where one corpus has the direction that is the opposite of another's."""
    directions = dict[tuple[str, str], CorpusConfig]()
    for corpus, sides in corpora:
        if not sides.languages:
            continue
        source, target = (split_code(code)[0] for code in sides.languages)
        directions[source, target] = corpus
        if (target, source) in directions and source != target:
            other = directions[target, source]
            raise ValueError(
                f"{corpus.display_name} goes from {_name(source)} to {_name(target)} and "
                f"{other.display_name} from {_name(target)} to {_name(source)}; exchange the "
                "sides of one (source_language and target_language, or its two files), or let "
                'each [[data.corpus]] say its languages = ["en", "de"]'
            )


def _names_language(sides: Sides) -> bool:
    return any(side and is_code(side) for side in (sides.source, sides.target))


def _describe_sides(sides: Sides) -> str:
    """Describe the direction of a corpus that names a language, and what says so."""
    codes = [side if side and is_code(side) else None for side in (sides.source, sides.target)]
    source, target = (_name(code) if code else "a language that is not named" for code in codes)
    if not sides.said_by:
        return f"{source} to {target}"
    several = ("the names", "the settings", "the columns", "the keys")
    verb = "say" if sides.said_by.startswith(several) else "says"
    return f"{source} to {target}, as {sides.said_by} {verb}"


def _describe_unnamed(corpora: Iterable[tuple[CorpusConfig, Sides]]) -> str:
    """Describe what is learned from corpora if nothing names their languages; part of a sentence."""
    parts = list[str]()
    files_of_pairs = list[str]()
    for corpus, sides in corpora:
        first, second = (Path(file).name if file else None for file in corpus.files)
        if second is not None:
            parts.append(f"{first} into {second}")
        elif sides.source and sides.target:
            parts.append(f"column {sides.source} of {first} into column {sides.target}")
        else:
            files_of_pairs.append(str(first))

    if files_of_pairs:
        theirs = "its targets" if len(files_of_pairs) == 1 else "their targets"
        parts.append(f"the sources in {_join(files_of_pairs)} into {theirs}")
    return f"to translate {_join(parts)}; no language is named (--from and --to do)"


def _name(code: str) -> str:
    return describe_language(code)


def _join(parts: Iterable[str]) -> str:
    """Join parts of a sentence: a, b and c."""
    *before, last = parts
    return f"{', '.join(before)} and {last}" if before else last


def read_dev_sides(data: DataConfig, languages: tuple[str, str] | None) -> Sides:
    """Return the sides by which the dev set of a run in one direction, `languages`, is read.

    The dev set has the direction of the training text, even if the order of its own columns is
    another, or it says otherwise. Raises ValueError where nothing says it, and for two files whose
    names say the opposite.
    """
    first = data.dev_source or data.dev
    assert first is not None
    asked = Sides(data.source_language, data.target_language, strict=True)
    if data.dev_target is not None:
        refuse_exchanged_files(first, data.dev_target, languages or (asked.source, asked.target))
        return asked
    if languages is None or (asked.source and asked.target):
        return asked

    # Its codes may have other regions than the codes of the training text, or none.
    wishes = languages, tuple(split_code(code)[0] for code in languages)
    for wish in wishes:
        sides = Sides(*wish, strict=True)
        try:
            _read_first_pair(first, sides, data.max_characters)
        except ValueError:
            continue
        return Sides(*wish, strict=True)

    return asked
