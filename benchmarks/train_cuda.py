"""Training on a CUDA device: pieces per second, share of the measured peak, and the paper's base run in minutes.

    make bench-cuda         # or: python -m benchmarks.train_cuda --sizes base big --seconds 20

Under eight minutes on one device; needs no data: the pairs are random pieces whose lengths are spread like those of
WMT 2014 en-de. Writes benchmarks/results/train_cuda.md. On a CPU (`--device cpu --sizes tiny --batch-tokens 1024`) it
shows that it runs, and writes nothing.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.data.batching import Batch, EncodedPairs, PackedSentences
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import PAD
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.training.config import OptimConfig
from pellucid.training.optimizer import make_optimizer
from pellucid.training.update import update_weights
from pellucid.workflows.plan.estimate import training_flops

VOCABULARY, BATCH, PAIRS, LONGEST = 37_000, 25_000, 200_000, 100
WORDS, SPREAD, PIECES_A_WORD = (25.8, 24.4), 0.6, 1.2
"""Mean words of a sentence, English and German: 116 and 110 million words in 4.5 million pairs (Luong et al. 2015,
4.1); how far lengths spread, as the standard deviation of their logarithm, and pieces a word are assumed."""
BASE_RUN = 100_000
"""Updates of 25,000 source and as many target pieces (paper, 5.1 and 5.2)."""
UNTIMED = 20
"""First updates of a row, which compile, allocate and meet new shapes."""
STRETCHES = 10
"""Times that each row is measured, all rows in turn."""

Step = Callable[[Batch], int]
Make = Callable[[str, torch.device], Step]


@dataclass(frozen=True)
class Measured:
    """Result of a row: target pieces per second in each tenth of its time, seconds of its first updates, memory."""

    speeds: list[float]
    ready: float
    peak: int

    @property
    def speed(self) -> float:
        return statistics.median(self.speeds)


def main() -> None:
    """Measure, print, and on a CUDA device write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["base", "big"], choices=list(PRESETS))
    parser.add_argument("--seconds", type=float, default=20.0, help="timed, of each row")
    parser.add_argument("--batch-tokens", type=int, default=BATCH)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device here; --device cpu --sizes tiny --batch-tokens 1024 shows that the script runs")
    # TF32, as users of such a device would have it; in bfloat16 rows little is left in float32.
    torch.set_float32_matmul_precision("high")
    device, encoded, start = torch.device(options.device), make_pairs(options.pairs), time.monotonic()
    peak = product_peak(device)
    text = [*head_lines(options, device, peak, encoded)]
    for size in options.sizes:
        text += table_lines(size, measure_rows(options.rows, size, encoded, options, device), peak, encoded)
        page = "\n".join([*text, f"{(time.monotonic() - start) / 60:.1f} minutes in all.", ""])
        print(page)
        # After each size: what is measured is kept, whatever happens to the next.
        if device.type == "cuda":
            (Path(__file__).parent / "results" / "train_cuda.md").write_text(page, encoding="utf-8")


def make_pairs(number: int) -> EncodedPairs:
    """Make pairs of random pieces; the two sides of a pair have similar lengths, and the end token comes last."""
    random = np.random.default_rng(1)
    shared, independent = random.standard_normal(number), random.standard_normal((2, number))
    sides = []
    for mean, noise in zip(WORDS, independent, strict=True):
        logs = (
            # Log-normal lengths with that mean; 0.95 of each side comes from a draw that both share.
            math.log(mean * PIECES_A_WORD) - SPREAD**2 / 2 + SPREAD * (0.95 * shared + math.sqrt(1 - 0.95**2) * noise)
        )
        lengths = np.clip(np.exp(logs).round().astype(np.int64), 2, LONGEST)
        starts = np.concatenate([[0], lengths.cumsum()])
        ids = random.integers(4, VOCABULARY, size=starts[-1], dtype=np.int32)
        # 3 is the end token, and ids below 4 are special tokens.
        ids[starts[1:] - 1] = 3
        sides.append(PackedSentences(ids, starts))
    return EncodedPairs(*sides)


