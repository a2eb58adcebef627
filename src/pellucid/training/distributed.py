"""Data parallelism: processes that share the pairs of each update and add up their gradients.

`torchrun` starts the workers. All have the same weights (in parts, where FSDP shards them) and read the same stream,
and each computes its share of an update. The sums over the shares are what one worker would have computed (sum first,
divide once), so the number of workers changes how long a run takes and nothing else. The first worker reports,
evaluates and writes.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from pellucid.data.batching import Batch
from pellucid.data.stream import BatchSpec
from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.model import Transformer
from pellucid.training.silence import heartbeat_key, name_silent_workers, send_heartbeats


class TrainingFailed(RuntimeError):
    """Error of a run that cannot continue; the message says why, and what to do."""


_BUCKET = 2**24  # numbers that are sent in one message
# Longest time that a worker waits for the others; an evaluation, which the first makes alone, must fit in.
WORKER_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class Workers:
    """This process, with number `rank`, among `world_size` workers; alone, it sends nothing."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0  # number of this worker on its machine, and of its GPU

    @property
    def is_first(self) -> bool:
        """Whether this worker is the one that reports and writes for all."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Device that this worker computes on."""
        return torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")

    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place and on every worker, by its sum over all workers; all tensors have one type."""
        if self.world_size == 1:
            return
        for bucket in _bucket_tensors(tensors):
            # One message for many small tensors: each message has a cost of its own.
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            distributed.all_reduce(flat)
            for tensor, summed in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(summed.view_as(tensor))

    def broadcast(self, *numbers: float) -> list[float]:
        """Return the first worker's numbers, on every worker."""
        if self.world_size == 1:
            return list(numbers)
        # float64 holds every integer up to 2**53 exactly, and steps and flags travel here, too.
        values = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.broadcast(values, src=0)
        return values.tolist()

    def all_reduce_max(self, number: int) -> int:
        """Return the largest of the workers' numbers."""
        if self.world_size == 1:
            return number
        maximum = torch.tensor([number], device=self.device)
        distributed.all_reduce(maximum, distributed.ReduceOp.MAX)
        return int(maximum.item())

    def barrier(self) -> None:
        """Wait until all workers have come this far."""
        self.all_reduce_max(0)

    def require_same(self, what: str, fingerprint: str) -> None:
        """Raise TrainingFailed, naming them, if some workers have another fingerprint than the first."""
        if self.world_size == 1:
            return
        digest = torch.frombuffer(bytearray(hashlib.sha256(fingerprint.encode()).digest()), dtype=torch.uint8)
        digests = [torch.empty_like(digest, device=self.device) for _ in range(self.world_size)]
        distributed.all_gather(digests, digest.to(self.device))
        differing = [str(i) for i, other in enumerate(digests) if not torch.equal(other, digests[0])]
        if differing:
            raise TrainingFailed(
                f"worker{'s' * (len(differing) > 1)} {', '.join(differing)} of {self.world_size} (counted from 0) "
                f"found another {what} than worker 0; give all of them the same files and the same version of Pellucid"
            )


ALONE = Workers()  # the only worker of a run in one process


