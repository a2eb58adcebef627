"""Learns which letters the two languages of a corpus have, and finds lines in another language than their side's."""

import re
from collections.abc import Sequence
from hashlib import sha256
from itertools import compress

import numpy as np

from pellucid.data.links import Floats, Ints
from pellucid.data.text.markup import TAG
from pellucid.data.text.protected import PROTECTED_SIGN, find_protected

TRIGRAM_BITS = 18
# Letters of a line whose language can be told; of fewer, names and loan words decide.
FEWEST_LETTERS = 12
# Strangeness from which a line is in another language: this, and 12 divided by its letters. Each of
# its two parts is 1 for about the strangest of 33 clean lines.
STRANGE, SHORT_LINE = 3.3, 12.0
# Median distances up to about the strangest of 33 clean lines, and
# rounds of learning without strange lines.
_SCALE, _ROUNDS = 3.3, 2
# For the two parts of strangeness: in a very even text a few loan words are not strange.
_LEAST_SCALES = (0.25, 0.5)
# Nats by which the letters of the two sides must differ, a trigram, to be two languages.
SAME_LANGUAGE = 0.5

# A strange line is nearer to the other side's language than to its own,
# or it is far from its own, as a third one is.
_NEARER, _FAR = 0.5, 2.5


class LanguageModel:
    """Letter trigrams of both sides, learned on the text itself, which tell the language of a line."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]):
        sources, targets = _list_telling_words(sources, targets)
        self._learn((sources, targets))
        for _ in range(_ROUNDS if self.tells_apart else 0):
            # Again without the lines that look strange: a few hundred
            # French ones make French look German.
            plain = self._measure_strangeness((sources, targets)) < 0.5 * STRANGE
            plain_sources, plain_targets = compress(sources, plain[0]), compress(targets, plain[1])
            self._learn((list(plain_sources) or sources, list(plain_targets) or targets))

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that was learned."""
        learned = [*self.logs, np.array([self.own, self.margins]), *self.scales]
        return sha256(
            b"".join(np.ascontiguousarray(part).tobytes() for part in learned)
        ).hexdigest()

    def _learn(self, sides: tuple[Sequence[str], Sequence[str]]) -> None:
        self.logs: list[Floats] = []
        for texts in sides:
            counts = np.bincount(_trigrams(texts)[0], minlength=2**TRIGRAM_BITS) + 0.1
            self.logs.append(np.log(counts / counts.sum()))
        likely = [self._measure(texts)[0] for texts in sides]
        likely = [values[:, ~np.isnan(values[0])] for values in likely]

        # Of each side: the median of how likely its lines are, and of by
        # how much more so than by the other model.
        self.own, self.margins = [0.0, 0.0], [0.0, 0.0]
        for side, values in enumerate(likely):
            if values.size:
                self.own[side] = float(np.median(values[side]))
                self.margins[side] = float(np.median(values[0] - values[1]))

        # Where no line of a side has words that tell its language, nothing is known of it.
        self.tells_apart = (
            all(values.size for values in likely)
            and self.margins[0] - self.margins[1] > SAME_LANGUAGE
        )
        if self.tells_apart:
            # By the median, which lines in a wrong language hardly
            # move, even if they are one in five.
            distances = [np.abs(self._place(values, n)) for n, values in enumerate(likely)]
            self.scales = [_SCALE * np.median(values, axis=1) for values in distances]

    def _measure(self, texts: Sequence[str]) -> tuple[Floats, Ints]:
        """Return the mean log probability of a text's trigrams by both models (NaN for few), and their number."""
        trigrams, line = _trigrams(texts)
        counts = np.bincount(line, minlength=len(texts))
        sums = [np.bincount(line, log[trigrams], minlength=len(texts)) for log in self.logs]
        with np.errstate(invalid="ignore", divide="ignore"):
            likely = np.stack(sums) / counts
        likely[:, counts < FEWEST_LETTERS] = np.nan
        return likely, counts

    def _place(self, likely: Floats, side: int) -> Floats:
        """Return how near lines are to the other language, from 0 to 1, and how much less likely than their side's."""
        near = (likely[0] - likely[1] - self.margins[side]) / (
            self.margins[1 - side] - self.margins[side]
        )
        return np.stack([near, self.own[side] - likely[side]])

    def _measure_strangeness(self, sides: tuple[Sequence[str], Sequence[str]]) -> Floats:
        """Return how strange each line of each side is, beside the limit for its length: 2 x lines."""
        rows = []
        for side, texts in enumerate(sides):
            likely, counts = self._measure(texts)
            # The mean of few trigrams varies more; 50 are usual.
            scales = np.maximum(self.scales[side], _LEAST_SCALES)
            parts = self._place(likely, side) / scales[:, None]
            parts[1] *= np.sqrt(np.minimum(counts, 100) / 50)
            strange = parts.sum(axis=0) * STRANGE / (STRANGE + SHORT_LINE / np.maximum(counts, 1))
            is_strange = (parts[0] > _NEARER) | (parts[1] > _FAR)
            rows.append(np.where(is_strange, np.nan_to_num(strange), 0))

        return np.stack(rows)

    def find_wrong_languages(self, sources: Sequence[str], targets: Sequence[str]) -> Floats:
        """Return how strange the stranger side of each pair is for its language, 0 where it is not."""
        if not self.tells_apart:
            return np.zeros(len(sources))
        strange = self._measure_strangeness(_list_telling_words(sources, targets)).max(axis=0)
        return np.where(strange > STRANGE, strange, 0)


