"""Many workers: processes that share the pairs of each update and add up their gradients.

A worker is what `torchrun` starts. All have the same weights (in parts, where `fsdp` shards them) and walk through the
same stream, and each computes its share of an update; the sums of the shares are what one worker would have had (sum
first, divide once), so the number of workers changes the time a run takes and nothing else. The first worker reports,
evaluates and writes.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count, pairwise
from threading import Event, Thread
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from pellucid.data.batching import Batch, collate
from pellucid.data.stream import BatchSpec
from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.train.failures import TrainingFailed

BUCKET = 2**24
"""Numbers that are sent at a time."""

WORKER_TIMEOUT = timedelta(minutes=30)
"""How long a worker waits for the others: an evaluation must fit in, which the first makes alone."""


@dataclass(frozen=True)
class Workers:
    """This process among `world` of them, counted from 0. Alone, nothing is sent."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """Its number on its machine: that of its GPU."""

    @property
    def is_first(self) -> bool:
        """Whether this one speaks and writes for all."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Where this worker computes."""
        return torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")

    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        """Put into each tensor, in place and on every worker, the sum over all workers; all of one type."""
        if self.world_size == 1:
            return
        for some in bucket_tensors(tensors):
            flat = torch.cat([each.flatten() for each in some])
            distributed.all_reduce(flat)
            for each, part in zip(some, flat.split([each.numel() for each in some]), strict=True):
                each.copy_(part.view_as(each))

    def broadcast(self, *numbers: float) -> list[float]:
        """What the first worker knows, on every worker."""
        if self.world_size == 1:
            return list(numbers)
        sent = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.broadcast(sent, src=0)
        return sent.tolist()

    def all_reduce_max(self, number: int) -> int:
        """The largest of the numbers that the workers know."""
        if self.world_size == 1:
            return number
        sent = torch.tensor([number], device=self.device)
        distributed.all_reduce(sent, distributed.ReduceOp.MAX)
        return int(sent.item())

    def barrier(self) -> None:
        """Until all workers are here."""
        self.all_reduce_max(0)

    def require_same(self, what: str, fingerprint: str) -> None:
        """TrainingFailed, naming them, if some workers have something else than the first."""
        if self.world_size == 1:
            return
        digest = int.from_bytes(hashlib.sha256(fingerprint.encode()).digest()[:7], "big")  # exact as a float64
        mine = torch.zeros(self.world_size, 2, dtype=torch.float64, device=self.device)
        mine[self.rank, 0], mine[self.rank, 1] = digest >> 28, digest & (2**28 - 1)
        distributed.all_reduce(mine)
        others = [str(i) for i in range(self.world_size) if not torch.equal(mine[i], mine[0])]
        if others:
            raise TrainingFailed(
                f"worker{'s' * (len(others) > 1)} {', '.join(others)} of {self.world_size} (counted from 0) "
                "found another "
                f"{what} than worker 0; give all of them the same files and the same version of Pellucid"
            )


ALONE = Workers()


