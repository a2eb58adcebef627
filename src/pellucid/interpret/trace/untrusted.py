"""Reads values of untrusted JSON as Python types: every type, key and number is checked, nothing is converted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

_LONGEST_TEXT = 100_000  # most characters of a text
_MOST_ENTRIES = 100_000  # most items of a list, or entries of a table


@dataclass(frozen=True)
class NoArguments:
    """The arguments of a question about a trace that has none."""


def read_strictly(kind: Any, value: object, where: str) -> Any:
    """Return `value`, which came as JSON, as the type `kind`: a dataclass, list, table, choice, number or text.

    Raises ValueError, naming `where`, for anything else, including infinite numbers.
    >>> read_strictly(list[int | None], [1, None], "words")
    [1, None]
    """
    _refuse_large_entries(value, where)
    try:
        # As text, because only from JSON does a strict
        # reader of pydantic make dataclasses of tables.
        return _reader(kind).validate_json(json.dumps([value], ensure_ascii=False).encode())[0]
    except ValidationError as error:
        problems = [_explain_error(problem, where) for problem in error.errors()[:3]]
        raise ValueError("; ".join(problems)) from None
    except UnicodeEncodeError:
        # JSON may spell half of a surrogate pair, which Python keeps as it is.
        raise ValueError(f"{where} holds half of a surrogate pair, which is no character") from None
    except (TypeError, RecursionError):
        raise ValueError(f"{where} is or holds something that JSON cannot hold") from None


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    # A list of one item: where the type is a dataclass, these settings reach it from outside only.
    one_item: Any = GenericAlias(list, kind)
    settings = ConfigDict(
        strict=True,
        extra="forbid",
        str_max_length=_LONGEST_TEXT,
        allow_inf_nan=False,
    )
    return TypeAdapter(one_item, config=settings)


def _refuse_large_entries(value: object, where: str) -> None:
    """Raise ValueError for longer lists and larger whole numbers than any value here has."""
    entries = [value]
    while entries:
        entry = entries.pop()
        if isinstance(entry, list | dict):
            if len(entry) > _MOST_ENTRIES:
                raise ValueError(
                    f"{where} has {len(entry):,} entries in one place, at most {_MOST_ENTRIES:,} are read"
                )
            entries += entry.values() if isinstance(entry, dict) else entry
        # JavaScript reads larger numbers with rounding.
        elif isinstance(entry, int) and abs(entry) >= 2**53:
            raise ValueError(
                f"{where} holds a whole number of {entry.bit_length()} bits, at most 53 are read"
            )


def _explain_error(error: Mapping[str, Any], where: str) -> str:
    """Put one of pydantic's errors into a sentence, with the place of what is wrong."""
    keys = error["loc"][1:]  # without the list around the value
    place = where + "".join(f"[{key}]" if isinstance(key, int) else f".{key:.40}" for key in keys)
    if error["type"] == "missing":
        return f"{place} is missing"
    if error["type"] == "unexpected_keyword_argument":
        return f"{place} is unknown"
    message = error["msg"].removeprefix("Input ").replace("should be", "it should be")
    return f"{place} is {error['input']!r:.60}; {message[0].lower()}{message[1:]:.160}"
