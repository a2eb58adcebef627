"""Data parallelism: workers that share the pairs of each update and add up their gradients.

`torchrun` starts the workers. All have the same weights (in parts, where FSDP shards them) and read
the same stream, and each computes its share of an update. The sums over the shares are what one
worker would have computed (sum first, divide once), so the number of workers changes how long a run
takes and nothing else. The first worker reports, evaluates and writes.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from pellucid.data.batching import Batch
from pellucid.data.stream import BatchSpec, Stream
from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.model import Transformer
from pellucid.training.gradient_sums import BucketSums, GradientSums, bucket_tensors, copy_parts

# What an optimizer keeps of each weight, such as Adam's running means.
OptimizerState = Mapping[nn.Parameter, dict[str, Tensor]]


class TrainingFailed(RuntimeError):
    """Error of a run that cannot continue; the message says why, and what to do."""


@dataclass(frozen=True)
class Workers(ABC):
    """The workers of a run, as one of them sees them: how they hold the model and add up gradients.

    This process has number `rank` among `world_size` workers. Which of the classes below it is gets
    decided once, when it joins the others (`process_group.join_workers`).
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0  # number of this worker on its machine, and of its GPU

    # Whether all workers go through the layers together, so that none can repeat or divide a pass.
    in_lockstep: ClassVar[bool] = False

    @property
    def is_first(self) -> bool:
        """Whether this worker is the one that reports and writes for all."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Device that this worker computes on."""
        if torch.cuda.is_available():
            return torch.device("cuda", self.local_rank)
        return torch.device("cpu")

    @abstractmethod
    def describe(self) -> str:
        """Return a sentence on how the workers share a run; empty for a run that nobody shares."""

    def place_model(self, model: Transformer) -> Transformer:
        """Return the model on this worker's device: all of it, or this worker's part.

        All workers must hold the same weights before.
        """
        return model.to(self.device)

    @abstractmethod
    def gather_embeddings(self, model: Transformer) -> None:
        """Gather the weights outside of the layers until the end of the next backward pass.

        The loss reads them.
        """

    @abstractmethod
    def sum_numbers(self, loss: Tensor, *counts: int) -> tuple[Tensor, list[int]]:
        """Return the sums over all workers of a loss and of some counts."""

    def begin_sums(self, model: Transformer) -> GradientSums:
        """Return what sums the gradients of an update over all workers."""
        return GradientSums(model)

    def sum_all(
        self, sums: GradientSums, loss: Tensor, tokens: int, halved: int, left_out: int
    ) -> tuple[Tensor, list[int], list[Tensor]]:
        """Return the sums over all workers of a loss, of three counts and of each gradient."""
        while True:
            sums.send_rest()
            counts = tokens, halved, left_out
            total_loss, [*totals, called_off] = self.sum_numbers(loss, *counts, 0)
            if not called_off:
                return total_loss, totals, sums.receive()

            # Another worker computes its gradients again, and then all send theirs.
            sums.discard()

    def call_off(self, sums: GradientSums, device: torch.device) -> None:
        """Let all workers discard the sums that are on their way, if any are.

        This worker cannot complete its gradients.
        """
        if not sums.has_begun:
            return
        sums.send_rest()
        # As many numbers as the others send in `sum_all`, where the last one says what happened.
        nothing = torch.zeros((), dtype=torch.float64, device=device)
        self.sum_numbers(nothing, 0, 0, 0, 1)

        sums.discard()

    def measure_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the norm of all gradients together; this worker may hold a part of each."""
        return nn.utils.get_total_norm(gradients, foreach=True)

    def gather_model(
        self, model: Transformer, state: OptimizerState
    ) -> tuple[Transformer, OptimizerState]:
        """Return the whole model, and the state of its optimizer, on the first worker.

        All workers must call this at once. The others get back what they have.
        """
        return model, state

    @abstractmethod
    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place and on every worker, by its sum over all workers.

        All tensors have one type.
        """

    @abstractmethod
    def all_reduce_max(self, number: int) -> int:
        """Return the largest of the workers' numbers."""

    @abstractmethod
    def broadcast(self, *numbers: float) -> list[float]:
        """Return the first worker's numbers, on every worker."""

    @abstractmethod
    def require_same(self, what: str, fingerprint: str) -> None:
        """Raise TrainingFailed if some workers have another fingerprint than the first; name them."""

    @abstractmethod
    def gather_texts(self, text: str) -> list[str]:
        """Return the text of each worker, on every worker."""

    def barrier(self) -> None:
        """Wait until all workers have come this far."""
        self.all_reduce_max(0)


