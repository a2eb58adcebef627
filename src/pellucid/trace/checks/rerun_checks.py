"""Checks that run the model once more, another way: fused, step by step, along the beam; and of its state."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

import numpy as np
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.search import length_divisor, log_probabilities
from pellucid.decode.step import ModelState
from pellucid.decode.torch_engine import CLOSE_CALL
from pellucid.trace.checks.captured_run import CapturedRun, Check, check_at_most, check_not_made
from pellucid.trace.facts import SearchTree, TreeNode


def check_fused_run(seen: CapturedRun) -> Iterator[Check]:
    """A run that nobody watches, with the fused kernel where there is one."""
    name, same = "an unwatched run gives the same logits", "it finds the same pieces likeliest"
    if reason := seen.why_not_checked("logits", edits=True, model=True):
        yield from (check_not_made(name, reason), check_not_made(same, reason))
        return
    assert seen.model is not None
    captured = seen.tensors["logits"]
    with torch.inference_mode():
        plain = seen.model(seen.as_batch(seen.source), seen.as_batch(seen.inputs))[0].cpu().numpy()
    most = float(np.abs(captured).max())
    limit = 1e-10 * most if seen.rounding < 1e-9 else 4e-5 + 1.3e-6 * most
    yield check_at_most(
        limit,
        name,
        float(np.abs(captured - plain).max()),
        f"Fused attention, no pattern ever formed; the largest difference of {captured.size:,} logits.",
    )
    best = captured[np.arange(len(captured)), plain.argmax(axis=-1)]
    parted = np.sum(~(captured.max(axis=-1) - best <= limit))
    yield check_at_most(0, same, float(parted), f"Steps, of {len(captured)}, where another piece is likeliest.")


def check_cached_decoding(seen: CapturedRun) -> Check:
    """Decoding as a search does it: one position at a time, keys and values of the earlier ones kept."""
    name = "decoding step by step gives the same logits"
    if reason := seen.why_not_checked("logits", edits=True, model=True):
        return check_not_made(name, reason)
    assert seen.model is not None
    captured = seen.tensors["logits"]
    with torch.inference_mode():
        state = ModelState(seen.model.encode(seen.as_batch(seen.source)))
        each = [seen.model.decode(ids[None], state.memory, cache=state.cache) for ids in seen.as_batch(seen.inputs).T]
        logits = seen.model.logits(torch.cat(each, dim=1))[0].cpu().numpy()
    return check_at_most(
        seen.rounding,
        name,
        float(np.abs(captured - logits).max() / max(1.0, np.abs(captured).max())),
        f"{len(captured)} steps with kept keys and values; the largest difference as a share of the largest logit.",
    )


def check_tree(seen: CapturedRun) -> Iterator[Check]:
    """The tree of the search adds up, leads to the translation, and says what the model says."""
    tree = seen.tree
    if tree is None:
        return
    nodes = {node.id: node for node in tree.nodes}
    yield check_at_most(
        1e-5,
        "totals of the beam are sums of log-probabilities",
        max((node_error(node, nodes, tree.length_penalty) for node in tree.nodes), default=0.0),
        f"Totals and scores of {len(nodes)} candidates again from their parents'; the largest difference.",
    )
    steps = 1 + max((node.step for node in tree.nodes), default=-1)
    surprises = sum(
        count_misplaced([node for node in tree.nodes if node.step == step], tree.width) for step in range(steps)
    )
    yield check_at_most(
        0,
        "what was kept and dropped follows from the totals",
        float(surprises),
        f"Candidates of {steps} steps whose rank or fate is another than a beam of {tree.width} gives them.",
    )
    yield check_at_most(
        0,
        "the best way through the beam is the translation",
        float(not tree_leads_to(seen.target, tree)),
        "1 where the best score of those that ended, or that lived to the limit, belongs to other pieces.",
    )
    name = "the beam's log-probabilities are the model's"
    if reason := seen.why_not_checked(edits=True, model=True):
        yield check_not_made(name, reason)
        return
    values = rescore_nodes(seen, tree, nodes)
    yield check_at_most(
        CLOSE_CALL,
        name,
        max((abs(value - nodes[number].log_prob) for number, value in values.items()), default=0.0),
        f"Every hypothesis that finished or lived to the end read again in one pass; {len(values)} of {len(nodes)} "
        "candidates stand on their ways, the largest difference.",
    )


def node_error(node: TreeNode, nodes: Mapping[int, TreeNode], length_penalty: float) -> float:
    """How far its total and its score are from what they are made of, relative to the total where that is large."""
    before = 0.0 if node.parent is None else nodes[node.parent].total
    total, score = before + node.log_prob, node.total / length_divisor(node.step + 1, length_penalty)
    return max(abs(node.total - total), abs(node.score - score)) / max(1.0, abs(node.total))


def count_misplaced(nodes: Sequence[TreeNode], width: int) -> int:
    """How many candidates of a step have another rank or fate than the search gives them (decode/beam.py).

    A width of 1 has one place for both: when its likeliest piece ends, nothing lives on.
    """
    nodes = sorted(nodes, key=lambda node: node.rank)
    ranks = sum(after.total > before.total + 1e-5 for before, after in pairwise(nodes))
    looked_at = nodes[:1] if width == 1 else nodes
    going_on = [node for node in looked_at if node.piece_id != EOS][:width]
    fates = {node.id: "kept" for node in going_on}
    fates |= {node.id: "finished" for node in nodes if node.piece_id == EOS and node.rank <= width}
    return ranks + sum(node.fate != fates.get(node.id, "pruned") for node in nodes)


def tree_leads_to(written: Sequence[int], tree: SearchTree) -> bool:
    """Whether the way marked best spells what was written, and ends where it scores highest."""
    way = sorted((node for node in tree.nodes if node.best), key=lambda node: node.step)
    last = max((node.step for node in tree.nodes), default=0)
    ended = [node for node in tree.nodes if node.fate == "finished"]
    cut = [node for node in tree.nodes if node.fate == "kept" and node.step == last]
    highest = max((node.score for node in ended or cut), default=inf)
    return [node.piece_id for node in way] == list(written) and way[-1].score >= highest - 1e-5


def rescore_nodes(seen: CapturedRun, tree: SearchTree, nodes: Mapping[int, TreeNode]) -> dict[int, float]:
    """The log-probability of each node whose parent stands on the way to a last one, the target given."""
    assert seen.model is not None
    children: dict[int | None, list[TreeNode]] = {}
    for node in tree.nodes:
        children.setdefault(node.parent, []).append(node)
    last = [node for node in tree.nodes if node.id not in children and node.fate != "pruned"]
    found: dict[int, float] = {}
    with torch.inference_mode():
        memory = seen.model.encode(seen.as_batch(seen.source))
        for node in last:
            way: list[TreeNode] = [node]
            while (parent := way[0].parent) is not None:
                way.insert(0, nodes[parent])
            ids = [seen.inputs[0], *(each.piece_id for each in way[:-1])]
            log_probs = log_probabilities(seen.model.logits(seen.model.decode(seen.as_batch(ids), memory))[0]).cpu()
            for at, parent in enumerate([None, *(each.id for each in way[:-1])]):
                some = children[parent]
                found |= {each.id: float(log_probs[at, each.piece_id]) for each in some}
    return found


def check_model_state(seen: CapturedRun) -> Iterator[Check]:
    """The state of the model, and whether anybody can tell which one it was."""
    mode, dtype = "evaluation mode, nothing dropped", "numbers in the model's own precision"
    if seen.model is None:
        yield from (
            check_not_made(each, "the model is not at hand, only what was captured of it") for each in (mode, dtype)
        )
    else:
        training = sum(module.training for module in seen.model.modules())
        yield check_at_most(
            0, mode, float(training), "Parts of the model that are in training mode, where dropout is on."
        )
        own = str(seen.model.output_embedding.weight.dtype).removeprefix("torch.")
        others = sum(str(x.dtype) not in (own, "bool") for x in seen.tensors.values())
        yield check_at_most(0, dtype, float(others), f"Captured tensors that are not {own}, as the weights are.")
    yield check_hashes(seen.hashes)


def check_hashes(hashes: Mapping[str, str]) -> Check:
    """Whether the files the model was read from can be told from all others; a tokenizer may have several."""
    name = "the files behind the run are known by their hashes"
    if not all(hashes.values()):
        return check_not_made(name, "the model was never saved, so there are no files")
    wrong = sum(not re.fullmatch("[0-9a-f]{64}", each) for some in hashes.values() for each in some.split(" "))
    said = "; ".join(f"{what} {some[:12]}..." for what, some in hashes.items())
    return check_at_most(0, name, float(wrong), f"SHA-256: {said}")
