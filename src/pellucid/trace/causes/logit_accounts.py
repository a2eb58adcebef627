"""Where a logit came from: parts that add up to it, every norm frozen as it was in the run.

A logit is U[piece] . states[step], plus the output bias. The state is the sum of what was added to the residual stream
at this position, sent through norms. With its deviation kept as it was, a norm is a matrix and a shift:
diag(weight) (I - 11'/D) / deviation, and its bias; an RMSNorm is diag(weight) / root of the mean square. So each part
can be followed to the logit; here backwards, from the direction U[piece] through the transposed norms to each place
where something was added. These are direct effects: what a part changes in later ones is inside their numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from pellucid.model import ModelConfig
from pellucid.model.layers import EPSILON
from pellucid.trace.checks.graph import operations
from pellucid.trace.record import Record

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace

Group = Literal["embedding", "positions", "self", "cross", "ffn", "norm", "bias"]
Arrays = Callable[[str], ndarray]
"""An array by its name: a tensor of one sentence's run (without the batch axis), or a parameter."""


@dataclass(frozen=True)
class AccountPart:
    """What one part of the decoder adds to the logit; `by_key` splits a head's over the positions it read."""

    name: str
    group: Group
    value: float
    by_key: list[float] | None = None


@dataclass(frozen=True)
class OtherPiece:
    """A piece of the target vocabulary."""

    piece: str
    id: int


@dataclass(frozen=True)
class LogitAccount:
    """Where the logit of a piece came from; with an `other`, what makes it larger than the logit of that one."""

    step: int
    piece: str
    id: int
    other: OtherPiece | None
    logit: float
    sum: float
    parts: list[AccountPart]

    @property
    def error(self) -> float:
        """How far the sum of the parts is from the logit, relative to the largest of all these numbers."""
        largest = max(abs(self.logit), *(abs(part.value) for part in self.parts))
        return abs(self.sum - self.logit) / largest if largest else 0.0

    def as_json(self) -> dict[str, Any]:
        """As the page reads it."""
        return asdict(self, dict_factory=lambda items: {k: v for k, v in items if k != "by_key" or v is not None})


@dataclass(frozen=True)
class LogitQuestion:
    """Which logit: of the piece `id` as the one written at `step`, or its difference to that of `other`."""

    step: int
    id: int
    other: int | None = None


def account_for_logit(trace: "Trace", step: int, piece: int | None = None, other: int | None = None) -> LogitAccount:
    """The logit of a piece (None: the one written) at a step of a trace; ValueError for what is not there."""
    written = trace.target.ids
    if not 0 <= step < len(written):
        raise ValueError(f"step is {step}, this translation has steps 0 to {len(written) - 1}")
    question = LogitQuestion(step, written[step] if piece is None else piece, other)
    most = trace.config.target_vocabulary - 1
    for id in (question.id, question.other):
        if id is not None and not 0 <= id <= most:
            raise ValueError(f"the piece is {id}, the target vocabulary has pieces 0 to {most}")
    [found] = account_for_trace(trace, [question])
    return found


def account_for_every_step(trace: "Trace") -> dict[str, list[Any]]:
    """For each step the account of the piece that was written, and of its difference to the likeliest other one."""
    chosen = [LogitQuestion(step.step, step.chosen.id) for step in trace.steps]
    rivals = [[each.id for each in step.top if each.id != step.chosen.id] for step in trace.steps]
    against = [LogitQuestion(a.step, a.id, some[0]) for a, some in zip(chosen, rivals, strict=True) if some]
    found = iter(each.as_json() for each in account_for_trace(trace, [*chosen, *against]))
    return {"chosen": [next(found) for _ in chosen], "against": [next(found) if some else None for some in rivals]}


def account_for_trace(trace: "Trace", questions: Sequence[LogitQuestion]) -> list[LogitAccount]:
    """One account for each question, in one pass; ValueError for a trace that has no model, and so no weights."""
    pieces = trace.require_origin().translator.tokenizer.target_pieces
    return account_for_logits(trace.config, trace.values_of, trace.parameter, pieces, questions)


def arrays_of_record(record: Record, row: int = 0) -> Arrays:
    """The tensors of one row of a recorded batch."""

    def tensor(name: str) -> ndarray:
        value = record[name]
        return (value if name == "decoder.positions" else value[row]).cpu().numpy()

    return tensor


def account_for_logits(
    config: ModelConfig,
    tensor: Arrays,
    parameter: Arrays,
    pieces: Callable[[Sequence[int]], list[str]],
    questions: Sequence[LogitQuestion],
) -> list[LogitAccount]:
    """The same from what it is made of: tensors of a run, parameters of its model, and what ids are called."""
    rows, ids = ([getattr(each, name) for each in questions] for name in ("step", "id"))
    others = [each.id if each.other is None else each.other for each in questions]
    less = np.array([each.other is not None for each in questions], dtype=np.float64)

    output, logits = parameter(operations(config)["logits"].weight), tensor("logits")
    direction = output[ids].astype(np.float64) - less[:, None] * output[others]
    walk = BackwardWalk(tensor, parameter, np.array(rows, dtype=np.int64), direction)
    if config.output_bias:
        bias = parameter("output_bias").astype(np.float64)
        walk.biases += bias[ids] - less * bias[others]
    walk.walk_back(config)
    captured = logits[rows, ids].astype(np.float64) - less * logits[rows, others]
    names, other_names = pieces(ids), pieces(others)
    found = []
    for n, each in enumerate(questions):
        parts = list(walk.parts(n))
        other = None if each.other is None else OtherPiece(other_names[n], each.other)
        total = fsum(part.value for part in parts)
        found.append(LogitAccount(each.step, names[n], each.id, other, float(captured[n]), total, parts))
    return found