_LETTER = np.array([chr(code).isalpha() for code in range(0x10000)])


def _trigrams(texts: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the hashed trigrams of letters of all texts, and the text that each is in."""
    letters = "\n".join(texts).lower().encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(letters, np.uint32).astype(np.int64)
    line = np.cumsum(codes == 10) if len(codes) else codes
    # Every character that is not a letter ends a word; beyond the first plane there
    # are hardly any letters but rare Chinese ones.
    codes = np.where(_LETTER[np.minimum(codes, 0xFFFF)] | (codes > 0x1FFFF), codes, 32)
    if len(codes) < 3:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys = codes[:-2] * 0x9E3779B1 + codes[1:-1] * 0x85EBCA77 + codes[2:] * 0xC2B2AE3D
    keys &= 0xFFFFFFFF
    hashed = ((keys * 0x27D4EB2F) & 0xFFFFFFFF) >> (32 - TRIGRAM_BITS)
    # Trigrams around a letter only.
    middle = codes[1:-1] != 32
    return hashed[middle], line[1:-1][middle]


# Spaces from which a line in capitals is a sentence, and not some abbreviations.
_SPACES_OF_A_SHOUT = 4
FEWEST_WORDS = 3  # words of a line whose language can be told; of fewer, each may be a foreign one
# First letters by which a word of the other side is the same word, perhaps in another form.
_SHARED_LETTERS = 5

# A word that touches no digit, and none of the signs of addresses, paths, commands and other code.
_WORD = re.compile(
    r"(?<![A-Za-z0-9_@\\/=#$&%+*^~|.'’-])[^\W\d_]+(?:['’-][^\W\d_]+)?(?![\d_@\\/=(^~|+]|[.'’-]\w)"
)


def find_telling_words(source: str, target: str) -> tuple[str, str]:
    """Return the words of both sides of a pair by which their languages can be told, "" where they are too few.

    Left out are markup and code; names, which have a capital inside a sentence, and abbreviations;
    and what both sides have: a name, a loan word, or a quotation in another language. Where all
    words of a side stand on the other, it is a copy, and they tell its language.

    >>> find_telling_words("Open the file in Visual Studio.", "Öffnen Sie die Datei in Visual Studio.")
    ('Open the file', '')
    """
    # Sentences in capitals have no names that could be told by them.
    texts = [source, target]
    if any(text.isupper() and text.count(" ") >= _SPACES_OF_A_SHOUT for text in texts):
        texts = [text.lower() for text in texts]
    sides = [_list_plain_words(text) for text in texts]

    words: list[set[str]] = []
    starts: list[set[str]] = []
    for side in sides:
        words.append({word.lower() for word in side})
        starts.append({word[:_SHARED_LETTERS] for word in words[-1]})

    telling = []
    for side, other in ((0, 1), (1, 0)):
        own = sides[side]
        if not words[side] <= words[other]:
            own = [word for word in own if word[:_SHARED_LETTERS].lower() not in starts[other]]
        telling.append(" ".join(own) if _count_words(own) >= FEWEST_WORDS else "")
    return telling[0], telling[1]


def _count_words(words: Sequence[str]) -> int:
    """Return the number of words; in scripts without capitals, which may lack spaces, two letters are one word."""
    return sum(1 if word.lower() != word.upper() else (len(word) + 1) // 2 for word in words)


def _list_telling_words(
    sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[str], list[str]]:
    pairs = list(map(find_telling_words, sources, targets))
    return [source for source, _ in pairs], [target for _, target in pairs]


def _list_plain_words(text: str) -> list[str]:
    """Return the words of a text without its markup and code, and without names and abbreviations."""
    if "<" in text:
        text = TAG.sub(" ", text)
    if PROTECTED_SIGN.search(text):
        parts, place = [], 0
        for match in find_protected(text):
            parts.append(text[place : match.start()])
            place = match.end()
        text = " ".join([*parts, text[place:]])

    words = _WORD.findall(text)
    # Any first word has a capital; a word with a capital inside is a name or an abbreviation.
    plain: list[str] = []
    for place, word in enumerate(words):
        has_capital = word[0] != word[0].lower() and place > 0
        if not has_capital and word[1:] == word[1:].lower():
            plain.append(word)
    return plain
