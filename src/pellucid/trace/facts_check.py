"""Checks that the facts of a loaded trace hold together, so that a page or a program can rely on them."""

import re
from collections.abc import Iterator, Sequence

from pellucid.data.tokenizer import BOS
from pellucid.model import ModelConfig
from pellucid.trace.capture import LONGEST_TRACE
from pellucid.trace.edits import edit_problems as problems_of_edit
from pellucid.trace.facts import SearchTree, TraceFacts, TraceSide, TreeNode


def facts_problems(facts: TraceFacts, config: ModelConfig) -> list[str]:
    """Return a sentence for every contradiction in the facts; none for a sound trace."""
    problems = [
        *side_problems("source", facts.source, config.source_vocabulary),
        *side_problems("target", facts.target, config.target_vocabulary),
        *step_problems(facts, config.target_vocabulary),
        *(tree_problems(facts.tree, config.target_vocabulary) if facts.tree is not None else ()),
    ]
    # What an edit may be depends on the source words, so it is looked at only once those are known to be sound.
    if not problems:
        problems += [problem for edit in facts.edits for problem in problems_of_edit(edit, config, facts.source.words)]
    if not re.fullmatch("[0-9a-f]{12}", facts.id):
        problems.append(f"the id is {facts.id!r:.60}")
    return problems


def side_problems(name: str, side: TraceSide, vocabulary: int) -> Iterator[str]:
    """Yield the problems of one language: lists of unequal length, ids and word numbers out of range."""
    count = len(side.ids)
    if not 1 <= count <= LONGEST_TRACE:
        yield f"the {name} has {count} pieces, a trace 1 to {LONGEST_TRACE}"
    if {len(side.pieces), len(side.words), len(side.unknown)} != {count}:
        yield f"the {name} has {count} ids but another number of pieces, words or unknown marks"
    if not all(0 <= i < vocabulary for i in side.ids):
        yield f"the {name} has ids beyond its vocabulary of {vocabulary:,}"
    word_count = len(side.text.split())
    if not all(word is None or 0 <= word < word_count for word in side.words):
        yield f"the {name} has pieces of words beyond its {word_count}"


def step_problems(facts: TraceFacts, vocabulary: int) -> Iterator[str]:
    """Yield the problems of the pieces read and written, which must make one step each."""
    target, inputs = facts.target, facts.inputs
    if inputs.ids != [BOS, *target.ids[:-1]] or len(inputs.pieces) != len(inputs.ids):
        yield "the decoder's input is not the start mark and the pieces written"
    if [step.step for step in facts.steps] != list(range(len(target.ids))):
        yield f"{len(facts.steps)} steps are not those of {len(target.ids)} pieces"
    if [step.chosen.id for step in facts.steps] != target.ids:
        yield "the pieces chosen by the steps are not those written"
    if len(facts.piece_log_probs) != len(target.ids):
        yield f"{len(facts.piece_log_probs)} log-probabilities are not those of {len(target.ids)} pieces"
    if not all(0 <= candidate.id < vocabulary for step in facts.steps for candidate in step.top):
        yield f"the steps have candidates beyond the vocabulary of {vocabulary:,}"


def tree_problems(tree: SearchTree, vocabulary: int) -> Iterator[str]:
    """Yield the problems of the search tree: nodes must be numbered in order, each one step after an earlier parent."""
    # Whoever follows the parents of a node that is its own ancestor would loop for ever.
    if [node.id for node in tree.nodes] != list(range(len(tree.nodes))):
        yield "the nodes of the tree are not numbered in order"
    elif not all(follows_parent(node, tree.nodes) for node in tree.nodes):
        yield "the tree has nodes that are not one step after their parents"
    if not all(0 <= node.piece_id < vocabulary for node in tree.nodes):
        yield f"the tree has pieces beyond the vocabulary of {vocabulary:,}"


def follows_parent(node: TreeNode, nodes: Sequence[TreeNode]) -> bool:
    """Whether a node's parent stands before it, one step earlier; a root must belong to step 0."""
    if node.parent is None:
        return node.step == 0
    return 0 <= node.parent < node.id and node.step == nodes[node.parent].step + 1
