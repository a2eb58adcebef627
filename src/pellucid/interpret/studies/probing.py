"""Probes: sentences in which a word should read some words more than others, and the number of heads that do so.

The gallery is `probes.toml`. Results come with what a head does by chance.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb, factorial, prod
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from pellucid.interpret.studies.attention_tables import attention_mask, values_through_output
from pellucid.interpret.studies.word_axes import (
    PieceGroup,
    WordAxis,
    attention_axes,
    merge_words,
    readable_words,
)
from pellucid.interpret.trace.edits import attention_names
from pellucid.interpret.trace.session import Trace
from pellucid.model import ModelConfig

# Attention weights; or weight times |v W_O| (Kobayashi et al. 2020), as shares.
KINDS = ("weights", "norms")

PLACES = {
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "cross-attention",
}

DRAWS = 20_000  # random rows from which a chance is estimated where words have several pieces
TraceFor = Callable[..., Trace]  # traces a sentence, with a `target` and tensors to `keep`, as `Model.trace` does


@dataclass(frozen=True)
class Probe:
    """Wish for one sentence.

    Either `word` should read each rank of `order` more than the next, every word of a rank; or each
    word of `differ` should read most another word.
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
        return self.differ or (self.word,)

    @property
    def wish(self) -> str:
        if self.differ:
            return f"each of {', '.join(self.differ)} should read most another word"
        ranks = [" and ".join(rank) for rank in self.order]
        return f"{self.word} should read {' more than '.join(ranks)}"


@dataclass(frozen=True)
class ProbedHead:
    """Result of one head: whether it does as wished, by how much, and the share of each word for each reader.

    `margin` is the smallest difference between a word and one of the next rank; of `differ` the
    mean distance between two readers' rows, half the sum of absolute differences. It is above 0
    where an order is as wished.
    """

    attention: str
    head: int
    wished: bool
    margin: float
    shares: list[list[float]]


