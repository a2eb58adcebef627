"""The tree of a search: every candidate with what became of it, and the path to the translation."""

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
    """One search for one sentence: its request, the candidates of its steps, and its hypotheses."""

    request: SearchRequest
    steps: list[SearchStep]
    hypotheses: list[Hypothesis]


@dataclass
class ObservingEngine:
    """An engine that searches for one sentence at a time with another engine, and remembers the steps of each search.

    With a `prefix`, every translation begins with these pieces.
    """

    engine: TorchEngine
    prefix: tuple[int, ...] = ()
    searches: list[ObservedSearch] = field(default_factory=list)
    batch_size: int = 1

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        for original in requests:
            steps: list[SearchStep] = []
            request = replace(original, prefix=self.prefix) if self.prefix else original
            # One request at a time, so that row 0 of every step is this sentence.
            [hypotheses] = self.engine.search_batch([request], config, steps.append)
            self.searches.append(ObservedSearch(request, steps, hypotheses))
        return [search.hypotheses for search in self.searches[len(self.searches) - len(requests) :]]

    def search_all(self, batches, config):
        return (self.search(batch, config) for batch in batches)


def build_search_tree(search: ObservedSearch, config: SearchConfig, piece: Callable[[int], str]) -> SearchTree | None:
    """Build the tree of all candidates from the observed steps; None for a search that shows no steps."""
    if not search.steps:
        return None
    width = 1 if config.method == "greedy" else config.beam
    nodes: list[TreeNode] = []
    path_log_probs: list[list[float]] = []  # of each node, from the root
    live: list[int | None] = [None]  # ids of the nodes of the last step that were kept; None is the root
    for step, observed in enumerate(search.steps):
        rows = zip(
            *(x[0].tolist() for x in (observed.parents, observed.tokens, observed.log_probs, observed.totals)),
            observed.kept[0].tolist(),
            observed.finished[0].tolist(),
            strict=True,
        )
        next_live: list[int | None] = []
        for rank, (parent_index, token, log_prob, total, kept, finished) in enumerate(rows, start=1):
            # Impossible candidates may fill the end, and one beyond 2 * width shows only how near it came.
            if total == -float("inf") or rank > 2 * width:
                continue
            parent = live[parent_index]
            log_probs = [*([] if parent is None else path_log_probs[parent]), log_prob]
            fate = "kept" if kept else "finished" if finished else "pruned"
            nodes.append(
                TreeNode(
                    id=len(nodes),
                    parent=parent,
                    step=step,
                    piece=piece(token),
                    piece_id=token,
                    log_prob=log_prob,
                    # Added up anew from the log-probabilities rather than taken from the search.
                    total=fsum(log_probs),
                    score=fsum(log_probs) / length_divisor(len(log_probs), config.length_penalty),
                    rank=rank,
                    fate=fate,
                    best=False,
                )
            )
            path_log_probs.append(log_probs)
            if kept:
                next_live.append(len(nodes) - 1)
        live = next_live
    best = hypothesis_path(nodes, search.hypotheses[0])
    nodes = [replace(node, best=node.id in best) for node in nodes]
    return SearchTree(width, config.length_penalty, FORMULA.format(config.length_penalty), 2 * width, nodes)


def hypothesis_path(nodes: Sequence[TreeNode], hypothesis: Hypothesis) -> set[int]:
    """Return the ids of the nodes on the path of one hypothesis, from the root to its last piece."""
    tokens = [*hypothesis.tokens, *[EOS] * (hypothesis.stop == "eos")]  # the tree has a node for EOS as well
    children: dict[tuple[int | None, int], int] = {(node.parent, node.piece_id): node.id for node in nodes}
    path, node_id = set(), None
    for token in tokens:
        node_id = children[node_id, token]
        path.add(node_id)
    return path
