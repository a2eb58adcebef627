"""Plan of a run before it begins: its tokens, batches, updates, work, memory, time and disk."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs
from pellucid.data.corpus import SentencePairs, fingerprint_pairs
from pellucid.data.tokenizer import Tokenizer
from pellucid.model import ModelConfig, Transformer
from pellucid.training.config import RunConfig, make_run, override_run, read_run_tables
from pellucid.training.data import TrainingData, encode_with_note, learn_tokenizer, read_data
from pellucid.training.distributed import ALONE
from pellucid.training.initial_model import initial_tokenizer
from pellucid.training.loss import CHUNK
from pellucid.training.optimizer import matrix_blocks
from pellucid.training.schedule import EVALUATIONS
from pellucid.workflows.check.examine import glance_at_corpus
from pellucid.workflows.plan.trial import (
    EpochBatches,
    TrialResult,
    find_shape,
    free_memory,
    try_updates,
)

TRIAL_SECONDS = 5.0  # seconds that the trial of a plan takes
_MODELS_KEPT = 3  # models that a run leaves beside its checkpoints: best, last and average
LEAST_OCCURRENCES = 10  # fewest times that a piece should occur in the training text to be learned
_SPECIAL = 260  # pieces that every vocabulary begins with: four special tokens and the 256 bytes


@dataclass(frozen=True)
class _ParameterCounts:
    """Numbers of learned parameters; a matrix that is shared counts once."""

    embeddings: int
    encoder: int
    decoder: int
    matrices: int  # parameters of the two stacks that are in matrices, which Muon changes

    @property
    def total(self) -> int:
        """Parameters of the whole model."""
        return self.embeddings + self.encoder + self.decoder


@dataclass(frozen=True)
class _MemoryEstimate:
    """Bytes that training holds at once, without the corpus and the libraries."""

    weights: int
    gradients: int
    optimizer: int  # running means of Adam, or of Muon and Adam
    activations: int  # estimate for the largest batch, with logits and the gradient of the loss

    @property
    def shared(self) -> int:
        """Bytes that train.shard_model divides among the workers."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        """Bytes of everything together."""
        return self.shared + self.activations


@dataclass(frozen=True)
class RunPlan:
    """Everything that is known of a run before its first step."""

    run: RunConfig
    # Whether phrasebook pairs took the place of the run's own in the counts and the trial.
    stand_in: bool
    dev_pairs: int
    epoch: EpochBatches
    model: ModelConfig
    parameters: _ParameterCounts
    memory: _MemoryEstimate
    flops: float  # floating-point operations of an average update, counted by `training_flops`
    # Result of the trial; None where memory did not suffice, or would not have.
    trial: TrialResult | None
    learned: tuple[int, ...]  # size of the vocabulary, or of each of the two
    # Pieces that occur `LEAST_OCCURRENCES` times or more in the training
    # text, in the smaller of two vocabularies.
    supported: int
    missing_dev: tuple[str, ...]
    free_memory: int | None
    free_disk: int
    notes: tuple[str, ...]

    @property
    def updates_per_epoch(self) -> float:
        """Updates in an epoch; not always a whole number, for the batches of two epochs may meet in one update."""
        return self.epoch.batches / self.run.train.accumulate

    @property
    def steps(self) -> int | None:
        """Updates of the run; an upper limit for a run in minutes, for evaluations take some of them."""
        c = self.run.train
        if c.steps is not None:
            return c.steps
        assert c.minutes is not None
        return max(1, round(60 * c.minutes / self.trial.seconds)) if self.trial else None

    @property
    def epochs(self) -> float | None:
        """Times that each pair is seen."""
        return self.steps / self.updates_per_epoch if self.steps is not None else None

    @property
    def seconds(self) -> float | None:
        """Seconds that all updates take together, without evaluations and saving."""
        return self.steps * self.trial.seconds if self.steps is not None and self.trial else None

    @property
    def checkpoints(self) -> int:
        """Checkpoints on the disk at the end."""
        return (
            min(self.run.train.keep, self.saved) if self.saved is not None else self.run.train.keep
        )

    @property
    def saved(self) -> int | None:
        """Checkpoints that the whole run writes, including the checkpoint of the last step."""
        c = self.run.train
        every = c.save_every or c.evaluate_every
        if self.steps is None:
            return None
        return min(EVALUATIONS, self.steps) if every is None else ceil(self.steps / every)

    @property
    def model_bytes(self) -> int:
        """Bytes of a model on the disk."""
        return _FLOAT_BYTES * self.parameters.total

    @property
    def network_bytes(self) -> int:
        """Bytes that each of many workers sends, and as many that it receives: half of them where there are two.

        In an update, a sum over W workers sends each gradient 2 (W - 1) / W times (Patarasuk and
        Yuan 2009). Of a sharded model, each batch that a worker computes has the weights sent twice
        and the gradients once, (W - 1) / W of each.
        """
        times = 3 if self.run.train.shard_model else 2
        return times * _FLOAT_BYTES * self.parameters.total

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of a checkpoint: the model and the optimizer's running means."""
        return self.model_bytes + self.memory.optimizer

    @property
    def disk(self) -> int:
        """Most bytes that the run takes on the disk at any time."""
        # One more than are kept: a new checkpoint is complete before an old one is removed.
        return (self.checkpoints + 1) * self.checkpoint_bytes + _MODELS_KEPT * self.model_bytes


