"""What can be changed in a run, said in plain values, and the functions that change it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any, Literal

import torch
from torch import Tensor

from pellucid.model import ModelConfig
from pellucid.trace.json_types import from_json
from pellucid.trace.record import Edit

TensorChange = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Silence:
    """One head of an attention ("decoder.3.cross") gives zeros; head 0 is the first."""

    attention: str
    head: int
    kind: Literal["silence"] = "silence"


@dataclass(frozen=True)
class Pattern:
    """One query position (0 first) of a head reads with these weights, one for each key it may read."""

    attention: str
    head: int
    row: int
    values: list[float]
    kind: Literal["pattern"] = "pattern"


@dataclass(frozen=True)
class Hide:
    """No piece of a source word (0 first) is read by anyone, in the encoder or from the decoder."""

    word: int
    kind: Literal["hide"] = "hide"


@dataclass(frozen=True)
class Prefix:
    """How the translation begins."""

    text: str
    kind: Literal["prefix"] = "prefix"


EditSpec = Silence | Pattern | Hide | Prefix


def check_edits(edits: Iterable[EditSpec | Mapping[str, Any]]) -> list[EditSpec]:
    """The same, those that came as mappings checked. ValueError for one that is no edit."""
    return [from_json(EditSpec, each, "edit") if isinstance(each, Mapping) else each for each in edits]


def edit_watcher(edits: Sequence[EditSpec], config: ModelConfig, words: Sequence[int | None]) -> Edit:
    """The watcher that makes all these changes; `words` has the word of each source piece.

    It serves any number of rows and any number of target positions: a row that is not there yet is not changed.
    Raises ValueError, naming every problem, for changes that this model or this sentence has no place for.
    """
    problems = [problem for each in edits for problem in edit_problems(each, config, words)]
    if problems:
        raise ValueError("; ".join(problems))
    changes: dict[str, list[TensorChange]] = {}
    for each in edits:
        for name, change in tensor_changes(each, words).items():
            changes.setdefault(name, []).append(change)
    return Edit({name: chain_changes(several) for name, several in changes.items()})


def tensor_changes(edit: EditSpec, words: Sequence[int | None]) -> Mapping[str, TensorChange]:
    """What becomes of which tensors; a prefix is the business of the search."""
    if isinstance(edit, Silence):
        return {f"{edit.attention}.head_output": silence_head(edit.head)}
    if isinstance(edit, Pattern):
        return {f"{edit.attention}.pattern": set_pattern_row(edit.head, edit.row, edit.values)}
    if isinstance(edit, Hide):
        unread = hide_keys([i for i, word in enumerate(words) if word == edit.word])
        return {"encoder.*.self.allowed": unread, "decoder.*.cross.allowed": unread}
    return {}


def replaced_tensors(edits: Sequence[EditSpec], names: Iterable[str]) -> frozenset[str]:
    """Those of the tensors that these edits replace."""
    patterns = [pattern for each in edits for pattern in tensor_changes(each, ())]
    return frozenset(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def silence_head(head: int) -> TensorChange:
    """Zeros for one head."""

    def change(head_output):
        changed = head_output.clone()
        changed[:, head] = 0.0
        return changed

    return change


def set_pattern_row(head: int, row: int, values: Sequence[float]) -> TensorChange:
    """These weights for one query position of one head."""

    def change(pattern):
        changed = pattern.clone()
        if row < pattern.shape[2]:
            weights = torch.tensor(values, dtype=pattern.dtype, device=pattern.device)[: pattern.shape[3]]
            changed[:, head, row, : len(weights)] = weights
        return changed

    return change


def hide_keys(keys: Sequence[int]) -> TensorChange:
    """Nobody may read these keys."""

    def change(allowed):
        changed = allowed.clone()
        changed[..., list(keys)] = False
        return changed

    return change


def chain_changes(changes: Sequence[TensorChange]) -> TensorChange:
    """One change after the other."""

    def change(value):
        for each in changes:
            value = each(value)
        return value

    return change


def edit_problems(edit: EditSpec, config: ModelConfig, words: Sequence[int | None]) -> list[str]:
    """Why a change has no place here; none if it has."""
    if isinstance(edit, Prefix):
        return [] if edit.text.strip() else ["the prefix is blank; say how the translation begins"]
    if isinstance(edit, Hide):
        known = sorted({word for word in words if word is not None})
        return (
            []
            if edit.word in known
            else [f"word {edit.word} is not in the sentence; {describe_choices('its words', known)}"]
        )
    attentions = attention_names(config)
    if edit.attention not in attentions:
        return [f"{edit.attention!r:.60} is no attention of this model; {describe_choices('it has', attentions)}"]
    problems = []
    heads = config.heads_in(edit.attention)
    if not 0 <= edit.head < heads:
        there = f"heads 0 to {heads - 1}" if heads else "no head left"
        problems.append(f"{edit.attention} has {there}; head {edit.head} is none")
    if isinstance(edit, Pattern):
        problems += pattern_row_problems(edit, len(words))
    return problems


def pattern_row_problems(edit: Pattern, source: int) -> list[str]:
    """Why these weights cannot stand in a row of a pattern."""
    where = f"row {edit.row} of {edit.attention}"
    own = edit.attention.startswith("decoder") and edit.attention.endswith("self")
    problems = []
    if edit.row < 0 or (edit.attention.startswith("encoder") and edit.row >= source):
        problems.append(f"{where} is none; rows are counted from 0")
    if not all(isfinite(value) and value >= 0.0 for value in edit.values):
        problems.append(f"{where}: weights are numbers of 0 or more")
    if not own and len(edit.values) != source:
        problems.append(f"{where} has {source} weights, one for each source piece; {len(edit.values)} came")
    if own and (len(edit.values) <= edit.row or any(edit.values[edit.row + 1 :])):
        problems.append(f"{where} has {edit.row + 1} weights, for itself and what was written before; later ones are 0")
    return problems


def attention_names(config: ModelConfig) -> list[str]:
    """Where heads are: encoder.0.self, ..., decoder.0.self, decoder.0.cross, ..."""
    reading = [f"encoder.{n}.self" for n in range(config.encoder_layers)]
    return reading + [f"decoder.{n}.{part}" for n in range(config.decoder_layers) for part in ("self", "cross")]


def describe_choices(what: str, known: Sequence[Any]) -> str:
    """The first and the last of what there is."""
    if not known:
        return f"{what}: none"
    return f"{what}: {', '.join(map(str, known))}" if len(known) < 4 else f"{what}: {known[0]} to {known[-1]}"


def refuse_rows_beyond(edits: Sequence[EditSpec], positions: int) -> None:
    """ValueError for a row of the decoder that the translation is too short for."""
    beyond = [each for each in edits if isinstance(each, Pattern) and each.attention.startswith("decoder")]
    problems = [
        f"row {each.row} of {each.attention} is never reached: the translation has {positions} pieces"
        for each in beyond
        if each.row >= positions
    ]
    if problems:
        raise ValueError("; ".join(problems))
