"""Gain of each lever of training on a CPU: a profile, and each lever let go in turn, beside its prediction.

    OMP_NUM_THREADS=1 python -m benchmarks.train_levers

One process trains one model and lets go of one lever at a time, with and without it in turn on the same batches; the
unit is CPU time, so that other work on the machine counts less. Writes benchmarks/results/train-levers.md. Needs
PELLUCID_DATA.
"""

import argparse
import ctypes
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.quality import RESULTS, machine
from benchmarks.train import BATCH, VOCABULARY, read_multi30k
from pellucid.data.batching import Batch, EncodedPairs, collate
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import PAD
from pellucid.model import PRESETS, ModelConfig, Transformer, attention
from pellucid.model.attention import SelfAttention, attend
from pellucid.model.dropout import Dropout
from pellucid.model.watch import unseen
from pellucid.train import update
from pellucid.train.config import OptimConfig
from pellucid.train.optim import make_adam
from pellucid.train.process import keep_freed_memory, tune_memory

UPDATES, SEEN = 2, 6
"""Updates of one turn, after one that is not timed; updates of a profile."""


class Training:
    """A model under way, with what the levers exchange: precision, optimiser, batches."""

    def __init__(self, size: str, encoded: EncodedPairs, dropout: float = 0.1):
        torch.manual_seed(1)
        self.model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, dropout=dropout, **PRESETS[size])).train()
        self.c, self.precision = OptimConfig(), "bfloat16"
        self.adam = make_adam(self.model, self.c)
        self.plain_adam = torch.optim.Adam(self.model.parameters(), betas=(self.c.beta1, self.c.beta2))
        self.alike, self.mixed = Stream(encoded, BATCH, seed=1), random_batches(encoded)
        self.optimizer, self.stream = self.adam, self.alike

    def step(self, batch: Batch) -> int:
        """One update; its target pieces."""
        return update.update_weights(self.model, self.optimizer, [batch], 1e-4, self.c, self.precision).target_tokens


def random_batches(encoded: EncodedPairs) -> Iterator[Batch]:
    """Yield batches of pairs in random order, as many as fit into the budget with their padding."""
    random = np.random.default_rng(1)
    while True:
        group, longest = [], 0
        for i in random.permutation(len(encoded)):
            longest = max(longest, int(encoded.targets.lengths[i]))
            if group and longest * (len(group) + 1) > BATCH:
                yield collate(encoded, np.array(group), seed=int(i))
                group, longest = [], int(encoded.targets.lengths[i])
            group.append(i)


Switch = Callable[[Training], AbstractContextManager[object]]


@dataclass(frozen=True)
class Lever:
    """Something that makes training fast; its predictions, for the sizes tiny and small, are older than the figures."""

    name: str
    tiny: str
    small: str
    without: Switch
    within: Switch = lambda _: nullcontext()
    """Context of the turns that have the lever."""


def all_logits(model: Transformer, batch: Batch, smoothing: float, *_: object) -> Tensor:
    """The loss of tutorials: logits of every position, padding among them, all at once."""
    logits = model.logits(model.decode(batch.target_in, model.encode(batch.source)))
    targets = batch.target_out.flatten()
    return F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")


def three_products(self, x, allowed, at, positions, cache=None, watch=unseen):
    """Self-attention with a product each for queries, keys and values."""
    sides = zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3), strict=True)
    q, k, v = (self.split(F.linear(x, weight, bias), 1)[0] for weight, bias in sides)
    q, k = positions.rotate(q, k, at)
    return self.merge(attend(q, k, v, allowed, positions.bias(at, at), self.dropout, watch), watch)


def torch_dropout(self: Dropout, x: Tensor) -> Tensor:
    return F.dropout(x, self.rate, self.training)


@contextmanager
def giving_back(_: Training) -> Iterator[None]:
    """glibc as it is after its own adjusting: pieces above 32 MB, and what is free above 64 MB, go to the kernel."""
    if sys.platform == "linux":
        m_trim_threshold, m_mmap_threshold = -1, -3
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(m_mmap_threshold, 2**25)
            libc.mallopt(m_trim_threshold, 2**26)
    yield
    keep_freed_memory()


