"""Whether the facts of a trace hold together: what a page or a program would rely on, asked of a file before."""

import re
from collections.abc import Iterator, Sequence

from pellucid.data.tokenizer import BOS
from pellucid.model import ModelConfig
from pellucid.trace.capture import LONGEST_TRACE
from pellucid.trace.edits import edit_problems as problems_of_edit
from pellucid.trace.facts import SearchTree, TraceFacts, TraceSide, TreeNode


def facts_problems(facts: TraceFacts, config: ModelConfig) -> list[str]:
    """A sentence for everything that cannot be so; none for a sound trace."""
    found = [
        *side_problems("source", facts.source, config.source_vocabulary),
        *side_problems("target", facts.target, config.target_vocabulary),
        *step_problems(facts, config.target_vocabulary),
        *(tree_problems(facts.tree, config.target_vocabulary) if facts.tree is not None else ()),
    ]
    if not found:
        found += [each for edit in facts.edits for each in problems_of_edit(edit, config, facts.source.words)]
    if not re.fullmatch("[0-9a-f]{12}", facts.id):
        found.append(f"the id is {facts.id!r:.60}")
    return found


def side_problems(name: str, side: TraceSide, vocabulary: int) -> Iterator[str]:
    """Of one language: every list as long as the pieces, every number one there is."""
    count = len(side.ids)
    if not 1 <= count <= LONGEST_TRACE:
        yield f"the {name} has {count} pieces, a trace 1 to {LONGEST_TRACE}"
    if {len(side.pieces), len(side.words), len(side.unknown)} != {count}:
        yield f"the {name} has {count} ids and another number of pieces, words or marks of the unknown"
    if not all(0 <= i < vocabulary for i in side.ids):
        yield f"the {name} has ids beyond its vocabulary of {vocabulary:,}"
    most = len(side.text.split())
    if not all(word is None or 0 <= word < most for word in side.words):
        yield f"the {name} has pieces of words beyond its {most}"


def step_problems(facts: TraceFacts, vocabulary: int) -> Iterator[str]:
    """Of what was read and written, one step a piece."""
    target, inputs = facts.target, facts.inputs
    if inputs.ids != [BOS, *target.ids[:-1]] or len(inputs.pieces) != len(inputs.ids):
        yield "what the decoder read is not the start mark and what it wrote"
    if [step.step for step in facts.steps] != list(range(len(target.ids))):
        yield f"{len(facts.steps)} steps are not those of {len(target.ids)} pieces"
    if [step.chosen.id for step in facts.steps] != target.ids:
        yield "the steps have not chosen what was written"
    if len(facts.piece_log_probs) != len(target.ids):
        yield f"{len(facts.piece_log_probs)} log-probabilities are not those of {len(target.ids)} pieces"
    if not all(0 <= each.id < vocabulary for step in facts.steps for each in step.top):
        yield f"the steps have candidates beyond the vocabulary of {vocabulary:,}"


def tree_problems(tree: SearchTree, vocabulary: int) -> Iterator[str]:
    """Of the search: every node numbered by its place, under one that stands before it, a step later."""
    if [node.id for node in tree.nodes] != list(range(len(tree.nodes))):
        yield "the nodes of the tree are not numbered by their places"
    elif not all(follows_parent(node, tree.nodes) for node in tree.nodes):
        yield "the tree has nodes that are not a step behind their parents"
    if not all(0 <= node.piece_id < vocabulary for node in tree.nodes):
        yield f"the tree has pieces beyond the vocabulary of {vocabulary:,}"


def follows_parent(node: TreeNode, nodes: Sequence[TreeNode]) -> bool:
    """Whether a node may stand where it does."""
    if node.parent is None:
        return node.step == 0
    return 0 <= node.parent < node.id and node.step == nodes[node.parent].step + 1