class BackwardWalk:
    """The way back from N logits to the embeddings, and what each thing added on the way adds to each of them."""

    def __init__(self, tensor: Arrays, parameter: Arrays, rows: Int[ndarray, " N"], direction: Float[ndarray, "N D"]):
        """`rows` are positions; a vector added to the state there adds its product with the `direction` to a logit."""
        self.tensor, self.parameter, self.rows, self.direction = tensor, parameter, rows, direction
        self.norms, self.biases = np.zeros(len(rows)), np.zeros(len(rows))
        self.contributions: list[tuple[str, Group, Float[ndarray, " N"], Float[ndarray, "N K"] | None]] = []

    def walk_back(self, c: ModelConfig) -> None:
        """From the states to the embeddings, last layer first."""
        if c.norm_first:
            self.norm("decoder_norm", f"decoder.{c.decoder_layers - 1}.ffn_residual.sum", c.norm == "rms")
        for layer in reversed(range(c.decoder_layers)):
            for part in ("ffn", "cross", "self"):
                inside = f"decoder.{layer}.{part}"
                if not c.norm_first:
                    self.norm(f"{inside}_residual.norm", f"{inside}_residual.sum", rms=False)
                if part == "ffn":
                    self.feed_forward(inside)
                else:
                    self.heads(inside, part, c.heads_in(inside), c.head_width)
        if c.positions in ("sinusoidal", "learned"):
            self.contributions.append(("positions", "positions", self.project(self.at_rows("decoder.positions")), None))
        self.contributions.append(("embedding", "embedding", self.project(self.at_rows("decoder.embedding")), None))

    def parts(self, n: int) -> Iterator[AccountPart]:
        """The parts of the n-th logit, in the order of computation; norms and biases last."""
        for name, group, values, by_key in reversed(self.contributions):
            yield AccountPart(name, group, float(values[n]), None if by_key is None else by_key[n].tolist())
        yield AccountPart("norms", "norm", float(self.norms[n]))
        yield AccountPart("biases", "bias", float(self.biases[n]))

    def norm(self, name: str, before: str, rms: bool) -> None:
        """Through (x - mean) / deviation * weight + bias, with the deviation of x = `before` as it was.

        With `rms` nothing is subtracted or added, and the deviation is that from 0.
        """
        x = self.at_rows(before)
        if rms:
            self.direction = self.direction * self.parameter(f"{name}.weight")
            self.direction /= np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
            return
        deviation = np.sqrt(x.var(axis=-1, keepdims=True) + EPSILON)
        self.norms += self.project(self.parameter(f"{name}.bias"))
        scaled = self.direction * self.parameter(f"{name}.weight") / deviation
        self.direction = scaled - scaled.mean(axis=-1, keepdims=True)

    def feed_forward(self, inside: str) -> None:
        """What it added, but for its last bias."""
        bias = self.parameter(f"{inside}.outer.bias")
        self.biases += self.project(bias)
        self.contributions.append((inside, "ffn", self.project(self.at_rows(f"{inside}.output") - bias), None))

    def heads(self, inside: str, group: Group, heads: int, width: int) -> None:
        """What each head added, z W_O of its rows of W_O; z is a sum of pattern times v over the positions it read."""
        self.biases += self.project(self.parameter(f"{inside}.output.bias"))
        weight = self.parameter(f"{inside}.output.weight").astype(np.float64)
        direction = (self.direction @ weight).reshape(len(self.rows), heads, width)
        z, pattern = (self.tensor(f"{inside}.{name}")[:, self.rows] for name in ("head_output", "pattern"))
        values = np.einsum("nhe,hne->hn", direction, z)
        by_key = np.einsum("nhe,hke->hnk", direction, self.tensor(f"{inside}.v")) * pattern
        for head in reversed(range(heads)):
            # A head that an edit silenced did not write what it read: then there is nothing to split.
            missing = np.abs(by_key[head].sum(axis=-1) - values[head])
            read = (missing <= 1e-3 * np.abs(by_key[head]).sum(axis=-1)).all()
            self.contributions.append((f"{inside}.head.{head}", group, values[head], by_key[head] if read else None))

    def at_rows(self, name: str) -> Float[ndarray, "N D"]:
        """A tensor of the stream at the positions asked for."""
        return self.tensor(name)[self.rows].astype(np.float64)

    def project(self, vectors: Float[ndarray, "*N D"]) -> Float[ndarray, " N"]:
        """The products of vectors with the direction."""
        return (self.direction * vectors).sum(axis=-1)
