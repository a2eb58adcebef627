"""Saves and loads traces: facts as JSON, tensors as safetensors, written atomically and read without trust."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from math import prod
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from pellucid.data.tokenizer import BOS
from pellucid.model import ModelConfig
from pellucid.model.glossary import glossary
from pellucid.store.atomic import (
    MANIFEST,
    atomic_directory,
    join_problems,
    read_json,
    resolve_directory,
    verify_directory,
)
from pellucid.store.directory import model_config_from_json
from pellucid.trace.capture import LONGEST_TRACE
from pellucid.trace.edits import edit_problems as problems_of_edit
from pellucid.trace.facts import SearchTree, TraceFacts, TraceSide, TreeNode
from pellucid.trace.manifest import parameter_shapes
from pellucid.trace.trace import TraceData, axis_sizes, tensor_shape
from pellucid.trace.untrusted import read_strictly

FACTS, TENSORS = "trace.json", "tensors.safetensors"
VERSION = 1
_LARGEST_FACTS = 2**25  # bytes of the JSON file
_MOST_LAYERS = 200
_TYPES = {"float32": "F32", "float64": "F64"}  # safetensors' names for the number types of a traced model


def save_trace(trace: TraceData, path: str | Path) -> None:
    """Write a trace, whole or not at all; ValueError where something other than a trace stands."""
    _refuse_non_trace_directory(Path(path))
    contents = {"trace": VERSION, "config": asdict(trace.config), "facts": asdict(trace.facts)}
    # allow_nan=False: Python would otherwise write NaN, which is no JSON.
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False)
    with atomic_directory(path, trace=VERSION) as folder:
        (folder / FACTS).write_text(text + "\n", encoding="utf-8")
        save_file({name: trace.values_of(name) for name in trace}, folder / TENSORS)


def _refuse_non_trace_directory(directory: Path) -> None:
    """Raise ValueError for a file, a model, and any directory that is neither empty nor a trace."""
    if directory.is_file():
        raise ValueError(f"{directory} is a file; a trace needs a directory of its own")
    if directory.is_dir() and any(directory.iterdir()) and not (directory / FACTS).is_file():
        raise ValueError(f"{directory} holds other things than a trace and is not replaced; choose another place")


def load_trace(path: str | Path) -> tuple[TraceFacts, ModelConfig, dict[str, np.ndarray]]:
    """Load the facts, the config of the model and the tensors of a trace that `save_trace` wrote.

    Raises ValueError, naming the problems, for anything else and for contents that contradict each other. Memory is
    allocated only for sizes that were checked.
    """
    directory = resolve_directory(path)
    if not (directory / MANIFEST).is_file() or not (directory / FACTS).is_file():
        raise ValueError(f"{path} is not a saved trace; that is a directory with {FACTS} and {TENSORS} in it")
    try:
        verify_directory(directory, needed=(FACTS, TENSORS))
    except ValueError as error:
        # The advice to restore files is meant for models; a trace is simply made again.
        raise ValueError(f"{str(error).partition('; restore')[0]}; save the trace again") from None
    contents = read_json(directory / FACTS, _LARGEST_FACTS)
    if contents.get("trace") != VERSION:
        raise ValueError(
            f"{directory / FACTS} is of version {contents.get('trace')!r:.60}, this program reads {VERSION}"
        )
    config = model_config_from_json(contents.get("config"), f"{directory / FACTS}, config")
    if config.encoder_layers + config.decoder_layers > _MOST_LAYERS:
        raise ValueError(f"{directory / FACTS}: a model with more than {_MOST_LAYERS:,} layers cannot have been traced")
    facts = read_strictly(TraceFacts, contents.get("facts"), "facts")
    # The table was checked as a config above; its values replace those that the facts repeat.
    facts = replace(facts, model=replace(facts.model, config=asdict(config)))
    parameter_count = sum(map(prod, parameter_shapes(config).values()))
    problems = _facts_problems(facts, config)
    if facts.model.parameters != parameter_count:
        problems.append(f"the model has {facts.model.parameters:,} parameters, its config makes {parameter_count:,}")
    if problems:
        raise ValueError(f"{directory / FACTS} does not hold together: {join_problems(problems)}")
    return facts, config, _read_tensors(directory / TENSORS, facts, config)


def _read_tensors(path: Path, facts: TraceFacts, config: ModelConfig) -> dict[str, np.ndarray]:
    """Read the tensors in the order of computation, once all names, shapes and types are known to be this model's."""
    size = axis_sizes(config, len(facts.source.ids), len(facts.inputs.ids))
    shapes = {row.name: tensor_shape(row, size) for row in glossary(config)}
    try:
        with safe_open(path, framework="np") as stored:
            # A slice knows its type and shape without any number being read.
            slices = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118  (it is no mapping)
            problems = [f"{name!r:.60} is no tensor of this model" for name in slices if name not in shapes]
            for name in shapes.keys() & slices.keys():
                dtype = "BOOL" if name.endswith(".allowed") else _TYPES.get(facts.run.dtype)
                actual = slices[name].get_dtype(), list(slices[name].get_shape())
                if actual != (dtype, shapes[name]):
                    problems.append(f"{name} is {actual[0]} {actual[1]}, expected {dtype} {shapes[name]}")
            if problems:
                raise ValueError(
                    f"{path} and the {FACTS} beside it are not of one trace: {join_problems(sorted(problems))}"
                )
            return {name: stored.get_tensor(name) for name in shapes if name in slices}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from None


