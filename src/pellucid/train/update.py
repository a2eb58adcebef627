"""One update: teacher forcing, a loss summed over all parts and workers and divided once, clipping, Adam."""

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor, nn

from pellucid.data.batching import Batch
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.model.dropout import seeded_dropout
from pellucid.train.config import OptimConfig
from pellucid.train.distributed import ALONE, Workers
from pellucid.train.failures import halve_batch, is_out_of_memory
from pellucid.train.fsdp import gather_embeddings, gather_tensor, is_sharded
from pellucid.train.loss import loss_of_rows, loss_sum
from pellucid.train.precision import autocast_products
from pellucid.train.threads import count_threads, map_threads, thread_rows

FUSED_LOSS = "fused_loss"
"""Where `compile_layers` leaves on the model what makes loss and gradient of some logits."""


@dataclass(frozen=True)
class UpdateResult:
    """What one update did."""

    loss: float
    """Mean over the target tokens, label smoothing included, in nats."""
    target_tokens: int
    gradient_norm: float
    learning_rate: float
    halved: int = 0
    """How often a batch that did not fit in memory was split in two."""
    left_out: tuple[Batch, ...] = ()
    """The pairs that did not fit even alone, of this worker."""
    pairs_left_out: int = 0
    """How many they are, of all workers."""

    @property
    def skipped(self) -> bool:
        """A gradient that was no number changed nothing."""
        return not (isfinite(self.gradient_norm) and isfinite(self.loss))


