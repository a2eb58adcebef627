"""One update of the weights: learning rate, forward pass, loss, gradient, clipping and an Adam step.

Losses are summed over all batches and workers and divided once, by all target tokens, so that accumulation and data
parallelism do not change the result.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from typing import TypeVar

import torch
from torch import Tensor, nn

from pellucid.data.batching import Batch, halve_batch, slice_batch
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.model.bfloat16 import describe_missing_bfloat16, has_native_bfloat16
from pellucid.model.dropout import seeded_dropout
from pellucid.train.config import OptimConfig
from pellucid.train.distributed import ALONE, Workers, gather_embeddings, gather_tensor, is_sharded
from pellucid.train.loss import loss_of_rows, loss_sum


def learning_rate(step: int, progress: float, c: OptimConfig) -> float:
    """Return the learning rate of update number `step`, counted from 0, when `progress` (0 to 1) of the run is over.

    It rises in a straight line for `warmup` updates. After that it falls, either as 1 / sqrt(step), which is the
    paper's formula with its peak named instead of implied (peak = (d_model * warmup)^-0.5 there), or in a straight line
    to zero at the end of the run.

    >>> c = OptimConfig(peak=1.0, warmup=4)
    >>> [learning_rate(step, 0.0, c) for step in (0, 1, 3, 15)]
    [0.25, 0.5, 1.0, 0.5]
    """
    warmup_factor = (step + 1) / c.warmup
    if c.schedule == "linear":
        # A short run would end before its warm-up does: the rise takes a fifth of the run at most.
        warmup_factor = max(warmup_factor, progress / 0.2)
        # By progress and not by steps, for a run that is given minutes does not know its number of steps.
        return c.peak * min(warmup_factor, 1.0) * max(0.0, 1.0 - progress)
    # The two curves cross at the peak, where both are 1.
    return c.peak * min(warmup_factor, warmup_factor**-0.5)


def dropout_factor(epochs: float, c: OptimConfig) -> float:
    """Return the share (0 to 1) of the model's dropout that applies after so many epochs: a straight rise from nothing.

    >>> [dropout_factor(epochs, OptimConfig(dropout_rise=4.0)) for epochs in (0.0, 1.0, 4.0, 9.0)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(epochs / c.dropout_rise, 1.0) if c.dropout_rise else 1.0


def make_adam(model: nn.Module, c: OptimConfig) -> torch.optim.Adam:
    """Return Adam over all parameters of the model."""
    # lr is set before each step from `learning_rate`; fused updates all parameters in one pass over them.
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(c.beta1, c.beta2), eps=c.epsilon, fused=True)


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


OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of the RuntimeErrors that mean it: of CUDA and MPS, of the CPU, of the CPU on Windows, of cuBLAS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch, numpy or Python means that memory does not suffice.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    (True, False)
    """
    # Not every backend raises torch's own class: others raise a plain RuntimeError, known by its text only.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None
    )


POSITIONS_PER_THREAD = 800
"""Target positions for which another thread pays off, as every batch has a cost that does not depend on its length.

Two threads gain from batches of 2,048, which are rarely as full as that, and not yet from those of 1,024.
"""

GRADIENT_BYTES = 2**30
"""Bytes that the gradients of all threads may take together."""

Work = TypeVar("Work")
Result = TypeVar("Result")


def count_threads(model: Transformer, batches: Sequence[Batch]) -> int:
    """Return how many threads are to share these batches."""
    weight = model.output_embedding.weight
    # A GPU is busy as it is; sharded and compiled models do not run on several threads.
    if weight.device.type != "cpu" or is_sharded(model) or is_compiled(model):
        return 1
    worth = max(batch.target_in.numel() for batch in batches) // POSITIONS_PER_THREAD
    room = GRADIENT_BYTES // sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    # The processor's other threads work inside of each of these: see `_pool`.
    return max(1, min(torch.get_num_threads(), worth, room, *(len(batch.source) for batch in batches)))


def is_compiled(model: Transformer) -> bool:
    """Whether `compile_layers` replaced the model's layers by compiled ones."""
    # Set on the instance, where it hides the method of the class.
    return "states" in vars(model)


def thread_rows(batch: Batch, thread: int, threads: int) -> Batch:
    """Return every n-th row of a batch, from row `thread` on, with a dropout seed of its own."""
    # A batch is sorted by length: with a stride, each thread gets long and short rows.
    return replace(slice_batch(batch, slice(thread, None, threads)), seed=batch.seed + thread)


def map_threads(work: Callable[[Work], Result], shares: Sequence[Work]) -> list[Result]:
    """Run `work` on each share in a thread of its own; return the results in the order of the shares."""
    return list(_pool(len(shares), max(1, torch.get_num_threads() // len(shares))).map(work, shares))


@cache
def _pool(threads: int, inside: int) -> ThreadPoolExecutor:
    # Cached: the libraries below torch set up a good deal for every new thread. With more threads here, each gets fewer
    # for its own products.
    return ThreadPoolExecutor(threads, "update", initializer=torch.set_num_threads, initargs=(inside,))


def autocast_products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which matrix products are bfloat16, if requested and built in, and all else stays float32."""
    # Emulated bfloat16 would be slower than float32, so it is not used even if requested.
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and has_native_bfloat16(device))


def explain_float32(precision: str, device: torch.device) -> str | None:
    """Return a sentence that explains why another precision than the requested one is used, if so."""
    if precision != "bfloat16" or has_native_bfloat16(device):
        return None
    return f"train.precision = bfloat16, which {describe_missing_bfloat16(device)}: products are made in float32"
