"""Joins the translations of the segments of a line: text, scores, pieces, notes and alarms."""

from collections.abc import Sequence
from dataclasses import replace
from math import fsum, nan

from pellucid.data.source_profile import SourceProfile
from pellucid.data.term_marks import find_own_tokens
from pellucid.data.text.line_splitting import JOINT, join_line
from pellucid.data.tokenizer import EOS
from pellucid.decode.alarms import ALARMS, count_missing_sentences, find_alarms, sort_alarms
from pellucid.decode.line_alignment import join_alignments
from pellucid.decode.line_segments import CutLine, SearchResult
from pellucid.decode.request import Hypothesis, Links, SearchConfig
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.stages.repetition import has_repetition
from pellucid.decode.translation import Translation
from pellucid.decode.usability import grade_alarms


def join_results(
    cut_line: CutLine, results: Sequence[SearchResult], reader: SourceReader, config: SearchConfig
) -> Translation:
    """Return the translation of a line with its alternatives: the n-th consists of the n-th of each segment.

    A line is translated whole or not at all.
    """
    line = cut_line.line
    no_links: Links | None = [] if config.alignments else None
    if cut_line.is_known:
        assert line.known is not None
        return Translation(line.known, nan, nan, "memory", [], [], [], alignment=no_links, grade="usable")

    if not results:
        return Translation(line.text, 0.0, 0.0, "empty", [], [], [], alignment=no_links)

    if not all(result.hypotheses for result in results):
        return _keep_line(cut_line, results, reader.profile, no_links)

    ranks = max(len(result.hypotheses) for result in results)
    best, *others = (_join_rank(cut_line, results, rank, reader, config) for rank in range(ranks))
    notes = [*cut_line.list_notes([result.segment for result in results])]
    for result in results:
        notes.extend(result.notes)

    notes += [ALARMS[name] for name in best.alarms if name != "sentences"]
    if best.missing_sentences:
        sentences = "sentence" if best.missing_sentences == 1 else "sentences"
        notes.append(f"the translation has {best.missing_sentences} {sentences} fewer than the line")

    if not (others or notes):
        return best

    # Each note once, in order.
    return replace(
        best,
        alternatives=others,
        notes=tuple(dict.fromkeys(notes)),
        grade=grade_alarms(best.alarms),
    )


def _keep_line(
    cut_line: CutLine,
    results: Sequence[SearchResult],
    profile: SourceProfile | None,
    no_links: Links | None,
) -> Translation:
    """Return a line as it is, because no translation was found of one of its segments."""
    reasons: list[str] = []
    for result in results:
        if not result.hypotheses:
            reasons.extend(result.notes)

    # Most of its words are not translated.
    alarms = _find_line_alarms(cut_line, [segment.marked.text for segment in cut_line.segments], profile)
    return Translation(
        cut_line.line.text,
        nan,
        nan,
        "failed",
        [],
        [],
        [],
        notes=tuple(dict.fromkeys(reasons)),
        alignment=no_links,
        alarms=alarms,
        grade="redo",
    )


def _join_rank(
    cut_line: CutLine,
    results: Sequence[SearchResult],
    rank: int,
    reader: SourceReader,
    config: SearchConfig,
) -> Translation:
    """Return the translation of a line from the hypotheses of one rank.

    A segment with fewer gives its last.
    """
    hypotheses: list[Hypothesis] = []
    plain: list[str] = []
    tagged: list[str] = []
    links: list[Links] = []
    pieces: list[str] = []
    source_pieces: list[str] = []
    log_probs: list[float] = []
    repeats = False
    for segment, result in zip(cut_line.segments, results, strict=True):
        n = min(rank, len(result.hypotheses) - 1)
        hypothesis = result.hypotheses[n]
        hypotheses.append(hypothesis)
        plain.append(result.texts[n])
        tagged.append(result.tagged[n] if result.tagged else result.texts[n])
        links.append(result.links[n] if result.links else [])

        written = hypothesis.tokens + [EOS] * (hypothesis.stop == "eos")
        pieces.extend(reader.tokenizer.target_pieces(written))
        source = segment.request.source[segment.context :]
        if segment.terms:
            # What marks add is no part of the text, and would count for its length.
            own = find_own_tokens(source, reader.tokenizer.term_marks)
            source = [source[place] for place in own]
        source_pieces.extend(reader.tokenizer.source_pieces(source))
        log_probs.extend(hypothesis.log_probs)
        repeats = repeats or (has_repetition(hypothesis.tokens) and not has_repetition(source))

    text = join_line(cut_line.split_line, tagged)
    missing_sentences = _count_missing_sentences(cut_line, plain)
    alarms = _find_line_alarms(cut_line, plain, reader.profile, missing_sentences)
    if repeats and "repeats" not in alarms:  # as the search saw it, in pieces
        alarms = sort_alarms([*alarms, "repeats"])

    return Translation(
        text,
        sum(hypothesis.score for hypothesis in hypotheses) if config.scores else nan,
        fsum(hypothesis.log_prob for hypothesis in hypotheses) if config.scores else nan,
        "eos" if all(hypothesis.stop == "eos" for hypothesis in hypotheses) else "length",
        pieces,
        log_probs if config.scores else [],
        source_pieces,
        alignment=join_alignments(cut_line, plain, tagged, text, links) if config.alignments else None,
        missing_sentences=missing_sentences,
        alarms=alarms,
    )


def _find_line_alarms(
    cut_line: CutLine,
    plain: Sequence[str],
    profile: SourceProfile | None,
    missing_sentences: int = 0,
) -> tuple[str, ...]:
    """Return what went wrong in a line, given the translation of each segment without tags."""
    alarms = ["sentences"] if missing_sentences else []
    for segment, text in zip(cut_line.segments, plain, strict=True):
        alarms += find_alarms(segment.marked.text, text, profile, missing_sentences=0)
    return sort_alarms(alarms) if alarms else ()


def _count_missing_sentences(cut_line: CutLine, plain: Sequence[str]) -> int:
    """Count how many sentences fewer than its line a translation has, as the ends of sentences tell."""
    # Sentences between which nothing but a space stands are counted together: where the translation
    # of one has no end mark, it runs into the next.
    runs: list[tuple[str, str]] = []
    for n, (segment, segment_text) in enumerate(zip(cut_line.segments, plain, strict=True)):
        gap = cut_line.split_line.gaps[n]
        if n and JOINT.fullmatch(gap):
            source, translation = runs.pop()
            runs.append((f"{source}{gap}{segment.marked.text}", f"{translation}{gap or ' '}{segment_text}"))
        else:
            runs.append((segment.marked.text, segment_text))
    return sum(count_missing_sentences(source, translation) for source, translation in runs)
