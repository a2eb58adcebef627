"""Sentences of a small language, and translations of them that are wrong as often as one likes."""

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


def references(n: int, seed: int) -> list[str]:
    """`n` sentences of 0 to 14 words; a few are empty."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, 14))) for _ in range(n)]


def translated(lines: list[str], wrong: float, seed: int) -> list[str]:
    """The lines, each word with probability `wrong` left out, said twice or replaced."""
    draw = random.Random(seed)

    def spoilt(word: str) -> list[str]:
        if draw.random() >= wrong:
            return [word]
        return draw.choice([[], [word, word], [draw.choice(WORDS)]])

    return [" ".join(each for word in line.split() for each in spoilt(word)) for line in lines]