def _bucket_tensors(tensors: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
    """Yield the tensors in their order, in groups of up to `_BUCKET` numbers.

    >>> [len(bucket) for bucket in _bucket_tensors([torch.empty(n) for n in (2**23, 2**22, 2**24, 5, 7)])]
    [2, 1, 2]
    """
    starts, room = [0], _BUCKET
    for i, tensor in enumerate(tensors):
        # A tensor larger than a bucket gets one of its own.
        if tensor.numel() > room and i > starts[-1]:
            starts.append(i)
            room = _BUCKET
        room -= tensor.numel()
    for start, end in pairwise([*starts, len(tensors)]):
        yield tensors[start:end]


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Make this process one of the workers that its environment names, as torchrun sets it; alone if it names none.

    When a worker is lost, the others stop with TrainingFailed, which names it: at once if its connections break,
    otherwise after half an hour.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield ALONE
        return
    workers = Workers(int(os.environ["RANK"]), world_size, int(os.environ.get("LOCAL_RANK", "0")))
    if workers.device.type == "cuda":
        torch.cuda.set_device(workers.device)
    elif "OMP_NUM_THREADS" not in os.environ:
        # Workers of one machine share its processor; without this, each would use all of it.
        torch.set_num_threads(max(1, torch.get_num_threads() // int(os.environ.get("LOCAL_WORLD_SIZE", world_size))))
    # gloo is torch's backend for CPUs, nccl the one for GPUs.
    _init_workers("nccl" if workers.device.type == "cuda" else "gloo")
    store, stop = distributed.distributed_c10d._get_default_store(), Event()
    heartbeat = Thread(target=send_heartbeats, args=(store, workers.rank, stop), daemon=True)
    try:
        heartbeat.start()
        yield workers
    except RuntimeError as error:
        # A broken connection shows as a RuntimeError in any exchange of numbers, far from here.
        if isinstance(error, TrainingFailed) or not _is_lost_connection(error):
            raise
        missing = _find_missing_workers(store, workers)
        names = " and ".join(f"worker {rank}" for rank in missing) or "a connection between workers"
        message = f"{names} of {world_size} (counted from 0) {'are' if len(missing) > 1 else 'is'} gone, so all stop"
        raise TrainingFailed(message) from error
    finally:
        stop.set()
        heartbeat.join()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _init_workers(backend: str) -> None:
    """Connect to the other workers; raise TrainingFailed, with torch's reason, if one is missing or the port taken."""
    try:
        distributed.init_process_group(backend, timeout=WORKER_TIMEOUT)
    except distributed.DistError as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = str(error).partition("\n")[0].rstrip(".")
        raise TrainingFailed(
            f"the {os.environ['WORLD_SIZE']} workers did not meet at {address}: {reason}. Start all of them with the "
            "same MASTER_ADDR and MASTER_PORT, a port that nothing else has taken"
        ) from error


@contextmanager
def watch_workers(workers: Workers, say: Callable[[str], object]) -> Iterator[None]:
    """Say, while the block runs, which worker gives no sign of life for a minute, and when it is back.

    The first worker watches all others, and the second the first.
    """
    if workers.world_size == 1:
        yield
        return
    watched = {0: range(1, workers.world_size), 1: range(1)}.get(workers.rank, range(0))
    store = distributed.distributed_c10d._get_default_store()
    with name_silent_workers(store, watched, workers.world_size, WORKER_TIMEOUT, say):
        yield


def _is_lost_connection(error: RuntimeError) -> bool:
    """Whether an error of torch means that a connection broke or that nobody answered."""
    # gloo raises plain RuntimeErrors: only their text tells them apart.
    phrases = ("Connection closed", "Connection reset", "Timed out", "Broken pipe", "timeout", "Socket")
    return isinstance(error, distributed.DistError) or any(phrase in str(error) for phrase in phrases)


def _find_missing_workers(store: Any, workers: Workers) -> list[int]:
    """Return the workers whose heartbeat has stopped; a worker that only waits for another still sends its own.

    The first worker to notice writes the list into the store: the others learn of the failure only when that worker
    stops, too.
    """
    try:
        if store.check(["gone"]):
            return json.loads(store.get("gone"))
        before = {rank: store.get(heartbeat_key(rank)) for rank in range(workers.world_size) if rank != workers.rank}
        # Heartbeats come once a second: four seconds without one are no delay.
        time.sleep(4)
        missing = [rank for rank, heartbeat in before.items() if store.get(heartbeat_key(rank)) == heartbeat]
        store.set("gone", json.dumps(missing))
        return missing
    except RuntimeError:
        return [0]  # without torchrun the store lives in the first worker, which must be gone


def worker_batches(specs: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
    """Return this worker's share of an update: whole batches, or, where they do not divide evenly, rows of each.

    Whole batches are what one worker would compute, to the bit.
    """
    rank, world_size = workers.rank, workers.world_size
    if len(specs) % world_size == 0:
        shares = specs[rank::world_size]
    else:
        # Each worker has dropout of its own; the threads of a worker take the seeds that follow (`update.thread_rows`).
        shares = [replace(spec, pairs=spec.pairs[rank::world_size], seed=spec.seed + (rank << 16)) for spec in specs]
    batches: list[Batch] = []
    for share in shares:
        # A worker without rows still computes a batch: a sharded model needs every worker in every layer.
        batches += share.make_batches() if len(share.pairs) else [empty_batch(share.seed)]
    # A GPU can copy from pinned memory while it computes.
    return [batch.pin_memory() for batch in batches] if workers.device.type == "cuda" else batches


def empty_batch(seed: int) -> Batch:
    """Return a batch whose loss and gradient are zero."""
    # The only target is padding, which has no loss.
    source, target_in, target_out = (torch.tensor([[token]]) for token in (EOS, BOS, PAD))
    return Batch(source, target_in, target_out, np.empty(0, np.int64), 0, seed)


class Prefetcher:
    """Makes this worker's batches of an update and, on a thread, starts on the batches of the next update."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._specs: list[tuple[object, ...]] = []
        self._prefetched: Future[list[Batch]] | None = None

    def batches(self, specs: Sequence[BatchSpec], following: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
        """Return the batches of `specs`, and start making the batches of `following`."""
        # A stream that was set back, or is in another stage, asks for other batches than were prefetched.
        prefetched = self._prefetched if self._specs == [spec.key for spec in specs] else None
        batches = prefetched.result() if prefetched else worker_batches(specs, workers)
        self._specs = [spec.key for spec in following]
        self._prefetched = self._thread.submit(worker_batches, following, workers) if following else None
        return batches


def place_model(model: Transformer, workers: Workers, shard: bool) -> Transformer:
    """Return the model on this worker's device: all of it, or only this worker's part if it is to be sharded.

    All workers must hold the same weights before.
    """
    if not shard or workers.world_size == 1:
        return model.to(workers.device)
    # torch's FSDP takes seconds to import, so only runs that are sharded do.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(workers.device.type, (workers.world_size,))
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


def is_sharded(model: nn.Module) -> bool:
    """Whether this worker keeps only its part of the model."""
    # fully_shard gives a model this method; asking for the class would import FSDP.
    return hasattr(model, "unshard")


def gather_embeddings(model: nn.Module) -> None:
    """Gather the weights outside of the layers, which the loss reads, until the end of the next backward pass."""
    if is_sharded(model):
        unshard: Any = model.unshard
        unshard()


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
