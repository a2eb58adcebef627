"""Beam search for translations that must have given terms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum, inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.required import Readings, Required, Term
from pellucid.decode.search import Hypothesis, Rule, State, Step, chosen, largest, never, penalty, ruled, usable
from pellucid.decode.words import Words


def constrained_search(
    step: Step,
    state: State,
    limits: Int[Tensor, " B"],
    terms: Sequence[Sequence[Term]],
    *,
    width: int,
    n_best: int,
    length_penalty: float,
    start: int = BOS,
    end: int = EOS,
    rules: Sequence[Rule] = (never(),),
    words: Words = Words(),  # noqa: B008  (it is frozen)
) -> list[list[Hypothesis]]:
    """As `beam_search`, but every hypothesis has the terms of its sentence, also one that is cut at the limit.

    Dynamic beam allocation (Post and Vilar 2018), with the banks of Hokamp and Liu (2017). A hypothesis grows by its
    likeliest pieces and by every piece that begins a term or goes on with one. The candidates stand in banks, by how
    many pieces of the terms they lack, and the banks share the beam: what has paid for a term need not compete with
    what has not. Only what lacks nothing may end, and no candidate lacks more pieces than it may still write.

    The beam of a sentence is `width` and one more for each piece of its terms. Without terms this is beam search. The
    terms must fit (`refuse_crowded`); a sentence has no hypothesis only if a rule forbids what its terms need.
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    everyone = [
        Sentence(i, limit, Required(each, words), width, n_best, length_penalty, end)
        for i, (limit, each) in enumerate(zip(limits.tolist(), terms, strict=True))
    ]
    going, rows = everyone, 1
    widest = max((sentence.width for sentence in everyone), default=0)
    while going:
        beams = [each for sentence in going for each in filled(sentence.beam, rows)]
        written = torch.tensor([each.pieces for each in beams], dtype=torch.int64, device=limits.device)
        last = written[:, -1] if written.shape[1] else written.new_full((len(beams),), start)
        numbers = torch.tensor([sentence.number for sentence in going], device=limits.device)
        log_probs = ruled(step(last, state), rules, written, numbers.repeat_interleave(rows))
        for sentence, each in zip(going, log_probs.split(rows), strict=True):
            sentence.grow(each)
        stay = [i for i, sentence in enumerate(going) if not sentence.over]
        if stay:
            kept = [i * rows + each.parent for i in stay for each in filled(going[i].beam, widest)]
            state.select(torch.tensor(kept, device=limits.device), torch.tensor(stay, device=limits.device))
        going, rows = [going[i] for i in stay], widest
    return [chosen(sentence.finished, n_best, sentence.margin) for sentence in everyone]


@dataclass(frozen=True)
class Beginning:
    """A hypothesis that may go on; `parent` is the place in the beam of the one it grew from."""

    readings: Readings
    lacking: int
    pieces: tuple[int, ...] = ()
    gains: tuple[float, ...] = ()
    total: float = 0.0
    parent: int = 0


@dataclass(frozen=True)
class Candidate:
    """The hypothesis at one place of the beam, with one more piece."""

    total: float
    parent: int
    piece: int
    gain: float
    readings: Readings
    lacking: int