@contextmanager
def route_through_onednn(training: Training) -> Iterator[None]:
    """Compute float32 products through oneDNN."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with mock.patch.object(training, "precision", "float32"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def float32(training: Training) -> AbstractContextManager[object]:
    return mock.patch.object(training, "precision", "float32")


LEVERS = (
    Lever(
        "loss of real pieces only, in chunks (logits of all positions at once)",
        "1.5 to 2.0: log-softmax, adding and zeroing are 50 % of a plain loop",
        "1.2 to 1.3: 22 %",
        lambda _: mock.patch.object(update, "batch_loss", all_logits),
    ),
    Lever(
        "products in bfloat16 (float32)",
        "1.4: products are 28 % of a plain loop, and more once the rest is quick",
        "1.6, as in the experiment",
        float32,
    ),
    Lever(
        "attention written out (fused kernel)",
        "1.6, as in the experiment: its bfloat16 backward pass is slow",
        "1.3, as in the experiment",
        lambda _: mock.patch.object(attention, "fused_is_faster", return_value=True),
    ),
    Lever(
        "batches of pairs of like lengths (random order)",
        "1.6, a guess: 60 % would be padding, which the loss does not pay for",
        "2.0, a guess",
        lambda training: mock.patch.object(training, "stream", training.mixed),
    ),
    Lever(
        "masks of dropout from 16-bit numbers (`torch.nn.functional.dropout`)",
        "1.1: random numbers are 9 % of a plain loop",
        "1.1: 13 %",
        lambda _: mock.patch.object(Dropout, "forward", torch_dropout),
    ),
    Lever(
        "freed memory kept (given back to the kernel)",
        "1.2, a guess",
        "1.2, as in the experiment: 131 MB of logits are mapped anew in each update",
        giving_back,
    ),
    Lever(
        "one product for queries, keys and values (three)",
        "1.03, a guess",
        "1.02, a guess",
        lambda _: mock.patch.object(SelfAttention, "forward", three_products),
    ),
    Lever(
        "Adam in one pass (torch's default)",
        "1.03, a guess: 2.3 million weights",
        "1.04, a guess: 7.6 million",
        lambda training: mock.patch.object(training, "optimizer", training.plain_adam),
    ),
)


def without_all(levers: Sequence[Lever]) -> Switch:
    """Several let go at once."""

    @contextmanager
    def switch(training: Training) -> Iterator[None]:
        with ExitStack() as stack:
            for lever in levers:
                stack.enter_context(lever.without(training))
            yield

    return switch


SUMS = (
    Lever(
        "**the loss in chunks and the memory kept**, which spare each other's work",
        "not predicted",
        "not predicted",
        without_all([LEVERS[0], LEVERS[5]]),
    ),
    Lever(
        "**all of them**", "4.1, as the experiment against a plain loop", "3.5 to 4.5, likewise", without_all(LEVERS)
    ),
)
UNTAKEN = Lever(
    "not taken: float32 products through oneDNN (torch's choice)",
    "1.25, as in the experiment",
    "1.17, as in the experiment",
    float32,
    route_through_onednn,
)

KINDS = {
    "matrix products": ("mm", "linear", "matmul", "addmv"),
    "softmax, logarithms, loss": ("softmax", "nll", "exp", "log", "cross_entropy", "amax", "gather", "scatter"),
    "fused attention": ("attention",),
    "random numbers": ("bernoulli", "random", "dropout"),
    "norms": ("layer_norm", "norm"),
    "Adam, clipping": ("adam", "_foreach", "addcdiv", "addcmul", "lerp", "sqrt"),
    "zeroing": ("zero", "fill"),
    "copies and casts": ("copy", "_to_", "cat", "contiguous", "clone", "index", "embedding"),
    "adding, multiplying, comparing": ("add", "sub", "mul", "div", "ge", "relu", "threshold", "where", "sum", "mean"),
}
"""Kinds of operations, found by the first word that stands in the name of an operation."""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small"], choices=["tiny", "small"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    began = time.monotonic()
    encoded = read_multi30k()[1].encoded
    tune_memory()
    lines = []
    for size in options.sizes:
        training = Training(size, encoded)
        lines += [f"## {size}", "", *profiles(training), "", *ratios(training, size, options.rounds), ""]
    text = "\n".join([*head(options, time.monotonic() - began), *lines])
    (RESULTS / "train-levers.md").write_text(text, encoding="utf-8")
    print(text)


def ratios(training: Training, size: str, rounds: int) -> Iterator[str]:
    """Yield the cost of a piece without each lever, over its cost with the lever."""
    yield "| lever (without it) | predicted | measured |"
    yield "|---|---|---|"
    for lever in (*LEVERS, *SUMS, UNTAKEN):
        round_ratios = [ratio(training, lever, first_without=bool(n % 2)) for n in range(rounds)]
        summary = f"{statistics.median(round_ratios):.2f} ({min(round_ratios):.2f}-{max(round_ratios):.2f})"
        print(f"{size}: {lever.name}: {summary}", file=sys.stderr, flush=True)
        yield f"| {lever.name} | {getattr(lever, size)} | {summary} |"


def ratio(training: Training, lever: Lever, first_without: bool) -> float:
    """Both turns on the same batches, unless these are what is exchanged."""
    batches, cost = list(islice(training.stream, 1 + UPDATES)), {}
    for without in (first_without, not first_without):
        with (lever.without if without else lever.within)(training):
            turn = batches if training.stream is training.alike else list(islice(training.stream, 1 + UPDATES))
            training.step(turn[0])
            began = time.process_time()
            pieces = sum(training.step(batch) for batch in turn[1:])
            cost[without] = (time.process_time() - began) / pieces
    return cost[True] / cost[False]


def profiles(training: Training) -> Iterator[str]:
    """Yield the shares of the time without any lever in float32, and with all."""
    with without_all(LEVERS)(training):
        plain = shares(training)
    ours = shares(training)
    yield "| share of the time, % | with none of them | with all |"
    yield "|---|---|---|"
    for kind in (*KINDS, "other"):
        yield f"| {kind} | {plain[kind]:.0%} | {ours[kind]:.0%} |".replace("%", "")


def shares(training: Training) -> Counter[str]:
    """The share of each kind of operation in some updates."""
    batches = list(islice(training.stream, 1 + SEEN))
    training.step(batches[0])
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for batch in batches[1:]:
            training.step(batch)
    times: Counter[str] = Counter()
    for event in profiler.key_averages():
        times[kind_of(event.key)] += event.self_cpu_time_total
    total = sum(times.values())
    return Counter({kind: spent / total for kind, spent in times.items()})


def kind_of(operation: str) -> str:
    """Return the kind of an operation of torch.

    >>> [kind_of(name) for name in ("aten::addmm", "aten::add_", "aten::_log_softmax", "aten::native_layer_norm")]
    ['matrix products', 'adding, multiplying, comparing', 'softmax, logarithms, loss', 'norms']
    """
    name = operation.lower().removeprefix("aten::")
    return next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "other")


def head(options: argparse.Namespace, took: float) -> list[str]:
    """Return the head of the page: the machine, the data and the columns."""
    return [
        "# What each lever of training gives",
        "",
        f"    OMP_NUM_THREADS=1 python -m benchmarks.train_levers --sizes {' '.join(options.sizes)} "
        f"--rounds {options.rounds}",
        "",
        f"{machine()}, {torch.get_num_threads()} thread; {time.strftime('%Y-%m-%d')}, {took / 60:.0f} minutes.",
        f"Multi30k en-de, joint vocabulary of {VOCABULARY:,} pieces, about {BATCH:,} target pieces a batch. A process",
        "trains as `pellucid train` does in bfloat16; then one lever is let go, the others stay. Each turn is",
        f"{UPDATES} updates on the same batches with and without it, after one that is not timed; {options.rounds}",
        "rounds, the order turning. *measured*: CPU time of a target piece without the lever over that with it: median",
        "(least-most). *predicted*: before any of this was built, from the profile of a plain float32 loop of",
        "`torch.nn.Transformer` and from a throw-away experiment, or guessed before it was measured here. The ratios",
        "of single levers do not multiply: each also changes what share of the time the others have.",
        "",
    ]


if __name__ == "__main__":
    main()
