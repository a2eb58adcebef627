"""Cost of the unwatched `watch`: the model against a copy of it from whose source every trace of watch is removed.

    OMP_NUM_THREADS=1 python benchmarks/watch_cost.py > benchmarks/results/watch.md

The two are timed in turns, in CPU time of this process on one thread; a pair is one turn of each. The copy once more is
timed in the same turns: what its pairs show is what this way of measuring cannot tell apart.
"""

import ast
import importlib
import os
import platform
import statistics
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from types import ModuleType

import torch

import pellucid.model as watched
from pellucid.model.watch import unseen

VOCABULARY = 8000
SHORT, LONG = 5, 23
SMALLEST = {"d_model": 6, "d_ff": 7, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch.compile about itself
        stripped = strip(Path(folder))
        tiny, small = dict(watched.PRESETS["tiny"]), dict(watched.PRESETS["small"])
        rows = [
            measure("d_model 6, 1+1 layers: forward and backward", stripped, forward_backward, SMALLEST, 1, SHORT, 600),
            measure("tiny: forward and backward", stripped, forward_backward, tiny, 1, SHORT, 150),
            measure("tiny: forward and backward", stripped, forward_backward, tiny, 16, LONG, 30),
            measure("small: forward and backward", stripped, forward_backward, small, 1, SHORT, 90),
            measure("small: forward and backward", stripped, forward_backward, small, 16, LONG, 12),
            measure("d_model 6, 1+1 layers: one cached step", stripped, cached_steps, SMALLEST, 1, LONG, 150),
            measure("tiny: one cached step", stripped, cached_steps, tiny, 1, LONG, 60),
            measure("tiny: one cached step", stripped, cached_steps, tiny, 16, LONG, 30),
            measure("small: one cached step", stripped, cached_steps, small, 16, LONG, 18),
            measure("tiny, compiled: forward", stripped, compiled_forward, tiny, 1, SHORT, 150),
        ]
        graphs = [compare_graphs(tiny, stripped, training) for training in (False, True)]
    print(page(rows, graphs))


# What is timed


def forward_backward(model, sentences: int, length: int) -> Callable[[], object]:
    source, target = ids(sentences, length), ids(sentences, length)
    model.train()
    return lambda: model.decode(target, model.encode(source)).sum().backward()


def cached_steps(model, sentences: int, length: int) -> Callable[[], object]:
    """`length` steps of one piece each; the cache starts empty, the memory is at hand."""
    cache = importlib.import_module(f"{type(model).__module__.rpartition('.')[0]}.cache").Cache
    source, target = ids(sentences, length), ids(sentences, length)
    model.eval()
    with torch.no_grad():
        memory = model.encode(source)

    @torch.no_grad()
    def steps():
        full_cache = cache()
        for at in range(length):
            model.decode(target[:, at : at + 1], memory, full_cache)

    return steps


def compiled_forward(model, sentences: int, length: int) -> Callable[[], object]:
    source, target = ids(sentences, length), ids(sentences, length)
    compiled = torch.compile(model.eval(), fullgraph=True)
    return torch.no_grad()(lambda: compiled(source, target))


def ids(sentences: int, length: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (sentences, length), generator=torch.Generator().manual_seed(1))


# How it is timed


@dataclass(frozen=True)
class Figures:
    """The pairs of one measurement."""

    label: str
    sentences: int
    length: int
    milliseconds: float
    ratios: list[float]
    control: list[float]


def measure(
    label: str, stripped: ModuleType, make: Callable, sizes: dict, sentences: int, length: int, pairs: int
) -> Figures:
    """CPU time of ours and of two stripped copies, in turns whose order changes from turn to turn."""
    runs = []
    for package in (stripped, watched, stripped):
        torch.manual_seed(1)
        runs.append(make(package.Transformer(package.ModelConfig(VOCABULARY, VOCABULARY, **sizes)), sentences, length))
    orders = list(permutations(range(3)))
    spent: list[list[float]] = [[], [], []]
    for turn in range(-5, pairs):
        for number in orders[turn % 6]:
            began = time.process_time()
            runs[number]()
            spent[number].append(time.process_time() - began)
    without, ours, again = (times[5:] for times in spent)
    figures = Figures(
        label,
        sentences,
        length,
        1000 * statistics.median(ours) / (length if make is cached_steps else 1),
        [a / b for a, b in zip(ours, without, strict=True)],
        [a / b for a, b in zip(again, without, strict=True)],
    )
    print(line(figures), file=sys.stderr)
    return figures


def compare_graphs(sizes: dict, stripped: ModuleType, training: bool) -> str:
    """Compare what torch.compile sees of the model and of the stripped copy: graphs, breaks, operations."""
    summaries = []
    for package in (watched, stripped):
        torch.compiler.reset()
        model = package.Transformer(package.ModelConfig(VOCABULARY, VOCABULARY, **sizes, dropout=0.0)).train(training)
        explanation = torch._dynamo.explain(model)(ids(3, LONG), ids(3, SHORT))
        summaries.append(
            (
                explanation.graph_count,
                explanation.graph_break_count,
                [str(op.target) for g in explanation.graphs for op in g.graph.nodes],
            )
        )
    (graphs, breaks, ours), (_, _, without) = summaries
    same = "the same" if summaries[0] == summaries[1] else "NOT THE SAME"
    return (
        f"| {'training' if training else 'evaluation'} | {graphs} | {breaks} | {len(ours)} | {len(without)} | {same} |"
    )


# The page


def page(rows: list[Figures], graphs: list[str]) -> str:
    calls = Counter()
    model = watched.Transformer(watched.ModelConfig(VOCABULARY, VOCABULARY, **watched.PRESETS["tiny"]))
    model(ids(1, SHORT), ids(1, SHORT), watch=calls)
    names = {"watch": unseen, "value": torch.empty(0)}
    seconds = timeit.repeat("watch('q', value)", globals=names, timer=time.process_time, number=100_000, repeat=15)
    return PAGE.format(
        machine=f"{processor()}, one thread; Python {platform.python_version()}, torch {torch.__version__}",
        date=time.strftime("%Y-%m-%d"),
        rows="\n".join(map(line, rows)),
        graphs="\n".join(graphs),
        calls=calls.calls,
        nanoseconds=f"{min(seconds) * 1e4:.0f}",
        share=f"{calls.calls * min(seconds) * 10:.0f} microseconds in all",
    )


class Counter:
    """Counts the calls of a forward pass, those of `within` too."""

    seeing = True

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, name, value):
        self.calls += 1
        return value

    def within(self, part):
        self.calls += 1
        return self