@dataclass
class Sentence:
    """The search for one sentence: its beam, best first, and what is finished."""

    number: int
    limit: int
    required: Required
    width: int
    n_best: int
    length_penalty: float
    end: int
    finished: list[Hypothesis] = field(default_factory=list)
    margin: float = inf

    def __post_init__(self) -> None:
        nothing = self.required.start
        self.beam = [Beginning(nothing, self.required.lacking(nothing))]
        self.width += self.beam[0].lacking

    def grow(self, log_probs: Float[Tensor, "R V"]) -> None:
        """The next beam, from the log-probabilities after each hypothesis of this one."""
        banks: dict[int, list[Candidate]] = {}
        for each in sorted(self.candidates(log_probs), key=lambda c: (-c.total, c.parent, -c.gain, c.piece)):
            banks.setdefault(each.lacking, []).append(each)
        order = sorted(banks)
        beam = []
        for lacking, places in zip(order, shared(self.width, [len(banks[lacking]) for lacking in order]), strict=True):
            for each in banks[lacking][:places]:
                if each.piece == self.end:
                    self.finish(self.grown(each))
            living = [each for each in banks[lacking] if each.piece != self.end]
            beam += living[:places]
            self.margin = min(self.margin, gap(living, places))
            if any(each.piece == self.end for each in banks[lacking][max(0, places - 1) : places + 1]):
                self.margin = min(self.margin, gap(banks[lacking], places))
        self.beam = [self.grown(each) for each in sorted(beam, key=lambda c: (-c.total, c.parent, -c.gain, c.piece))]
        if self.at_limit:
            for each in self.beam:
                self.finish(each)
        if self.beam and len(self.scores) >= self.n_best:
            self.margin = min(self.margin, abs(self.scores[self.n_best - 1] - self.hope))

    def candidates(self, log_probs: Float[Tensor, "R V"]) -> Iterator[Candidate]:
        """What the hypotheses of the beam offer: the likeliest pieces and those of the terms, where all still fits."""
        room = self.limit - len(self.beam[0].pieces) - 1
        values, likeliest = largest(log_probs[: len(self.beam)], min(2 * self.width + 1, log_probs.shape[1]))
        for place, each in enumerate(self.beam):
            before = each.pieces[-1] if each.pieces else None
            gains = dict(zip(likeliest[place].tolist(), values[place].tolist(), strict=True))
            others = sorted(self.required.next_pieces(each.readings) - gains.keys()) if each.lacking else []
            gains.update(zip(others, log_probs[place, others].tolist(), strict=True))
            for piece, gain in gains.items():
                readings = self.required.after(each.readings, before, piece)
                lacking = self.required.lacking(readings)
                if gain != -inf and lacking <= (0 if piece == self.end else room):
                    yield Candidate(each.total + gain, place, piece, gain, readings, lacking)

    def grown(self, candidate: Candidate) -> Beginning:
        """The hypothesis a candidate stands for."""
        parent = self.beam[candidate.parent]
        pieces, gains = (*parent.pieces, candidate.piece), (*parent.gains, candidate.gain)
        return Beginning(candidate.readings, candidate.lacking, pieces, gains, candidate.total, candidate.parent)

    def finish(self, each: Beginning) -> None:
        ended = each.pieces[-1] == self.end
        log_prob = usable(fsum(each.gains))
        score = log_prob / penalty(len(each.pieces), self.length_penalty)
        tokens = list(each.pieces[:-1] if ended else each.pieces)
        self.finished.append(Hypothesis(tokens, score, log_prob, "eos" if ended else "length", list(each.gains)))

    @property
    def at_limit(self) -> bool:
        return bool(self.beam) and len(self.beam[0].pieces) >= self.limit

    @property
    def over(self) -> bool:
        """As in `beam_search`: at the limit, when a beam of hypotheses has ended, or when no other can overtake."""
        if self.at_limit or not self.beam:
            return True
        ended = self.scores
        return len(ended) >= self.width or (len(ended) >= self.n_best and ended[self.n_best - 1] >= self.hope)

    @property
    def scores(self) -> list[float]:
        """Of what has ended, best first."""
        return sorted((each.score for each in self.finished if each.stop == "eos"), reverse=True)

    @property
    def hope(self) -> float:
        """What no hypothesis of the beam can score more than."""
        return self.beam[0].total / penalty(self.limit, self.length_penalty)


def shared(places: int, sizes: Sequence[int]) -> list[int]:
    """How many places each bank gets: one each in turn, in their order, as long as the bank has candidates for them.

    >>> shared(8, [7, 1, 9])
    [4, 1, 3]
    """
    given = [0] * len(sizes)
    while sum(given) < min(places, sum(sizes)):
        for i, size in enumerate(sizes):
            if given[i] < size and sum(given) < places:
                given[i] += 1
    return given


def gap(ordered: Sequence[Candidate], places: int) -> float:
    """How much more likely the last that has a place is than the first that has none."""
    return ordered[places - 1].total - ordered[places].total if 0 < places < len(ordered) else inf


def filled(beam: Sequence[Beginning], rows: int) -> list[Beginning]:
    """As many hypotheses as there are rows: the first again for those that are missing."""
    return [*beam, *[beam[0]] * (rows - len(beam))]
