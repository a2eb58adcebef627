"""Reads dataclasses from untrusted JSON: every type, key and number is checked, nothing is converted."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

LONGEST_TEXT = 100_000
"""Most characters of a text."""

MOST_ENTRIES = 100_000
"""Most items of a list, or entries of a table."""


def from_json(hint: Any, value: Any, where: str) -> Any:
    """Return `value` as the type `hint`: a dataclass, a list, a table, a choice, a number or a text.

    Raises ValueError, naming `where`, for anything else, including infinite numbers.
    >>> from_json(list[int | None], [1, None], "words")
    [1, None]
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return union_from_json(arguments, value, where)
    # Types are compared with `type`, since isinstance would take True for an int.
    if origin is Literal:
        if type(value) is str and value in arguments:
            return value
    elif is_dataclass(hint) and isinstance(hint, type):
        return dataclass_from_table(hint, value, where)
    elif origin is list:
        if type(value) is list and len(value) <= MOST_ENTRIES:
            return [from_json(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    elif origin is dict:
        if type(value) is dict and len(value) <= MOST_ENTRIES and all(len(key) <= LONGEST_TEXT for key in value):
            return {key: from_json(arguments[1], item, f"{where}.{key:.40}") for key, item in value.items()}
    elif hint is float:
        if type(value) in (int, float) and abs(value) < 1e300 and isfinite(value):
            return float(value)
    elif hint is int:
        if type(value) is int and abs(value) < 2**53:  # JavaScript reads larger ones with rounding
            return value
    elif type(value) is hint and not (hint is str and len(value) > LONGEST_TEXT):
        return value
    raise ValueError(f"{where} is {value!r:.60}, which it cannot be")


def union_from_json(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    """Return `value` as the first of several types that it fits; among dataclasses its "kind" decides."""
    kinds = dataclasses_by_kind(hints)
    if kinds:
        kind = value.get("kind") if isinstance(value, Mapping) else None
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(f"{where}: kind is {kind!r:.60}, it must be one of {', '.join(kinds)}")
        return dataclass_from_table(kinds[kind], value, where)
    if value is None and NoneType in hints:
        return None
    problem = None
    for hint in hints:
        try:
            if hint is not NoneType:
                return from_json(hint, value, where)
        except ValueError as error:
            problem = error  # of the last type; the others are not told
    raise problem or ValueError(f"{where} is {value!r:.60}, which it cannot be")


def dataclasses_by_kind(hints: tuple[Any, ...]) -> dict[str, type]:
    """Return the dataclasses among several types, keyed by the only value their "kind" can have."""
    kinds = {}
    for hint in hints:
        if isinstance(hint, type) and is_dataclass(hint) and "kind" in get_type_hints(hint):
            [kind] = get_args(get_type_hints(hint)["kind"])
            kinds[kind] = hint
    return kinds


def dataclass_from_table(kind: type, value: Any, where: str) -> Any:
    """Return a dataclass from an object with exactly its fields; those with a default may be left out."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {value!r:.60}, it must be an object")
    hints = get_type_hints(kind)
    unknown = [key for key in value if key not in hints]
    missing = [field.name for field in fields(kind) if field.default is MISSING and field.name not in value]
    if unknown or missing:
        problems = [f"{key!r:.60} is unknown" for key in unknown] + [f"{key} is missing" for key in missing]
        raise ValueError(f"{where}: {'; '.join(problems[:8])}")
    return kind(**{key: from_json(hints[key], item, f"{where}.{key}") for key, item in value.items()})
