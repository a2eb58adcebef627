"""Learns which heads a model can do without: a gate on each, a price for keeping it open, a few hundred updates.

Voita et al. 2019 ("Analyzing multi-head self-attention"), section 6. The gates are hard concrete variables (Louizos et
al. 2018, "Learning sparse neural networks through L0 regularization"): random numbers from 0 to 1 that are often
exactly 0 or exactly 1, and whose gradient says whether they should be so more often.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite, log
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.data.batching import Batch
from pellucid.data.tokenizer import PAD
from pellucid.inspect.importance import Head, gate_heads, list_heads
from pellucid.model import Transformer
from pellucid.trace.record import Edit

TEMPERATURE, LOW, HIGH = 0.33, -0.1, 1.1
"""Sharpness of the gates, and the limits they are stretched to before they are cut at 0 and at 1 (both papers)."""

OPEN_LOG_ALPHA = 2.5
"""log alpha of every gate at the beginning: open, and shut in one draw of 28."""

CLOSED_GATE = 0.01
"""A gate that is no further from 0 is closed, and its head can go."""


@dataclass(frozen=True)
class GateConfig:
    """Settings of the gates; ValueError, naming every problem, for numbers that make no sense."""

    strength: Annotated[float, "price of an open head, in nats of loss a target piece (lambda)"]
    among: Annotated[str, "heads that have a gate: all, encoder, decoder or cross"] = "encoder"
    updates: Annotated[int, "updates, of a batch each"] = 400
    gate_rate: Annotated[float, "learning rate of the gates"] = 0.1
    rate: Annotated[
        float, "learning rate of the weights at the beginning; it falls to 0. 0 leaves them as they are"
    ] = 3e-4
    label_smoothing: Annotated[float, "share of the target's probability spread over the vocabulary"] = 0.1
    seed: Annotated[int, "of the gates' draws and of dropout"] = 1

    def __post_init__(self) -> None:
        rules = (
            ("strength", 0 <= self.strength < float("inf"), "0 or more"),
            ("updates", self.updates >= 1, "1 or more"),
            ("gate_rate", 0 < self.gate_rate < float("inf"), "above 0"),
            ("rate", 0 <= self.rate < float("inf"), "0 or more"),
            ("label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1"),
            ("seed", 0 <= self.seed < 2**63, "0 or more and below 2^63"),
        )
        problems = [f"{name} is {getattr(self, name)}, it must be {expected}" for name, ok, expected in rules if not ok]
        if problems:
            raise ValueError("; ".join(problems))


@dataclass(frozen=True)
class GateProgress:
    """One update: its number from 1, the loss in nats a piece with gates drawn at random, and how many are open."""

    update: int
    loss: float
    open: float
    """The expected number of gates that are not 0."""


@dataclass(frozen=True)
class GatedModel:
    """Model with the weights that were trained beside the gates, but without gates; `closed_heads` can be removed."""

    model: Transformer
    heads: list[Head]
    values: list[float]
    """The gate of each head when nothing is left to chance; nearly all should be 0 or 1."""

    @property
    def kept_heads(self) -> list[Head]:
        """Return the heads whose gate is open."""
        return [head for head, value in zip(self.heads, self.values, strict=True) if value > CLOSED_GATE]

    @property
    def closed_heads(self) -> list[Head]:
        """Return the heads whose gate is 0 or nearly so."""
        return [head for head, value in zip(self.heads, self.values, strict=True) if value <= CLOSED_GATE]

    @property
    def settled(self) -> float:
        """The share of gates within 0.01 of 0 or of 1."""
        return sum(min(value, 1 - value) <= CLOSED_GATE for value in self.values) / len(self.values)


def learn_gates(
    model: Transformer,
    batches: Iterator[Batch],
    c: GateConfig,
    on_progress: Callable[[GateProgress], object] = lambda _: None,
) -> GatedModel:
    """Train a copy of a trained model with a gate on each head of one kind; `batches` are training pairs without end.

    What gets smaller is (loss of the batch) / (its target pieces) + strength * sum over the gates of P(gate > 0). With
    gates in the encoder only, everything that the decoder has stays as it is, shared embeddings among it, so that it
    cannot take over what the encoder no longer does; else all weights are trained. Raises ValueError for a kind of
    heads there is not, and for a loss that is no longer a number.
    """
    heads = list_heads(model.config, c.among)
    copy, weight = deepcopy(model), model.output_embedding.weight
    log_alpha = torch.full((len(heads),), OPEN_LOG_ALPHA, dtype=weight.dtype, device=weight.device).requires_grad_()
    trained = trained_weights(copy, c)
    optimizer = torch.optim.Adam(
        [{"params": [log_alpha], "lr": c.gate_rate}, {"params": trained, "lr": c.rate}], betas=(0.9, 0.98), eps=1e-9
    )
    copy.train(bool(trained))
    with torch.enable_grad(), torch.random.fork_rng():  # dropout draws from torch's own generators
        torch.manual_seed(c.seed)
        draws = torch.Generator().manual_seed(c.seed)
        for update in range(1, c.updates + 1):
            batch = next(batches).to(weight.device)
            noise = torch.rand(len(batch.source), len(heads), generator=draws, dtype=weight.dtype).to(weight.device)
            loss, chance = gate_objective(copy, batch, heads, log_alpha, noise, c.label_smoothing)
            (loss + c.strength * chance).backward()
            on_progress(GateProgress(update, require_finite_loss(loss, update), chance.item()))
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.param_groups[1]["lr"] = c.rate * (1 - (update - 1) / c.updates)
            optimizer.step()
            optimizer.zero_grad()
    for original, trained_copy in zip(model.parameters(), copy.parameters(), strict=True):
        trained_copy.requires_grad_(original.requires_grad)
    gated = GatedModel(copy.eval(), heads, expected_gates(log_alpha.detach()).tolist())
    fold_gates(copy, dict(zip(heads, gated.values, strict=True)))
    return gated


def fold_gates(model: Transformer, values: Mapping[Head, float]) -> None:
    """Multiply what each head adds by its value, in the weights; heads to be taken away stay as they are."""
    width = model.config.d_model // model.config.heads
    with torch.no_grad():
        for (attention, number), value in values.items():
            if value > CLOSED_GATE:
                columns = model.get_parameter(f"{attention}.output.weight")[:, number * width : (number + 1) * width]
                columns.mul_(value)


def trained_weights(model: Transformer, c: GateConfig) -> list[nn.Parameter]:
    """The weights that are trained; the others want no gradient from here on."""
    decoder_modules = (model.target_embedding, model.output_embedding, model.target_positions, model.decoder_norm)
    fixed = {id(parameter) for module in (*decoder_modules, model.decoder) for parameter in module.parameters()}
    fixed |= {id(model.output_bias)}
    for parameter in model.parameters():
        parameter.requires_grad_(c.rate > 0 and not (c.among == "encoder" and id(parameter) in fixed))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def gate_objective(
    model: Transformer,
    batch: Batch,
    heads: Sequence[Head],
    log_alpha: Float[Tensor, " N"],
    noise: Float[Tensor, "B N"],
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The loss in nats a target piece with gates made of this noise, and the expected number of gates that are not 0.

    Each sentence has gates of its own: the mean over them is a quieter gradient than one draw for all would give.
    """
    logits = model(batch.source, batch.target_in, gate_watcher(heads, draw_gates(log_alpha, noise)))
    not_padding = batch.target_out != PAD
    total = F.cross_entropy(
        logits[not_padding], batch.target_out[not_padding], reduction="sum", label_smoothing=label_smoothing
    )
    return total / batch.target_tokens, open_chance(log_alpha).sum()