class Alone(Workers):
    """The only worker of a run: it holds the whole model, and there is nobody to send anything to."""

    def describe(self) -> str:
        return ""

    def gather_embeddings(self, model: Transformer) -> None:
        pass

    def sum_numbers(self, loss: Tensor, *counts: int) -> tuple[Tensor, list[int]]:
        return loss, list(counts)

    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        pass

    def all_reduce_max(self, number: int) -> int:
        return number

    def broadcast(self, *numbers: float) -> list[float]:
        return list(numbers)

    def require_same(self, what: str, fingerprint: str) -> None:
        pass

    def gather_texts(self, text: str) -> list[str]:
        return [text]


ALONE = Alone()


class Replicated(Workers):
    """Workers that each hold the whole model, and add up their gradients in the backward pass."""

    def describe(self) -> str:
        return f"{self.world_size} workers share the pairs of each update"

    def gather_embeddings(self, model: Transformer) -> None:
        pass

    def sum_numbers(self, loss: Tensor, *counts: int) -> tuple[Tensor, list[int]]:
        sums = torch.stack([loss, *loss.new_tensor(counts)])
        self.all_reduce_sum([sums])
        return sums[0], [int(count) for count in sums[1:].tolist()]

    def begin_sums(self, model: Transformer) -> GradientSums:
        return BucketSums(model)

    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        for bucket in bucket_tensors(tensors):
            # One message for many small tensors: each message has a cost of its own.
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            distributed.all_reduce(flat)
            copy_parts(flat, bucket)

    def all_reduce_max(self, number: int) -> int:
        maximum = torch.tensor([number], device=self.device)
        distributed.all_reduce(maximum, distributed.ReduceOp.MAX)
        return int(maximum.item())

    def broadcast(self, *numbers: float) -> list[float]:
        # float64 holds every integer up to 2**53 exactly, and steps and flags travel here, too.
        values = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.broadcast(values, src=0)
        return values.tolist()

    def require_same(self, what: str, fingerprint: str) -> None:
        digests = self.gather_texts(hashlib.sha256(fingerprint.encode()).hexdigest())
        differing = []
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                differing.append(str(rank))
        if differing:
            raise TrainingFailed(
                f"worker{'s' * (len(differing) > 1)} {', '.join(differing)} of {self.world_size} "
                f"(counted from 0) found another {what} than worker 0; give all of them the same "
                "files and the same version of Pellucid"
            )

    def gather_texts(self, text: str) -> list[str]:
        content = text.encode()
        # Tensors of one size are exchanged: as large as the longest text.
        room = self.all_reduce_max(len(content))
        own = torch.frombuffer(bytearray(content.ljust(room, b"\0")), dtype=torch.uint8)
        texts = [torch.empty_like(own, device=self.device) for _ in range(self.world_size)]
        distributed.all_gather(texts, own.to(self.device))
        return [bytes(text.tolist()).rstrip(b"\0").decode() for text in texts]


