"""All checks of a trace, and those that run the model again: fused, step by step, along the beam."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

import numpy as np
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.search import length_divisor, log_probabilities
from pellucid.decode.torch_engine import CLOSE_CALL, ModelState
from pellucid.interpret.trace.facts import SearchTree, TreeNode
from pellucid.interpret.trace.number_checks import (
    CapturedRun,
    Check,
    check_accounts,
    check_at_most,
    check_patterns,
    check_recomputed,
    check_steps,
    checks_not_made,
)


def check_captured_run(run: CapturedRun) -> list[Check]:
    """Check everything that was captured of one sentence, in the order of the page, but not what an edit replaced."""
    # NaN fails its check anyway; a warning beside it would only be noise.
    with np.errstate(all="ignore"):
        return [
            *_check_fused_run(run),
            *check_patterns(run),
            check_recomputed(run),
            _check_cached_decoding(run),
            *check_accounts(run),
            *check_steps(run),
            *check_tree(run),
            *_check_model_state(run),
        ]


def _check_fused_run(run: CapturedRun) -> Iterator[Check]:
    """Check the logits against a run without a watcher, which takes the fused kernel where there is one."""
    logits_name = "without recording, the model computes the same numbers"
    same_name = "that run finds the same pieces most likely"
    if reason := run.why_not_checked("logits", edits=True):
        yield from checks_not_made(reason, logits_name, same_name)
        return

    captured = run.tensors["logits"]
    with torch.inference_mode():
        unwatched = run.model(run.as_batch(run.source), run.as_batch(run.inputs))[0].cpu().numpy()
    largest = float(np.abs(captured).max())

    # torch.testing's relative tolerance for float32, and four times its absolute one.
    limit = 1e-10 * largest if run.rounding < 1e-9 else 4e-5 + 1.3e-6 * largest
    yield check_at_most(
        limit,
        logits_name,
        float(np.abs(captured - unwatched).max()),
        f"The largest difference of {captured.size:,} logits to a run with fused attention, which forms no patterns.",
    )
    at_unwatched_best = captured[np.arange(len(captured)), unwatched.argmax(axis=-1)]

    # Logits within the limit of each other may change places by rounding. Negated, so that NaN
    # counts as a failure.
    differing = np.sum(~(captured.max(axis=-1) - at_unwatched_best <= limit))
    yield check_at_most(
        0,
        same_name,
        float(differing),
        f"Number of the {len(captured)} steps at which another piece is most likely.",
    )


def _check_cached_decoding(run: CapturedRun) -> Check:
    """Check the logits against decoding as a search does it: one position at a time, with a cache."""
    name = "decoding step by step gives the same logits"
    if reason := run.why_not_checked("logits", edits=True):
        return checks_not_made(reason, name)[0]
    captured = run.tensors["logits"]

    with torch.inference_mode():
        state = ModelState(run.model.encode(run.as_batch(run.source)))
        states = []
        for ids in run.as_batch(run.inputs).T:
            states.append(run.model.decode(ids[None], state.memory, cache=state.cache))
        logits = run.model.logits(torch.cat(states, dim=1))[0].cpu().numpy()

    return check_at_most(
        run.rounding,
        name,
        float(np.abs(captured - logits).max() / max(1.0, np.abs(captured).max())),
        f"Largest difference in {len(captured)} steps with cached keys and values, as a share of the largest logit.",
    )


def check_tree(run: CapturedRun) -> Iterator[Check]:
    """Check that the search tree adds up, leads to the translation, and says what the model says."""
    tree = run.tree
    if tree is None:
        return
    nodes = {node.id: node for node in tree.nodes}
    yield check_at_most(
        1e-5,
        "totals of the beam are sums of log-probabilities",
        max((_node_error(node, nodes, tree.length_penalty) for node in tree.nodes), default=0.0),
        f"The largest difference when totals and scores of {len(nodes)} candidates are computed from their parents.",
    )
    steps = 1 + max((node.step for node in tree.nodes), default=-1)
    misplaced = 0
    for step in range(steps):
        nodes_of_step = [node for node in tree.nodes if node.step == step]
        misplaced += _count_misplaced(nodes_of_step, tree.width)

    yield check_at_most(
        0,
        "what was kept and dropped follows from the totals",
        float(misplaced),
        f"Number of candidates in {steps} steps whose rank or fate is not what a beam of {tree.width} gives them.",
    )
    yield check_at_most(
        0,
        "the best path through the beam is the translation",
        float(not _tree_leads_to(run.target, tree)),
        "1 if the best score belongs to other pieces, among the hypotheses that ended or reached the limit.",
    )
    name = "the model gives the log-probabilities of the beam"
    if reason := run.why_not_checked(edits=True):
        yield from checks_not_made(reason, name)
        return

    values = _rescore_nodes(run, tree, nodes)
    errors = [abs(value - nodes[node_id].log_prob) for node_id, value in values.items()]
    yield check_at_most(
        CLOSE_CALL,
        name,
        max(errors, default=0.0),
        f"The largest difference when each hypothesis that ended or reached the limit is read again in one pass; "
        f"{len(values)} of {len(nodes)} candidates are on their paths.",
    )


def _node_error(node: TreeNode, nodes: Mapping[int, TreeNode], length_penalty: float) -> float:
    """Return how far a node's total and score are from those recomputed, relative to the total if that is large."""
    parent_total = 0.0 if node.parent is None else nodes[node.parent].total
    total = parent_total + node.log_prob
    score = node.total / length_divisor(node.step + 1, length_penalty)
    return max(abs(node.total - total), abs(node.score - score)) / max(1.0, abs(node.total))