def product_peak(device: torch.device) -> float:
    """Return the operations per second of a large bfloat16 product."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(10):
        synchronize(device)
        start = time.perf_counter()
        torch.mm(a, b)
        synchronize(device)
        times.append(time.perf_counter() - start)
    return 2 * n**3 / min(times)


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        # CUDA calls return at once: without this, only their launch would be timed.
        torch.cuda.synchronize(device)


def measure_rows(
    rows: Sequence[str], size: str, encoded: EncodedPairs, options: argparse.Namespace, device: torch.device
) -> dict[str, Measured | str]:
    """Measure the rows in turn, so that what the machine does beside them falls on all of them alike.

    A row that fails says why, and leaves the others their time.
    """
    ready: dict[str, Row] = {}
    results: dict[str, Measured | str] = {}
    for name in rows:
        try:
            ready[name] = prepare_row(ROWS[name], size, Stream(encoded, options.batch_tokens, seed=1), device)
            print(f"{size}, {name}: ready after {ready[name].measured.ready:.1f} s", file=sys.stderr)
        except Exception as error:  # whatever a peer or a compiler raises
            results[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
            print(f"{size}, {name}: {results[name]}", file=sys.stderr)
    for _ in range(STRETCHES):
        for row in ready.values():
            row.measured.speeds.append(row.time_stretch(options.seconds / STRETCHES, device))
    results |= {name: row.measured for name, row in ready.items()}
    return {name: results[name] for name in rows}


@dataclass(frozen=True)
class Row:
    """A model that is ready to be timed: its step, its batches, and what is measured of it."""

    step: Step
    batches: Iterator[Batch]
    measured: Measured

    def time_stretch(self, seconds: float, device: torch.device) -> float:
        """Train for so many seconds; return the target pieces per second."""
        tokens, start = 0, time.perf_counter()
        # At least one update, however slow.
        while not tokens or time.perf_counter() - start < seconds:
            tokens += self.step(next(self.batches))
        synchronize(device)
        return tokens / (time.perf_counter() - start)


def prepare_row(make: Make, size: str, batches: Iterator[Batch], device: torch.device) -> Row:
    """Make the first updates, which compile and allocate and are not timed."""
    torch.manual_seed(1)
    before = 0
    if device.type == "cuda":
        # The peak of this row alone, not of those before it.
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    start = time.perf_counter()
    step = make(size, device)
    for _ in range(UNTIMED):
        step(next(batches))
    synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else 0
    return Row(step, batches, Measured([], time.perf_counter() - start, peak))


def make_pellucid_step(size: str, device: torch.device, fused: bool = False) -> Step:
    """Make a step with the updates of `pellucid train`."""
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, dropout=0.1, **PRESETS[size])).train().to(device)
    if fused:
        for layer in (*model.encoder, *model.decoder):
            # Dynamic shapes: batches differ in length, and each new shape would be compiled again.
            layer.compile(dynamic=True)
    c = OptimConfig()
    optimizer = make_optimizer(model, c)
    return lambda batch: update_weights(model, optimizer, [batch], 1e-4, c, "bfloat16").target_tokens


def make_plain_step(size: str, device: torch.device, fused: bool = False) -> Step:
    """Make a step of `torch.nn.Transformer` in the loop of tutorials: autocast, all logits, fused Adam."""
    model = Plain(size).to(device).train()
    run = torch.compile(model, dynamic=True) if fused else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step(batch: Batch) -> int:
        batch = batch.to(device)
        with torch.autocast(device.type, torch.bfloat16):
            logits = run(batch.source, batch.target_in)
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return batch.target_tokens

    return step


class Plain(nn.Module):
    """`torch.nn.Transformer` with one shared embedding and sinusoidal positions."""

    positions: Tensor

    def __init__(self, size: str):
        super().__init__()
        c = ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size])
        self.table = nn.Embedding(VOCABULARY, c.d_model)
        angles = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, c.d_model, 2) / c.d_model)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        self.inner = nn.Transformer(
            c.d_model, c.heads, c.encoder_layers, c.decoder_layers, c.d_ff, 0.1, batch_first=True, norm_first=True
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        future = torch.ones(read.shape[1], read.shape[1], dtype=torch.bool, device=read.device).triu(1)
        padding = source == PAD
        states = self.inner(
            self.embed(source),
            self.embed(read),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return states @ self.table.weight.T

    def embed(self, ids: Tensor) -> Tensor:
        x = self.table(ids) * self.table.embedding_dim**0.5 + self.positions[: ids.shape[1]]
        return self.dropout(x)


ROWS: dict[str, Make] = {
    "Pellucid": make_pellucid_step,
    "Pellucid, layers compiled": lambda size, device: make_pellucid_step(size, device, fused=True),
    "torch.nn.Transformer": make_plain_step,
    "torch.nn.Transformer, torch.compile": lambda size, device: make_plain_step(size, device, fused=True),
}


def head_lines(options: argparse.Namespace, device: torch.device, peak: float, encoded: EncodedPairs) -> list[str]:
    """Return the head of the page: the device, the data and the columns."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    arguments = f"--sizes {' '.join(options.sizes)} --seconds {options.seconds:g}"
    means = encoded.sources.lengths.mean(), encoded.targets.lengths.mean()
    return [
        "# Training on a CUDA device",
        "",
        f"    python -m benchmarks.train_cuda {arguments}",
        "",
        f"{name}, torch {torch.__version__}; {time.strftime('%Y-%m-%d')}. Random pieces, {VOCABULARY:,} of them,",
        f"lengths spread as in WMT 2014 en-de (means {means[0]:.1f} and {means[1]:.1f}, at most {LONGEST}), up to",
        f"{options.batch_tokens:,} target pieces a batch, dropout and label smoothing 0.1, Adam, bfloat16 products. A",
        f"large product reached {peak / 1e12:.2f} TFLOP/s. *of the peak*: the operations of useful pieces",
        "(`pellucid.workflows.plan.estimate.training_flops`) as a share of that. Target pieces "
        "without padding a second: median",
        f"of {STRETCHES} stretches (least-most), all rows in turn, after {UNTIMED} updates. *base run*: the paper's",
        f"{BASE_RUN:,} updates of {BATCH:,} pieces.",
        "",
    ]


def table_lines(size: str, results: dict[str, Measured | str], peak: float, encoded: EncodedPairs) -> list[str]:
    """Return the rows of one size."""
    s, t = (round(float(side.lengths.mean())) for side in (encoded.sources, encoded.targets))
    flops = training_flops(ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size]), s, t) / t
    rows = [
        f"## {size}: {flops / 1e6:.0f} MFLOP a target piece",
        "",
        "| | pieces/s | of the peak | base run, minutes | first updates, s | peak memory, GB |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        if isinstance(row, str):
            rows.append(f"| {name} | failed: {row.replace('|', '/')} | | | | |")
            continue
        spread = f"({min(row.speeds):,.0f}-{max(row.speeds):,.0f})"
        minutes = BASE_RUN * BATCH / row.speed / 60
        rows.append(
            f"| {name} | {row.speed:,.0f} {spread} | {row.speed * flops / peak:.0%} | {minutes:,.0f} | "
            f"{row.ready:.1f} | {row.peak / 1e9:.1f} |"
        )
    return [*rows, ""]


if __name__ == "__main__":
    main()