class PhrasePair(Protocol):
    """A sentence and its translation."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...


def plan_run(
    run: RunConfig, stand_in: TrainingData | None = None, seconds: float = TRIAL_SECONDS
) -> RunPlan:
    """Read the data of a run, learn its vocabulary, count, and try a few updates; nothing is written.

    `stand_in` takes the place of the run's own data. The trial takes about `seconds`, and makes one
    update at least. Raises ValueError for data that is missing or cannot be trained on.
    """
    dev_files = () if stand_in else (run.data.dev_source, run.data.dev_target, run.data.dev)
    missing_dev = _find_missing_files(dev_files)

    # The plan goes on without them, on held-out pairs; `list_advice` reports them.
    if missing_dev:
        run = replace(run, data=replace(run.data, dev_source=None, dev_target=None, dev=None))
    missing = _find_missing_files(
        name for corpus in run.data.corpora for name in (*corpus.files, *(corpus.dev_files or ()))
    )

    # With shards, the text itself is not needed.
    if missing and run.data.shards is None and not stand_in:
        raise ValueError(
            f"{', '.join(missing)}: no such file; to plan without the data, on phrasebook pairs instead, "
            "add --stand-in 20000"
        )

    data = stand_in or read_data(run, glance=glance_at_corpus)
    epoch = EpochBatches.first_of_run(data.encoded, run.train.batch_tokens, run.seed)
    model = run.model_config(data.tokenizer)
    if stand_in and run.model.start is None:
        # The stand-in's text has fewer pieces, but the model must be as large as in the real run.
        joint, vocabulary = run.tokenizer.joint, run.tokenizer.vocabulary
        model = run.model.config(vocabulary, vocabulary, joint)

    parameters = count_parameters(model)
    rows, sources, targets = find_shape(data.encoded, epoch.largest)
    memory, free = (
        estimate_memory(model, parameters, run.optim.kind, rows, sources, targets),
        free_memory(ALONE.device),
    )
    trial = None

    # Trying what cannot fit would swap, or end the process, before any MemoryError.
    if free is None or memory.total < free:
        with suppress(MemoryError):
            trial = try_updates(run, model, epoch, seconds)
    sizes = data.tokenizer.source_vocabulary, data.tokenizer.target_vocabulary
    return RunPlan(
        run=run,
        stand_in=stand_in is not None,
        dev_pairs=sum(map(len, data.dev_sets)),
        epoch=epoch,
        model=model,
        parameters=parameters,
        memory=memory,
        flops=_flops_of_epoch(model, epoch) * run.train.accumulate / epoch.batches,
        trial=trial,
        learned=sizes[:1] if data.tokenizer.config.joint else sizes,
        supported=_count_supported_pieces(data.encoded, data.tokenizer),
        missing_dev=missing_dev,
        free_memory=free,
        free_disk=shutil.disk_usage(Path.cwd()).free,
        notes=data.notes,
    )


def _find_missing_files(names: Iterable[str | None]) -> tuple[str, ...]:
    """Return the names that are given and have no file."""
    return tuple(name for name in names if name is not None and not Path(name).is_file())


def _flops_of_epoch(c: ModelConfig, epoch: EpochBatches) -> float:
    """Return the floating-point operations of every pair of an epoch."""
    # Many pairs have the same two lengths; the formula is evaluated once for each.
    flops = 0
    for (s, t), n in zip(epoch.lengths.tolist(), epoch.length_counts.tolist(), strict=True):
        flops += n * training_flops(c, s, t)
    return flops


def _count_supported_pieces(encoded: EncodedPairs, tokenizer: Tokenizer) -> int:
    """Return how many pieces occur often enough in the text to be learned, special pieces included."""
    sides = [
        count_pieces(encoded.sources.ids, tokenizer.source_vocabulary),
        count_pieces(encoded.targets.ids, tokenizer.target_vocabulary),
    ]
    if tokenizer.config.joint:
        sides = [sides[0] + sides[1]]
    return _SPECIAL + min(int((side[_SPECIAL:] >= LEAST_OCCURRENCES).sum()) for side in sides)


def count_pieces(
    ids: NDArray[np.integer], vocabulary: int, block: int = 2**22
) -> NDArray[np.int64]:
    """Count how often each piece occurs, in bounded memory, for the ids may be mapped from a file."""
    blocks = (ids[first : first + block] for first in range(0, len(ids), block))
    return sum(
        (np.bincount(block_ids, minlength=vocabulary) for block_ids in blocks),
        np.zeros(vocabulary, dtype=np.int64),
    )


# Bytes of a weight, of its gradient and of each of its running means, in every precision.
_FLOAT_BYTES = 4


def training_flops(c: ModelConfig, s: int, t: int) -> float:
    """Return the floating-point operations of one update for a pair of `s` source and `t` target tokens, EOS included.

    Only matrix products count, an addition and a multiplication as two;
    the backward pass is twice the forward pass:

        3 x [ encoder  s layers of (8 d d + 2 m d f + 4 s d)
              cross    s layers of 4 d d
              decoder  t layers of (12 d d + 2 t d + 4 s d + 2 m d f)
              logits   t 2 d V ]

    d is d_model, f is d_ff, V the target vocabulary, m the matrices of a
    feed-forward: 2, with swiglu 3. Padding is not counted.
    """
    d = c.d_model
    ffn = 2 * (3 if c.activation == "swiglu" else 2) * d * c.d_ff
    encoder = s * (8 * d * d + ffn + 4 * s * d)

    # Keys and values of the memory; the queries are part of the decoder's work.
    cross = s * 4 * d * d
    # Half of 4 t d: with the causal mask, a position reads half of the target on average.
    decoder = t * (12 * d * d + 2 * t * d + 4 * s * d + ffn)
    return 3.0 * (
        c.encoder_layers * encoder
        + c.decoder_layers * (cross + decoder)
        + t * 2 * d * c.target_vocabulary
    )


def count_parameters(c: ModelConfig) -> _ParameterCounts:
    """Return the parameter counts of a model without allocating it."""
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    # Tensors on the meta device have shapes and no memory.
    with torch.device("meta"):
        model = Transformer(c)
    for name, parameter in model.named_parameters():
        # Parameters outside both stacks count as embeddings, the output bias among them.
        group = "embeddings"
        for stack in ("encoder", "decoder"):
            if name.startswith(stack):
                group = stack
        counts[group] += parameter.numel()

    matrices = sum(matrix.numel() for matrix in matrix_blocks(model))
    return _ParameterCounts(**counts, matrices=matrices)


def estimate_memory(
    c: ModelConfig,
    parameters: _ParameterCounts,
    optimizer: Literal["adam", "muon"],
    rows: int,
    s: int,
    t: int,
) -> _MemoryEstimate:
    """Estimate the memory of an update whose largest batch is `rows` pairs of `s` source and `t` target positions.

    The backward pass needs each sublayer's input, its normalised input, its
    dropout mask and the operands of its products. The factors are rounded up
    for what the backward pass allocates itself.
    """
    d = c.d_model
    ffn = 3 * d + (4 if c.activation == "swiglu" else 2) * c.d_ff
    encoder = rows * s * (2 * d + c.encoder_layers * (8 * d + ffn + 2 * c.heads * s))
    decoder = rows * t * (2 * d + c.decoder_layers * (14 * d + ffn + 2 * c.heads * (t + s)))

    # Every decoder layer projects the encoder's output to keys and values of its own.
    memory_keys_and_values = rows * s * c.decoder_layers * 2 * d
    # Logits exist in chunks of rows only (`loss.CHUNK`); the last term
    # is the gradient of the output embedding.
    logits = 3 * min(CHUNK, rows * t) * c.target_vocabulary + c.target_vocabulary * d
    return _MemoryEstimate(
        _FLOAT_BYTES * parameters.total,
        _FLOAT_BYTES * parameters.total,
        # Adam keeps two means of each parameter, Muon one.
        _FLOAT_BYTES * (2 * parameters.total - (parameters.matrices if optimizer == "muon" else 0)),
        _FLOAT_BYTES * (encoder + decoder + memory_keys_and_values + logits),
    )


# Mean and standard deviation of the logarithm of an English line's
# words, newstest2008 to 2013: median 19, mean 21.
NEWS_LENGTH = 2.87, 0.65
_DEV_PAIRS = 50  # pairs of a stand-in that are measured with


def stand_in_run(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run file like `read_run`, but replace the files that it names, which need not exist."""
    tables = override_run(read_run_tables(path), overrides)
    # In [data], file names are strings or lists of tables; all that is left are numbers.
    data = tables.get("data", {}).items()
    numbers = {key: value for key, value in data if not isinstance(value, str | list)}
    tables["data"] = {**numbers, "source": "stand-in.en", "target": "stand-in.es"}
    return make_run(tables, str(path), path.parent)


