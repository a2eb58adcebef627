"""A search as values: settings, a request, batches of like length, hypotheses, and the protocol of every engine."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from math import inf, isfinite
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    TypedDict,
    TypeVar,
    get_type_hints,
    runtime_checkable,
)

from pellucid.cpu import give_way

# The type that a value of each setting type must have, abstract so that NumPy's numbers are
# accepted too, and its name in messages.
SETTING_TYPES = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
}


BLOCK = 2048
"""Lines of a file that are translated together."""

Result = TypeVar("Result")


class SearchOptions(TypedDict, total=False):
    """The fields of `SearchConfig` as keyword arguments, for type checkers and completion.

    A test keeps them equal.
    """

    method: Literal["beam", "greedy", "sample"]
    beam: int
    n_best: int
    length_penalty: float
    max_extra: int
    batch: int
    batch_tokens: int
    temperature: float
    top_k: int
    top_p: float
    seed: int
    too_long: Literal["split", "refuse"]
    sentences: Literal["auto", "split", "keep"]
    reading: Literal["adapt", "keep"]
    repetition: Literal["retry", "keep"]
    empty: Literal["retry", "keep"]
    markup: Literal["keep", "text"]
    alignments: bool
    provenance: bool
    scores: bool


@dataclass(frozen=True)
class SearchConfig:
    """Settings of a search. Raises ValueError, naming every problem at once."""

    method: Annotated[
        Literal["beam", "greedy", "sample"],
        "keep the best hypotheses, take the likeliest piece, or draw one",
    ] = "beam"
    beam: Annotated[int, "hypotheses of each sentence kept at a time (paper: 4)"] = 4
    n_best: Annotated[int, "translations of each line: at most the beam; with sampling, any number of draws"] = 1
    length_penalty: Annotated[float, "alpha: a score is log-probability / ((5 + pieces) / 6)^alpha (paper: 0.6)"] = 1.0
    max_extra: Annotated[int, "how many pieces more than its source a translation may have, the end token included"] = (
        50
    )
    batch: Annotated[int, "lines translated at a time; 0: as many as suit the engine"] = 0
    batch_tokens: Annotated[int, "source pieces translated at a time, padding counted"] = 16_384
    temperature: Annotated[float, "sampling: below 1 sharpens the distribution, above 1 flattens it"] = 1.0
    top_k: Annotated[int, "sampling: draw from the likeliest k pieces; 0: from all"] = 0
    top_p: Annotated[float, "sampling: draw from the likeliest pieces that together reach this probability"] = 1.0
    seed: Annotated[int, "sampling: the same seed draws the same translations"] = 1
    too_long: Annotated[
        Literal["split", "refuse"],
        "a line longer than the model takes: translate its sentences, or refuse it",
    ] = "split"
    sentences: Annotated[
        Literal["auto", "split", "keep"],
        "several sentences in a line: translate as many together as the model has learned, each by itself (split), or "
        "all together (keep)",
    ] = "auto"
    reading: Annotated[
        Literal["adapt", "keep"],
        "text in capitals, between marks, with spellings that the training text did not have or misspelled words: "
        "read it as that text has it and give its translation the form back (adapt), or read it as it is (keep)",
    ] = "adapt"
    repetition: Annotated[
        Literal["retry", "keep"],
        "a translation that repeats itself over and over: search again, or keep it",
    ] = "retry"
    empty: Annotated[
        Literal["retry", "keep"],
        "a translation without a single piece: search for the likeliest one that has some, or keep it",
    ] = "retry"
    markup: Annotated[
        Literal["keep", "text"],
        "tags, URLs, placeholders, code: carry them over as they are, or translate them as text",
    ] = "keep"
    alignments: Annotated[bool, "say which words of the source each word of the translation was read from"] = False
    provenance: Annotated[
        bool,
        "say for each word of a translation whether the model, a term or a unit of the memory wrote it; lines with "
        "terms or similar units are translated once more without them",
    ] = False
    scores: Annotated[bool, "say how likely the translation is; without this a greedy search is faster"] = True

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "SearchConfig":
        """Make a config from options by name.

        Raises ValueError for an unknown name, with the nearest known one.
        """
        refuse_unknown_options(options, [setting.name for setting in fields(cls)])
        return cls(**options)

    def __post_init__(self) -> None:
        # Types first: comparing a string with a number would raise a TypeError below. True is an
        # int to Python.
        wrong_types = []
        for name, (kind, expected) in _setting_types().items():
            value = getattr(self, name)
            is_number_as_bool = kind is not bool and isinstance(value, bool)
            if is_number_as_bool or not isinstance(value, kind):
                wrong_types.append(f"{name} is {value!r}, it must be {expected}")

        if wrong_types:
            raise ValueError("invalid search settings: " + "; ".join(wrong_types))

        # A beam below 1 limits nothing: only the beam is wrong then.
        max_n_best = self.beam if self.method == "beam" and self.beam >= 1 else 1 if self.method == "greedy" else inf
        rules = (
            ("method", self.method in ("beam", "greedy", "sample"), "beam, greedy or sample"),
            ("beam", self.beam >= 1, "1 or more"),
            (
                "n_best",
                1 <= self.n_best <= max_n_best,
                f"from 1 to {max_n_best} with method = {self.method!r}",
            ),
            ("length_penalty", 0 <= self.length_penalty < inf, "0 or more"),
            ("max_extra", self.max_extra >= 1, "1 or more"),
            ("batch", self.batch >= 0, "0 or more"),
            ("batch_tokens", self.batch_tokens >= 1, "1 or more"),
            ("temperature", 0 < self.temperature < inf, "above 0; for 0 take method = 'greedy'"),
            ("top_k", self.top_k >= 0, "1 or more, or 0 for no limit"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("seed", self.seed >= 0, "0 or more"),
            ("too_long", self.too_long in ("split", "refuse"), "split or refuse"),
            ("sentences", self.sentences in ("auto", "split", "keep"), "auto, split or keep"),
            ("reading", self.reading in ("adapt", "keep"), "adapt or keep"),
            ("repetition", self.repetition in ("retry", "keep"), "retry or keep"),
            ("empty", self.empty in ("retry", "keep"), "retry or keep"),
            ("markup", self.markup in ("keep", "text"), "keep or text"),
        )
        problems = []
        for name, is_valid, expected in rules:
            if not is_valid:
                problems.append(f"{name} is {getattr(self, name)!r}, it must be {expected}")

        if problems:
            raise ValueError("invalid search settings: " + "; ".join(problems))


@cache
def _setting_types() -> dict[str, tuple[type, str]]:
    """Return the type of each setting that is not a choice between words, and the name of the type in messages."""
    # Cached: resolving the type hints of a class takes longer than all checks together.
    return {name: SETTING_TYPES[hint] for name, hint in get_type_hints(SearchConfig).items() if hint in SETTING_TYPES}


def refuse_unknown_options(options: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError for options that are not among the known ones, each with the nearest known name.

    >>> refuse_unknown_options(["num_beams"], ["beam", "n_best"])
    Traceback (most recent call last):
    ValueError: unknown option 'num_beams'; did you mean 'beam'? (known: beam, n_best)
    """
    from pellucid.config import suggest_nearest

    problems = []
    for name in options:
        if name not in known:
            # A name with one of ours in it comes first: num_beams looks more like n_best than like
            # beam.
            suggestion = suggest_nearest(name, [option for option in known if option in name] or known)
            problems.append(f"unknown option {name!r}{suggestion}")

    if problems:
        raise ValueError(f"{'; '.join(problems)} (known: {', '.join(known)})")


