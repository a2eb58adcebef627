"""One update of the weights, from the forward pass to the optimizer's step, and the learning rate that it is made with.

Losses are summed over all batches and workers and divided once, by all target tokens, so that accumulation and data
parallelism do not change the result.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import isfinite

import torch
from torch import Tensor, nn

from pellucid.cpu import describe_missing_bfloat16, has_native_bfloat16, limit_threads, thread_pool
from pellucid.data.batching import Batch, slice_batch
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.model.dropout import seeded_dropout
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import ALONE, Workers, gather_embeddings, gather_tensor, is_sharded
from pellucid.training.loss import loss_sum
from pellucid.training.optimizer import Optimizer

# Target positions for which another thread pays off, as every batch has a cost that does not depend on its length. In
# float32 that is half a batch of 1,024, which is rarely full. Products in bfloat16 take less of an update's time: a
# tiny model's update of 1,024 would take a sixth longer on two threads, and one of 2,048 is faster.
POSITIONS_PER_THREAD = {"float32": 400, "bfloat16": 800}
NUMBERS_PER_THREAD = 2**23  # gradients for which another thread pays off where they are added, clipped and applied
GRADIENT_BYTES = 2**30  # bytes that the gradients of all threads may take together
# Texts of the RuntimeErrors that mean it: of CUDA and MPS, of the CPU, of the CPU on Windows, of cuBLAS.
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(frozen=True)
class UpdateResult:
    """Loss, gradient norm and troubles of one update."""

    loss: float  # mean over the target tokens, with label smoothing, in nats
    target_tokens: int
    gradient_norm: float
    learning_rate: float
    halved: int = 0  # number of times that a batch that did not fit in memory was split in two
    left_out: tuple[Batch, ...] = ()  # pairs of this worker that did not fit in memory even alone, one to a batch
    pairs_left_out: int = 0  # number of pairs that did not fit, on all workers together

    @property
    def skipped(self) -> bool:
        """Whether the weights were left unchanged because the loss or the gradient was not finite."""
        return not (isfinite(self.gradient_norm) and isfinite(self.loss))


class BatchTooLarge(MemoryError):
    """Error of an update that could not be made because batch number `index` of this worker does not fit in memory."""

    def __init__(self, index: int):
        super().__init__(f"batch {index} of the update does not fit in memory")
        self.index = index


def update_weights(
    model: Transformer,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
    workers: Workers = ALONE,
    halved: int = 0,
    left_out: Sequence[Batch] = (),
) -> UpdateResult:
    """Change the weights once, by the gradient of all `batches` of all workers together.

    The losses are summed, their gradients too, and both are divided once by the target tokens of all batches: the
    result is the gradient of the whole, however it is cut into batches and shared out. `halved` and `left_out` say what
    was done to make this worker's batches fit (`recovery.update_within_memory`); they are added up over the workers.
    Raises BatchTooLarge where they do not fit, and MemoryError where no worker has a pair that does.
    """
    # Forward and backward: the sum of the losses; the sum of the gradients is in each weight's `.grad`.
    device = model.output_embedding.weight.device
    threads = count_threads(model, batches, precision)
    if threads > 1:
        loss = _backward_on_threads(model, batches, threads, c.label_smoothing, precision)
    else:
        loss = torch.zeros((), dtype=torch.float64, device=device)
        for index, batch in enumerate(batches):
            # Dropout depends on the batch's position in the data only, so a resumed run draws the same masks.
            torch.manual_seed(batch.seed)
            try:
                # The loss reads the output embedding outside of the layers that FSDP gathers by itself.
                gather_embeddings(model)
                with autocast_products(precision, device):
                    loss_of_batch = batch_loss(model, batch.to(device), c.label_smoothing)
                loss_of_batch.backward()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                raise BatchTooLarge(index) from None
            loss += loss_of_batch.detach()

    # Sum over the workers. One without a batch has no gradients, but must send as many numbers as the others.
    tokens, pairs_left_out = sum(batch.target_tokens for batch in batches), len(left_out)
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

    with _step_threads(model):
        # Clip. The gradients are still sums here: the norm of the mean gradient is theirs divided by the tokens.
        norm = gather_tensor(nn.utils.get_total_norm(gradients, foreach=True)) / tokens
        # One multiplication clips and divides by the tokens. A norm that is not finite does no harm: no step follows.
        torch._foreach_mul_(gradients, (c.clip / (norm + 1e-6)).clamp(max=1.0) / tokens)  # pyright: ignore[reportPrivateImportUsage]
        # One transfer for both numbers: it is the only time that an update waits for the GPU's results.
        loss_value, norm_value = torch.stack([loss, norm.double()]).tolist()
        result = UpdateResult(loss_value / tokens, tokens, norm_value, rate, halved, tuple(left_out), pairs_left_out)

        # Step, unless a number is not finite: running means would keep a NaN for ever, so they must not see one.
        if not result.skipped:
            for group in optimizer.param_groups:
                group["lr"] = rate
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
    model.zero_grad(set_to_none=True)
    return result


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """Return the summed loss of a batch under teacher forcing.

    Every target token is predicted from the source and from the target tokens before it.
    """
    targets, weight, bias = batch.target_out.flatten(), model.output_embedding.weight, model.output_bias
    # Padding has no loss. nonzero() waits for the GPU, so it comes first: the GPU has nothing else to do then.
    real_positions = (targets != PAD).nonzero()[:, 0]
    targets = targets[real_positions]
    states = model.states(batch.source, batch.target_in).flatten(0, 1).index_select(0, real_positions)
    return loss_sum(states, weight, targets, smoothing, bias)


def autocast_products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which matrix products are bfloat16, if requested and built in, and all else stays float32."""
    # Emulated bfloat16 would be slower than float32, so it is not used even if requested.
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and has_native_bfloat16(device))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch, numpy or Python means that memory does not suffice.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    (True, False)
    """
    # Not every backend raises torch's own class: others raise a plain RuntimeError, known by its text only.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None
    )


def count_threads(model: Transformer, batches: Sequence[Batch], precision: str) -> int:
    """Return how many threads are to share these batches on a CPU, each with its own rows and its own gradient.

    The matrices of a small model are too small for many threads to share one product, and the operations between the
    products are shared even less; rows are shared completely (benchmarks/results/train-threads.md). Without dropout the
    result is the same as on one thread, apart from rounding. With dropout each thread has a seed of its own
    (`thread_rows`), so another number of threads draws other masks: the update is an equally good one, but not the
    same.
    """
    weight = model.output_embedding.weight
    # A GPU is busy as it is, and a sharded model does not run on several threads.
    if not batches or weight.device.type != "cpu" or is_sharded(model):
        return 1
    worth = max(batch.target_in.numel() for batch in batches) // POSITIONS_PER_THREAD[precision]
    room = GRADIENT_BYTES // sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    # The processor's other threads work inside of each of these: see `processor.thread_pool`.
    return max(1, min(torch.get_num_threads(), worth, room, *(len(batch.source) for batch in batches)))


def _backward_on_threads(
    model: Transformer, batches: Sequence[Batch], threads: int, smoothing: float, precision: str
) -> Tensor:
    """Run all batches forward and backward, each thread with its rows of every batch; return the summed loss."""
    parameters = list(model.parameters())

    def backward_share(thread: int) -> tuple[Tensor, list[Tensor]] | int:
        """Return the loss and the gradients of a thread's rows, or the index of the first batch that does not fit."""
        total, gradients = torch.zeros((), dtype=torch.float64), []
        for index, batch in enumerate(batches):
            rows = thread_rows(batch, thread, threads)
            try:
                with seeded_dropout(rows.seed), autocast_products(precision, total.device):
                    loss = batch_loss(model, rows, smoothing)
                # Not backward(): threads would add into the same `.grad` in an order that changes from run to run.
                gradients_of_batch = torch.autograd.grad(loss, parameters, materialize_grads=True)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return index
            total += loss.detach()
            gradients = _add_tensors(gradients, list(gradients_of_batch)) if gradients else list(gradients_of_batch)
        return total, gradients

    results = list(thread_pool(threads, max(1, torch.get_num_threads() // threads)).map(backward_share, range(threads)))
    if too_large := [index for index in results if isinstance(index, int)]:
        raise BatchTooLarge(min(too_large))
    # Reduced in the order of the threads, whoever was first: floating-point sums depend on the order.
    (total, gradients), *sums = (result for result in results if not isinstance(result, int))
    with _step_threads(model):
        for thread_total, thread_gradients in sums:
            total, gradients = total + thread_total, _add_tensors(gradients, thread_gradients)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return total


def thread_rows(batch: Batch, thread: int, threads: int) -> Batch:
    """Return every n-th row of a batch, from row `thread` on, with a dropout seed of its own."""
    # A batch is sorted by length: with a stride, each thread gets long and short rows.
    return replace(slice_batch(batch, slice(thread, None, threads)), seed=batch.seed + thread)


def _add_tensors(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    """Return the element-wise sums of two lists of tensors."""
    return list(torch._foreach_add(first, second))  # pyright: ignore[reportPrivateImportUsage]


def _step_threads(model: Transformer) -> AbstractContextManager[None]:
    """Use no more threads than adding, clipping and applying the model's gradients is worth.

    Threads that share an operation wait for each other at its end, hundreds of times in an update. Beside busy programs
    each wait may cost a turn of the processor.
    """
    numbers = sum(parameter.numel() for parameter in model.parameters())
    return limit_threads(max(1, min(torch.get_num_threads(), numbers // NUMBERS_PER_THREAD)))


def explain_float32(precision: str, device: torch.device) -> str | None:
    """Return a sentence that explains why another precision than the requested one is used, if so."""
    if precision != "bfloat16" or has_native_bfloat16(device):
        return None
    return f"train.precision = bfloat16, which {describe_missing_bfloat16(device)}: products are made in float32"


def learning_rate(step: int, progress: float, c: OptimConfig) -> float:
    """Return the learning rate of update number `step`, counted from 0, when `progress` (0 to 1) of the run is over.

    >>> c = OptimConfig(peak=1.0, warmup=4)
    >>> [learning_rate(step, 0.0, c) for step in (0, 1, 3, 15)]
    [0.25, 0.5, 1.0, 0.5]
    """
    warmups = (step + 1) / c.warmup
    return c.peak * SCHEDULES[c.schedule].factor(warmups, progress)


def rise_and_fall_as_root(warmups: float, progress: float) -> float:
    """Return the share of the peak after so many times the warm-up: a straight rise, then a fall as 1 / sqrt(step).

    That is the paper's formula with its peak named instead of implied (peak = (d_model * warmup)^-0.5 there).
    """
    # The two curves cross at the peak, where both are 1.
    return min(warmups, warmups**-0.5)


def rise_and_fall_linearly(warmups: float, progress: float) -> float:
    """Return the share of the peak: a straight rise, and a straight fall to zero at the end of the run."""
    # A short run would end before its warm-up does: the rise takes a fifth of the run at most.
    rise = min(max(warmups, progress / 0.2), 1.0)
    # By progress and not by steps, for a run that is given minutes does not know its number of steps.
    return rise * max(0.0, 1.0 - progress)


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes: its share of the peak after so many warm-ups and so much of the run."""

    factor: Callable[[float, float], float]
    shortens_warmup: bool = False  # where the run would end before its warm-up does


SCHEDULES = {
    "inverse_sqrt": Schedule(rise_and_fall_as_root),
    "linear": Schedule(rise_and_fall_linearly, shortens_warmup=True),
}


def dropout_factor(epochs: float, c: OptimConfig) -> float:
    """Return the share (0 to 1) of the model's dropout that applies after so many epochs: a straight rise from nothing.

    >>> [dropout_factor(epochs, OptimConfig(dropout_rise=4.0)) for epochs in (0.0, 1.0, 4.0, 9.0)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(epochs / c.dropout_rise, 1.0) if c.dropout_rise else 1.0
