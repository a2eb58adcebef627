"""Checks of a model's manifest, which may be a stranger's: what is later trusted is of its kind and size."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from pellucid.data.languages import is_language_code
from pellucid.store.atomic import join_problems

# Hypotheses of a search that a model may ask for: memory and time grow with them.
LARGEST_BEAM = 64

_LARGEST_COUNT = 2**53
_LARGEST_PENALTY = 100.0
_MOST_CONTEXT = 100  # sentences before another that a source may have
_MOST_ENTRIES = 10_000  # corpora or directions; names in an object
_LONGEST_TEXT = 1000  # characters of a name or of any other text
_LONGEST_FIELD = 60  # characters of the name of a field in a message
_SPELLINGS = "sources.spellings"
_DEEPEST = 20  # objects and lists in one another; the deepest that Pellucid itself writes has four
# Marks that turn the direction of what is shown after them: a name with one can be made to look
# like another.
_TURNS_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Checks of one value: yields the field, the value that came, and what was expected.
_Check = Callable[[str, Any], "Iterator[_Fault]"]
_Fault = tuple[str, Any, str]


def check_manifest(manifest: Mapping[str, Any], path: Path) -> None:
    """Raise ValueError for a model's manifest with an entry that cannot be; it names the field and what is expected.

    Entries of other names pass, as a later version may write them; nothing reads them.
    """
    faults = _check_nesting(manifest)
    for name, check in _ENTRIES.items():
        if name in manifest and not faults:
            faults += check(name, manifest[name])

    if faults:
        problems = []
        for field, value, expected in faults:
            problems.append(f"{field[:_LONGEST_FIELD]} is {_show(value)}, expected {expected}")
        raise ValueError(f"{path}: {join_problems(problems, limit=3)}")


def read_languages(manifest: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the codes of the source and the target language that a manifest names; None where it does not name both.

    >>> read_languages({"languages": {"source": "en", "target": "pt-BR"}}), read_languages({"languages": None})
    (('en', 'pt-BR'), None)
    """
    match manifest.get("languages"):
        case {"source": str() as source, "target": str() as target}:
            return source, target
    return None


