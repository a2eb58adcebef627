"""What a page asks beside a trace: words, analogies, claims that need another run, badges of heads; by verbs."""

from collections.abc import Callable, Mapping
from typing import Any

from pellucid.inspect.badges import badges_beside
from pellucid.inspect.claims import diagonals, masking
from pellucid.inspect.word_maps import (
    IN_FILE,
    MOST_WORDS,
    analogy_of,
    cosines_of,
    map_of,
    near_to,
    sides_of,
    table_of,
)
from pellucid.trace.page_api import number, optional_text, several, text
from pellucid.trace.trace import Trace


def word_map(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The map of one table."""
    return map_of(trace.require_origin().bundle, text(arguments, "side"))


def neighbours(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The nearest pieces to one."""
    table = table_of(trace.require_origin().bundle, text(arguments, "side"))
    piece = number(arguments, "piece", 0, len(table.pieces) - 1)
    return {"near": near_to(table, [piece])[str(piece)]}


def similar(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The cosines of some words."""
    table = table_of(trace.require_origin().bundle, text(arguments, "side"))
    words = several(arguments.get("words"), "words", MOST_WORDS)
    return cosines_of(table, [text({"words": each}, "words") for each in words])


def sums(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An analogy."""
    table = table_of(trace.require_origin().bundle, text(arguments, "side"))
    return analogy_of(table, text(arguments, "question"), optional_text(arguments, "expected"))


def masks(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The run with kept keys, with the mask, and without."""
    return masking(trace)


def identity(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The diagonals of the cross-attention on another sentence."""
    return diagonals(trace.again(text(arguments, "sentence"), target=optional_text(arguments, "target")))


def badges(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The roles and the importance of the heads, or why there are none: that is no mistake of who asks."""
    try:
        return {"study": badges_beside(trace.require_origin().bundle), "says": None}
    except ValueError as error:
        return {"study": None, "says": str(error)}


VERBS: dict[str, tuple[Callable[[Trace, Mapping[str, Any]], dict[str, Any]], tuple[str, ...]]] = {
    "words": (word_map, ("side",)),
    "neighbours": (neighbours, ("side", "piece")),
    "similar": (similar, ("side", "words")),
    "analogy": (sums, ("side", "question", "expected")),
    "masking": (masks, ()),
    "identity": (identity, ("sentence", "target")),
    "heads": (badges, ()),
}


def answered(trace: Trace) -> dict[str, Any]:
    """What of this a file is given, as it could ask nobody: without what there is not."""
    ways: dict[str, Callable[[], Any]] = {
        "words": lambda: words_in_file(trace),
        "masking": lambda: masking(trace),
        "heads": lambda: badges(trace, {}),
    }
    found = {}
    for name, way in ways.items():
        try:
            found[name] = way()
        except ValueError:  # a trace without its model, or heads that were never studied
            continue
    return found


def words_in_file(trace: Trace) -> list[dict[str, Any]]:
    """The maps of what is read, with the neighbours and cosines of the sentence's own pieces."""
    bundle = trace.require_origin().bundle
    found = []
    for side in sides_of(bundle):
        if side == "output":
            continue  # what makes the logits is asked of a server: a third map would weigh as much again
        sentence = [*trace.source.ids, *trace.target.ids] if len(sides_of(bundle)) == 1 else own_ids(trace, side)
        table = table_of(bundle, side)
        near = near_to(table, sentence)
        beside = [each["id"] for some in near.values() for each in some]
        told = map_of(bundle, side, IN_FILE, [*sentence, *beside])
        words = own_words(trace, side)
        found.append({**told, "near": near, "similar": cosines_of(table, words) if words else None})
    return found


def own_ids(trace: Trace, side: str) -> list[int]:
    """The pieces of the sentence on one side."""
    return trace.source.ids if side == "source" else trace.target.ids


def own_words(trace: Trace, side: str) -> list[str]:
    """The words of the sentence on one side, without the marks around them."""
    said = trace.source.text if side == "source" else trace.target.text
    words = [word.strip(".,;:!?¡¿\"'()[]") for word in said.split()]
    return [word for word in words if word]