def stand_in_data(pairs: int, run: RunConfig, phrases: Iterator[PhrasePair]) -> TrainingData:
    """Make pairs of `phrases`, with lines as long as news, encoded by a vocabulary of their own text."""
    if pairs < 1:
        raise ValueError(f"a stand-in of {pairs} pairs is none; name 1 or more")
    # The first pairs are the dev set, the others are trained on.
    rows = islice(join_phrases(phrases, run.seed), pairs + _DEV_PAIRS)
    sources, targets = map(list, zip(*rows, strict=True))
    train = SentencePairs.from_lists(sources[_DEV_PAIRS:], targets[_DEV_PAIRS:], "stand-in")
    tokenizer = initial_tokenizer(run) or learn_tokenizer(train.sources, train.targets, run)
    encoded, notes = encode_with_note(train, tokenizer, run.data.max_pieces)
    dev = SentencePairs.from_lists(sources[:_DEV_PAIRS], targets[:_DEV_PAIRS], "stand-in")
    return TrainingData(tokenizer, encoded, (dev,), fingerprint_pairs(train), notes)


def join_phrases(phrases: Iterator[PhrasePair], seed: int) -> Iterator[tuple[str, str]]:
    """Yield lines without end, each of enough phrases to fill a length drawn like the length of a line of news."""
    random = Random(seed)
    while True:
        length, sides = random.lognormvariate(*NEWS_LENGTH), ([], [])
        words = 0
        while words < length:
            phrase = next(phrases)
            words += len(phrase.source.split())
            sides[0].append(phrase.source)
            sides[1].append(phrase.target)
        yield " ".join(sides[0]), " ".join(sides[1])