def line(f: Figures) -> str:
    low, middle, high = statistics.quantiles(f.ratios, n=4)
    _, control, _ = statistics.quantiles(f.control, n=4)
    return (
        f"| {f.label} | {f.sentences} x {f.length} | {f.milliseconds:.3g} | {len(f.ratios)} | {middle:.3f} "
        f"| {low:.3f} to {high:.3f} | {control:.3f} |"
    )


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{(names or [platform.processor()])[0]}, {os.cpu_count()} cores"


PAGE = """# What the unwatched `watch` costs

    OMP_NUM_THREADS=1 python benchmarks/watch_cost.py > benchmarks/results/watch.md

{machine}; {date}.

The model of this package beside a copy from whose source every trace of `watch` is removed: the argument, the calls,
the question whether anybody sees. CPU time of one process, in turns; a ratio is one turn of ours over the same turn of
the copy. *Control* is the same ratio for a second instance of the copy: what it shows differs without a cause.

## Eager and compiled

| what runs | sentences x positions | CPU ms | pairs | median ratio | middle half of the ratios | control |
|---|---|---|---|---|---|---|
{rows}

A forward pass of tiny calls a watcher {calls} times; one call of the watcher that sees nothing takes {nanoseconds} ns:
{share}.

## Graphs

What `torch.compile` makes of the forward pass of tiny without dropout (`torch._dynamo.explain`); with dropout, on a
CPU, both break where its mask is drawn:

| mode | graphs | breaks | operations, ours | operations, without watch | lists of operations |
|---|---|---|---|---|---|
{graphs}
"""


# The copy without watch


def strip(folder: Path) -> ModuleType:
    """The package `unwatched`: pellucid.model with no watch argument, no call of it, no question whether it sees."""
    package = folder / "unwatched"
    package.mkdir()
    for path in Path(watched.__file__).parent.glob("*.py"):
        if path.stem not in ("watch", "glossary"):
            tree = Stripper().visit(ast.parse(path.read_text(encoding="utf-8")))
            names = {getattr(node, "id", getattr(node, "arg", None)) for node in ast.walk(tree)}
            assert not names & {"watch", "unseen", "Watch"}, f"{path.name} still watches"
            text = ast.unparse(ast.fix_missing_locations(tree)).replace("pellucid.model", "unwatched")
            (package / path.name).write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return importlib.import_module("unwatched")


class Stripper(ast.NodeTransformer):
    """Takes `watch` out of signatures and calls; `watch(name, value)` becomes `value`."""

    def visit_ImportFrom(self, node):
        return None if node.module == "pellucid.model.watch" else node

    def visit_FunctionDef(self, node):
        if node.args.args and node.args.args[-1].arg == "watch":
            node.args.args.pop()
            del node.args.defaults[-1:]
        return self.generic_visit(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        if is_watch(node.func):
            return node.args[1]
        if isinstance(node.func, ast.Attribute) and is_watch(node.func.value):
            return node.func.value
        node.args = [argument for argument in node.args if not is_watch(argument)]
        node.keywords = [keyword for keyword in node.keywords if not is_watch(keyword.value)]
        return node

    def visit_BoolOp(self, node):
        node.values = [value for value in node.values if ast.unparse(value) != "not watch.seeing"]
        return self.generic_visit(node)


def is_watch(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "watch"


if __name__ == "__main__":
    main()