def update_weights(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    parts: list[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
    workers: Workers = ALONE,
) -> UpdateResult:
    """Change the weights once by the gradient of all `parts` together, and of those of the other workers.

    The losses of all are summed, and their gradients; both are divided once, by the tokens of all: however a batch is
    cut and shared out, it gives the gradient of the whole. Raises MemoryError when memory does not suffice for any
    pair, and where the model is sharded already when it does not for a batch.
    """
    loss, tokens, halved, left_out = accumulate_gradient(model, parts, c, precision)
    out = len(left_out)
    gradients = [each if (each := p.grad) is not None else torch.zeros_like(p) for p in model.parameters()]
    if workers.world_size > 1:
        sums = torch.stack([loss, *loss.new_tensor([tokens, halved, out])])
        workers.all_reduce_sum([sums])
        loss, (tokens, halved, out) = sums[0], map(int, sums[1:].tolist())
        if not is_sharded(model):
            workers.all_reduce_sum(gradients)
    if not tokens:
        model.zero_grad(set_to_none=True)
        raise MemoryError("there is not enough for a single pair; free some, or train a smaller model")
    norm = gather_tensor(nn.utils.get_total_norm(gradients, foreach=True)) / tokens
    torch._foreach_mul_(gradients, (c.clip / (norm + 1e-6)).clamp(max=1.0) / tokens)  # pyright: ignore[reportPrivateImportUsage]
    total, length = torch.stack([loss, norm.double()]).tolist()  # the one time that an update waits for a GPU
    done = UpdateResult(total / tokens, tokens, length, rate, halved, tuple(left_out), out)
    if not done.skipped:
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter, of_it in zip(model.parameters(), gradients, strict=True):
            parameter.grad = of_it
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return done


def accumulate_gradient(
    model: Transformer, parts: list[Batch], c: OptimConfig, precision: str
) -> tuple[Tensor, int, int, list[Batch]]:
    """Put the gradient of the summed loss into the weights; returns that sum and its target tokens.

    A part that memory does not suffice for is split in two, and everything begun again, for half a backward pass
    leaves half a gradient. How often that was done comes next, and then the pairs that did not fit even alone.
    """
    parts, halved = list(parts), 0
    left_out: list[Batch] = []
    while True:
        unfit = backward_all(model, parts, c, precision)
        if isinstance(unfit, Tensor):
            return unfit, sum(part.target_tokens for part in parts), halved, left_out
        if is_sharded(model):
            raise MemoryError(
                f"{len(parts[unfit].source)} pairs did not fit beside this worker's part of the model, and where "
                "train.shard_model is true all workers go through the layers together, so that one cannot split its "
                "batch; resume with more workers, or begin anew with a smaller train.batch_tokens and a larger "
                "train.accumulate"
            )
        model.zero_grad(set_to_none=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        part = parts.pop(unfit)
        if len(part.source) > 1:
            parts[unfit:unfit] = halve_batch(part)
            halved += 1
        else:
            left_out.append(part)


def backward_all(model: Transformer, parts: list[Batch], c: OptimConfig, precision: str) -> Tensor | int:
    """The summed loss of all parts, their gradients in the weights; or the number of the first that does not fit."""
    threads = count_threads(model, parts) if parts else 1
    if threads > 1:
        return backward_on_threads(
            model, [[thread_rows(part, i, threads) for part in parts] for i in range(threads)], c, precision
        )
    weight = model.output_embedding.weight
    total = torch.zeros((), dtype=torch.float64, device=weight.device)
    for number, part in enumerate(parts):
        torch.manual_seed(part.seed)
        try:
            gather_embeddings(model)
            with autocast_products(precision, weight.device):
                loss = batch_loss(model, part.to(weight.device), c.label_smoothing, c.r_drop)
            loss.backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return number
        total += loss.detach()
    return total


def backward_on_threads(model: Transformer, shares: list[list[Batch]], c: OptimConfig, precision: str) -> Tensor | int:
    """The same, each share on a thread of its own; gradients are added in one order, so that bits are repeated."""
    parameters = list(model.parameters())

    def of_one(parts: list[Batch]) -> tuple[Tensor, list[Tensor]] | int:
        total, gradients = torch.zeros((), dtype=torch.float64), []
        for number, part in enumerate(parts):
            try:
                with seeded_dropout(part.seed), autocast_products(precision, total.device):
                    loss = batch_loss(model, part, c.label_smoothing, c.r_drop)
                found = torch.autograd.grad(loss, parameters, materialize_grads=True)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return number
            total += loss.detach()
            gradients = add_tensors(gradients, list(found)) if gradients else list(found)
        return total, gradients

    done = map_threads(of_one, shares)
    if unfit := [each for each in done if isinstance(each, int)]:
        return min(unfit)
    (total, gradients), *others = (each for each in done if not isinstance(each, int))
    for more, found in others:
        total, gradients = total + more, add_tensors(gradients, found)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return total


def add_tensors(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    """The sums of tensors of the same shapes."""
    return list(torch._foreach_add(one, other))  # pyright: ignore[reportPrivateImportUsage]


def batch_loss(model: Transformer, batch: Batch, smoothing: float, r_drop: float = 0.0) -> torch.Tensor:
    """The summed loss of a batch: each target piece given the source and the pieces before it (teacher forcing).

    With `r_drop`, every pair goes through twice, with other dropout (`r_drop_loss`).
    """
    targets, weight, bias = batch.target_out.flatten(), model.output_embedding.weight, model.output_bias
    # Where pieces are is asked first: a GPU has nothing else to do then, and later it would have to be waited for.
    there = (targets != PAD).nonzero()[:, 0]
    targets = targets[there]
    if not r_drop:
        states = model.states(batch.source, batch.target_in).flatten(0, 1).index_select(0, there)
        return loss_sum(states, weight, targets, smoothing, bias=bias, fused=vars(model).get(FUSED_LOSS))
    states = model.states(batch.source.repeat(2, 1), batch.target_in.repeat(2, 1)).unflatten(0, (2, -1))
    return loss_sum(states.flatten(1, 2).index_select(1, there).flatten(0, 1), weight, targets, smoothing, r_drop, bias)


def compile_layers(model: Transformer, backend: str = "inductor") -> Transformer:
    """The model, with the layers that training goes through fused by torch.compile, for batches of any shape.

    That happens in the first updates, and takes minutes. Searches and traces go through the layers as they are.
    """
    model.states = torch.compile(model.states, dynamic=True, backend=backend)
    vars(model)[FUSED_LOSS] = torch.compile(loss_of_rows, dynamic=True, backend=backend)
    return model
