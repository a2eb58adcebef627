"""Sentences with a wish: what a word should read more than what, and how many heads of a model do as wished.

The gallery is `probes.toml`; a file of one's own has the same form. What a head does by chance is told beside it.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from itertools import pairwise
from math import comb, factorial, prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from pellucid.inspect.attention import attention_mask, values_through_output
from pellucid.inspect.word_axes import PieceGroup, WordAxis, attention_axes, merge_words, strip_word
from pellucid.model import ModelConfig
from pellucid.trace.edits import attention_names
from pellucid.trace.trace import Trace

GALLERY = Path(__file__).with_name("probes.toml")

KINDS = ("weights", "norms")
"""The attention itself, and how far it moves the row: weight times |v W_O| (Kobayashi et al. 2020), as shares."""

PLACES = {
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "cross-attention",
}

DRAWS = 20_000
"""Random rows that a chance is counted in where words have several pieces."""

LARGEST_FILE = 2**20
"""Bytes of a file of probes."""

TraceFor = Callable[[str, str, list[str]], Trace]
"""A trace of a sentence and a translation that keeps these tensors."""


@dataclass(frozen=True)
class Probe:
    """One wish. Either `word` should read each rank of `order` more than the next, every word of a rank; or each word
    of `differ` should read most another word.
    """

    name: str
    sentence: str
    where: str = "encoder"
    target: str = ""
    word: str = ""
    order: tuple[tuple[str, ...], ...] = ()
    differ: tuple[str, ...] = ()
    why: str = ""
    article: tuple[str, ...] = ()

    @property
    def readers(self) -> tuple[str, ...]:
        """The words that read."""
        return self.differ or (self.word,)

    @property
    def wish(self) -> str:
        """It in a sentence."""
        if self.differ:
            return f"each of {', '.join(self.differ)} should read most another word"
        ranks = [" and ".join(rank) for rank in self.order]
        return f"{self.word} should read {' more than '.join(ranks)}"


@dataclass(frozen=True)
class ProbedHead:
    """What one head does: whether as wished, by how much, and what each reader reads of each word.

    `margin` is the smallest difference between a word and one of the next rank; of `differ` the mean distance between
    two readers' rows, half the sum of absolute differences. It is above 0 where an order is as wished.
    """

    attention: str
    head: int
    wished: bool
    margin: float
    shares: list[list[float]]


@dataclass(frozen=True)
class JudgedHeads:
    """All heads, by weights or by norms: `mean` is the mean of their shares, judged as if it were a head."""

    kind: str
    heads: list[ProbedHead]
    mean: ProbedHead

    @property
    def count(self) -> int:
        """Heads that do as wished."""
        return sum(head.wished for head in self.heads)

    @property
    def best(self) -> ProbedHead:
        """The head that does it most."""
        return max(self.heads, key=lambda head: (head.wished, head.margin))

    def by_attention(self) -> dict[str, list[ProbedHead]]:
        """The heads of each attention."""
        found: dict[str, list[ProbedHead]] = {}
        for head in self.heads:
            found.setdefault(head.attention, []).append(head)
        return found


@dataclass(frozen=True)
class ProbeResult:
    """What came of a probe. `chance` is how often a head of random weights does as wished."""

    probe: Probe
    readers: list[str]
    words: list[str]
    ranks: list[list[int]]
    """Which of `words` the order names, rank by rank; none for `differ`."""
    judged: list[JudgedHeads]
    chance: float
    notes: list[str] = field(default_factory=list)

    @property
    def wanted(self) -> list[int]:
        """The words of all ranks, most wanted first."""
        return [n for rank in self.ranks for n in rank]

    @property
    def by_chance(self) -> float:
        """How likely as many heads or more would do so by chance, if heads were independent; by weights."""
        weights = self.judged[0]
        return binomial_tail(weights.count, len(weights.heads), self.chance)

    @property
    def beyond_chance(self) -> bool:
        """Whether more heads do as wished than chance explains."""
        return self.by_chance < 0.05

    @property
    def verdict(self) -> str:
        """In a sentence what this model does."""
        weights, norms = self.judged
        total = len(weights.heads)
        does = "this model does" if weights.mean.wished else "this model does not"
        more = "more than chance explains" if self.beyond_chance else "no more than chance explains"
        by_norms = (
            ""
            if norms.mean.wished == weights.mean.wished
            else (f"; by norms it {'does' if norms.mean.wished else 'does not'}")
        )
        return (
            f"{does} in the mean of all heads{by_norms}; {weights.count} of {total} heads do, "
            f"{self.chance * total:.1f} would by chance: {more}"
        )


def read_gallery() -> list[Probe]:
    """The probes that come with this package."""
    return read_probes(GALLERY)


def read_probes(path: str | Path) -> list[Probe]:
    """The probes of a file, all its mistakes in one ValueError."""
    size = Path(path).stat().st_size
    if size > LARGEST_FILE:
        raise ValueError(f"{path} has {size:,} bytes; a file of probes has at most {LARGEST_FILE:,}")
    try:
        tables = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from None
    written = tables.get("probe")
    if set(tables) != {"probe"} or not isinstance(written, list) or not written:
        raise ValueError(
            f"{path} has no probes: each one begins with the line [[probe]], and nothing else stands there"
        )
    found, problems = [], []
    for number, table in enumerate(written, start=1):
        called = table.get("name") if isinstance(table, dict) else None
        where = f"probe {number}" + (f" ({called:.40})" if isinstance(called, str) else "")
        wrong = [f"{where}: {each}" for each in probe_problems(table)]
        problems += wrong
        if not wrong:
            found.append(probe_from_table(table))
    names = [each.name for each in found]
    problems += [f"two probes are called {name!r:.60}" for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        raise ValueError(f"{path}: {'; '.join(problems)}")
    return found


def probe_from_table(table: Mapping[str, Any]) -> Probe:
    """A table that has been looked at."""
    lists = {key: tuple(table.get(key, ())) for key in ("differ", "article")}
    order = tuple((each,) if isinstance(each, str) else tuple(each) for each in table.get("order", ()))
    return Probe(**{**table, **lists, "order": order})


def probe_problems(table: object) -> list[str]:
    """What is wrong with one table of a file; nothing if it is a probe."""
    if not isinstance(table, dict):
        return [f"it is {table!r:.40}, a table is expected under [[probe]]"]
    known = [each.name for each in fields(Probe)]
    found = []
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            found.append(
                f"unknown key {key!r:.40}"
                + (f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(known)})")
            )
    for key in ("name", "sentence", "where", "target", "word", "why"):
        value = table.get(key, "-")
        if not isinstance(value, str) or (key not in ("why", "target") and not value.strip()) or "\n" in value:
            found.append(f"{key} is {value!r:.40}, a line of text is expected")
    found += [f"{key} is missing" for key in ("name", "sentence") if key not in table]
    for key in ("differ", "article"):
        if key in table and not is_words(table[key]):
            found.append(f"{key} is {table[key]!r:.40}, a list of words is expected")
    if "order" in table and not is_order(table["order"]):
        found.append(f"order is {table['order']!r:.60}; expected are words, or lists of words of one rank")
    return found or wish_problems(table)


def is_words(value: object) -> bool:
    """Whether it is a list of texts, not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) and each.strip() for each in value)


