"""Attribution: parts that add up to a logit, and changes of a translation when pieces are hidden from the model.

A logit is U[piece] . states[step], plus the output bias. The state is the sum of what was added to
the residual stream at this position, sent through norms. With its deviation kept as it was, a norm
is a matrix and a shift: diag(weight) (I - 11'/D) / deviation, and its bias; an RMSNorm is
diag(weight) / root of the mean square. So each part can be followed to the logit; here backwards,
from the direction U[piece] through the transposed norms to each place where something was added.
These are direct effects: what a part changes in later ones is inside their numbers.

The model reads nothing of a hidden piece: any other piece in its position would give the same
numbers. Its position stays empty; nothing moves up.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import fsum
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from pellucid.data.tokenizer import BOS
from pellucid.decode.search import log_probabilities
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.trace.edits import Edit
from pellucid.interpret.trace.operations import operations
from pellucid.interpret.trace.trace import TraceData
from pellucid.model import ModelConfig, Transformer
from pellucid.model.layers import EPSILON

Group = Literal["embedding", "positions", "self", "cross", "ffn", "norm", "bias"]
# Function that returns an array by its name: a tensor of
# one sentence's run (without batch axis), or a parameter.
Arrays = Callable[[str], ndarray]


_BARS_SHOWN = 15  # parts of an account that a notebook shows


@dataclass(frozen=True)
class AccountPart:
    """Contribution of one part of the decoder to a logit.

    `by_key` splits a head's over the positions it read.
    """

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
    """Parts that add up to the logit of a piece.

    With an `other`, they add up to its difference to the logit of that piece.
    """

    step: int
    piece: str
    id: int
    other: OtherPiece | None
    logit: float
    sum: float
    parts: list[AccountPart]

    @property
    def error(self) -> float:
        """Distance of the sum of the parts from the logit, relative to the largest of all these numbers."""
        largest = max(abs(self.logit), *(abs(part.value) for part in self.parts))
        return abs(self.sum - self.logit) / largest if largest else 0.0

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the parts as bars, the largest first."""
        from pellucid.interpret.page.notebook import bars_table

        parts = sorted(self.parts, key=lambda part: -abs(part.value))
        beside = "" if self.other is None else f" minus that of {self.other.piece!r}"
        rest = parts[_BARS_SHOWN:]
        notes: list[str] = []
        if rest:
            added = sum(part.value for part in rest)
            notes.append(f"{len(rest)} smaller parts add {added:+.3f}")
        return bars_table(
            f"the logit of {self.piece!r}{beside} at step {self.step}: {self.logit:+.3f}",
            [(part.name, part.value) for part in parts[:_BARS_SHOWN]],
            [*notes, f"all {len(parts)} parts add up to {self.sum:+.3f}"],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the account as the page reads it; `by_key` is left out where there is none."""
        return asdict(
            self,
            dict_factory=lambda items: {k: v for k, v in items if k != "by_key" or v is not None},
        )


@dataclass(frozen=True)
class LogitQuestion:
    """Question about the logit of the piece `id` at `step`, or about its lead over the piece `other`."""

    step: int
    id: int
    other: int | None = None


def account_for_logit(
    trace: TraceData,
    step: int,
    piece: int | None = None,
    other: int | None = None,
) -> LogitAccount:
    """Account for the logit of a piece (None: the one written) at a step.

    Raises ValueError for one out of range.
    """
    target_ids = trace.target.ids
    if not 0 <= step < len(target_ids):
        raise ValueError(f"step is {step}, this translation has steps 0 to {len(target_ids) - 1}")
    question = LogitQuestion(step, target_ids[step] if piece is None else piece, other)
    last_id = trace.config.target_vocabulary - 1
    for id in (question.id, question.other):
        if id is not None and not 0 <= id <= last_id:
            raise ValueError(f"the piece is {id}, the target vocabulary has pieces 0 to {last_id}")

    [account] = _account_for_trace(trace, [question])
    return account


def account_for_every_step(trace: TraceData) -> dict[str, list[Any]]:
    """Account at each step for the piece that was written, and for its difference to the likeliest other piece."""
    chosen, against = [], []
    for step in trace.steps:
        question = LogitQuestion(step.step, step.chosen.id)
        rivals = [candidate.id for candidate in step.top if candidate.id != question.id]
        chosen.append(question)
        # A vocabulary of one piece would have no rival.
        against.append(replace(question, other=rivals[0]) if rivals else None)

    # All questions go through one backward walk; the answers
    # are then dealt out in the order of the questions.
    asked = [question for question in (*chosen, *against) if question is not None]
    answers = iter(account.as_json() for account in _account_for_trace(trace, asked))
    return {
        "chosen": [next(answers) for _ in chosen],
        "against": [None if question is None else next(answers) for question in against],
    }


def _account_for_trace(trace: TraceData, questions: Sequence[LogitQuestion]) -> list[LogitAccount]:
    """Return one account for each question, in one pass."""
    pieces = trace.tokenizer.target_pieces
    return account_for_logits(trace.config, trace.values_of, trace.parameter, pieces, questions)


def account_for_logits(
    config: ModelConfig,
    tensor: Arrays,
    parameter: Arrays,
    pieces: Callable[[Sequence[int]], list[str]],
    questions: Sequence[LogitQuestion],
) -> list[LogitAccount]:
    """Account for logits from tensors of a run, parameters of its model, and a function that names token ids."""
    rows = [question.step for question in questions]
    ids = [question.id for question in questions]
    # Where no other piece is asked about, the piece
    # itself fills its place and is subtracted 0 times.
    other_ids: list[int] = []
    for question in questions:
        other_ids.append(question.id if question.other is None else question.other)
    subtract = np.array([question.other is not None for question in questions], dtype=np.float64)

    output, logits = parameter(operations(config)["logits"].weight), tensor("logits")
    direction = output[ids].astype(np.float64) - subtract[:, None] * output[other_ids]
    walk = _BackwardWalk(tensor, parameter, np.array(rows, dtype=np.int64), direction)
    if config.output_bias:
        bias = parameter("output_bias").astype(np.float64)
        walk.biases += bias[ids] - subtract * bias[other_ids]

    walk.walk_back(config)
    # The logit as captured, which the sum of the parts is compared with.
    captured = logits[rows, ids].astype(np.float64) - subtract * logits[rows, other_ids]
    names, other_names = pieces(ids), pieces(other_ids)

    accounts = []
    for n, question in enumerate(questions):
        account_parts = list(walk.parts(n))
        other_piece = None if question.other is None else OtherPiece(other_names[n], question.other)
        total = fsum(part.value for part in account_parts)
        accounts.append(
            LogitAccount(
                question.step,
                names[n],
                question.id,
                other_piece,
                float(captured[n]),
                total,
                account_parts,
            )
        )

    return accounts


class _BackwardWalk:
    """The way back from N logits to the embeddings, collecting what each part of the decoder adds to each logit."""

    def __init__(
        self,
        tensor: Arrays,
        parameter: Arrays,
        rows: Int[ndarray, " N"],
        direction: Float[ndarray, "N D"],
    ):
        """Start at positions `rows`: a vector added to the state there adds its product with `direction` to a logit."""
        self.tensor, self.parameter, self.rows, self.direction = tensor, parameter, rows, direction
        self.norms, self.biases = np.zeros(len(rows)), np.zeros(len(rows))
        self.contributions: list[
            tuple[str, Group, Float[ndarray, " N"], Float[ndarray, "N K"] | None]
        ] = []

    def walk_back(self, c: ModelConfig) -> None:
        """Walk from the states to the embeddings, last layer first."""
        if c.norm_first:
            # Pre-norm: one norm at the end of the stack; those
            # inside a layer are in front of what a sublayer adds.
            self.pass_norm(
                "decoder_norm",
                f"decoder.{c.decoder_layers - 1}.ffn_residual.sum",
                c.norm == "rms",
            )

        for layer in reversed(range(c.decoder_layers)):
            for sublayer in ("ffn", "cross", "self"):
                inside = f"decoder.{layer}.{sublayer}"
                if not c.norm_first:
                    self.pass_norm(f"{inside}_residual.norm", f"{inside}_residual.sum", rms=False)
                if sublayer == "ffn":
                    self.add_feed_forward(inside)
                else:
                    self.add_heads(inside, sublayer, c.heads, c.head_width)

        parts: list[Group] = ["embedding"]
        if c.positions in ("sinusoidal", "learned"):
            parts.insert(0, "positions")
        for part in parts:
            values = self.project(self.vectors_at_rows(f"decoder.{part}"))
            self.contributions.append((part, part, values, None))

    def parts(self, n: int) -> Iterator[AccountPart]:
        """Yield the parts of the n-th logit, in the order of computation; norms and biases last."""
        for name, group, values, by_key in reversed(self.contributions):
            values_by_key = None if by_key is None else by_key[n].tolist()
            yield AccountPart(name, group, float(values[n]), values_by_key)
        yield AccountPart("norms", "norm", float(self.norms[n]))
        yield AccountPart("biases", "bias", float(self.biases[n]))

    def pass_norm(self, name: str, before: str, rms: bool) -> None:
        """Take the direction back through (x - mean) / deviation * weight + bias, the deviation of x = `before` fixed.

        With `rms` nothing is subtracted or added, and the deviation is that from 0.
        """
        x = self.vectors_at_rows(before)
        if rms:
            self.direction = self.direction * self.parameter(f"{name}.weight")
            self.direction /= np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
            return

        # The population variance, as in LayerNorm, which var computes by default.
        deviation = np.sqrt(x.var(axis=-1, keepdims=True) + EPSILON)
        # The bias is added after the scaling, so it meets the direction as it still is.
        self.norms += self.project(self.parameter(f"{name}.bias"))
        scaled = self.direction * self.parameter(f"{name}.weight") / deviation

        # The transpose of subtracting the mean is subtracting the mean: I - 11'/D is symmetric.
        self.direction = scaled - scaled.mean(axis=-1, keepdims=True)

    def add_feed_forward(self, inside: str) -> None:
        """Add what a feed-forward layer contributes; its last bias counts among the biases."""
        bias = self.parameter(f"{inside}.outer.bias")
        self.biases += self.project(bias)
        values = self.project(self.vectors_at_rows(f"{inside}.output") - bias)
        self.contributions.append((inside, "ffn", values, None))

    def add_heads(self, inside: str, group: Group, heads: int, width: int) -> None:
        """Add what each head contributes, z W_O with its rows of W_O.

        `z` is a sum of pattern times v over positions.
        """
        self.biases += self.project(self.parameter(f"{inside}.output.bias"))
        weight = self.parameter(f"{inside}.output.weight").astype(np.float64)
        head_direction = (self.direction @ weight).reshape(len(self.rows), heads, width)
        z = self.tensor(f"{inside}.head_output")[:, self.rows]
        pattern = self.tensor(f"{inside}.pattern")[:, self.rows]
        values = np.einsum("nhe,hne->hn", head_direction, z)
        by_key = np.einsum("nhe,hke->hnk", head_direction, self.tensor(f"{inside}.v")) * pattern

        for head in reversed(range(heads)):
            # A head that an edit silenced did not write what it
            # read, so there is nothing to split by positions.
            missing = np.abs(by_key[head].sum(axis=-1) - values[head])
            explained = (missing <= 1e-3 * np.abs(by_key[head]).sum(axis=-1)).all()
            self.contributions.append(
                (f"{inside}.head.{head}", group, values[head], by_key[head] if explained else None)
            )

    def vectors_at_rows(self, name: str) -> Float[ndarray, "N D"]:
        """Return a tensor of the residual stream at the positions of the logits, in float64."""
        return self.tensor(name)[self.rows].astype(np.float64)

    def project(self, vectors: Float[ndarray, "*N D"]) -> Float[ndarray, " N"]:
        """Return the products of vectors with the direction."""
        return (self.direction * vectors).sum(axis=-1)


# Most numbers of one tensor in memory at a time, which bounds the rows of a batch: 128 MB of them.
NUMBERS_AT_ONCE = 2**25


def erase_source(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    groups: Sequence[Iterable[int]],
) -> Float[ndarray, "G T"]:
    """Return how log p of each target piece changes when the source positions of each group are hidden."""
    changes = []
    rows = rows_per_batch(model, len(source), len(target))
    for hidden in _erasure_batches(groups, len(source), rows):
        # Nothing may read them: neither the encoder's
        # self-attention nor the decoder's cross-attention.
        visible = ~hidden[:, None, None, :].to(model.output_embedding.weight.device)
        hide = partial(torch.logical_and, visible)
        edit = Edit({"encoder.*.self.allowed": hide, "decoder.*.cross.allowed": hide})
        changes.append(_log_prob_changes(model, [source] * len(hidden), target, len(hidden), edit))

    return np.concatenate(changes)


def erase_prefix(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    groups: Sequence[Iterable[int]],
) -> Float[ndarray, "G T"]:
    """Return how log p of each target piece changes when the target pieces of each group are hidden from later ones.

    Up to the first piece of its group, a row of the result is 0.
    """
    device = model.output_embedding.weight.device
    is_self = torch.eye(len(target), dtype=torch.bool, device=device)

    # A piece is read one position after the one that wrote
    # it: there its vector is zeroed and its key masked.
    read_at = []
    for group in groups:
        read_at.append([piece + 1 for piece in group])
    rows = rows_per_batch(model, len(source), len(target))

    changes = []
    for batch in _erasure_batches(read_at, len(target) + 1, rows):
        hidden = batch[:, :-1].to(device)  # the last piece is not read by any position
        # A position still reads itself, where nothing is left
        # but its place: there may be nothing else to read.
        unread = hidden[:, None, None, :] & ~is_self
        without_vector = partial(torch.masked_fill, mask=hidden[:, :, None], value=0.0)
        without_key = partial(torch.masked_fill, mask=unread, value=-torch.inf)
        edit = Edit({"decoder.embedding": without_vector, "decoder.*.self.scores": without_key})
        # The source is the same for every row, so it is encoded once.
        changes.append(_log_prob_changes(model, [source], target, len(hidden), edit))

    return np.concatenate(changes)


def rows_per_batch(model: Transformer, source: int, target: int) -> int:
    """Return how many rows a batch may have: at least two, since one row hides nothing."""
    c, longest = model.config, max(source, target)
    # The largest tensors of a layer: scores of all heads,
    # the inner layer of a gated feed-forward, the states.
    return max(2, NUMBERS_AT_ONCE // (longest * max(c.heads * longest, 2 * c.d_ff, c.d_model)))


def _erasure_batches(
    groups: Sequence[Iterable[int]],
    length: int,
    rows: int,
) -> Iterator[Bool[Tensor, "R K"]]:
    """Yield batches with a row for each group, true at the hidden positions.

    The first row of each hides nothing.
    """
    for first in range(0, max(1, len(groups)), rows - 1):
        batch = groups[first : first + rows - 1]
        hidden = torch.zeros(len(batch) + 1, length, dtype=torch.bool)
        for row, group in zip(hidden[1:], batch, strict=True):
            row[list(group)] = True
        yield hidden


def _log_prob_changes(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    target: Sequence[int],
    rows: int,
    edit: Edit,
) -> Float[ndarray, "G T"]:
    """Return the log-probabilities of each row of an edited batch, minus the log-probabilities of its first row."""
    device = model.output_embedding.weight.device
    inputs = torch.tensor([BOS, *target[:-1]], device=device).expand(rows, -1)
    with inference_only(model):
        memory = model.encode(torch.tensor(sources, device=device), watch=edit)
        if len(sources) < rows:
            memory = memory.select(torch.zeros(rows, dtype=torch.int64, device=device))
        states = model.decode(inputs, memory, watch=edit)
        ids = torch.tensor(target, device=device)
        # A few rows at a time: the logits of all rows, with a vocabulary each, would not fit.
        at_once = max(1, NUMBERS_AT_ONCE // (len(target) * model.config.target_vocabulary))
        chunks = []
        for chunk in states.split(at_once):
            ids_of_chunk = ids.expand(len(chunk), -1)[:, :, None]
            of_vocabulary = log_probabilities(model.logits(chunk))
            chunks.append(of_vocabulary.gather(2, ids_of_chunk)[:, :, 0])

        log_probs = torch.cat(chunks)
        return (log_probs[1:] - log_probs[0]).cpu().numpy()