class Sharded(Replicated):
    """Workers that each hold a part of every layer, which torch's FSDP gathers when it is needed."""

    in_lockstep = True

    def describe(self) -> str:
        return f"{super().describe()}, and each keeps its part of the model"

    def place_model(self, model: Transformer) -> Transformer:
        # torch's FSDP takes seconds to import, so only runs that are sharded do.
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import (
            FSDPModule,
            fully_shard,
            register_fsdp_forward_method,
        )

        mesh = init_device_mesh(self.device.type, (self.world_size,))
        # Layer by layer, and the rest of the model last: each call shards what is not sharded yet.
        for module in (*model.encoder, *model.decoder, model):
            fully_shard(module, mesh=mesh)

        for module in model.modules():
            if isinstance(module, FSDPModule):  # sum first, divide once; gloo can only sum
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)

        # FSDP gathers weights around forward(); training calls states().
        register_fsdp_forward_method(model, "states")
        return model

    def gather_embeddings(self, model: Transformer) -> None:
        # FSDP gathers the weights of each layer by itself; `fully_shard` gave the model this
        # method.
        unshard: Any = model.unshard
        unshard()

    def begin_sums(self, model: Transformer) -> GradientSums:
        return GradientSums(model)

    def measure_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return gather_tensor(super().measure_norm(gradients))

    def gather_model(
        self, model: Transformer, state: OptimizerState
    ) -> tuple[Transformer, OptimizerState]:
        whole_model = model
        if self.is_first:
            with self.device:
                # Its random weights are overwritten.
                whole_model = Transformer(model.config).train()

        whole_state = {}
        for shard, whole in zip(model.parameters(), whole_model.parameters(), strict=True):
            # Every worker takes part in each gather, also those that keep nothing of it.
            weight = gather_tensor(shard.detach())
            moments = {key: gather_tensor(value) for key, value in state.get(shard, {}).items()}
            if self.is_first:
                whole.data = weight
                # On the CPU, for they are only to be saved.
                whole_state[whole] = {key: value.cpu() for key, value in moments.items()}

        return whole_model, whole_state if self.is_first else state


def gather_tensor(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor; every worker must call this at once if it is sharded."""
    full = getattr(tensor, "full_tensor", None)
    return full() if full else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor that all workers hold whole on the device of `like`, and sharded if that is.

    A tensor of another shape (Adam's count of steps) stays whole.
    """
    mesh = getattr(like, "device_mesh", None)
    if mesh is None or tensor.shape != like.shape:
        return tensor.to(like.device)
    from torch.distributed.tensor import distribute_tensor

    placements: Any = like.placements  # pyright: ignore[reportAttributeAccessIssue]
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)  # None: nothing is sent


class Prefetcher:
    """Makes this worker's batches of an update, and prepares the next update's on a thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._keys: list[tuple[object, ...]] = []
        self._prefetched: Future[list[Batch]] | None = None

    def next_batches(self, stream: Stream, accumulate: int, workers: Workers) -> list[Batch]:
        """Return this worker's batches of the next update, and move the stream past them."""
        specs = [stream.advance() for _ in range(accumulate)]
        return self.batches(specs, stream.upcoming(accumulate), workers)

    def batches(
        self, specs: Sequence[BatchSpec], following: Sequence[BatchSpec], workers: Workers
    ) -> list[Batch]:
        """Return the batches of `specs`, and start making the batches of `following`."""
        # A stream that was set back, or is in another stage, asks for other batches.
        if self._prefetched and self._keys == [spec.key for spec in specs]:
            batches = self._prefetched.result()
        else:
            batches = worker_batches(specs, workers)

        self._keys, self._prefetched = [spec.key for spec in following], None
        if following:
            self._prefetched = self._thread.submit(worker_batches, following, workers)
        return batches


def worker_batches(specs: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
    """Return this worker's share of an update: whole batches, or rows of each.

    Rows are taken where the batches do not divide evenly. Whole batches are what one worker would
    compute, to the bit.
    """
    rank, world_size = workers.rank, workers.world_size
    shares = specs[rank::world_size]
    if len(specs) % world_size != 0:
        shares = []
        for spec in specs:
            # Each worker has dropout of its own; the threads of a worker take the seeds that follow
            # (`threads.thread_rows`).
            seed = spec.seed + (rank << 16)
            shares.append(replace(spec, pairs=spec.pairs[rank::world_size], seed=seed))

    batches: list[Batch] = []
    for share in shares:
        # A worker without rows computes a batch, too: a sharded model needs every worker in every
        # layer.
        batches += share.make_batches() if len(share.pairs) else [empty_batch(share.seed)]

    # A GPU can copy from pinned memory while it computes.
    if workers.device.type == "cuda":
        batches = [batch.pin_memory() for batch in batches]
    return batches


def empty_batch(seed: int) -> Batch:
    """Return a batch whose loss and gradient are zero."""
    # The only target is padding, which has no loss.
    source, target_in, target_out = (torch.tensor([[token]]) for token in (EOS, BOS, PAD))
    return Batch(source, target_in, target_out, np.empty(0, np.int64), 0, seed)
