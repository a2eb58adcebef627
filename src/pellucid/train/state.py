"""State is everything the next update depends on: kept together, saved whole, restored exactly."""

import json
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pellucid import bundle
from pellucid.atomic import atomic_file, staging_paths
from pellucid.data.batching import Batch
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import Tokenizer
from pellucid.model import Transformer
from pellucid.train.distributed import ALONE, Workers
from pellucid.train.fsdp import gather_tensor, is_sharded, shard_like
from pellucid.train.prefetch import Prefetcher


@dataclass
class SinceReport:
    """What happened since the last report."""

    seconds: float = 0.0
    loss: float = 0.0
    target_tokens: int = 0


@dataclass
class RunCounts:
    """The numbers of a state; all of them fit on a line."""

    step: int = 0
    seconds: float = 0.0
    target_tokens: int = 0
    skipped_updates: int = 0
    skipped_in_a_row: int = 0
    rollbacks: int = 0
    fruitless_rollbacks: int = 0
    halved_batches: int = 0
    pairs_left_out: int = 0
    dev_score: float | None = None
    best_score: float = -1.0
    evaluations: int = 0
    evaluation_seconds: float = 0.0
    stale_evaluations: int = 0
    since_report: SinceReport = field(default_factory=SinceReport)


@dataclass
class TrainState:
    """What training changes. No generator is among it: dropout draws from the place of a batch in the stream."""

    model: Transformer
    optimizer: torch.optim.Adam
    stream: Stream
    counts: RunCounts = field(default_factory=RunCounts)
    prefetcher: Prefetcher = field(default_factory=Prefetcher)

    @property
    def parameters(self) -> int:
        """How many numbers the model has."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def next_batches(self, accumulate: int, workers: Workers = ALONE) -> list[Batch]:
        """What this worker computes of the next update."""
        places = [self.stream.advance() for _ in range(accumulate)]
        return self.prefetcher.batches(places, self.stream.upcoming(accumulate), workers)


def gather_state(state: TrainState, workers: Workers) -> TrainState:
    """The same with all of its numbers here: where the model is sharded, a copy of it for the first worker.

    All workers must ask for it at once. The others get what they have.
    """
    if not is_sharded(state.model):
        return state
    copy = state
    if workers.is_first:
        with workers.device:
            model = Transformer(state.model.config).train()  # what it draws is written over
        copy = replace(state, model=model, optimizer=torch.optim.Adam(model.parameters()))
    for mine, its in zip(state.model.parameters(), copy.model.parameters(), strict=True):
        weight, memory = gather_tensor(mine.detach()), state.optimizer.state.get(mine, {})
        memory = {key: gather_tensor(value) for key, value in memory.items()}
        if workers.is_first:
            its.data = weight
            copy.optimizer.state[its] = {key: value.cpu() for key, value in memory.items()}  # only to be written
    return copy


def save_state(state: TrainState, tokenizer: Tokenizer, directory: Path, **manifest: Any) -> None:
    """Write a checkpoint: a model directory that also holds the optimiser and the position in the data.

    Either the whole directory is there afterwards or none of it.
    """

    def more(folder: Path) -> None:
        tensors = {}
        for name, parameter in state.model.named_parameters():
            for key, value in state.optimizer.state.get(parameter, {}).items():
                tensors[f"{key}.{name}"] = value.cpu().contiguous()
        save_file(tensors, folder / "training.safetensors")
        numbers = {"counts": asdict(state.counts), "stream": list(state.stream.position)}
        (folder / "training.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")

    bundle.save_bundle(directory, state.model, tokenizer, also=more, **manifest)


def restore_state(state: TrainState, directory: Path) -> None:
    """Make `state` what it was when `directory` was saved; the model inside is already loaded from it.

    Raises ValueError for a directory that holds a model but no training state.
    """
    if not (directory / "training.safetensors").is_file() or not (directory / "training.json").is_file():
        raise ValueError(f"{directory} is a model, not a checkpoint: training cannot go on from it")
    numbers = json.loads((directory / "training.json").read_text(encoding="utf-8"))
    tensors = load_file(directory / "training.safetensors")
    load_optimizer(state, tensors)
    state.stream = Stream(state.stream.encoded, state.stream.batch_tokens, *numbers["stream"])
    counts = numbers["counts"]
    state.counts = RunCounts(**{**counts, "since_report": SinceReport(**counts["since_report"])})


def reset_weights(state: TrainState, model: Transformer, directory: Path) -> None:
    """Give `state` the weights of `model`, loaded from `directory`, and the optimiser saved there; all else goes on."""
    with torch.no_grad():
        for parameter, saved in zip(state.model.parameters(), model.parameters(), strict=True):
            parameter.copy_(shard_like(saved, parameter))
    load_optimizer(state, load_file(directory / "training.safetensors"))


def load_optimizer(state: TrainState, tensors: dict[str, Tensor]) -> None:
    """The optimiser's memory of each weight, from the names it is saved under."""
    of_name: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        kind, _, name = key.partition(".")
        of_name.setdefault(name, {})[kind] = value
    for name, parameter in state.model.named_parameters():
        if name in of_name:
            state.optimizer.state[parameter] = {k: shard_like(v, parameter) for k, v in of_name[name].items()}


def list_checkpoints(run_directory: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(path for path in (run_directory / "checkpoints").glob("step-*") if path.name[5:].isdigit())


def checkpoint_path(run_directory: Path, step: int) -> Path:
    """Where the checkpoint of an update stands."""
    return run_directory / "checkpoints" / f"step-{step:08d}"


def prune_checkpoints(run_directory: Path, keep: set[Path]) -> None:
    """Remove the checkpoints that are not to be kept, and what a crash left half-written; the newest always stays."""
    for path in list_checkpoints(run_directory)[:-1]:
        if path not in keep:
            path.rename(staging_paths(path)[1])  # so that no half of it is ever taken for a checkpoint
    for path in (run_directory / "checkpoints").glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)  # what cannot be removed goes the next time


def average_weights(directories: list[Path], into: Transformer) -> None:
    """Set the weights to the mean of those saved, summed in float64 (paper, 6.1)."""
    sums: dict[str, Tensor] = {}
    for directory in directories:
        for name, parameter in bundle.load_bundle(directory).model.named_parameters():
            sums[name] = sums.get(name, 0.0) + parameter.detach().double()
    with torch.no_grad():
        for name, parameter in into.named_parameters():
            parameter.copy_(sums[name] / len(directories))


def write_text_whole(path: Path, text: str) -> None:
    """Write a text file whole: after a crash it is what it was, or what it was to be."""
    with atomic_file(path) as write:
        write(text.encode())
