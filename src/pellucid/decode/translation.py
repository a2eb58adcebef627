"""A translation of one line, as users get it."""

from dataclasses import dataclass, field
from typing import Literal

from pellucid.decode.request import Links
from pellucid.decode.usability import Grade


class NotTranslated(UserWarning):
    """Warning that a line could not be translated as asked and is returned as it was."""


@dataclass(frozen=True)
class MemoryMatch:
    """A sentence of a memory, its translation, and how similar it is to what was asked for: 1.0 for the same."""

    source: str
    target: str
    similarity: float
    place: str = ""
    """File and line of the entry, or which of several pairs it is."""

    @property
    def is_exact(self) -> bool:
        """Whether it is the same sentence, so that its translation is used."""
        return self.similarity == 1.0


@dataclass(frozen=True)
class WordOrigin:
    """Where a word of a translation comes from.

    Its origin is the model, a `term`, a unit of a `memory`, or the `prefix` that was given. A word
    comes from a term or a unit only if it is not there without it. `place` is where the term or the
    unit stands: file and line, or which pair it is; `source` and `target` are its two sides.
    """

    word: str
    origin: Literal["model", "memory", "term", "prefix"] = "model"
    place: str = ""
    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Translation:
    """One translation of one line, why it stopped, and the log-probability of each piece.

    `pieces` are all pieces written, EOS included if the text ended; `piece_log_probs` has one
    natural logarithm for each and `log_prob` is their sum. (The CTranslate2 engine gives the sum
    alone; without scores there are none, and `log_prob` and `score` are nan.) The pieces of a line
    that was translated in segments are concatenated, and its scores are sums. Only the best of a
    line has `alternatives`: the other n - 1, best first. `alignment`, when asked for, links words
    of the line with words of `text`; words are separated by white space and counted from 0. `notes`
    mention anything unusual that was done.

    A line that stopped as "failed" could not be translated as asked: `text` is the line as it was,
    `notes` say why. One that stopped as "memory" was taken from a translation memory, which
    `remembered` shows; for any other line that is the translation of a similar sentence, which only
    a model that was trained so (`data.memory`) has read. `confidence` is how likely it is that the
    translation needs no change; None where the model was not calibrated, and where there was no
    search or no score. `word_confidences` says for
    each word of `text` how likely it is that a person would keep it; None also where there are no
    `piece_log_probs`, or the pieces do not spell the text. `missing_sentences` says how many
    sentences fewer than its line the translation has, where the ends of sentences tell. `alarms`
    are the names of what went wrong, as far as the two texts tell (`find_alarms`). `grade` says
    whether a person can use it: "usable", "look" or "redo"; None where there was nothing to
    translate, and without an alarm where the model was not calibrated. `provenance`, when asked for,
    has the origin of each word of `text`; words are separated by white space.
    """

    text: str
    score: float
    log_prob: float
    stop: Literal["eos", "length", "empty", "failed", "memory"]
    pieces: list[str]
    piece_log_probs: list[float]
    source_pieces: list[str]
    alternatives: list["Translation"] = field(default_factory=list)
    alignment: Links | None = None
    notes: tuple[str, ...] = ()
    remembered: MemoryMatch | None = None
    confidence: float | None = None
    word_confidences: tuple[float, ...] | None = None
    missing_sentences: int = 0
    alarms: tuple[str, ...] = ()
    grade: Grade | None = None
    provenance: tuple[WordOrigin, ...] | None = None
