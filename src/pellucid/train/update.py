"""One update of the weights: teacher forcing, summed losses, gradient clipping and an Adam step.

Losses are summed over all batches and workers and divided once, by all target tokens, so that accumulation and data
parallelism do not change the result.
"""

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
"""Attribute of a model under which `compile_layers` stores the compiled `loss_of_rows`."""


@dataclass(frozen=True)
class UpdateResult:
    """Loss, gradient norm and troubles of one update."""

    loss: float
    """Mean over the target tokens, with label smoothing, in nats."""
    target_tokens: int
    gradient_norm: float
    learning_rate: float
    halved: int = 0
    """Number of times that a batch that did not fit in memory was split in two."""
    left_out: tuple[Batch, ...] = ()
    """Pairs of this worker that did not fit in memory even alone, one to a batch."""
    pairs_left_out: int = 0
    """Number of pairs that did not fit, on all workers together."""

    @property
    def skipped(self) -> bool:
        """Whether the weights were left unchanged because the loss or the gradient was not finite."""
        return not (isfinite(self.gradient_norm) and isfinite(self.loss))


def update_weights(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batches: list[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
    workers: Workers = ALONE,
) -> UpdateResult:
    """Change the weights once, by the gradient of all `batches` of all workers together.

    The losses are summed, their gradients too, and both are divided once by the target tokens of all batches: the
    result is the gradient of the whole, however it is cut into batches and shared out. Raises MemoryError when memory
    does not suffice for a single pair, and for a sharded model when it does not suffice for a batch.
    """
    loss, tokens, halved, left_out = accumulate_gradient(model, batches, c, precision)
    pairs_left_out = len(left_out)
    # A worker whose batches all failed has no gradients, but must send as many numbers as the others.
    gradients = [gradient if (gradient := p.grad) is not None else torch.zeros_like(p) for p in model.parameters()]
    if workers.world_size > 1:
        sums = torch.stack([loss, *loss.new_tensor([tokens, halved, pairs_left_out])])
        workers.all_reduce_sum([sums])
        loss, (tokens, halved, pairs_left_out) = sums[0], map(int, sums[1:].tolist())
        # FSDP has summed the gradients of a sharded model already, in its backward pass.
        if not is_sharded(model):
            workers.all_reduce_sum(gradients)
    if not tokens:
        model.zero_grad(set_to_none=True)
        raise MemoryError("there is not enough for a single pair; free some, or train a smaller model")
    # The gradients are still sums here: the norm of the mean gradient is theirs divided by the tokens.
    norm = gather_tensor(nn.utils.get_total_norm(gradients, foreach=True)) / tokens
    # One multiplication clips and divides by the tokens. A norm that is not finite does no harm: the step is skipped.
    torch._foreach_mul_(gradients, (c.clip / (norm + 1e-6)).clamp(max=1.0) / tokens)  # pyright: ignore[reportPrivateImportUsage]
    # One transfer for both numbers: it is the only time that an update waits for the GPU's results.
    loss_value, norm_value = torch.stack([loss, norm.double()]).tolist()
    result = UpdateResult(loss_value / tokens, tokens, norm_value, rate, halved, tuple(left_out), pairs_left_out)
    # Adam's averages would keep a NaN for ever, so it must not see one.
    if not result.skipped:
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return result


def accumulate_gradient(
    model: Transformer, batches: list[Batch], c: OptimConfig, precision: str
) -> tuple[Tensor, int, int, list[Batch]]:
    """Add up the gradient of the summed loss in `.grad`; split batches that do not fit in memory.

    Returns the summed loss, its target tokens, how many times a batch was split, and the pairs that did not fit even
    alone.
    """
    batches, halved = list(batches), 0
    left_out: list[Batch] = []
    # Every split starts over with all batches: a backward pass that ran out of memory half-way leaves half a gradient.
    while True:
        loss_or_index = backward_all(model, batches, c, precision)
        if isinstance(loss_or_index, Tensor):
            return loss_or_index, sum(batch.target_tokens for batch in batches), halved, left_out
        # A worker of a sharded model cannot retry alone: the others wait for it in every layer.
        if is_sharded(model):
            raise MemoryError(
                f"{len(batches[loss_or_index].source)} pairs did not fit beside this worker's part of the model, "
                "and where train.shard_model is true all workers go through the layers together, so that one cannot "
                "split its batch; resume with more workers, or begin anew with a smaller train.batch_tokens and a "
                "larger train.accumulate"
            )
        model.zero_grad(set_to_none=True)
        # Free blocks that torch still holds have the sizes of the batch that failed, not of its halves.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        batch = batches.pop(loss_or_index)
        if len(batch.source) > 1:
            batches[loss_or_index:loss_or_index] = halve_batch(batch)
            halved += 1
        else:
            left_out.append(batch)


def backward_all(model: Transformer, batches: list[Batch], c: OptimConfig, precision: str) -> Tensor | int:
    """Run all batches forward and backward; return their summed loss, or the index of the first that does not fit."""
    threads = count_threads(model, batches) if batches else 1
    if threads > 1:
        return backward_on_threads(
            model, [[thread_rows(batch, i, threads) for batch in batches] for i in range(threads)], c, precision
        )
    weight = model.output_embedding.weight
    total = torch.zeros((), dtype=torch.float64, device=weight.device)
    for index, batch in enumerate(batches):
        # Dropout depends on the batch's position in the data only, so a resumed run draws the same masks.
        torch.manual_seed(batch.seed)
        try:
            # The loss reads the output embedding outside of the layers that FSDP gathers by itself.
            gather_embeddings(model)
            with autocast_products(precision, weight.device):
                loss = batch_loss(model, batch.to(weight.device), c.label_smoothing)
            loss.backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return index
        total += loss.detach()
    return total


def backward_on_threads(
    model: Transformer, batches_by_thread: list[list[Batch]], c: OptimConfig, precision: str
) -> Tensor | int:
    """Do the work of `backward_all` with one thread for each list of batches."""
    parameters = list(model.parameters())

    def backward_share(batches: list[Batch]) -> tuple[Tensor, list[Tensor]] | int:
        total, gradients = torch.zeros((), dtype=torch.float64), []
        for index, batch in enumerate(batches):
            try:
                with seeded_dropout(batch.seed), autocast_products(precision, total.device):
                    loss = batch_loss(model, batch, c.label_smoothing)
                # Not backward(): threads would add into the same `.grad` in an order that changes from run to run.
                gradients_of_batch = torch.autograd.grad(loss, parameters, materialize_grads=True)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return index
            total += loss.detach()
            gradients = add_tensors(gradients, list(gradients_of_batch)) if gradients else list(gradients_of_batch)
        return total, gradients

    results = map_threads(backward_share, batches_by_thread)
    if unfit := [index for index in results if isinstance(index, int)]:
        return min(unfit)
    # Reduced in the order of the threads, whoever was first: floating-point sums depend on the order.
    (total, gradients), *sums = (result for result in results if not isinstance(result, int))
    for thread_total, thread_gradients in sums:
        total, gradients = total + thread_total, add_tensors(gradients, thread_gradients)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return total


def add_tensors(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    """Return the element-wise sums of two lists of tensors."""
    return list(torch._foreach_add(first, second))  # pyright: ignore[reportPrivateImportUsage]


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """Return the summed loss of a batch under teacher forcing.

    Every target token is predicted from the source and from the target tokens before it.
    """
    targets, weight, bias = batch.target_out.flatten(), model.output_embedding.weight, model.output_bias
    # Padding has no loss. nonzero() waits for the GPU, so it comes first: the GPU has nothing else to do then.
    real_positions = (targets != PAD).nonzero()[:, 0]
    targets = targets[real_positions]
    states = model.states(batch.source, batch.target_in).flatten(0, 1).index_select(0, real_positions)
    return loss_sum(states, weight, targets, smoothing, bias, vars(model).get(FUSED_LOSS))


def compile_layers(model: Transformer, backend: str = "inductor") -> Transformer:
    """Compile the layers that training runs through, and the loss, with torch.compile; batches may have any shape.

    Compilation happens in the first updates and takes minutes. Searches and traces use the layers uncompiled.
    """
    # dynamic: hardly any two batches have the same shape, and each would be compiled anew.
    model.states = torch.compile(model.states, dynamic=True, backend=backend)
    vars(model)[FUSED_LOSS] = torch.compile(loss_of_rows, dynamic=True, backend=backend)
    return model
