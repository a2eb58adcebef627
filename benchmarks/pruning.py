"""Pruning of encoder heads: how many can go, by four ways to choose them, and what that is good for.

    PELLUCID_DATA=... python -m benchmarks.pruning

Needs the model of `python -m benchmarks.quality multi30k` under runs/. Ranks on Multi30k's dev set, measures on all
1,000 sentences of test_2016_flickr, learns gates on the training text. Writes benchmarks/results/pruning.md.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter

from benchmarks.quality import HOUSE, RESULTS, machine
from pellucid import bundle
from pellucid.cli.files import read_file_pair
from pellucid.cli.inspecting.prune import compare_pruned, learn_which_heads, rank_heads
from pellucid.cli.inspecting.prune_report import PruningResult
from pellucid.cli.inspecting.pruning_measurer import PruningCurve, PruningMeasurer
from pellucid.inspect.importance import list_heads
from pellucid.inspect.study_pairs import encode_study_pairs, spread_evenly

AMONG, BEAM, RANDOM, SEED = "encoder", 4, 5, 1
COUNTS = (16, 12, 8, 4, 0)
LOSS = 0.2
"""BLEU that may be lost."""
STRENGTHS = (0.001, 0.003, 0.01)
UPDATES, BATCH_TOKENS = 300, 1500

RANKED = 500
"""Pairs of the dev set, spread over it."""


@dataclass(frozen=True)
class LearnedGates:
    """Result of gates of one strength."""

    strength: float
    seconds: float
    result: PruningResult


def main() -> None:
    """Rank, measure, learn, and write the page."""
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("usage: PELLUCID_DATA=... python -m benchmarks.pruning")
    data = Path(os.environ["PELLUCID_DATA"]) / "multi30k"
    model_bundle = bundle.load_bundle(HOUSE / "runs" / "multi30k" / "best")
    config = model_bundle.model.config
    files = {name: tuple(str(data / f"{name}.{side}.gz") for side in ("en", "de")) for name in ("val", "train")}
    dev = read_file_pair(files["val"][0], files["val"][1])
    indices = spread_evenly(dev[0], RANKED)
    sources, targets = ([side[n] for n in indices] for side in dev)
    ranking = encode_study_pairs(model_bundle.tokenizer, config, sources, targets)
    test = read_file_pair(str(data / "test_2016_flickr.en.gz"), str(data / "test_2016_flickr.de.gz"))
    removing = PruningMeasurer(
        model_bundle, encode_study_pairs(model_bundle.tokenizer, config, *test), BEAM, len(list_heads(config, AMONG))
    )
    orders = rank_heads(model_bundle, ranking, AMONG, RANDOM, SEED)
    show_progress("ranked")
    curves = removing.curves(orders, COUNTS, lambda: show_progress("a point"))
    fewest = {name: removing.fewest_within(orders[name], COUNTS, LOSS) for name in ("ablation", "gradient")}
    results = {
        name: compare_pruned(removing, None, name, orders[name][count:], samples=1000, seed=SEED)
        for name, count in fewest.items()
    }
    show_progress(f"kept {fewest}")
    gates = []
    for strength in STRENGTHS:
        start = perf_counter()
        gated = learn_which_heads(
            model_bundle, (files["train"][0], files["train"][1]), strength, AMONG, UPDATES, BATCH_TOKENS, SEED
        )
        seconds = perf_counter() - start
        result = compare_pruned(removing, gated.model, f"l0, {strength:g}", gated.closed_heads, samples=1000, seed=SEED)
        gates.append(LearnedGates(strength, seconds, result))
        show_progress(f"strength {strength:g}: {len(gated.kept_heads)} kept in {seconds:.0f} s")
    text = page(removing, curves, results, gates, len(ranking))
    (RESULTS / "pruning.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def show_progress(line: str) -> None:
    """Print how far the benchmark is."""
    print(line, file=sys.stderr, flush=True)


def page(
    removing: PruningMeasurer,
    curves: Sequence[PruningCurve],
    results: dict[str, PruningResult],
    gates: Sequence[LearnedGates],
    ranked_on: int,
) -> Iterator[str]:
    """The whole of it."""
    whole = removing.point_without([])
    yield "# Heads removed from the encoder"
    yield ""
    yield f"Made by `PELLUCID_DATA=... python -m benchmarks.pruning` on {machine()}."
    yield ""
    yield (
        f"The model of `recipes/multi30k-en-de.toml`, with {removing.among} heads in its encoder. Heads are ranked "
        f"on {ranked_on:,} pairs of the dev set and measured on the {len(removing.pairs):,} of test_2016_flickr: "
        f"BLEU of translations with a beam of {BEAM}, {results['ablation'].scores[0].signature}. The heads are removed "
        f"from the matrices; after ablation, gradient and chance the model is trained no further."
    )
    yield ""
    yield "## BLEU against encoder heads kept"
    yield ""
    yield "| order | " + " | ".join(str(count) for count in COUNTS) + " |"
    yield "|---|" + "---:|" * len(COUNTS)
    chance = [curve for curve in curves if curve.order.startswith("random")]
    for curve in curves:
        if curve not in chance:
            yield f"| {curve.order} | " + " | ".join(f"{point.bleu:.2f}" for point in curve.points) + " |"
    columns = list(zip(*([point.bleu for point in curve.points] for curve in chance), strict=True))
    for name, of in (("mean", fmean), ("least", min), ("largest", max)):
        yield f"| {len(chance)} random orders, {name} | " + " | ".join(f"{of(column):.2f}" for column in columns) + " |"
    yield ""
    yield from removed_page(removing, results, whole.bleu)
    yield from gates_page(gates)
    yield from sizes_page([*results.values(), *(gate.result for gate in gates)])


def removed_page(removing: PruningMeasurer, results: dict[str, PruningResult], whole: float) -> Iterator[str]:
    """Yield how many heads can go without further training."""
    yield f"## How many can go for {LOSS} BLEU"
    yield ""
    yield (
        f"Whole: BLEU {whole:.2f}. Heads go in each order as long as no more than {LOSS} BLEU are lost; the number is "
        f"chosen on the sentences it is measured on."
    )
    yield ""
    for name, result in results.items():
        yield f"- {name}: {len(result.removed)} of {removing.among} ({' '.join(map(str, result.removed)) or 'none'})"
    yield ""


def gates_page(gates: Sequence[LearnedGates]) -> Iterator[str]:
    """Gates learned with the model."""
    yield "## Gates learned with the model (l0)"
    yield ""
    yield (
        f"{UPDATES} updates of {BATCH_TOKENS:,} target positions on the training text, for the encoder's gates and "
        f"weights together; the weights go on learning, so part of a difference may be that."
    )
    yield ""
    yield "| strength | heads kept | BLEU | difference [95 %], p | minutes |"
    yield "|---:|---:|---:|---|---:|"
    for gate in gates:
        bleu = gate.result.scores[0]
        yield (
            f"| {gate.strength:g} | {gate.result.point.kept} | {bleu.b.score:.2f} | {difference(gate.result)} "
            f"| {gate.seconds / 60:.1f} |"
        )
    yield ""


def sizes_page(results: Sequence[PruningResult]) -> Iterator[str]:
    """Size, speed and sameness of every smaller model."""
    yield "## Size and speed"
    yield ""
    yield (
        "Speed is that of the smaller model over that of the whole one, both in turns, so that whatever else runs on "
        "the machine meets both: the median of the rounds [slowest, fastest]. The largest difference is between a "
        "logit of the smaller model and the same logit with the heads silent, over all of the test set."
    )
    yield ""
    kinds = [speed.what for speed in results[0].speeds]
    yield f"| by | kept | parameters | BLEU difference [95 %], p | {' | '.join(kinds)} | largest difference |"
    yield "|---|---:|---:|---|---|---|---:|"
    for result in results:
        before, after = result.parameters
        speeds = [f"{speed.ratio:.2f} [{min(speed.ratios):.2f}, {max(speed.ratios):.2f}]" for speed in result.speeds]
        yield (
            f"| {result.by} | {result.point.kept} | {after:,} ({after / before - 1:+.1%}) | {difference(result)} "
            f"| {' | '.join(speeds)} | {result.difference:.0e} |"
        )


def difference(result: PruningResult) -> str:
    """Format the difference of BLEU, with its confidence interval."""
    bleu = result.scores[0]
    low, high = bleu.difference.low, bleu.difference.high
    return f"{bleu.difference.score:+.2f} [{low:+.2f}, {high:+.2f}], {bleu.p_value:.3f}"


if __name__ == "__main__":
    main()
