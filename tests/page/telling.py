"""What the story of the page tells of, chosen as web/src/story_choice.ts chooses it."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.interpret.trace.session import Trace


@dataclass(frozen=True)
class Reading:
    """A weight of a head: what it reads most tellingly."""

    section: str
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class Telling:
    """The word, the head of the encoder, the head that reads the word from the decoder, and the step of that."""

    piece: int
    step: int
    encoder: Reading
    cross: Reading


def choose_telling(trace: Trace, study: dict[str, Any] | None = None, piece: int | None = None) -> Telling:
    """Choose what the story tells of, with the measured costs of the heads if there are any, or of a given piece."""
    costs = {(entry["attention"], entry["head"]): entry["silent"] for entry in (study or {}).get("heads", [])}
    words = {i for i, text in enumerate(trace.source.pieces) if has_letter(text) and trace.source.words[i] is not None}
    writes = {step.step for step in trace.steps if has_letter(step.chosen.piece)}

    def reads_another(query: int, key: int) -> bool:
        return query in words and key in words and query != key and piece in (None, query)

    encoder = find_most_telling(trace, "encoder.", costs, reads_another)
    told = encoder.query if piece is None else piece
    cross = find_most_telling(trace, ".cross", costs, lambda step, key: key == told and step in writes)
    return Telling(told, cross.query, encoder, cross)


def find_most_telling(trace: Trace, part: str, costs: dict[tuple[str, int], float], accepts: Any) -> Reading:
    """The largest weight times cost of the attentions whose name has this part; the first of equals."""
    names = [name for name in trace.names if name.endswith(".pattern") and part in name]
    places = [(name.removesuffix(".pattern"), head) for name in names for head in range(trace[name].values.shape[0])]
    known = {place: max(0.0, costs.get(place, 0.0)) for place in places}
    if not any(known.values()):
        known = dict.fromkeys(places, 1.0)
    best, most = None, 0.0
    for section, head in places:
        weights = trace[f"{section}.pattern"].values[head].astype(np.float64)
        for query, key in np.ndindex(*weights.shape):
            tells = known[section, head] * weights[query, key]
            if tells > most and accepts(query, key):
                best, most = Reading(section, head, query, key), tells
    assert best is not None
    return best


def has_letter(text: str) -> bool:
    """Whether a piece has a letter or a digit."""
    return re.search(r"[^\W_]", text.replace("\u2581", "")) is not None