def is_order(value: object) -> bool:
    """Whether it is a list of words and lists of them."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_words([each] if isinstance(each, str) else each) for each in value)
    )


def wish_problems(table: Mapping[str, Any]) -> list[str]:
    """What is wrong with a table whose values are of the right kinds."""
    probe = probe_from_table(table)
    if probe.where not in PLACES:
        return [f"where is {probe.where!r:.40}, it must be {', '.join(PLACES)}"]
    if (probe.where == "encoder") == bool(probe.target.strip()):
        needed = (
            "is for decoder and cross only" if probe.target.strip() else f"is missing: {probe.where} reads from one"
        )
        return [f"target {needed}"]
    if bool(probe.differ) == bool(probe.word or probe.order) or bool(probe.word) != bool(probe.order):
        return ["it needs a word and an order, or else words to differ"]
    wanted = [word for rank in probe.order for word in rank]
    if probe.order and len(probe.order) < 2:
        return ["order has one rank; name what should be read less, too"]
    if len(probe.differ) == 1 or len(set(wanted or probe.differ)) < len(wanted or probe.differ):
        return ["it names a word twice, or one alone"]
    reading, sentence = (probe.sentence if probe.where == "encoder" else probe.target), probe.sentence
    read = probe.target if probe.where == "decoder" else sentence
    return [
        f"{word!r:.40} is not in {text!r:.80}" + hint
        for word, text in [*((each, reading) for each in probe.readers), *((each, read) for each in wanted)]
        if (hint := explain_missing_word(word, text)) is not None
    ]


def explain_missing_word(word: str, text: str) -> str | None:
    """What to say of a word that is not in a text, or stands there several times; None if it is there once."""
    groups = [PieceGroup(strip_word(each), (n,), (), "word", unknown=False) for n, each in enumerate(text.split())]
    try:
        WordAxis([], groups).find(word)
    except ValueError as error:
        return f": {error}" if "times" in str(error) else ""
    return None


def attentions_of_probe(probe: Probe, config: ModelConfig) -> list[str]:
    """Where a probe is looked at: every attention of its place that has a head."""
    stack, part = ("decoder", "cross") if probe.where == "cross" else (probe.where, "self")
    names = [name for name in attention_names(config) if name.startswith(stack) and name.endswith(part)]
    return [name for name in names if config.heads_in(name)]


def run_probe(probe: Probe, ask: TraceFor, config: ModelConfig) -> ProbeResult:
    """What the heads of a model do. ValueError, naming the probe, for a model without heads there, for a sentence that
    is too long for it, and for a word that has no piece of its own.
    """
    names = attentions_of_probe(probe, config)
    if not names:
        raise ValueError(f"probe {probe.name!r}: this model has no heads in the {PLACES[probe.where]}")
    try:
        trace = ask(
            probe.sentence, probe.target, [f"{name}.{each}" for name in names for each in ("pattern", "allowed", "v")]
        )
        queries, keys = attention_axes(trace, names[0], "input" if probe.where == "decoder" else "output")
        readers = [queries.find(word) for word in probe.readers]
        ranks = [[keys.find(word) for word in rank] for rank in probe.order]
    except ValueError as error:
        raise ValueError(f"probe {probe.name!r}: {error}") from None
    may = merge_words(attention_mask(trace, names[0])[None].astype(float), queries, keys)[0][readers] > 0.0
    wanted = [n for rank in ranks for n in rank]
    if unread := [n for n in wanted if not may[:, n].all()]:
        raise ValueError(
            f"probe {probe.name!r}: {probe.word!r} cannot read {keys.groups[unread[0]].label!r}, which stands later"
        )
    words = [n for n, group in enumerate(keys.groups) if group.kind == "word"]
    rows = {kind: reading_shares(trace, names, kind, queries, keys, readers) for kind in KINDS}
    judged = [judge_heads(kind, found, ranks, words) for kind, found in rows.items()]
    sizes = np.array([len(group.places) for group in keys.groups])
    return ProbeResult(
        probe,
        [queries.groups[n].label for n in readers],
        [group.label for group in keys.groups],
        ranks,
        judged,
        chance_of_wish(sizes, ranks, words, len(readers), may),
        word_notes([queries.groups[n] for n in readers] + [keys.groups[n] for n in wanted]),
    )


def reading_shares(
    trace: Trace, names: Sequence[str], kind: str, queries: WordAxis, keys: WordAxis, readers: Sequence[int]
) -> dict[str, Float[np.ndarray, "H R W"]]:
    """Of each attention what these words read of each word, by every head."""
    found = {}
    for name in names:
        values = trace.values_of(f"{name}.pattern").astype(np.float64)
        if kind == "norms":
            values = values * np.linalg.norm(values_through_output(trace, name), axis=-1)[:, None]
        rows = merge_words(values, queries, keys)[:, list(readers)]
        total = rows.sum(axis=-1, keepdims=True)
        found[name] = np.divide(rows, total, out=np.zeros_like(rows), where=total > 0.0)
    return found


def judge_heads(
    kind: str, rows: Mapping[str, Float[np.ndarray, "H R W"]], ranks: Sequence[Sequence[int]], words: Sequence[int]
) -> JudgedHeads:
    """Every head of these attentions, and their mean."""
    heads = [
        judge_head(name, number, shares, ranks, words) for name, of in rows.items() for number, shares in enumerate(of)
    ]
    mean = np.concatenate(list(rows.values())).mean(axis=0)
    return JudgedHeads(kind, heads, judge_head("mean of all heads", -1, mean, ranks, words))


def judge_head(
    attention: str, number: int, shares: Float[np.ndarray, "R W"], ranks: Sequence[Sequence[int]], words: Sequence[int]
) -> ProbedHead:
    """One head."""
    wished = bool(does_as_wished(shares[None], ranks, words)[0])
    if ranks:
        [row] = shares
        margin = min(float(row[more] - row[less]) for a, b in pairwise(ranks) for more in a for less in b)
    else:
        pairs = [(a, b) for a in range(len(shares)) for b in range(a)]
        margin = float(np.mean([np.abs(shares[a] - shares[b]).sum() / 2 for a, b in pairs]))
    return ProbedHead(attention, number, wished, margin, shares.tolist())


def does_as_wished(
    shares: Float[np.ndarray, "N R W"], ranks: Sequence[Sequence[int]], words: Sequence[int]
) -> Bool[np.ndarray, " N"]:
    """Whether each head reads every word of a rank more than every word of the next; or, without ranks, whether no two
    readers read the same word most, of the words there are.
    """
    if ranks:
        row = shares[:, 0]
        apart = [row[:, a].min(axis=1) - row[:, b].max(axis=1) for a, b in pairwise(ranks)]
        return np.min(apart, axis=0) > 0.0
    most = np.sort(shares[:, :, words].argmax(axis=2), axis=1)
    return np.diff(most, axis=1).min(axis=1) > 0


def chance_of_wish(
    sizes: np.ndarray, ranks: Sequence[Sequence[int]], words: Sequence[int], readers: int, may: Bool[np.ndarray, "R W"]
) -> float:
    """How often weights drawn evenly (every way to share 1 among the pieces is as likely) would be as wished.

    A word of several pieces is read by chance more than one of a single piece, for its pieces are added up. Exact where
    the words that count have the same number of pieces: among words alike, every order is as likely as another.
    """
    counted = [n for rank in ranks for n in rank] or [n for n in words if may[:, n].any()]
    if len(set(sizes[counted])) == 1 and may[:, counted].all():
        if ranks:
            return prod(factorial(len(rank)) for rank in ranks) / factorial(len(counted))
        return prod((len(counted) - n) / len(counted) for n in range(readers))
    # Evenly drawn shares are exponential numbers divided by their sum; that of several pieces is a gamma number.
    draw = np.random.default_rng(1)
    shares = draw.gamma(sizes, size=(DRAWS, readers, len(sizes))) * may
    return float(does_as_wished(shares, ranks, words).mean())


def binomial_tail(count: int, total: int, chance: float) -> float:
    """How likely `count` or more of `total` are, each by this chance.

    >>> binomial_tail(1, 2, 0.5), binomial_tail(0, 9, 0.1)
    (0.75, 1.0)
    """
    return 1.0 - sum(comb(total, n) * chance**n * (1.0 - chance) ** (total - n) for n in range(count))


def word_notes(groups: Sequence[PieceGroup]) -> list[str]:
    """What to know of the words of a probe: which the vocabulary cannot spell, and which it cuts."""
    found = []
    for group in dict.fromkeys(groups):
        spelled = " ".join(group.pieces)
        if group.unknown:
            found.append(f"the vocabulary has no piece for all of {group.label}: it reads {spelled}")
        elif len(group.pieces) > 1:
            found.append(f"{group.label} is cut into {len(group.pieces)} pieces: {spelled}")
    return found