def continue_always() -> None:
    """Let a search go on; who wants to stop one gives its request a function that raises an exception instead."""
    give_way()


@dataclass(frozen=True)
class SearchRequest:
    """One sentence to translate, as token ids.

    `source` ends with EOS. `number` is the number of its line, counted from 1, and `segment` the
    number of the sentence in a line that was split, counted from 0: the draws of sampling depend on
    them. The translation begins with `prefix`, has no `no_repeat` tokens in a row twice, and with
    `not_empty` at least one token.
    """

    source: list[int]
    number: int
    prefix: tuple[int, ...] = ()
    no_repeat: int = 0
    not_empty: bool = False
    segment: int = 0
    # Called before each batch and between the steps of a search; what it raises ends the whole
    # translation.
    check_wanted: Callable[[], None] = field(default=continue_always, compare=False, repr=False)

    @property
    def search_key(self) -> Hashable:
        """Everything that the result of a beam or greedy search depends on."""
        # `number` and `segment` only seed sampling, so equal sentences of other lines share one
        # search.
        return tuple(self.source), self.prefix, self.no_repeat, self.not_empty


@dataclass(frozen=True)
class SearchBounds:
    """Limits that every engine keeps: tokens of the longest text the model takes, and ids that are never written."""

    longest: int
    forbidden: tuple[int, ...]

    def max_pieces(self, request: SearchRequest, config: SearchConfig) -> int:
        """Return how many tokens the translation of a request may have at most, EOS included."""
        return min(len(request.source) - 1 + config.max_extra, self.longest)  # - 1: the EOS of the source


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search: `log_probs` has a number for each of `tokens`, and one for EOS if it stopped at "eos".

    An engine that knows only their sum leaves `log_probs` empty. `log_prob` is the sum (natural
    logarithm), `score` is the sum divided by the length penalty. `margin` says how near, in
    log-probability or score, the search for this sentence came to another outcome.
    """

    tokens: list[int]
    score: float
    log_prob: float
    stop: Literal["eos", "length"]
    log_probs: list[float]
    # A margin says something about the search, not about the text: it takes no part in equality.
    margin: float = field(default=inf, compare=False)


# Pairs of a source word and a target word, sorted; words are split at white space and counted from
# 0.
Links = list[tuple[int, int]]


def length_divisor(length: Any, alpha: float) -> Any:
    """Return ((5 + n) / 6) ^ alpha, which divides a log-probability (Wu et al. 2016, equation 14; paper, 6.1).

    n counts the tokens written, EOS included; it may be a number or a tensor.

    >>> length_divisor(1, 0.6), length_divisor(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** alpha


def require_finite(log_prob: float, text: str) -> float:
    """Return a log-probability, or raise ValueError, naming the text it belongs to, if it is infinite or NaN."""
    if not isfinite(log_prob):
        raise ValueError(f"the model gives {text} the log-probability {log_prob}, where a finite number is expected")
    return log_prob


# Difference in log-probability below which float32 rounding may decide: several times the largest
# that was seen.
CLOSE_CALL = 1e-4


@runtime_checkable
class Engine(Protocol):
    """Searches for translations.

    `batch_size` is the number of sentences in a batch at which it is fastest.
    """

    batch_size: int

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, best first: at least one, at most `config.n_best`."""
        ...

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """Search batch by batch, in order; several run at the same time where that is faster."""
        ...


def batch_by_length(lengths: Mapping[int, int], sentences: int, tokens: int) -> Iterator[list[int]]:
    """Yield the keys of `lengths` in batches, longest first, of at most `sentences` keys and `tokens` with padding.

    A batch has at least one key, however long.

    >>> list(batch_by_length({10: 2, 11: 5, 12: 2, 13: 4, 14: 1}, sentences=3, tokens=9))
    [[11], [13, 10], [12, 14]]
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        # The first of a batch is its longest, so every row is padded to that length.
        count = max(1, min(sentences, tokens // lengths[order[start]]))
        yield order[start : start + count]
        start += count


def map_in_batches(
    function: Callable[..., Iterable[Result]],
    rows: Sequence[tuple[Any, ...]],
    lengths: Sequence[int],
    sentences: int,
) -> list[Result]:
    """Return a result for each row, in order.

    The function is given the columns of a batch of rows of like length.
    """
    results: dict[int, Result] = {}
    # Each position holds numbers for the whole vocabulary, or for all heads: hence the small
    # budget.
    for batch in batch_by_length(dict(enumerate(lengths)), sentences, tokens=4096):
        batch_rows = [rows[i] for i in batch]
        columns = map(list, zip(*batch_rows, strict=True))
        results.update(zip(batch, function(*columns), strict=True))
    return [results[i] for i in range(len(rows))]


def refuse_long_lines(side: str, pieces: Mapping[int, int], limit: int) -> None:
    """Raise ValueError if a line has more pieces than the model takes.

    `pieces` has the count of each line number.
    """
    too_long = [f"line {number} has {count}" for number, count in pieces.items() if count > limit]
    if not too_long:
        return

    listing = ", ".join(too_long[:5])
    if len(too_long) > 5:
        listing += f", and {len(too_long) - 5} more lines are too long"
    raise ValueError(f"{side}: this model takes {limit} pieces a line, {listing}; split them into sentences")
