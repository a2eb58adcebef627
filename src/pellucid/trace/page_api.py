"""Verbs that a page may apply to a trace; their arguments come from outside, and each is checked before it is used."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from sys import float_info
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pellucid.trace.edits import EditSpec, Hide, Pattern, Prefix, Silence
from pellucid.trace.trace import Trace

MOST_EDITS, MOST_CHARACTERS, WIDEST_BEAM = 64, 20_000, 64
"""Limits that are more than a page ever asks for, and small enough that more is refused quickly."""

EDIT_KINDS: dict[str, type[EditSpec]] = {"silence": Silence, "pattern": Pattern, "hide": Hide, "prefix": Prefix}


def perform_act(trace: Trace, verb: str, arguments: object) -> dict[str, Any] | Trace:
    """Return what a verb of `Acts` (web/src/types.ts) gives: a table that is ready for JSON, or a new trace.

    Raises ValueError, saying what is wrong, for arguments that the verb does not take or this trace cannot serve.
    """
    queries = trace.model_queries
    verbs = {**VERBS, **(queries.VERBS if queries is not None else {})}
    if verb not in verbs:
        raise ValueError(f"{verb!r:.40} is not something a trace can do; it can {', '.join(verbs)}")
    if not isinstance(arguments, Mapping):
        raise ValueError(f"{verb}: the arguments are {arguments!r:.60}, expected a table")
    perform, known_names = verbs[verb]
    refuse_unknown_names(verb, arguments, known_names)
    try:
        return perform(trace, arguments)
    except KeyError as error:  # a tensor that was not captured
        raise ValueError(f"{verb}: {error.args[0]}") from None


def account_table(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the account of a logit, as a table."""
    step = read_whole_number(arguments, "step", 0, len(trace.steps) - 1)
    last = trace.config.target_vocabulary - 1
    piece = read_whole_number(arguments, "piece", 0, last)
    other = read_whole_number(arguments, "other", 0, last) if arguments.get("other") is not None else None
    return trace.account(step, piece, other).as_json()


def verdict_table(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on the translation, as a table."""
    return trace.verdict(read_optional_text(arguments, "reference")).as_json()


def trace_again(trace: Trace, arguments: Mapping[str, Any]) -> Trace:
    """Trace another sentence with the same model."""
    beam = read_whole_number(arguments, "beam", 1, WIDEST_BEAM) if arguments.get("beam") is not None else None
    last = trace.config.target_vocabulary - 1

    def read_ids(name: str) -> list[int]:
        value = arguments.get(name)
        items = read_list(value, name, trace.config.max_positions) if value is not None else []
        return [read_whole_number({name: item}, name, 0, last) for item in items]

    target = choose_target(read_optional_text(arguments, "target"), read_ids("target_ids") or None)
    edits = edits_from_json(arguments["edits"]) if arguments.get("edits") is not None else []
    return trace.again(
        read_text(arguments, "sentence"), target=target, beam=beam, prefix_ids=read_ids("prefix_ids"), edits=edits
    )


def choose_target(text: str | None, ids: Sequence[int] | None) -> str | Sequence[int] | None:
    """Return the target, given as text or as ids; ValueError where it is given as both."""
    if text is not None and ids is not None:
        raise ValueError("target and target_ids are both given; a trace is of one translation")
    return text if ids is None else ids


def edit_trace(trace: Trace, arguments: Mapping[str, Any]) -> Trace:
    """Trace the same sentence under edits."""
    keep = arguments.get("keep_target")
    if not isinstance(keep, bool):
        raise ValueError(f"keep_target is {keep!r:.60}, expected true or false")
    return trace.edited(*edits_from_json(arguments.get("edits")), keep_target=keep)


def edits_from_json(value: object) -> list[EditSpec]:
    """Read edits from a value that may be anything."""
    return [edit_from_json(item) for item in read_list(value, "edits", MOST_EDITS)]


VERBS: dict[str, tuple[Callable[[Trace, Mapping[str, Any]], dict[str, Any] | Trace], tuple[str, ...]]] = {
    "account": (account_table, ("step", "piece", "other")),
    "verdict": (verdict_table, ("reference",)),
    "trace": (trace_again, ("sentence", "target", "target_ids", "prefix_ids", "beam", "edits")),
    "edit": (edit_trace, ("edits", "keep_target")),
}


def edit_from_json(table: object) -> EditSpec:
    """Read an edit from a value that may be anything.

    >>> edit_from_json({"kind": "silence", "attention": "decoder.3.cross", "head": 0})
    Silence(attention='decoder.3.cross', head=0, kind='silence')
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("kind"), str) or table["kind"] not in EDIT_KINDS:
        raise ValueError(f"{table!r:.80} is no edit; one has a kind: {', '.join(EDIT_KINDS)}")
    kind = EDIT_KINDS[table["kind"]]
    hints = get_type_hints(kind)
    refuse_unknown_names(f"edit of kind {table['kind']}", table, hints)
    for field in fields(kind):
        if not is_of_type(table.get(field.name), hints[field.name]):
            raise ValueError(f"edit of kind {table['kind']}: {field.name} is {table.get(field.name)!r:.60}")
        refuse_long_value(field.name, table[field.name])
    return kind(**{field.name: table[field.name] for field in fields(kind)})


def is_of_type(value: object, hint: Any) -> bool:
    """Whether a value from JSON has an annotated type; nothing is converted.

    >>> is_of_type(True, int), is_of_type([1, 0.5], list[float]), is_of_type([float("nan")], list[float])
    (False, True, False)
    """
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(is_of_type(item, get_args(hint)[0]) for item in value)
    # bool is a subclass of int; the comparison with the largest float is false for NaN and infinities.
    if hint is float:
        return isinstance(value, int | float) and type(value) is not bool and abs(value) <= float_info.max
    return type(value) is hint


def refuse_unknown_names(where: str, table: Mapping[Any, Any], known: Collection[str]) -> None:
    """Raise ValueError for a name that is not known here."""
    unknown = [name for name in table if name not in known]
    if unknown:
        raise ValueError(f"{where} takes {', '.join(known)}; {unknown[0]!r:.40} is none of them")


def refuse_long_value(name: str, value: object) -> None:
    """Raise ValueError for a text or list longer than any can be, and for a text with half a surrogate pair."""
    if isinstance(value, str | list) and len(value) > MOST_CHARACTERS:
        raise ValueError(f"{name} has a length of {len(value):,}, at most {MOST_CHARACTERS:,} is read")
    # JSON may spell half of a surrogate pair, which Python keeps but cannot encode as UTF-8.
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{name} holds half of a surrogate pair, which is no character")


def read_whole_number(table: Mapping[str, Any], name: str, least: int, largest: int) -> int:
    """Read a whole number within bounds."""
    value = table.get(name)
    # `type`, not isinstance, which takes True for a number.
    if type(value) is not int or not least <= value <= largest:
        raise ValueError(f"{name} is {value!r:.60}, expected a whole number from {least} to {largest:,}")
    return value


def read_text(table: Mapping[str, Any], name: str) -> str:
    """Read a text of bounded length."""
    value = table.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r:.60}, expected a text")
    refuse_long_value(name, value)
    return value


def read_optional_text(table: Mapping[str, Any], name: str) -> str | None:
    """Read a text that may be missing."""
    return None if table.get(name) is None else read_text(table, name)


def read_list(value: object, name: str, limit: int) -> list[Any]:
    """Read a list of bounded length."""
    if not isinstance(value, list) or len(value) > limit:
        raise ValueError(f"{name} is {value!r:.60}, expected a list of at most {limit}")
    return value
