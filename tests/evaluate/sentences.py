"""Sentences of a small language, and translations of them with as many wrong words as a test needs."""

import random

WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "house",
    "runs",
    "sees",
    "big",
    "ball",
    "water",
    "drinks,",
    "red.",
    "blue!",
    "ñandú",
    "über",
]


def make_references(n: int, seed: int) -> list[str]:
    """Return `n` sentences of 0 to 14 words; a few are empty."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, 14))) for _ in range(n)]


def mistranslate(lines: list[str], wrong: float, seed: int) -> list[str]:
    """Return the lines, in which each word is left out, doubled or replaced with probability `wrong`."""
    draw = random.Random(seed)

    def spoil_word(word: str) -> list[str]:
        if draw.random() >= wrong:
            return [word]
        return draw.choice([[], [word, word], [draw.choice(WORDS)]])

    return [" ".join(spoiled for word in line.split() for spoiled in spoil_word(word)) for line in lines]
