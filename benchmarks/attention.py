"""Fused against written-out attention, forward and backward, at the lengths of sentences, to choose between them.

    python -m benchmarks.attention

Interleaved; process CPU time, so that other work on the machine counts less. Writes benchmarks/results/attention.md.
"""

import statistics
import time
from pathlib import Path
from unittest import mock

import torch

from benchmarks.quality import machine
from pellucid.model import attention, masks

ROUNDS, CALLS = 9, 10
SHAPES = [(256, 4, 14, 32), (64, 4, 60, 64), (64, 8, 14, 64), (16, 8, 200, 64)]


def main() -> None:
    """Measure every shape and write the page."""
    lines = [
        "# Fused attention and attention written out, on a CPU\n",
        f"Made by `python -m benchmarks.attention` on {machine()}, {torch.get_num_threads()} threads.",
        f"CPU milliseconds for one call with a causal mask: the median of {ROUNDS} rounds of {CALLS} calls, in turns.",
        "*both*: forward and backward pass.\n",
        "| sentences x heads x length x width | type | forward: fused | written | both: fused | written | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            times = measure_shape(shape, dtype)
            ratio = times["both", False] / times["both", True]
            lines.append(
                f"| {' x '.join(map(str, shape))} | {str(dtype).removeprefix('torch.')} | "
                + " | ".join(f"{times[kind, fused]:.2f}" for kind in ("forward", "both") for fused in (True, False))
                + f" | {ratio:.2f} |"
            )
            print(lines[-1])
    lines.append(
        "\nratio = written / fused, with the backward pass. `fused_is_faster` in `src/pellucid/model/attention.py` "
        "follows from this table: the model uses the fused kernel, except in bfloat16 when a gradient is needed. Both "
        "give the same numbers (`tests/laws/test_model.py`)."
    )
    (Path(__file__).parent / "results" / "attention.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure_shape(shape: tuple[int, ...], dtype: torch.dtype) -> dict[tuple[str, bool], float]:
    """Return CPU milliseconds for each kind of pass, fused or not."""
    q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3))
    positions = torch.arange(shape[2])
    allowed = masks.causal_mask(positions, positions)
    times: dict[tuple[str, bool], list[float]] = {}
    for _ in range(ROUNDS):
        # Interleaved, so that a machine that slows down meets both.
        for fused in (True, False):
            with mock.patch.object(attention, "fused_is_faster", lambda q, fused=fused: fused):
                for kind in ("forward", "both"):
                    start = time.process_time()
                    for _ in range(CALLS):
                        with torch.set_grad_enabled(kind == "both"):
                            z = attention.attend(q, k, v, allowed)
                        if kind == "both":
                            z.sum().backward()
                    # CPU time of all threads, in milliseconds a call.
                    times.setdefault((kind, fused), []).append((time.process_time() - start) / CALLS * 1e3)
    return {key: statistics.median(durations) for key, durations in times.items()}


if __name__ == "__main__":
    main()