def read_directions(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return source and target of each direction that a multilingual model names; none for any other model.

    >>> read_directions({"directions": [["en", "de"], ["de", "en"]]}), read_directions({})
    ([('en', 'de'), ('de', 'en')], [])
    """
    return [(source, target) for source, target in manifest.get("directions") or ()]


def is_showable(text: str) -> bool:
    """Whether a text has no control character, which a terminal would obey, and nothing else that a name cannot have.

    >>> is_showable("Bücher 日本"), is_showable("en\\x1b[31m"), is_showable("two\\nlines"), is_showable("\\ud800")
    (True, False, False, False)
    """
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") or character in _TURNS_DIRECTION:
            return False
    return True


def make_showable(text: str) -> str:
    """Return a name as it can stand in a manifest: what a name cannot have is written as an escape, and its end is cut.

    >>> make_showable("two\\nlines.en")
    'two\\\\u000alines.en'
    """
    cut = text[: _LONGEST_TEXT // 6]  # an escape has six characters
    shown = ""
    for character in cut:
        shown += character if is_showable(character) else f"\\u{ord(character):04x}"
    return shown


def _show(value: Any) -> str:
    """Show what came: a list or an object may be long or nested, and only what it is matters."""

    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return f"an object of {len(value):,}"
    # In ASCII: a name that may not be shown is not shown here either.
    return f"{value!a:.60}"


def _check_nesting(manifest: Mapping[str, Any]) -> list[_Fault]:
    """Return the first entry that nests too deeply, or holds a text or a name that cannot be shown."""
    # A list instead of recursion, which is what deep nesting would exhaust.
    pending: list[tuple[str, Any, int]] = [("", manifest, 0)]
    while pending:
        field, value, depth = pending.pop()
        if depth > _DEEPEST:
            return [(field, value, f"at most {_DEEPEST} lists and objects in one another")]
        texts = [*value] if isinstance(value, dict) else [value] if isinstance(value, str) else []
        # The spellings of training texts may be any characters; they are looked up, and never
        # shown.
        is_shown = field != _SPELLINGS
        for text in texts:
            if len(text) > _LONGEST_TEXT or (is_shown and not is_showable(text)):
                return [(field or "the name of an entry", text, _TEXT)]

        if isinstance(value, dict):
            for name, item in value.items():
                # Cut, since each level would repeat the names of all above it.
                inner_field = f"{field}.{name}".lstrip(".")[:_LONGEST_FIELD]
                pending.append((inner_field, item, depth + 1))
        elif isinstance(value, list):
            pending += [(field, item, depth + 1) for item in value]
    return []


_TEXT = f"a text of at most {_LONGEST_TEXT:,} characters without control characters"


def _fits(holds: Callable[[Any], bool], expected: str) -> _Check:
    """Make a check of one value."""

    def check(field: str, value: Any) -> Iterator[_Fault]:
        if not holds(value):
            yield field, value, expected

    return check


def _count(most: int = _LARGEST_COUNT, least: int = 0) -> _Check:
    # Not isinstance, for which True is a number.
    return _fits(
        lambda value: type(value) is int and least <= value <= most,
        f"a whole number from {least:,} to {most:,}",
    )


def _number(least: float, most: float) -> _Check:
    # A comparison with NaN is false.
    return _fits(
        lambda value: type(value) in (int, float) and least <= value <= most,
        f"a number from {least:g} to {most:g}",
    )


def _or_none(check: _Check) -> _Check:
    """Make a check that lets null pass, too."""

    def check_unless_none(field: str, value: Any) -> Iterator[_Fault]:
        if value is not None:
            for fault_field, came, expected in check(field, value):
                yield fault_field, came, f"{expected}, or null"

    return check_unless_none


def _list_of(check: _Check, what: str) -> _Check:
    """Make a check of a list whose items all pass a check."""

    def check_list(field: str, value: Any) -> Iterator[_Fault]:
        if not isinstance(value, list) or len(value) > _MOST_ENTRIES:
            yield field, value, f"a list of at most {_MOST_ENTRIES:,} {what}"
            return
        for number, item in enumerate(value):
            yield from check(f"{field}[{number}]", item)

    return check_list


def _names_to(check: _Check, what: str) -> _Check:
    """Make a check of an object of any names whose values all pass a check."""

    def check_values(field: str, value: Any) -> Iterator[_Fault]:
        if not isinstance(value, dict) or len(value) > _MOST_ENTRIES:
            yield field, value, f"an object with at most {_MOST_ENTRIES:,} {what}"
            return
        for name, item in value.items():
            yield from check(f"{field}.{name}", item)

    return check_values


def _object(required: Mapping[str, _Check], optional: Mapping[str, _Check] | None = None) -> _Check:
    """Make a check of an object with these fields; others pass, as nothing reads them."""
    fields = {**required, **(optional or {})}

    def check_object(field: str, value: Any) -> Iterator[_Fault]:
        if not isinstance(value, dict) or not required.keys() <= value.keys():
            members = f" with {' and '.join(required)}" if required else ""
            yield field, value, f"an object{members}"
            return
        for name, check in fields.items():
            if name in value:
                yield from check(f"{field}.{name}", value[name])

    return check_object


def _check_scores(field: str, value: Any) -> Iterator[_Fault]:
    """Check the scores on the dev set, and the scores of each direction of a multilingual model."""
    if not isinstance(value, dict):
        yield field, value, "an object of scores"
        return
    for name, score in value.items():
        where = f"{field}.{name}"
        if name == "signatures":
            yield from _names_to(_text, "signatures")(where, score)
        elif name == "directions":
            # Scores in scores: `_check_nesting` has bounded how deep.
            yield from _names_to(_check_scores, "directions")(where, score)
        elif name == "dev_loss" and isinstance(score, float):
            # After a training that went wrong it is infinite or no number, and its model is still a
            # model.
            pass
        else:
            yield from _finite(where, score)


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and is_language_code(value)


# Its length and characters are checked for all entries.
_text = _fits(lambda value: isinstance(value, str), _TEXT)
_code = _fits(_is_code, "the code of a language, such as es or pt-BR")
_flag = _fits(lambda value: isinstance(value, bool), "true or false")
_finite = _fits(
    lambda value: type(value) in (int, float) and abs(value) <= _LARGEST_COUNT and isfinite(value),
    "a finite number",
)
_pair_of_codes = _fits(
    lambda value: isinstance(value, list) and len(value) == 2 and all(map(_is_code, value)),
    'the codes of two languages, such as ["en", "pt-BR"]',
)
_languages = _or_none(_object({"source": _code, "target": _code}))
_longest_source = _or_none(_count())
_table = _fits(lambda value: isinstance(value, dict), "an object")

# Entries of a model's manifest, but for those that `read_manifest` needs and
# checks itself: format, files and sha256.
_ENTRIES: dict[str, _Check] = {
    "data": _text,
    "pairs": _list_of(
        _object(
            {"corpus": _text, "read": _count(), "trained_on": _count()},
            {"held_out": _count(), "left_out": _names_to(_count(), "reasons")},
        ),
        "corpora",
    ),
    "step": _count(),
    "good": _flag,
    "longest_source": _longest_source,
    "languages": _languages,
    "directions": _list_of(_pair_of_codes, "directions"),
    "context": _count(_MOST_CONTEXT),
    "terms": _number(0, 1),
    "memory": _number(0, 1),
    "reference": _object(
        {},
        {
            "lines": _count(),
            "beam": _count(LARGEST_BEAM, least=1),
            "length_penalty": _number(0, _LARGEST_PENALTY),
        },
    ),
    "dev": _check_scores,
    "sources": _table,  # its own reader checks the rest
    "start": _object(
        {},
        {
            "from": _text,
            "sha256": _text,
            "step": _count(),
            "longest_source": _longest_source,
            "languages": _languages,
            "context": _count(_MOST_CONTEXT),
            "terms": _number(0, 1),
            "memory": _number(0, 1),
        },
    ),
    "imported": _object({}, {"from": _text, "format": _text}),
    "improved": _table,
    "versions": _names_to(_or_none(_text), "packages"),
}
