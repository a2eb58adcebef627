"""Reads TOML files and command-line overrides into validated dataclasses, and suggests the nearest key for a typo."""

import dataclasses
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from keyword import iskeyword
from pathlib import Path
from typing import Any, TypedDict, TypeVar

Settings = TypeVar("Settings")


class SimpleRunOptions(TypedDict, total=False):
    """Options of `pellucid train`, and arguments in Python, that take the place of a run file."""

    source: str | Path | None
    target: str | Path | None
    dev_source: str | Path | None
    dev_target: str | Path | None
    source_language: str | None
    target_language: str | None
    size: str | None
    start: str | Path | None
    steps: int | None
    minutes: float | None


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file; ValueError, naming the file and the line, if it is not TOML."""
    try:
        # utf-8-sig: Windows editors put a byte order mark at the beginning, which is not TOML.
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from None


def apply_overrides(
    tables: Mapping[str, Any], overrides: Sequence[str], example: str = "train.steps=5000"
) -> dict[str, Any]:
    """Return a copy of the tables changed by `section.key=value`; a value is read as TOML, or else as text.

    The message about a text that is no override shows the `example`.

    >>> apply_overrides({"train": {"steps": 9}}, ["train.steps=500", "model.size=tiny"])
    {'train': {'steps': 500}, 'model': {'size': 'tiny'}}
    """
    result = deepcopy(dict(tables))
    for override in overrides:
        path, equals, text = override.partition("=")
        *sections, key = path.strip().split(".")
        if not equals or not key or not all(sections):
            raise ValueError(
                f"--set {override!r} is not KEY=VALUE, such as --set {example} (docs/reference/settings.md has all)"
            )
        table = result
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise ValueError(f"--set {override!r}: {section!r} is a value, not a section")
        # Text needs no quotes on a command line: what is not a TOML value is taken as it stands.
        try:
            table[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            table[key] = text.strip()
    return result


def build_settings(kind: type[Settings], tables: Mapping[str, Any], where: str) -> Settings:
    """Make an instance of the dataclass `kind`, with nested ones; ValueError names every problem at once."""
    from pydantic import TypeAdapter, ValidationError

    # pydantic ignores unknown keys, and knows no nearest one: they are found here, and reported with its own errors.
    problems = list(_explain_unknown_keys(kind, tables, ""))
    try:
        settings = TypeAdapter(kind).validate_python(_to_field_names(tables))
    except ValidationError as error:
        raise ValueError(f"{where}: " + "; ".join([*problems, *map(_explain_error, error.errors())])) from None
    if problems:
        raise ValueError(f"{where}: " + "; ".join(problems))
    return settings


def key_of_field(name: str) -> str:
    """Return the key of a field in a file: its name, without the underscore that keeps it from being a Python keyword.

    >>> key_of_field("from_"), key_of_field("until")
    ('from', 'until')
    """
    return name.removesuffix("_")


def _to_field_names(value: Any) -> Any:
    """Return tables with the names of fields as their keys: an underscore behind those that are keywords of Python."""
    if isinstance(value, Mapping):
        return {f"{key}_" if iskeyword(key) else key: _to_field_names(inner) for key, inner in value.items()}
    return [_to_field_names(element) for element in value] if isinstance(value, list) else value


def _explain_unknown_keys(kind: Any, tables: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield a sentence for each key that the dataclass does not have."""
    fields = {key_of_field(field.name): field.name for field in dataclasses.fields(kind)}
    hints = {key_of_field(name): hint for name, hint in typing.get_type_hints(kind).items()}
    for key, value in tables.items():
        if key not in fields:
            yield f"unknown key '{prefix}{key}'{suggest_nearest(key, fields)} (known: {', '.join(fields)})"
        elif dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            yield from _explain_unknown_keys(hints[key], value, f"{prefix}{key}.")
        elif (element := _array_dataclass(hints[key])) and isinstance(value, list):
            for table in value:
                yield from (
                    _explain_unknown_keys(element, table, f"{prefix}{key}.") if isinstance(table, Mapping) else ()
                )


def suggest_nearest(name: str, known_names: Iterable[str]) -> str:
    """Return the clause that suggests the nearest known name, as the end of a sentence; empty if none is near.

    >>> suggest_nearest("warm_up", ["peak", "warmup"])
    "; did you mean 'warmup'?"
    """
    near = get_close_matches(name, list(known_names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _array_dataclass(hint: Any) -> Any:
    """Return the dataclass in a type tuple[dataclass, ...], an array of tables in TOML; None for another type."""
    kinds = [kind for kind in typing.get_args(hint) if dataclasses.is_dataclass(kind)]
    return kinds[0] if typing.get_origin(hint) is tuple and kinds else None


def _explain_error(error: Mapping[str, Any]) -> str:
    """Put one of pydantic's errors into plain words."""
    # The key may lead through a list, so some of its items are numbers.
    key = ".".join(key_of_field(str(part)) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    # One of ours, raised by a dataclass: it says all there is to say.
    if error["type"] == "value_error":
        return message
    if error["type"] == "missing":
        return f"{key!r} is missing"
    message = message.replace("Input should be", "it must be")
    return f"{key!r} is {error['input']!r}: {message[0].lower()}{message[1:]}"


def to_toml(settings: Any, section: str = "") -> str:
    """Write nested settings as TOML, each key with its meaning beside it, without None and empty arrays."""
    # TOML wants the plain keys of a table before the tables within it; TOML has no null.
    plain, tables = [], []
    for field in dataclasses.fields(settings):
        key = key_of_field(field.name)
        value, path = getattr(settings, field.name), f"{section}{key}"
        if dataclasses.is_dataclass(value):
            tables.append(f"\n[{path}]\n{to_toml(value, path + '.')}")
        elif isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
            tables += [f"\n[[{path}]]\n{to_toml(element, path + '.')}" for element in value]
        elif value is not None and value != ():
            meaning = field_meaning(type(settings), field.name)
            # A JSON string, number or boolean is a TOML one too; only infinite numbers differ, and no setting is one.
            literal = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
            plain.append(f"{key} = {literal}" + (f"  # {meaning}" if meaning else "") + "\n")
    return "".join(plain + tables)


def field_meaning(kind: Any, name: str) -> str:
    """Return the text in the Annotated type of a field, or "" if it has none."""
    hint = typing.get_type_hints(kind, include_extras=True)[name]
    # `Annotated[...] | None` hides its text; `Annotated[... | None, text]` does not.
    if isinstance(hint, types.UnionType):
        return ""
    return next((word for word in getattr(hint, "__metadata__", ()) if isinstance(word, str)), "")
