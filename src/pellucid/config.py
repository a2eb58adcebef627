"""TOML and command-line overrides to frozen, validated settings; a typo names the nearest key."""

import dataclasses
import json
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

Settings = TypeVar("Settings")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ValueError, naming file and place, for one that is not TOML."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from None


def apply_overrides(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The same tables with `section.key=value` written over them; values are read as TOML, or else as text.

    >>> apply_overrides({"train": {"steps": 9}}, ["train.steps=500", "model.size=tiny"])
    {'train': {'steps': 500}, 'model': {'size': 'tiny'}}
    """
    result = {name: dict(value) if isinstance(value, Mapping) else value for name, value in tables.items()}
    for override in overrides:
        path, equals, text = override.partition("=")
        *sections, key = path.strip().split(".")
        if not equals or not key or not all(sections):
            raise ValueError(f"--set {override!r} is not section.key=value, for example --set train.steps=500")
        place = result
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ValueError(f"--set {override!r}: {section!r} is a value, not a section")
        try:
            place[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            place[key] = text.strip()
    return result


def build_settings(kind: type[Settings], tables: Mapping[str, Any], where: str) -> Settings:
    """An instance of the dataclass `kind`, nested ones included; ValueError names every problem at once."""
    from pydantic import TypeAdapter, ValidationError

    problems = list(_explain_unknown_keys(kind, tables, ""))
    try:
        settings = TypeAdapter(kind).validate_python(tables)
    except ValidationError as error:
        raise ValueError(f"{where}: " + "; ".join([*problems, *map(_explain_error, error.errors())])) from None
    if problems:
        raise ValueError(f"{where}: " + "; ".join(problems))
    return settings


def _explain_unknown_keys(kind: Any, tables: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """A sentence for each key that the dataclass does not have."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    for key, value in tables.items():
        if key not in fields:
            near = get_close_matches(key, fields, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            yield f"unknown key '{prefix}{key}'{meant} (known: {', '.join(fields)})"
        elif dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            yield from _explain_unknown_keys(hints[key], value, f"{prefix}{key}.")
        elif (each := _array_dataclass(hints[key])) and isinstance(value, list):
            for table in value:
                yield from _explain_unknown_keys(each, table, f"{prefix}{key}.") if isinstance(table, Mapping) else ()


def _array_dataclass(hint: Any) -> Any:
    """The dataclass that the tables of an array are, if that is what a field holds: tuple[dataclass, ...]."""
    kinds = [kind for kind in typing.get_args(hint) if dataclasses.is_dataclass(kind)]
    return kinds[0] if typing.get_origin(hint) is tuple and kinds else None


def _explain_error(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a person would say it."""
    key = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return message
    if error["type"] == "missing":
        return f"{key!r} is missing"
    return f"{key!r} is {error['input']!r}: {message[0].lower()}{message[1:]}"


def to_toml(settings: Any, section: str = "") -> str:
    """Nested settings as TOML, each key with its meaning beside it; what is None, and an empty array, is left out."""
    plain, tables = [], []
    for field in dataclasses.fields(settings):
        value, place = getattr(settings, field.name), f"{section}{field.name}"
        if dataclasses.is_dataclass(value):
            tables.append(f"\n[{place}]\n{to_toml(value, place + '.')}")
        elif isinstance(value, tuple):
            tables += [f"\n[[{place}]]\n{to_toml(each, place + '.')}" for each in value]
        elif value is not None:
            meaning = _field_meaning(type(settings), field.name)
            plain.append(f"{field.name} = {_toml_literal(value)}" + (f"  # {meaning}" if meaning else "") + "\n")
    return "".join(plain + tables)


def _toml_literal(value: Any) -> str:
    # A JSON string, number or boolean is also a TOML one; only the infinite numbers differ, and no setting is one.
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _field_meaning(kind: Any, name: str) -> str:
    """The words beside an annotated field."""
    hint = typing.get_type_hints(kind, include_extras=True)[name]
    if isinstance(hint, types.UnionType):
        return ""
    return next((word for word in getattr(hint, "__metadata__", ()) if isinstance(word, str)), "")
