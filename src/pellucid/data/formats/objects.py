"""Reads and writes pairs in objects: JSONL, with one on each line, and JSON, one array of them."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pellucid.data.formats.tables import choose_names, list_side_names
from pellucid.data.formats.units import (
    LANGUAGES_BY_NAME,
    OTHER_LANGUAGES,
    SOURCE_NAMES,
    TARGET_NAMES,
    Sides,
    Skip,
    Unit,
    find_column,
    require_fitting_rows,
)
from pellucid.data.languages import is_language_code, is_same_variety
from pellucid.data.lines import DAMAGES, describe_damage, open_decompressed, read_lines

# The most characters of an object in an array, so that a file that is no array of objects cannot
# fill the memory.
LARGEST_OBJECT = 16 * 2**20
_CHARACTERS_READ = 2**16

# Keys under which an object names the languages of its two texts.
_LANGUAGE_KEYS = (
    ("source_language", "target_language"),
    ("source_lang", "target_lang"),
    ("src_lang", "tgt_lang"),
)

# Characters that JSON can spell and no line of text can hold: NUL, half of a surrogate pair.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def read_jsonl(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the pairs of a file with one JSON object on each line, which has the two texts under its keys.

    The keys are "source" and "target" or languages, possibly inside of "translation", as Hugging
    Face's data sets have it; the first object with two texts decides. A line without a pair has a
    problem, and an empty line empty sides. An object may name its own languages, as
    "source_language" and "target_language"; one with other languages than `sides` has a problem.
    Raises ValueError for a file with several directions if `sides` names no language.
    """
    reader = _ObjectReader(path, sides)
    advice = "; a file that is one array is read if its name ends in .json"

    def read_units() -> Iterator[Unit]:
        for line, text in enumerate(read_lines(path), start=1):
            yield reader.read_line(line, text)
        reader.refuse_other_keys()

    def expect() -> str:
        return f"on each line {reader.describe_object()}{advice}"

    yield from require_fitting_rows(path, read_units(), expect)


