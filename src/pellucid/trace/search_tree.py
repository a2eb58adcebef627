"""The tree of a search: every candidate it looked at, what became of each, and the way to the translation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum

from pellucid.data.tokenizer import EOS
from pellucid.decode.config import SearchConfig
from pellucid.decode.search import Hypothesis, length_divisor
from pellucid.decode.search_steps import SearchStep
from pellucid.decode.torch_engine import SearchRequest, TorchEngine
from pellucid.trace.facts import SearchTree, TreeNode

FORMULA = "total / ((5 + pieces) / 6) ^ {}"


@dataclass
class ObservedSearch:
    """One search that was made for one sentence: what was asked, what it looked at, what it found."""

    request: SearchRequest
    steps: list[SearchStep]
    hypotheses: list[Hypothesis]


@dataclass
class ObservingEngine:
    """An engine that searches for each sentence alone, as another one does, and remembers what that looked at.

    With a `prefix` every translation begins with these pieces.
    """

    engine: TorchEngine
    prefix: tuple[int, ...] = ()
    searches: list[ObservedSearch] = field(default_factory=list)
    batch_size: int = 1

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        for each in requests:
            looked: list[SearchStep] = []
            request = replace(each, prefix=self.prefix) if self.prefix else each
            [found] = self.engine.search_batch([request], config, looked.append)
            self.searches.append(ObservedSearch(request, looked, found))
        return [each.hypotheses for each in self.searches[len(self.searches) - len(requests) :]]

    def search_all(self, batches, config):
        return (self.search(batch, config) for batch in batches)


def build_search_tree(search: ObservedSearch, config: SearchConfig, piece: Callable[[int], str]) -> SearchTree | None:
    """The candidates of every step under their parents; None for a search that tells nobody what it looks at."""
    if not search.steps:
        return None
    width = 1 if config.method == "greedy" else config.beam
    nodes: list[TreeNode] = []
    gains: list[list[float]] = []  # of each node, from the root
    live: list[int | None] = [None]
    for step, looked in enumerate(search.steps):
        rows = zip(
            *(x[0].tolist() for x in (looked.parents, looked.pieces, looked.gains, looked.totals)),
            looked.kept[0].tolist(),
            looked.finished[0].tolist(),
            strict=True,
        )
        living: list[int | None] = []
        for rank, (place, number, gain, total, kept, finished) in enumerate(rows, start=1):
            if total == -float("inf") or rank > 2 * width:
                continue
            parent = live[place]
            each = [*([] if parent is None else gains[parent]), gain]
            fate = "kept" if kept else "finished" if finished else "pruned"
            nodes.append(
                TreeNode(
                    id=len(nodes),
                    parent=parent,
                    step=step,
                    piece=piece(number),
                    piece_id=number,
                    log_prob=gain,
                    total=fsum(each),
                    score=fsum(each) / length_divisor(len(each), config.length_penalty),
                    rank=rank,
                    fate=fate,
                    best=False,
                )
            )
            gains.append(each)
            if kept:
                living.append(len(nodes) - 1)
        live = living
    best = hypothesis_path(nodes, search.hypotheses[0])
    nodes = [replace(node, best=node.id in best) for node in nodes]
    return SearchTree(width, config.length_penalty, FORMULA.format(config.length_penalty), 2 * width, nodes)


def hypothesis_path(nodes: Sequence[TreeNode], hypothesis: Hypothesis) -> set[int]:
    """The nodes of one hypothesis, from the root to its last piece."""
    wanted = [*hypothesis.tokens, *[EOS] * (hypothesis.stop == "eos")]
    children: dict[tuple[int | None, int], int] = {(node.parent, node.piece_id): node.id for node in nodes}
    found, at = set(), None
    for number in wanted:
        at = children[at, number]
        found.add(at)
    return found