def _count_misplaced(nodes: Sequence[TreeNode], width: int) -> int:
    """Count the candidates of a step whose rank or fate is not what the search gives them (decode/beam.py)."""
    nodes = sorted(nodes, key=lambda node: node.rank)
    misranked = sum(after.total > before.total + 1e-5 for before, after in pairwise(nodes))
    # Greedy search has one place for both fates: when its likeliest piece is EOS, nothing lives on.
    considered = nodes[:1] if width == 1 else nodes
    survivors = [node for node in considered if node.piece_id != EOS][:width]
    fates = {node.id: "kept" for node in survivors}
    fates |= {node.id: "finished" for node in nodes if node.piece_id == EOS and node.rank <= width}
    return misranked + sum(node.fate != fates.get(node.id, "pruned") for node in nodes)


def _tree_leads_to(translation: Sequence[int], tree: SearchTree) -> bool:
    """Whether the path marked best spells the translation, and ends with the highest score."""
    path = sorted((node for node in tree.nodes if node.best), key=lambda node: node.step)
    last = max((node.step for node in tree.nodes), default=0)
    finished = [node for node in tree.nodes if node.fate == "finished"]
    cut_off = [node for node in tree.nodes if node.fate == "kept" and node.step == last]
    # Hypotheses that were cut off at the limit count only if none finished.
    highest = max((node.score for node in finished or cut_off), default=inf)
    is_its_text = [node.piece_id for node in path] == list(translation)
    return is_its_text and path[-1].score >= highest - 1e-5


def _rescore_nodes(
    run: CapturedRun,
    tree: SearchTree,
    nodes: Mapping[int, TreeNode],
) -> dict[int, float]:
    """Return the model's log-probability of each node whose parent is on the path of a finished or last hypothesis."""
    children: dict[int | None, list[TreeNode]] = {}
    for node in tree.nodes:
        children.setdefault(node.parent, []).append(node)
    leaves = [node for node in tree.nodes if node.id not in children and node.fate != "pruned"]

    log_prob_of: dict[int, float] = {}
    with torch.inference_mode():
        memory = run.model.encode(run.as_batch(run.source))
        for node in leaves:
            path: list[TreeNode] = [node]
            while (parent := path[0].parent) is not None:
                path.insert(0, nodes[parent])
            ids = [run.inputs[0], *(ancestor.piece_id for ancestor in path[:-1])]
            states = run.model.decode(run.as_batch(ids), memory)
            log_probs = log_probabilities(run.model.logits(states)[0]).cpu()
            # One pass along a path gives the log-probabilities of every sibling on its way too.
            for position, parent in enumerate([None, *(ancestor.id for ancestor in path[:-1])]):
                for sibling in children[parent]:
                    log_prob_of[sibling.id] = float(log_probs[position, sibling.piece_id])

    return log_prob_of


def _check_model_state(run: CapturedRun) -> Iterator[Check]:
    """Check the state of the model, and that its files can be identified."""
    mode_name = "the model is in evaluation mode, without dropout"
    dtype_name = "all numbers have the precision of the model"
    training = sum(module.training for module in run.model.modules())
    yield check_at_most(
        0,
        mode_name,
        float(training),
        "Number of the model's parts in training mode, in which dropout is on.",
    )
    model_dtype = str(run.model.output_embedding.weight.dtype).removeprefix("torch.")

    # Masks are booleans in every precision of the model.
    types = [str(tensor.dtype) for tensor in run.tensors.values()]
    differing = sum(name not in (model_dtype, "bool") for name in types)
    yield check_at_most(
        0,
        dtype_name,
        float(differing),
        f"Number of captured tensors that are not {model_dtype} like the weights.",
    )
    hash_name, hashes = "every file of the model has a hash", run.hashes
    if not all(hashes.values()):
        yield from checks_not_made("the model was never saved, so there are no files", hash_name)
        return

    wrong = 0
    for joined in hashes.values():
        for sha256 in joined.split(" "):  # a tokenizer may have several files
            wrong += not re.fullmatch("[0-9a-f]{64}", sha256)

    shortened = "; ".join(f"{file} {joined[:12]}..." for file, joined in hashes.items())
    yield check_at_most(0, hash_name, float(wrong), f"SHA-256: {shortened}")