def read_json_array(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the pairs of a file with one array of objects, each like a line of a JSONL file, or of a JSONL file itself.

    The array is read piece by piece. Raises ValueError for what is no
    JSON, for nothing behind it can be read.
    """
    reader = _ObjectReader(path, sides)

    def read_units() -> Iterator[Unit]:
        with open_decompressed(path) as stream:
            text = _JsonText(path, stream)
            is_array = text.find_sign() in ("", "[")
            if is_array:
                for number, (line, row) in enumerate(text.parse_array(), start=1):
                    yield reader.read_object(row, number, line)
        if not is_array:
            for line, content in enumerate(read_lines(path), start=1):
                yield reader.read_line(line, content)
        reader.refuse_other_keys()

    def expect() -> str:
        return f"an array of objects, each {reader.describe_object()}"

    yield from require_fitting_rows(path, read_units(), expect)


class _ObjectReader:
    """Reads the pairs of objects, from the keys that the first object with two texts has."""

    def __init__(self, path: str, sides: Sides) -> None:
        self.path, self.sides = path, sides
        self.keys: tuple[str, str] | None = None
        self.wishes = sides.source, sides.target
        """The languages that were asked for; `sides` gets those that are found."""
        self.other_keys: ValueError | None = None
        """Why the keys of the first object with texts are not those that were asked for."""

    def read_line(self, line: int, text: str) -> Unit:
        """Return the pair of a line of JSON."""
        if not text.strip():
            return Unit(line)
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            return Unit(line, problem="no valid JSON")
        return self.read_object(row, line)

    def read_object(self, row: Any, number: int, line: int | None = None) -> Unit:
        """Return the pair of an object; null stands for a text, or a row, that is empty."""
        if row is None:
            return Unit(number, line=line)
        if not isinstance(row, dict):
            return Unit(number, line=line, problem="no object")
        nested = row.get("translation", "")
        if nested is None:
            return Unit(number, line=line)

        table = nested if isinstance(nested, dict) else row
        keys = _find_text_keys(table)
        languages = None if keys is None else _find_languages(table)
        if languages is None:
            if self.keys is None:
                self._choose_keys(table, table is nested)
            keys = self._find_keys(table)
        elif not self._accept_languages(languages, line or number):
            return Unit(number, line=line, problem=OTHER_LANGUAGES)

        if keys is None:
            return Unit(number, line=line, problem="no keys of two texts")

        source, target = ("" if table.get(key) is None else table[key] for key in keys)
        if not isinstance(source, str) or not isinstance(target, str):
            return Unit(number, line=line, problem="a value that is no text")

        if bad := _NO_TEXT.search(source + target):
            problem = f"U+{ord(bad[0]):04X} inside a sentence, which no text contains"
            return Unit(number, line=line, problem=problem)
        return Unit(number, source, target, line)

    def _choose_keys(self, table: dict[str, Any], is_nested: bool) -> None:
        """Choose the keys by an object that has two texts; one without the languages that are asked for may be odd."""
        names = []
        if is_nested:
            for name, value in table.items():
                if value is None or isinstance(value, str):
                    names.append(name)
        else:
            names = list_side_names(list(table), self.sides)

        if len(names) < 2:
            return
        try:
            what = "languages" if is_nested else "keys"
            self.keys = choose_names(self.path, names, self.sides, what)
        except ValueError as error:
            wishes = [wish for wish in (self.sides.source, self.sides.target) if wish is not None]
            if all(find_column(wish, names) is not None for wish in wishes):
                raise
            self.other_keys = self.other_keys or error

    def _find_keys(self, table: dict[str, Any]) -> tuple[str, str] | None:
        """Return the keys of an object: the chosen ones, or those that spell the same languages in another way."""
        if self.keys is None or all(key in table for key in self.keys):
            return self.keys
        names = list(table)
        source, target = (find_column(key, names) for key in self.keys)
        if source is not None and target is not None:
            return names[source], names[target]
        # One text alone has an empty translation.
        return self.keys if any(key in table for key in self.keys) else None

    def _accept_languages(self, languages: tuple[str, str], line: int) -> bool:
        """Whether an object with these languages is read; a side that names no language gets the first object's.

        Raises ValueError for another direction than before where nobody asked for one.
        """
        chosen = self.sides.source, self.sides.target
        if all(map(_fits_wish, chosen, languages)):
            if not any(map(_is_private, languages)):
                self.sides.source = chosen[0] or languages[0]
                self.sides.target = chosen[1] or languages[1]
            return True

        if all(self.wishes) or not all(map(_fits_wish, self.wishes, languages)):
            return False

        one = f"--from {chosen[0]} --to {chosen[1]}"
        other = f"--from {languages[0]} --to {languages[1]}"
        raise ValueError(
            f"{self.path}:{line}: this pair is {languages[0]} to {languages[1]}, and those before it are {chosen[0]} "
            f"to {chosen[1]}; choose one direction: {one}, or {other} (data.source_language and data.target_language "
            "in a run file)"
        )

    def refuse_other_keys(self) -> None:
        """Raise ValueError if no object had the languages that were asked for."""
        if self.keys is None and self.other_keys is not None:
            raise self.other_keys

    def describe_object(self) -> str:
        """Return what an object must look like."""
        table = dict.fromkeys(self.keys or ("source", "target"), "...")
        shape = json.dumps(table, ensure_ascii=False)
        return shape if self.keys else f'{shape} or {{"translation": {{"en": "...", "de": "..."}}}}'


def _find_languages(table: dict[str, Any]) -> tuple[str, str] | None:
    """Return the languages that an object names for itself, or None."""
    for keys in _LANGUAGE_KEYS:
        source, target = map(table.get, keys)
        if not isinstance(source, str) or not isinstance(target, str):
            continue
        if is_language_code(source) and is_language_code(target):
            return source, target
    return None


def _find_text_keys(table: dict[str, Any]) -> tuple[str, str] | None:
    """Return the keys of the texts of an object that are called source and target, or None."""
    source = next((key for key in SOURCE_NAMES if key in table), None)
    target = next((key for key in TARGET_NAMES if key in table), None)
    return None if source is None or target is None else (source, target)


def _fits_wish(wish: str | None, code: str) -> bool:
    """Whether the language of an object may be the one that was asked for; a private one is any."""
    if wish is None or _is_private(code):
        return True
    return is_same_variety(LANGUAGES_BY_NAME.get(wish.strip().lower(), wish), code)


def _is_private(code: str) -> bool:
    return code[:1] in "xX" and code[1:2] in ("-", "_")


class _JsonText:
    """The text of a JSON array, read so that only a piece of it is in memory at a time."""

    def __init__(self, path: str, stream: Any) -> None:
        self.path = path
        try:
            # Some programs write JSON in UTF-16, with a byte order mark.
            encoding = json.detect_encoding(stream.peek(4)[:4])
        except DAMAGES as error:
            raise ValueError(f"{path}: {describe_damage(error)}") from None
        if encoding == "utf-8":
            encoding = "utf-8-sig"
        self.stream = io.TextIOWrapper(stream, encoding, newline="")
        self.text, self.place, self.lines_before = "", 0, 0

    @property
    def line(self) -> int:
        return self.lines_before + self.text.count("\n", 0, self.place) + 1

    def parse_array(self) -> Iterator[tuple[int, Any]]:
        """Yield the line and the value of each element, up to the end of the file."""
        if self.find_sign():
            self.place += 1
            is_first = True
            while (sign := self.find_sign()) != "]":
                if not is_first and sign == ",":
                    self.place += 1
                    sign = self.find_sign()
                elif not is_first and sign:
                    raise self._refuse("expected a comma or ']' behind an element of the array")
                if not sign:
                    raise self._refuse("the file ends inside of the array")
                is_first = False
                yield self.line, self._parse_value()
            self.place += 1

            if self.find_sign():
                raise self._refuse("there is something behind the end of the array")

    def find_sign(self) -> str:
        """Go to the next character that is no white space, and return it; "" at the end of the file."""
        while True:
            while self.text[self.place : self.place + 1] in (" ", "\t", "\n", "\r"):
                self.place += 1
            if self.place < len(self.text) or not self._read_more():
                return self.text[self.place : self.place + 1]

    def _parse_value(self) -> Any:
        decoder = json.JSONDecoder()
        while True:
            problem, value, end = "an element without an end", None, None
            try:
                value, end = decoder.raw_decode(self.text, self.place)
            except ValueError as error:
                problem = str(error).partition(": line ")[0]
            except RecursionError:
                raise self._refuse("too many brackets inside of each other") from None

            # What is no JSON may be half of an element, and a number at the end of the piece may go
            # on.
            if end is not None and end < len(self.text):
                self.place = end
                return value

            if len(self.text) - self.place > LARGEST_OBJECT:
                size = f"an element of more than {LARGEST_OBJECT:,} characters"
                raise self._refuse(f"{problem}, or {size}")

            if not self._read_more():
                raise self._refuse(problem)

    def _read_more(self) -> bool:
        """Read the next piece; with what is in memory it is twice as long, so that long elements take no longer."""
        try:
            more = self.stream.read(max(_CHARACTERS_READ, len(self.text) - self.place))
        except DAMAGES as error:
            raise ValueError(f"{self.path}: {describe_damage(error)}") from None
        except UnicodeError as error:
            encoding = self.stream.encoding.upper()
            raise ValueError(
                f"{self.path}: it is not {encoding} ({error}); save it as UTF-8"
            ) from None

        self.lines_before += self.text.count("\n", 0, self.place)
        self.text, self.place = self.text[self.place :] + more, 0
        return bool(more)

    def _refuse(self, problem: str) -> ValueError:
        return ValueError(f"{self.path}:{self.line}: not JSON: {problem}")


def encode_jsonl(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a file with one object on each line: as Hugging Face has it if the languages are known."""
    languages = sides.languages
    source, target = languages or ("source", "target")
    for unit in units:
        row: dict[str, Any] = {source: unit.source, target: unit.target}
        if languages:
            row = {"translation": row}
        yield f"{json.dumps(row, ensure_ascii=False)}\n".encode()


def encode_json(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of an array of the objects that `encode_jsonl` writes."""
    before = b"[\n"
    for line in encode_jsonl(units, sides, skip):
        yield before + line.removesuffix(b"\n")
        before = b",\n"
    yield before.replace(b",", b"") + b"]\n"
