"""Assembles the translation of a line from its segments' hypotheses, tags, and the text between the segments."""

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
    """Warning that a line could not be translated as asked and is returned as it was."""


@dataclass(frozen=True)
class Translation:
    """One translation of one line, why it stopped, and the log-probability of each piece.

    `pieces` are all pieces written, EOS included if the text ended; `piece_log_probs` has one natural logarithm for
    each and `log_prob` is their sum. (The CTranslate2 engine gives the sum alone; without scores there are none, and
    `log_prob` and `score` are nan.) The pieces of a line that was translated in segments are concatenated, and its
    scores are sums. Only the best of a line has `alternatives`: the other n - 1, best first. `alignment`, when asked
    for, links words of the line with words of `text`; words are separated by white space and counted from 0. `notes`
    mention anything unusual that was done.

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
    """Result of searching one segment: hypotheses, best first, the text of each, and links where they are needed."""

    hypotheses: list[Hypothesis]
    texts: list[str] = field(default_factory=list)
    links: list[Links] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def assemble_translation(
    prepared: PreparedLine, results: Sequence[SearchResult], tokenizer: Tokenizer, config: SearchConfig
) -> Translation:
    """Return the translation of a line with its alternatives: the n-th consists of the n-th of each segment."""
    no_links: Links | None = [] if config.alignments else None
    if not results:
        return Translation(prepared.line, 0.0, 0.0, "empty", [], [], [], alignment=no_links)
    # A line is translated whole or not at all.
    if not all(result.hypotheses for result in results):
        reasons = tuple(dict.fromkeys(note for result in results if not result.hypotheses for note in result.notes))
        return Translation(prepared.line, nan, nan, "failed", [], [], [], notes=reasons, alignment=no_links)
    ranks = max(len(result.hypotheses) for result in results)
    best, *others = (assemble_rank(prepared, results, rank, tokenizer, config) for rank in range(ranks))
    # dict.fromkeys: each note once, in order.
    notes = tuple(dict.fromkeys((*prepared.notes, *(note for result in results for note in result.notes))))
    return replace(best, alternatives=others, notes=notes) if others or notes else best


def assemble_rank(
    prepared: PreparedLine, results: Sequence[SearchResult], rank: int, tokenizer: Tokenizer, config: SearchConfig
) -> Translation:
    """Return the translation of a line from the hypotheses of one rank; a segment with fewer gives its last."""
    ranks = [min(rank, len(result.hypotheses) - 1) for result in results]
    hypotheses = [result.hypotheses[n] for result, n in zip(results, ranks, strict=True)]
    links = [result.links[n] if result.links else [] for result, n in zip(results, ranks, strict=True)]
    plain = [result.texts[n] for result, n in zip(results, ranks, strict=True)]
    # Tags are put back by the word alignment of the plain texts, so this comes before the segments are joined.
    tagged = [
        restore_tags(segment.marked, text, pairs)
        for segment, text, pairs in zip(prepared.segments, plain, links, strict=True)
    ]
    text = join_line(prepared.split_line, tagged)
    return Translation(
        text,
        sum(hypothesis.score for hypothesis in hypotheses) if config.scores else nan,
        fsum(hypothesis.log_prob for hypothesis in hypotheses) if config.scores else nan,
        "eos" if all(hypothesis.stop == "eos" for hypothesis in hypotheses) else "length",
        [
            piece
            for hypothesis in hypotheses
            for piece in tokenizer.target_pieces(hypothesis.tokens + [EOS] * (hypothesis.stop == "eos"))
        ],
        [number for hypothesis in hypotheses for number in hypothesis.log_probs if config.scores],
        [piece for segment in prepared.segments for piece in tokenizer.source_pieces(segment.request.source)],
        alignment=line_alignment(prepared, plain, tagged, text, links) if config.alignments else None,
    )


def line_alignment(
    prepared: PreparedLine, plain: Sequence[str], tagged: Sequence[str], text: str, links: Sequence[Links]
) -> Links:
    """Return the links of all segments, counted in words of the whole line and of its whole translation."""
    source_words = word_indices_in_line(
        [segment.marked.text for segment in prepared.segments], prepared.split_line.segments, prepared.line
    )
    target_words = word_indices_in_line(plain, tagged, text)
    return sorted({(source_words[n][i], target_words[n][j]) for n, pairs in enumerate(links) for i, j in pairs})


def word_indices_in_line(plain: Sequence[str], tagged: Sequence[str], line: str) -> list[list[int]]:
    """Return for each segment the indices of its words in the line, which has the tagged segments in this order.

    >>> word_indices_in_line(["a b", "c"], ["<i>a</i> b", "c"], "😀 <i>a</i> b c")
    [[1, 2], [3]]
    """
    starts = [i for i, character in enumerate(line) if not character.isspace() and (i == 0 or line[i - 1].isspace())]
    indices, end = [], 0
    for plain_text, tagged_text in zip(plain, tagged, strict=True):
        start = line.find(tagged_text, end)
        end = start + len(tagged_text)
        # A tag may stand inside a word, so words are found by their letters. Where the letters outside the tags are
        # not those of the plain text, as where the model itself wrote a tag, every word is given index 0.
        positions = (
            [start + i for i in letter_positions_outside_tags(tagged_text)]
            if len(letter_positions_outside_tags(tagged_text)) == len(letter_positions(plain_text))
            else []
        )
        first_letters = [n for n, i in enumerate(letter_positions(plain_text)) if i == 0 or plain_text[i - 1].isspace()]
        indices.append([bisect_right(starts, positions[n]) - 1 if positions else 0 for n in first_letters])
    return indices


def letter_positions(text: str) -> list[int]:
    """Return the indices of the characters that are not white space."""
    return [i for i, character in enumerate(text) if not character.isspace()]


def letter_positions_outside_tags(tagged: str) -> list[int]:
    """Return the indices of the characters that are neither white space nor in a tag."""
    hidden = {i for match in TAG.finditer(tagged) for i in range(*match.span())}
    return [i for i in letter_positions(tagged) if i not in hidden]
