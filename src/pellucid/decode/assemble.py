"""Hypotheses as a translation: the parts of a line put together again, with what stood around and inside them."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import fsum, nan
from typing import Literal

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.line_preparation import PreparedLine
from pellucid.decode.word_edges import Links
from pellucid.text.line_splitting import join_line
from pellucid.text.markup import TAG, restore_tags


class NotTranslated(UserWarning):
    """A line could not be translated as asked and stays as it is."""


@dataclass(frozen=True)
class Translation:
    """One translation of one line, why it stopped, and what the model thought of each piece.

    `pieces` are all that was written, the end mark too if it was; `piece_log_probs` has one natural logarithm for each
    and `log_prob` is their sum. (The CTranslate2 engine gives the sum alone; where no scores were asked for there are
    none, and `log_prob` and `score` are nan.) Of a line that was translated in parts, pieces stand one behind the
    other, and scores are sums. Only the best of a line has `alternatives`: the other n - 1, best first. `alignment`,
    when asked for, pairs a source word with a word of the translation; words are what white space separates in `line`
    and `text`, from 0. `notes` say what was done that was not plain.

    A line that stopped as "failed" could not be translated as asked: `text` is the line as it was, `notes` say why.
    """

    text: str
    score: float
    log_prob: float
    stop: Literal["eos", "length", "empty", "failed"]
    pieces: list[str]
    piece_log_probs: list[float]
    source_pieces: list[str]
    alternatives: list["Translation"] = field(default_factory=list)
    alignment: Links | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchResult:
    """What a search found for one part: hypotheses, best first, the text of each, and links where they are wanted."""

    hypotheses: list[Hypothesis]
    texts: list[str] = field(default_factory=list)
    links: list[Links] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def assemble_translation(
    prepared: PreparedLine, found: Sequence[SearchResult], tokenizer: Tokenizer, config: SearchConfig
) -> Translation:
    """The translation of a line, and its alternatives: the n-th is made of the n-th of each part."""
    nothing: Links | None = [] if config.alignments else None
    if not found:
        return Translation(prepared.line, 0.0, 0.0, "empty", [], [], [], alignment=nothing)
    if not all(each.hypotheses for each in found):
        reasons = tuple(dict.fromkeys(note for each in found if not each.hypotheses for note in each.notes))
        return Translation(prepared.line, nan, nan, "failed", [], [], [], notes=reasons, alignment=nothing)
    ranks = max(len(each.hypotheses) for each in found)
    best, *others = (assemble_rank(prepared, found, rank, tokenizer, config) for rank in range(ranks))
    notes = tuple(dict.fromkeys((*prepared.notes, *(note for each in found for note in each.notes))))
    return replace(best, alternatives=others, notes=notes) if others or notes else best


def assemble_rank(
    prepared: PreparedLine, found: Sequence[SearchResult], rank: int, tokenizer: Tokenizer, config: SearchConfig
) -> Translation:
    """One translation of a line; a part that has not so many gives its last."""
    ranks = [min(rank, len(each.hypotheses) - 1) for each in found]
    hypotheses = [each.hypotheses[n] for each, n in zip(found, ranks, strict=True)]
    links = [each.links[n] if each.links else [] for each, n in zip(found, ranks, strict=True)]
    plain = [each.texts[n] for each, n in zip(found, ranks, strict=True)]
    tagged = [
        restore_tags(part.marked, text, pairs)
        for part, text, pairs in zip(prepared.segments, plain, links, strict=True)
    ]
    text = join_line(prepared.split_line, tagged)
    return Translation(
        text,
        sum(each.score for each in hypotheses) if config.scores else nan,
        fsum(each.log_prob for each in hypotheses) if config.scores else nan,
        "eos" if all(each.stop == "eos" for each in hypotheses) else "length",
        [p for each in hypotheses for p in tokenizer.target_pieces(each.tokens + [EOS] * (each.stop == "eos"))],
        [number for each in hypotheses for number in each.log_probs if config.scores],
        [piece for part in prepared.segments for piece in tokenizer.source_pieces(part.request.source)],
        alignment=line_alignment(prepared, plain, tagged, text, links) if config.alignments else None,
    )


def line_alignment(
    prepared: PreparedLine, plain: Sequence[str], tagged: Sequence[str], text: str, links: Sequence[Links]
) -> Links:
    """The links of the parts, counted in the words of the whole line and its whole translation."""
    read = word_indices_in_line(
        [each.marked.text for each in prepared.segments], prepared.split_line.segments, prepared.line
    )
    written = word_indices_in_line(plain, tagged, text)
    return sorted({(read[n][i], written[n][j]) for n, pairs in enumerate(links) for i, j in pairs})


def word_indices_in_line(plain: Sequence[str], tagged: Sequence[str], line: str) -> list[list[int]]:
    """For each part the numbers its words have in the line, which has the parts, with their tags, in this order.

    >>> word_indices_in_line(["a b", "c"], ["<i>a</i> b", "c"], "😀 <i>a</i> b c")
    [[1, 2], [3]]
    """
    starts = [i for i, character in enumerate(line) if not character.isspace() and (i == 0 or line[i - 1].isspace())]
    found, at = [], 0
    for part, shown in zip(plain, tagged, strict=True):
        start = line.find(shown, at)
        at = start + len(shown)
        places = (
            [start + i for i in letter_positions_outside_tags(shown)]
            if len(letter_positions_outside_tags(shown)) == len(letter_positions(part))
            else []
        )
        first = [n for n, i in enumerate(letter_positions(part)) if i == 0 or part[i - 1].isspace()]
        found.append([bisect_right(starts, places[n]) - 1 if places else 0 for n in first])
    return found


def letter_positions(text: str) -> list[int]:
    """Where something is that is not white space."""
    return [i for i, character in enumerate(text) if not character.isspace()]


def letter_positions_outside_tags(tagged: str) -> list[int]:
    """The same, tags left out."""
    hidden = {i for match in TAG.finditer(tagged) for i in range(*match.span())}
    return [i for i in letter_positions(tagged) if i not in hidden]
