"""Compares the numbers of a text with the numbers of its translation."""

import re
import unicodedata
from collections import Counter
from itertools import chain

_DIGIT = re.compile(r"\d")
# With a space before each three digits, or with other separators: 40 000, 1,250.50, 1'000, 12:30.
_NUMBER = re.compile(
    r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’\u00a0\u202f]\d+|:\d\d)*"
)
_NO_DIGIT = re.compile(r"\D")
_TIME = re.compile(r"([01]?\d|2[0-4]):[0-5]\d")
_EMPTY_END = re.compile(r"(?<=\d)[.,:]00\Z")  # 200.00 and 5:00 are 200 and 5
_MYRIADS = re.compile("[万萬億亿만억]")  # ten thousands and their like: 120万 is 1.2 million


def count_differing_numbers(source: str, target: str) -> float:
    """Return how many numbers differ.

    Separators do not count (1,000.5 is 1.000,5 elsewhere), nor do small numbers and times of day
    that one side may have in words, nor a year without its century, thousands in words, twelve
    hours more, or in which script the digits are.

    >>> count_differing_numbers("It costs 1,250.50 in 2 towns.", "Es kostet 1.250,50 in zwei Orten.")
    0.0
    >>> count_differing_numbers("In 1984 it was 12.", "1985 waren es 12.")
    2.0
    """
    if not (_DIGIT.search(source) or _DIGIT.search(target)):
        return 0
    times = set[str]()
    a, b = (Counter(_read_numbers(text, times)) for text in (source, target))
    left, right = a - b, b - a
    if left and right:
        zeros = 1 if _MYRIADS.search(source) or _MYRIADS.search(target) else 2
        unlike = [x for x in left if not any(_is_one_number(x, y, zeros) for y in right)]
        return float(sum(left[x] for x in unlike) + right.total()) if unlike else 0

    lone = chain(left.items(), right.items())
    return float(sum(count for number, count in lone if len(number) > 2 and number not in times))


def _read_numbers(text: str, times: set[str]) -> list[str]:
    """Return each number of a text as digits of ASCII; the digits of a time of day are also added to `times`.

    >>> _read_numbers("1.250,50, 40 000, ١٢ and 2:30", set())
    ['125050', '40000', '12', '230']
    """
    numbers = list[str]()
    for written in _NUMBER.findall(text):
        digits = _NO_DIGIT.sub("", _EMPTY_END.sub("", written))
        if not digits.isascii():
            digits = "".join(str(unicodedata.digit(digit, 0)) for digit in digits)
        digits = digits.lstrip("0") or "0"
        numbers.append(digits)
        if _TIME.fullmatch(written):
            times.add(digits)

    return numbers


def _is_one_number(a: str, b: str, zeros: int) -> bool:
    """Whether two numbers may be one: a year, thousands in words, or an hour counted to 12 on one side only.

    >>> [_is_one_number(*pair, zeros=2) for pair in (("1984", "84"), ("500", "500000"), ("7", "19"), ("25", "5"))]
    [True, True, True, False]
    """
    short, long = sorted((a, b), key=len)
    if len(short) == 2 and len(long) == 4 and long.endswith(short):
        return True
    rest = long[len(short) :]
    if len(rest) >= zeros and long.startswith(short) and not rest.strip("0"):
        return True
    smaller, larger = sorted((int(a), int(b)))
    is_hour = larger - smaller == 12 and smaller < 12
    return is_hour or (larger - smaller == 1200 and 100 <= smaller < 1200)
