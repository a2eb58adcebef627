"""What a page asks beside a trace: words, analogies, claims that need another run, badges of heads; by verbs."""

from collections.abc import Callable, Mapping
from typing import Any

from pellucid.inspect.badges import read_badges
from pellucid.inspect.claims import compare_masking, cross_attention_diagonals
from pellucid.inspect.word_maps import (
    MOST_PIECES_IN_FILE,
    MOST_WORDS,
    analogy_answer,
    cosine_table,
    distinct_table,
    distinct_tables,
    neighbours_by_id,
    word_map,
)
from pellucid.trace.page_api import read_list, read_optional_text, read_text, read_whole_number
from pellucid.trace.trace import Trace


def answer_word_map(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The map of one table."""
    return word_map(trace.require_origin().bundle, read_text(arguments, "side"))


def answer_neighbours(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The nearest pieces to one."""
    table = distinct_table(trace.require_origin().bundle, read_text(arguments, "side"))
    piece = read_whole_number(arguments, "piece", 0, len(table.pieces) - 1)
    return {"near": neighbours_by_id(table, [piece])[str(piece)]}


def answer_similar(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The cosines of some words."""
    table = distinct_table(trace.require_origin().bundle, read_text(arguments, "side"))
    words = read_list(arguments.get("words"), "words", MOST_WORDS)
    return cosine_table(table, [read_text({"words": each}, "words") for each in words])


def answer_analogy(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An analogy."""
    table = distinct_table(trace.require_origin().bundle, read_text(arguments, "side"))
    return analogy_answer(table, read_text(arguments, "question"), read_optional_text(arguments, "expected"))


def answer_masking(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The run with kept keys, with the mask, and without."""
    return compare_masking(trace)


def answer_identity(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The diagonals of the cross-attention on another sentence."""
    return cross_attention_diagonals(
        trace.again(read_text(arguments, "sentence"), target=read_optional_text(arguments, "target"))
    )


def answer_badges(trace: Trace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The roles and the importance of the heads, or why there are none: that is no mistake of who asks."""
    try:
        return {"study": read_badges(trace.require_origin().bundle), "says": None}
    except ValueError as error:
        return {"study": None, "says": str(error)}


VERBS: dict[str, tuple[Callable[[Trace, Mapping[str, Any]], dict[str, Any]], tuple[str, ...]]] = {
    "words": (answer_word_map, ("side",)),
    "neighbours": (answer_neighbours, ("side", "piece")),
    "similar": (answer_similar, ("side", "words")),
    "analogy": (answer_analogy, ("side", "question", "expected")),
    "masking": (answer_masking, ()),
    "identity": (answer_identity, ("sentence", "target")),
    "heads": (answer_badges, ()),
}


def answers_for_file(trace: Trace) -> dict[str, Any]:
    """What of this a file is given, as it could ask nobody: without what there is not."""
    ways: dict[str, Callable[[], Any]] = {
        "words": lambda: words_in_file(trace),
        "masking": lambda: compare_masking(trace),
        "heads": lambda: answer_badges(trace, {}),
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
    for side in distinct_tables(bundle):
        if side == "output":
            continue  # what makes the logits is asked of a server: a third map would weigh as much again
        sentence = (
            [*trace.source.ids, *trace.target.ids] if len(distinct_tables(bundle)) == 1 else sentence_ids(trace, side)
        )
        table = distinct_table(bundle, side)
        near = neighbours_by_id(table, sentence)
        beside = [each["id"] for some in near.values() for each in some]
        told = word_map(bundle, side, MOST_PIECES_IN_FILE, [*sentence, *beside])
        words = sentence_words(trace, side)
        found.append({**told, "near": near, "similar": cosine_table(table, words) if words else None})
    return found


def sentence_ids(trace: Trace, side: str) -> list[int]:
    """The pieces of the sentence on one side."""
    return trace.source.ids if side == "source" else trace.target.ids


def sentence_words(trace: Trace, side: str) -> list[str]:
    """The words of the sentence on one side, without the marks around them."""
    said = trace.source.text if side == "source" else trace.target.text
    words = [word.strip(".,;:!?¡¿\"'()[]") for word in said.split()]
    return [word for word in words if word]
