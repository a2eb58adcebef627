"""Finds the ends of sentences."""

import re

# Possessive quantifiers (*+, ++) everywhere: no text, however long, makes a search go back and try again.
CLOSERS = r"""["'”’»›)\]}」』）】〉》〕]"""
SENTENCE_END = re.compile(
    rf"(?<![.!?…])([.!?…]++)(?:{CLOSERS}|[“«‹])*+(?:\s[»›])?(?=\s++(\S))|[。！？｡।॥؟۔։።။]++{CLOSERS}*+"
)
LAST_WORD = re.compile(r"\w*\Z")
ABBREVIATIONS = """
abb abs bd bzw ca capt cf chap co col corp dept dipl dr eds etc ev fig figs gen gov hon hr hrsg inc jr lt ltd maj mgr
min mlle mme mr mrs ms msgr mt nos nr num pág pp prof pte ref rep rev sen sgt sr sra srta st ste str tel usw vgl vol
vols vs zzgl
"""


def sentence_ends(text: str, start: int, end: int) -> list[int]:
    """Return the ends of sentences: after full stops and their like, with closing quotes and brackets.

    A full stop after one letter, a number of one or two digits or a known abbreviation does not end a sentence, nor
    does any mark before a small letter.

    >>> text = 'Dr. A. Bee paid 3.50 on May 3. "Why?" she asked. He (I know...) left!'
    >>> [text[i:j] for i, j in pairwise([0, *sentence_ends(text, 0, len(text))])]
    ['Dr. A. Bee paid 3.50 on May 3. "Why?" she asked.', ' He (I know...) left!']
    """
    matches = (match for match in SENTENCE_END.finditer(text, start, end) if not _sentence_goes_on(text, match))
    return [*(match.end() for match in matches if match.end() < end), end]


def _sentence_goes_on(text: str, match: re.Match[str]) -> bool:
    """Whether the sentence continues after what looks like its end."""
    mark, following = match.groups()
    # No mark: one of a script without capital letters, such as the Chinese full stop, which is always an end.
    if mark is None or following.islower():
        return mark is not None
    # Ten characters are enough for the longest abbreviation.
    before = LAST_WORD.search(text[max(0, match.start() - 10) : match.start()])
    word = before[0] if before else ""
    short = len(word) == 1 or (len(word) == 2 and word.isdecimal()) or word.lower() in ABBREVIATIONS.split()
    return mark == "." and short