@dataclass(frozen=True)
class JudgedHeads:
    """All heads, by weights or by norms.

    `mean` is the mean of their shares, judged like one head.
    """

    kind: str
    heads: list[ProbedHead]
    mean: ProbedHead

    @property
    def count(self) -> int:
        return sum(head.wished for head in self.heads)

    @property
    def best_head(self) -> ProbedHead:
        return max(self.heads, key=lambda head: (head.wished, head.margin))

    def by_attention(self) -> dict[str, list[ProbedHead]]:
        heads_of: dict[str, list[ProbedHead]] = {}
        for head in self.heads:
            heads_of.setdefault(head.attention, []).append(head)
        return heads_of


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe; `chance` is how often a head of random weights does as wished."""

    probe: Probe
    readers: list[str]
    words: list[str]
    ranks: list[list[int]]  # indices among `words` of those that the order names, rank by rank; none for `differ`
    judged: list[JudgedHeads]
    chance: float
    notes: list[str] = field(default_factory=list)

    @property
    def ordered_words(self) -> list[int]:
        """The indices of the words of all ranks, in the order of the wish."""
        return [n for rank in self.ranks for n in rank]

    @property
    def by_chance(self) -> float:
        """The chance of as many heads or more, by weights, if heads were independent."""
        weights = self.judged[0]
        # heads of one model are not independent: this is a yardstick, no test
        return binomial_tail(weights.count, len(weights.heads), self.chance)

    @property
    def beyond_chance(self) -> bool:
        """Whether more heads do as wished than chance explains."""
        return self.by_chance < 0.05

    @property
    def verdict(self) -> str:
        weights, norms = self.judged
        total = len(weights.heads)
        does = "this model does" if weights.mean.wished else "this model does not"
        more = "more than chance explains" if self.beyond_chance else "no more than chance explains"
        by_norms = ""
        if norms.mean.wished != weights.mean.wished:
            by_norms = f"; by norms it {'does' if norms.mean.wished else 'does not'}"
        heads = f"{weights.count} of {total} heads do, {self.chance * total:.1f} would by chance"
        return f"{does} in the mean of all heads{by_norms}; {heads}: {more}"


def read_gallery() -> list[Probe]:
    """Read the probes that come with this package."""
    probes = []
    text = Path(__file__).with_name("probes.toml").read_text(encoding="utf-8")
    for table in tomllib.loads(text)["probe"]:
        order = []
        for rank in table.get("order", ()):
            # A rank of one word stands without brackets.
            order.append((rank,) if isinstance(rank, str) else tuple(rank))
        differ, article = tuple(table.get("differ", ())), tuple(table.get("article", ()))
        lists = {"order": tuple(order), "differ": differ, "article": article}
        probes.append(Probe(**{**table, **lists}))
    return probes


def run_probe(probe: Probe, make_trace: TraceFor, config: ModelConfig) -> ProbeResult:
    """Run a probe on the heads of a model.

    Raises ValueError, naming the probe, for a sentence that is too long for the model, and for a
    word that has no piece of its own.
    """
    stack, kind = (probe.where, "self")
    if probe.where == "cross":
        stack, kind = ("decoder", "cross")
    names = []
    for name in attention_names(config):
        if name.startswith(stack) and name.endswith(kind):
            names.append(name)

    try:
        # Only these tensors: a trace of a large model is much larger whole.
        trace = make_trace(
            probe.sentence,
            target=probe.target,
            sentences="keep",  # a probe may ask about an earlier sentence
            keep=[f"{name}.{tensor}" for name in names for tensor in ("pattern", "allowed", "v")],
        )

        queries, keys = attention_axes(trace, names[0])
        readers = [queries.find(word) for word in probe.readers]
        ranks: list[list[int]] = []
        for rank in probe.order:
            ranks.append([keys.find(word) for word in rank])
    except ValueError as error:
        raise ValueError(f"probe {probe.name!r}: {error}") from None

    readable = readable_words(attention_mask(trace, names[0]), queries, keys)[readers]
    ordered = [n for rank in ranks for n in rank]
    for n in ordered:
        if not readable[:, n].all():
            later = f"cannot read {keys.groups[n].label!r}, which stands later"
            raise ValueError(f"probe {probe.name!r}: {probe.word!r} {later}")

    # Readers that differ are compared by the words they
    # read most: a head may well rest on a full stop.
    words = [n for n, group in enumerate(keys.groups) if group.kind == "word"]
    judged = []
    for kind in KINDS:
        shares = _reading_shares(trace, names, kind, queries, keys, readers)
        judged.append(judge_heads(kind, shares, ranks, words))

    sizes = np.array([len(group.positions) for group in keys.groups])
    return ProbeResult(
        probe,
        readers=[queries.groups[n].label for n in readers],
        words=[group.label for group in keys.groups],
        ranks=ranks,
        judged=judged,
        chance=chance_of_wish(sizes, ranks, words, len(readers), readable),
        notes=_word_notes([queries.groups[n] for n in readers] + [keys.groups[n] for n in ordered]),
    )


def _reading_shares(
    trace: Trace,
    names: Sequence[str],
    kind: str,
    queries: WordAxis,
    keys: WordAxis,
    readers: Sequence[int],
) -> dict[str, Float[np.ndarray, "H R W"]]:
    """Return for each attention the share of each word for these readers, by every head."""
    shares = {}
    for name in names:
        values = trace.values_of(f"{name}.pattern").astype(np.float64)
        if kind == "norms":
            values = values * np.linalg.norm(values_through_output(trace, name), axis=-1)[:, None]
        # a length W_O v a piece: the weight alone does not say how far it moves the row
        rows = merge_words(values, queries, keys)[:, list(readers)]
        # shares again after the norms, so that both kinds can be compared
        total = rows.sum(axis=-1, keepdims=True)
        shares[name] = np.divide(rows, total, out=np.zeros_like(rows), where=total > 0.0)
    return shares


def judge_heads(
    kind: str,
    rows: Mapping[str, Float[np.ndarray, "H R W"]],
    ranks: Sequence[Sequence[int]],
    words: Sequence[int],
) -> JudgedHeads:
    """Judge every head of these attentions, and their mean."""
    heads = []
    for name, shares_of_heads in rows.items():
        for number, shares in enumerate(shares_of_heads):
            heads.append(_judge_head(name, number, shares, ranks, words))
    mean = np.concatenate(list(rows.values())).mean(axis=0)
    return JudgedHeads(kind, heads, _judge_head("mean of all heads", -1, mean, ranks, words))


def _judge_head(
    attention: str,
    number: int,
    shares: Float[np.ndarray, "R W"],
    ranks: Sequence[Sequence[int]],
    words: Sequence[int],
) -> ProbedHead:
    wished = bool(does_as_wished(shares[None], ranks, words)[0])
    if ranks:
        [row] = shares
        margin = min(float(row[a].min() - row[b].max()) for a, b in pairwise(ranks))
    else:
        distances = []
        for a in range(len(shares)):
            for b in range(a):
                distances.append(np.abs(shares[a] - shares[b]).sum() / 2)
        margin = float(np.mean(distances))
    return ProbedHead(attention, number, wished, margin, shares.tolist())


def does_as_wished(
    shares: Float[np.ndarray, "N R W"], ranks: Sequence[Sequence[int]], words: Sequence[int]
) -> Bool[np.ndarray, " N"]:
    """Whether each head reads every word of a rank more than every word of the next.

    Without ranks: whether no two readers read the same word most, of the words that exist.
    """
    if ranks:
        row = shares[:, 0]
        gaps = [row[:, a].min(axis=1) - row[:, b].max(axis=1) for a, b in pairwise(ranks)]
        return np.min(gaps, axis=0) > 0.0
    most_read = np.sort(shares[:, :, words].argmax(axis=2), axis=1)
    # sorted, so two readers of one word stand side by side with difference 0
    return np.diff(most_read, axis=1).min(axis=1) > 0


def chance_of_wish(
    sizes: np.ndarray,
    ranks: Sequence[Sequence[int]],
    words: Sequence[int],
    readers: int,
    readable: Bool[np.ndarray, "R W"],
) -> float:
    """Return how often weights drawn evenly (every way to share 1 among the pieces is as likely) would be as wished.

    Exact where the words that count have the same number of pieces: among words alike, every order
    is as likely as another.
    """
    compared = [n for rank in ranks for n in rank]
    if not ranks:
        compared = [n for n in words if readable[:, n].any()]
    # a word of several pieces is read by chance more
    # than one of a single piece: its pieces are added up
    if len(set(sizes[compared])) == 1 and readable[:, compared].all():
        if ranks:
            return prod(factorial(len(rank)) for rank in ranks) / factorial(len(compared))
        return prod((len(compared) - n) / len(compared) for n in range(readers))

    # Evenly drawn shares are exponential numbers divided by their sum; the number of several pieces
    # is a gamma number. One fixed seed: a probe has the same chance every time.
    generator = np.random.default_rng(1)
    shares = generator.gamma(sizes, size=(DRAWS, readers, len(sizes))) * readable
    return float(does_as_wished(shares, ranks, words).mean())


def binomial_tail(count: int, total: int, chance: float) -> float:
    """Return how likely `count` or more of `total` are, each with this chance.

    >>> binomial_tail(1, 2, 0.5), binomial_tail(0, 9, 0.1)
    (0.75, 1.0)
    """
    return 1.0 - sum(comb(total, n) * chance**n * (1.0 - chance) ** (total - n) for n in range(count))


def _word_notes(groups: Sequence[PieceGroup]) -> list[str]:
    """Describe the words of a probe that the vocabulary cannot spell, and those that it cuts."""
    notes = []
    for group in dict.fromkeys(groups):
        spelled = " ".join(group.pieces)
        if group.unknown:
            notes.append(f"the vocabulary has no piece for all of {group.label}: it reads {spelled}")
        elif len(group.pieces) > 1:
            notes.append(f"{group.label} is cut into {len(group.pieces)} pieces: {spelled}")
    return notes
