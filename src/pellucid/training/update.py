"""One update of the weights, from the forward pass to the optimizer's step.

`update_weights` is the update. Losses are summed over all batches and workers and divided once, by
all target tokens, so that accumulation and data parallelism do not change the result.
`update_within_memory`, at the end, calls it with smaller batches where memory does not suffice.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from pellucid.cpu import has_native_bfloat16
from pellucid.data.batching import Batch, halve_batch
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import ALONE, Workers
from pellucid.training.fused.compiler import Kernels
from pellucid.training.fused.modules import fused_operations
from pellucid.training.gradient_sums import GradientSums
from pellucid.training.loss import loss_sum
from pellucid.training.memory import BatchTooLarge, is_out_of_memory
from pellucid.training.optimizer import Optimizer, limit_step_threads
from pellucid.training.threads import backward_on_threads

# Target positions for which another thread pays off, as every batch has a cost of its own: in
# float32 half a batch of 1,024, which is rarely full. In bfloat16 a tiny model's update of 1,024
# would take a sixth longer on two threads, unless fused operations run on one thread each.
POSITIONS_PER_THREAD = {"float32": 400, "bfloat16": 800, "fused": 450}
GRADIENT_BYTES = 2**30  # bytes that the gradients of all threads may take together


@dataclass(frozen=True)
class UpdateResult:
    """Loss, gradient norm and troubles of one update."""

    loss: float  # mean over the target tokens, with label smoothing, in nats
    target_tokens: int
    gradient_norm: float
    learning_rate: float
    halved: int = 0  # number of times that a batch that did not fit in memory was split in two
    # Pairs of this worker that did not fit in memory even alone, one to a batch.
    left_out: tuple[Batch, ...] = ()
    pairs_left_out: int = 0  # number of pairs that did not fit, on all workers together

    @property
    def skipped(self) -> bool:
        """Whether the weights were left unchanged because the loss or the gradient was not finite."""
        return not (isfinite(self.gradient_norm) and isfinite(self.loss))

    @property
    def is_clean(self) -> bool:
        """Whether nothing went wrong on any worker."""
        return not (self.skipped or self.halved or self.pairs_left_out)


def update_weights(
    model: Transformer,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
    workers: Workers = ALONE,
    kernels: Kernels | None = None,
    halved: int = 0,
    left_out: Sequence[Batch] = (),
) -> UpdateResult:
    """Change the weights once, by the gradient of all `batches` of all workers together.

    Losses and gradients are summed, and divided once by the target tokens of all batches: the
    result is the same however the pairs are cut into batches and shared out. `halved` and
    `left_out` say what was done to make this worker's batches fit; they are added up over the
    workers. Raises BatchTooLarge where they do not fit, and MemoryError where no worker has a pair
    that does.
    """
    # Forward and backward; complete gradients are sent to the other workers meanwhile.
    sums = workers.begin_sums(model)
    with fused_operations(model, kernels):
        loss = add_gradients(model, batches, c.label_smoothing, precision, workers, kernels, sums)

    # Sum over the workers.
    tokens = sum(batch.target_tokens for batch in batches)
    loss, counts, gradients = workers.sum_all(sums, loss, tokens, halved, len(left_out))
    tokens, halved, pairs_left_out = counts
    if not tokens:
        model.zero_grad(set_to_none=True)
        raise MemoryError(
            "there is not enough for a single pair; free some, or train a smaller model"
        )

    with limit_step_threads(gradients):
        # Clip. The gradients are still sums: the norm of their mean is theirs divided by the tokens.
        norm = workers.measure_norm(gradients) / tokens
        # One multiplication clips and divides. Where the norm is not finite, no step follows.
        factor = (c.clip / (norm + 1e-6)).clamp(max=1.0) / tokens
        torch._foreach_mul_(gradients, factor)  # pyright: ignore[reportPrivateImportUsage]
        # One transfer for both numbers: only here does an update wait for a GPU.
        loss_value, norm_value = torch.stack([loss, norm.double()]).tolist()
        result = UpdateResult(
            loss=loss_value / tokens,
            target_tokens=tokens,
            gradient_norm=norm_value,
            learning_rate=rate,
            halved=halved,
            left_out=tuple(left_out),
            pairs_left_out=pairs_left_out,
        )

        # Step, unless a number is not finite: running means would keep a NaN for ever.
        if not result.skipped:
            for group in optimizer.param_groups:
                group["lr"] = rate
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()

    model.zero_grad(set_to_none=True)
    return result


def add_gradients(
    model: Transformer,
    batches: Sequence[Batch],
    smoothing: float,
    precision: str,
    workers: Workers,
    kernels: Kernels | None,
    sums: GradientSums,
) -> Tensor:
    """Add the gradients of all batches to the `.grad` of each weight; return the sum of the losses."""
    device = model.output_embedding.weight.device

    def forward(batch: Batch) -> Tensor:
        with autocast_products(precision, device):
            return batch_loss(model, batch, smoothing, kernels)

    way = "fused" if kernels else precision
    threads = 1 if workers.in_lockstep else count_threads(model, batches, way)
    if threads > 1:
        return backward_on_threads(model, batches, threads, forward)

    loss = torch.zeros((), dtype=torch.float64, device=device)
    for index, batch in enumerate(batches):
        # Dropout depends on the batch's place in the data: a resumed run draws the same masks.
        torch.manual_seed(batch.seed)
        try:
            workers.gather_embeddings(model)
            loss_of_batch = forward(batch.to(device))
            with sums.sending() if index == len(batches) - 1 else nullcontext():
                loss_of_batch.backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            workers.call_off(sums, device)
            raise BatchTooLarge(index) from None
        loss += loss_of_batch.detach()
    return loss


def batch_loss(
    model: Transformer, batch: Batch, smoothing: float, kernels: Kernels | None = None
) -> Tensor:
    """Return the summed loss of a batch under teacher forcing.

    Every target token is predicted from the source and from the target tokens before it.
    """
    weight, bias = model.output_embedding.weight, model.output_bias
    targets = batch.target_out.flatten()
    # Padding has no loss. nonzero() waits for the GPU, so it comes first: nothing is queued yet.
    real = (targets != PAD).nonzero()[:, 0]
    targets = targets[real]

    states = model.states(batch.source, batch.target_in).flatten(0, 1)
    return loss_sum(states.index_select(0, real), weight, targets, smoothing, bias, kernels)


def autocast_products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which matrix products are bfloat16, if requested and built in.

    All else stays float32.
    """
    # Emulated bfloat16 would be slower than float32, so it is not used even if requested.
    enabled = precision == "bfloat16" and has_native_bfloat16(device)
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def count_threads(model: Transformer, batches: Sequence[Batch], way: str) -> int:
    """Return how many threads are to share these batches on a CPU, each with its own rows and gradient.

    `way` is a key of POSITIONS_PER_THREAD. Small matrices are too small for many threads to share
    one product, and operations between products are shared even less; rows are shared completely
    (benchmarks/results/train-threads.md). Without dropout the result is the same as on one thread,
    apart from rounding. With dropout each thread has a seed of its own (`thread_rows`), so another
    number of threads draws other masks: the update is an equally good one, but not the same.
    """
    # A GPU is busy as it is.
    if not batches or model.output_embedding.weight.device.type != "cpu":
        return 1
    largest = max(batch.target_in.numel() for batch in batches)
    fewest_rows = min(len(batch.source) for batch in batches)
    gradient_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    worth, room = largest // POSITIONS_PER_THREAD[way], GRADIENT_BYTES // gradient_bytes
    # The processor's other threads work inside of each of these: see `cpu.thread_pool`.
    return max(1, min(torch.get_num_threads(), worth, room, fewest_rows))