def _facts_problems(facts: TraceFacts, config: ModelConfig) -> list[str]:
    """Return a sentence for every contradiction in the facts; none for a sound trace."""
    problems = [
        *_side_problems("source", facts.source, config.source_vocabulary),
        *_side_problems("target", facts.target, config.target_vocabulary),
        *_step_problems(facts, config.target_vocabulary),
        *(_tree_problems(facts.tree, config.target_vocabulary) if facts.tree is not None else ()),
    ]
    # What an edit may be depends on the source words, so it is looked at only once those are known to be sound.
    if not problems:
        problems += [problem for edit in facts.edits for problem in problems_of_edit(edit, config, facts.source.words)]
    if not re.fullmatch("[0-9a-f]{12}", facts.id):
        problems.append(f"the id is {facts.id!r:.60}")
    return problems


def _side_problems(name: str, side: TraceSide, vocabulary: int) -> Iterator[str]:
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


def _step_problems(facts: TraceFacts, vocabulary: int) -> Iterator[str]:
    """Yield the problems of the pieces read and written, which must make one step each."""
    target, inputs = facts.target, facts.inputs
    if inputs.ids != [BOS, *target.ids[:-1]] or len(inputs.pieces) != len(inputs.ids):
        yield "the decoder's input is not BOS, the start token, and then the pieces written"
    if [step.step for step in facts.steps] != list(range(len(target.ids))):
        yield f"{len(facts.steps)} steps are not those of {len(target.ids)} pieces"
    if [step.chosen.id for step in facts.steps] != target.ids:
        yield "the pieces chosen by the steps are not those written"
    if len(facts.piece_log_probs) != len(target.ids):
        yield f"{len(facts.piece_log_probs)} log-probabilities are not those of {len(target.ids)} pieces"
    if not all(0 <= candidate.id < vocabulary for step in facts.steps for candidate in step.top):
        yield f"the steps have candidates beyond the vocabulary of {vocabulary:,}"


def _tree_problems(tree: SearchTree, vocabulary: int) -> Iterator[str]:
    """Yield the problems of the search tree: nodes must be numbered in order, each one step after an earlier parent."""
    # Whoever follows the parents of a node that is its own ancestor would loop for ever.
    if [node.id for node in tree.nodes] != list(range(len(tree.nodes))):
        yield "the nodes of the tree are not numbered in order"
    elif not all(_follows_parent(node, tree.nodes) for node in tree.nodes):
        yield "the tree has nodes that are not one step after their parents"
    if not all(0 <= node.piece_id < vocabulary for node in tree.nodes):
        yield f"the tree has pieces beyond the vocabulary of {vocabulary:,}"


def _follows_parent(node: TreeNode, nodes: Sequence[TreeNode]) -> bool:
    """Whether a node's parent stands before it, one step earlier; a root must belong to step 0."""
    if node.parent is None:
        return node.step == 0
    return 0 <= node.parent < node.id and node.step == nodes[node.parent].step + 1