def bucket_tensors(tensors: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
    """The tensors in their order, so many together that few messages are sent and little is copied at a time.

    >>> [len(some) for some in bucket_tensors([torch.empty(n) for n in (2**23, 2**22, 2**24, 5, 7)])]
    [2, 1, 2]
    """
    cuts, room = [0], BUCKET
    for i, each in enumerate(tensors):
        if each.numel() > room and i > cuts[-1]:
            cuts.append(i)
            room = BUCKET
        room -= each.numel()
    for start, end in pairwise([*cuts, len(tensors)]):
        yield tensors[start:end]


@contextmanager
def join_workers() -> Iterator[Workers]:
    """This process as one of the workers that its environment names, as `torchrun` does; alone if it names none.

    Where a worker is gone, the others stop with TrainingFailed, which names it: at once if its connections break, else
    after half an hour.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield ALONE
        return
    workers = Workers(int(os.environ["RANK"]), world, int(os.environ.get("LOCAL_RANK", "0")))
    if workers.device.type == "cuda":
        torch.cuda.set_device(workers.device)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // int(os.environ.get("LOCAL_WORLD_SIZE", world))))
    init_workers("nccl" if workers.device.type == "cuda" else "gloo")
    store, stop = distributed.distributed_c10d._get_default_store(), Event()
    heart = Thread(target=send_heartbeats, args=(store, workers.rank, stop), daemon=True)
    try:
        heart.start()
        yield workers
    except RuntimeError as error:
        if isinstance(error, TrainingFailed) or not is_lost_connection(error):
            raise
        gone = find_missing_workers(store, workers)
        names = " and ".join(f"worker {rank}" for rank in gone) or "a connection between workers"
        said = f"{names} of {world} (counted from 0) {'are' if len(gone) > 1 else 'is'} gone, so all stop"
        raise TrainingFailed(said) from error
    finally:
        stop.set()
        heart.join()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def init_workers(backend: str) -> None:
    """Find the other workers; TrainingFailed, with what torch says, where one does not come or the port is taken."""
    try:
        distributed.init_process_group(backend, timeout=WORKER_TIMEOUT)
    except distributed.DistError as error:
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = str(error).partition("\n")[0].rstrip(".")
        raise TrainingFailed(
            f"the {os.environ['WORLD_SIZE']} workers did not meet at {place}: {reason}. Start all of them with the "
            "same MASTER_ADDR and MASTER_PORT, a port that nothing else has taken"
        ) from error


def send_heartbeats(store: Any, rank: int, stop: Event) -> None:
    """Count seconds in the store that all workers share, until told to stop, or until the store is gone."""
    with suppress(RuntimeError):
        for seconds in count():
            store.set(f"alive/{rank}", str(seconds))
            if stop.wait(1.0):
                break


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether this is how torch says that a connection broke or that nobody answered."""
    said = ("Connection closed", "Connection reset", "Timed out", "Broken pipe", "timeout", "Socket")
    return isinstance(error, distributed.DistError) or any(each in str(error) for each in said)


def find_missing_workers(store: Any, workers: Workers) -> list[int]:
    """The workers that count no longer: of those that only wait for another, the hearts beat on.

    Whoever finds out first writes it down, for the others hear of it when that one has gone, too.
    """
    try:
        if store.check(["gone"]):
            return json.loads(store.get("gone"))
        before = {rank: store.get(f"alive/{rank}") for rank in range(workers.world_size) if rank != workers.rank}
        time.sleep(4)
        gone = [rank for rank, beats in before.items() if store.get(f"alive/{rank}") == beats]
        store.set("gone", json.dumps(gone))
        return gone
    except RuntimeError:
        return [0]  # started without torchrun, the store lives with the first


def worker_batches(places: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
    """This worker's share of an update: every so-manieth batch, or, where they do not come out even, rows of each.

    Whole batches are what one worker would compute, to the bit. Of few rows, a worker may get none; it computes as
    many batches as the others all the same, for a sharded model needs every worker in every layer.
    """
    if len(places) % workers.world_size == 0:
        return [collate(each.corpus, each.pairs, each.seed) for each in places[workers.rank :: workers.world_size]]
    rows = [replace(each, pairs=each.pairs[workers.rank :: workers.world_size]) for each in places]
    seeds = [each.seed + (workers.rank << 16) for each in rows]  # the threads of a worker take those that follow
    return [
        collate(each.corpus, each.pairs, seed) if len(each.pairs) else empty_batch(seed)
        for each, seed in zip(rows, seeds, strict=True)
    ]


def empty_batch(seed: int) -> Batch:
    """A batch whose loss and gradient are zero."""
    source, target_in, target_out = (torch.tensor([[piece]]) for piece in (EOS, BOS, PAD))
    return Batch(source, target_in, target_out, np.empty(0, np.int64), 0, seed)