def update_within_memory(
    model: Transformer,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
    workers: Workers = ALONE,
    kernels: Kernels | None = None,
) -> UpdateResult:
    """Make one update (`update_weights`); batches that do not fit in memory are split in two until they do.

    A pair that does not fit even alone is left out. Raises MemoryError when memory does not suffice
    for a single pair, and for a sharded model when it does not suffice for a batch.
    """
    batches, halved, left_out = list(batches), 0, []
    while True:
        try:
            return update_weights(
                model, optimizer, batches, rate, c, precision, workers, kernels, halved, left_out
            )
        except BatchTooLarge as error:
            # Only its number: the error itself would keep the tensors of the batch in memory.
            index = error.index

        if workers.in_lockstep:
            raise MemoryError(
                f"{len(batches[index].source)} pairs did not fit beside this worker's part of the "
                "model, and where train.shard_model is true all workers go through the layers "
                "together, so that one cannot split its batch; resume with more workers, or "
                "begin anew with a smaller train.batch_tokens and a larger train.accumulate"
            )
        # All batches are run again: a backward pass that ran out of memory leaves half a gradient.
        model.zero_grad(set_to_none=True)
        # Blocks that torch still holds have the sizes of the batch that failed, not of its halves.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

        batch = batches.pop(index)
        if len(batch.source) > 1:
            batches[index:index] = halve_batch(batch)
            halved += 1
        else:
            left_out.append(batch)