def gate_watcher(heads: Sequence[Head], gates: Float[Tensor, "B N"]) -> Edit:
    """The watcher that multiplies each of these heads by its gate, sentence by sentence; all heads of an attention."""
    columns: dict[str, list[int]] = {}
    for column, head in enumerate(heads):
        assert head.number == len(columns.setdefault(head.attention, []))
        columns[head.attention].append(column)
    return gate_heads({name: gates[:, numbers] for name, numbers in columns.items()})


def draw_gates(log_alpha: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Hard concrete gates made of uniform noise between 0 and 1 (Louizos et al. 2018, equations 10 and 11)."""
    concrete = ((noise.logit(eps=torch.finfo(noise.dtype).tiny) + log_alpha) / TEMPERATURE).sigmoid()
    return (concrete * (HIGH - LOW) + LOW).clamp(0.0, 1.0)


def open_chance(log_alpha: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """P(gate > 0) = sigmoid(log alpha - T log(-LOW / HIGH)), whose sum is the expected L0 norm (equation 12)."""
    return (log_alpha - TEMPERATURE * log(-LOW / HIGH)).sigmoid()


def expected_gates(log_alpha: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The gate when nothing is left to chance (equation 13): 1 from log alpha 2.4 on, 0 up to -2.4."""
    return (log_alpha.sigmoid() * (HIGH - LOW) + LOW).clamp(0.0, 1.0)


def require_finite_loss(loss: Tensor, update: int) -> float:
    """The loss as a number; ValueError if it is none."""
    if not isfinite(value := loss.item()):
        raise ValueError(f"the loss of update {update} is {value}; lower the learning rate of the weights")
    return value
