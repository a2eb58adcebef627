"""The processes of a run: how they join each other, and how a lost or silent one is named."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import torch
from torch import distributed

from pellucid.training.distributed import ALONE, Replicated, Sharded, TrainingFailed, Workers
from pellucid.training.silence import heartbeat_key, name_silent_workers, send_heartbeats

# Longest time that a worker waits for the others. An evaluation, which the first makes alone, must
# fit in.
WORKER_TIMEOUT = timedelta(minutes=30)


@contextmanager
def join_workers(shard_model: bool = False) -> Iterator[Workers]:
    """Make this process one of the workers that its environment names, as torchrun sets it; alone if it names none.

    With `shard_model`, several workers share one model, each with its part. When a worker is lost,
    the others stop with TrainingFailed, which names it: at once if its connections break, otherwise
    after half an hour.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield ALONE
        return

    kind = Sharded if shard_model else Replicated
    workers = kind(int(os.environ["RANK"]), world_size, int(os.environ.get("LOCAL_RANK", "0")))
    if workers.device.type == "cuda":
        torch.cuda.set_device(workers.device)
    elif "OMP_NUM_THREADS" not in os.environ:
        # Workers of one machine share its processor; without this, each would use all of it.
        local_workers = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
        torch.set_num_threads(max(1, torch.get_num_threads() // local_workers))

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
        verb = "are" if len(missing) > 1 else "is"
        raise TrainingFailed(
            f"{names} of {world_size} (counted from 0) {verb} gone, so all stop"
        ) from error
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
            f"the {os.environ['WORLD_SIZE']} workers did not meet at {address}: {reason}. Start "
            "all of them with the same MASTER_ADDR and MASTER_PORT, a port that nothing else has "
            "taken"
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
    if isinstance(error, distributed.DistError):
        return True

    # gloo raises plain RuntimeErrors: only their text tells them apart.
    text = str(error)
    phrases = (
        "Connection closed",
        "Connection reset",
        "Timed out",
        "Broken pipe",
        "timeout",
        "Socket",
    )
    return any(phrase in text for phrase in phrases)


def _find_missing_workers(store: Any, workers: Workers) -> list[int]:
    """Return the workers whose heartbeat has stopped; a worker that only waits for another still sends its own.

    The first worker to notice writes the list into the store: the others learn of the failure only
    when that worker stops, too.
    """
    others = [rank for rank in range(workers.world_size) if rank != workers.rank]
    try:
        if store.check(["gone"]):
            return json.loads(store.get("gone"))

        before = {rank: store.get(heartbeat_key(rank)) for rank in others}
        # Heartbeats come once a second: four seconds without one are no delay.
        time.sleep(4)
        missing = []
        for rank in others:
            if store.get(heartbeat_key(rank)) == before[rank]:
                missing.append(rank)
        store.set("gone", json.dumps(missing))
        return missing
    except RuntimeError:
        return [0]  # without torchrun the store lives in the first worker, which must be gone
