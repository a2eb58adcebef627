"""Counts the links between words of segments in the words of the whole line and of its whole translation."""

from bisect import bisect_right
from collections.abc import Collection, Sequence

from pellucid.data.text.line_splitting import find_pictures
from pellucid.data.text.markup import find_tags
from pellucid.decode.line_segments import CutLine
from pellucid.decode.request import Links


def join_alignments(
    cut_line: CutLine,
    plain: Sequence[str],
    tagged: Sequence[str],
    text: str,
    links: Sequence[Links],
) -> Links:
    """Return the links of all segments, counted in words of the whole line and of its whole translation."""
    split = cut_line.split_line
    texts = [segment.marked.text for segment in cut_line.segments]
    tags: list[set[str]] = []
    for segment in cut_line.segments:
        tags.append({tag.text for tag in segment.marked.tags})

    source_words = word_indices_in_line(texts, split.segments, cut_line.line.text, split.gaps, tags)
    target_words = word_indices_in_line(plain, tagged, text, split.gaps, tags)

    joined: set[tuple[int, int]] = set()
    for n, pairs in enumerate(links):
        for i, j in pairs:
            joined.add((source_words[n][i], target_words[n][j]))
    return sorted(joined)


def word_indices_in_line(
    plain: Sequence[str],
    tagged: Sequence[str],
    line: str,
    gaps: Sequence[str],
    tags: Sequence[Collection[str]] = (),
) -> list[list[int]]:
    """Return for each segment the indices of its words in the line, which has the tagged segments between the gaps.

    `tags` has the texts of the tags of each segment, by which it is known which pictures are tags.

    >>> word_indices_in_line(["a b", "c"], ["<i>a</i> b", "c"], "😀 <i>a</i> b c", ["😀 ", " ", ""])
    [[1, 2], [3]]
    """
    starts = _word_starts(line)
    indices, end = [], 0
    for n, (plain_text, tagged_text, gap) in enumerate(zip(plain, tagged, gaps, strict=False)):
        # Joined segments may have a space between them where there was no gap (`join_line`).
        start = line.find(tagged_text, end + len(gap))
        end = start + len(tagged_text)

        # A tag may stand inside a word, so words are found by their letters. Where the letters
        # outside the tags are not the letters of the plain text, as where the model itself wrote a
        # tag, every word is given index 0.
        visible = _visible_letters(tagged_text, tags[n] if tags else ())
        letters = _letter_positions(plain_text)
        word_indices = []
        for k, i in enumerate(letters):
            if i and not plain_text[i - 1].isspace():
                continue
            is_same = len(visible) == len(letters)
            word_indices.append(bisect_right(starts, start + visible[k]) - 1 if is_same else 0)
        indices.append(word_indices)
    return indices


def _visible_letters(text: str, pictures: Collection[str]) -> list[int]:
    """Return the indices of the characters outside of tags that are not white space.

    The `pictures` are tags, too.
    """
    tags = find_tags(text)
    if pictures:
        tags += [tag for tag in find_pictures(text, lambda character: False) if tag.name in pictures]
    hidden: set[int] = set()
    for tag in tags:
        hidden.update(range(tag.start, tag.end))
    return [i for i in _letter_positions(text) if i not in hidden]


def _word_starts(line: str) -> list[int]:
    """Return the index of the first character of each word."""
    return [i for i in _letter_positions(line) if i == 0 or line[i - 1].isspace()]


def _letter_positions(text: str) -> list[int]:
    """Return the indices of the characters that are not white space."""
    return [i for i, character in enumerate(text) if not character.isspace()]
