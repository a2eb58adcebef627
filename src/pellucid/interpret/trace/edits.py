"""Watchers of the model, which keep or replace its values, and edits of a run: plain values that say what to change."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from typing import Annotated, Any, Literal

import torch
from pydantic import Discriminator, Field
from torch import Tensor

from pellucid.config import suggest_nearest
from pellucid.cpu import give_way
from pellucid.interpret.trace.untrusted import read_strictly
from pellucid.model import ModelConfig
from pellucid.model.positions import adds_bias, rotate_pairs, sinusoids
from pellucid.model.watch import Watch, Watcher


class Record(Watcher, Mapping[str, Tensor]):
    """Keeps a detached copy of every value whose full name fits a pattern: `record["decoder.3.cross.pattern"]`.

    The names are listed in `model/glossary.py`, in the order of computation; `*` in a pattern
    stands for any text. A value shown again under its name, by the next step of decoding, replaces
    the earlier one.
    """

    def __init__(self, only: str | Iterable[str] = "*"):
        super().__init__(self._keep)
        self._only = (only,) if isinstance(only, str) else tuple(only)
        self._values: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        """Return a recorded value.

        Raises KeyError, naming the nearest recorded name, for one that was not recorded.
        """
        if name not in self._values:
            raise KeyError(f"{name!r} was not recorded{suggest_nearest(name, self._values)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _keep(self, name: str, value: Tensor) -> Tensor:
        give_way()
        # fnmatchcase, because fnmatch ignores case on some systems.
        if any(fnmatchcase(name, pattern) for pattern in self._only):
            # A view would change with the tensor that it is a view of.
            self._values[name] = value.detach().clone()
        return value


class Edit(Watcher):
    """Replaces each value whose full name fits a pattern by what the pattern's function returns for it.

    Raises ValueError if the function returns another shape or type.
    """

    def __init__(self, edits: Mapping[str, Callable[[Tensor], Tensor]]):
        super().__init__(self._change)
        self._edits = dict(edits)
        self._names_seen: dict[str, None] = {}  # a dict, since a set has no order

    def require_used(self) -> None:
        """Raise ValueError, with the nearest name that was seen, if a pattern has fitted no value so far."""
        problems = []
        for pattern in self._edits:
            if not any(fnmatchcase(name, pattern) for name in self._names_seen):
                suggestion = suggest_nearest(pattern, self._names_seen)
                problems.append(f"{pattern!r} fits nothing that was computed{suggestion}")
        if problems:
            raise ValueError("; ".join(problems))

    def _change(self, name: str, value: Tensor) -> Tensor:
        self._names_seen[name] = None
        # Several patterns may fit one name; each function gets the result of the one before.
        for pattern, change in self._edits.items():
            if fnmatchcase(name, pattern):
                before, value = value, change(value)
                if (value.shape, value.dtype) != (before.shape, before.dtype):
                    old_type, new_type = (f"{t.dtype} {tuple(t.shape)}" for t in (before, value))
                    raise ValueError(
                        f"the edit of {name} made {new_type} of {old_type}; it must keep shape and type"
                    )

        return value


class Chain(Watcher):
    """Calls several watchers in turn: `Chain(Edit(...), record)` records what an edit leads to."""

    def __init__(self, *watchers: Watch):
        # Later watchers see what earlier ones returned,
        # so an `Edit` must stand before the `Record`.
        def call_all(name: str, value: Tensor) -> Tensor:
            for watcher in watchers:
                value = watcher(name, value)
            return value

        super().__init__(call_all)


_TensorChange = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Silence:
    """Makes one head of an attention ("decoder.3.cross") give zeros; head 0 is the first."""

    attention: str
    head: int
    kind: Literal["silence"] = "silence"


@dataclass(frozen=True)
class Pattern:
    """Makes one query position (0 first) of a head read with these weights, one for each key it may read."""

    attention: str
    head: int
    row: int
    values: list[float]
    kind: Literal["pattern"] = "pattern"


@dataclass(frozen=True)
class Hide:
    """Hides a source word (0 first): none of its pieces is read, neither in the encoder nor from the decoder."""

    word: int
    kind: Literal["hide"] = "hide"


@dataclass(frozen=True)
class Prefix:
    """Makes the translation begin with a text."""

    text: str
    kind: Literal["prefix"] = "prefix"


@dataclass(frozen=True)
class Without:
    """Leaves out one part of the computation everywhere: what a step is for shows when it is missing.

    "scaling" leaves the products of queries and keys undivided, "positions" adds none and rotates
    nothing, "mask" lets each target position read later ones, and "residual" drops the input of
    each sublayer from the sum after it.
    """

    part: Literal["scaling", "positions", "mask", "residual"]
    kind: Literal["without"] = "without"


EditSpec = Annotated[Silence | Pattern | Hide | Prefix | Without, Discriminator("kind")]
EditList = Annotated[list[EditSpec], Field(max_length=64)]  # more than a page ever asks for


def check_edits(edits: Iterable[EditSpec | Mapping[str, Any]]) -> list[EditSpec]:
    """Return the edits, with mappings turned into edits.

    Raises ValueError for a mapping that is no edit.
    """
    checked = []
    for edit in edits:
        is_mapping = isinstance(edit, Mapping)
        checked.append(read_strictly(EditSpec, dict(edit), "edit") if is_mapping else edit)
    return checked


def edit_watcher(
    edits: Sequence[EditSpec],
    config: ModelConfig,
    words: Sequence[int | None],
) -> Edit:
    """Return the watcher that makes all these changes; `words` has the word of each source piece.

    It serves any number of rows and target positions: a row that does not exist yet is left alone.
    Raises ValueError, naming every problem, for edits that do not fit this model or this sentence.
    """
    problems: list[str] = []
    for edit in edits:
        problems += _edit_problems(edit, config, words)
    if problems:
        raise ValueError("; ".join(problems))

    # Several edits may change one tensor; they are applied in the order in which they were given.
    changes: dict[str, _TensorChange] = {}
    for edit in edits:
        for name, change in _tensor_changes(edit, config, words).items():
            before = changes.get(name)
            changes[name] = change
            if before:
                changes[name] = lambda x, before=before, then=change: then(before(x))

    return Edit(changes)


def _tensor_changes(
    edit: EditSpec,
    config: ModelConfig,
    words: Sequence[int | None],
) -> Mapping[str, _TensorChange]:
    """Return for each tensor that the edit changes the function that does it.

    A `Prefix` concerns only the search.
    """
    if isinstance(edit, Silence):
        return {f"{edit.attention}.head_output": silence_heads([edit.head])}
    if isinstance(edit, Pattern):
        return {f"{edit.attention}.pattern": _set_pattern_row(edit.head, edit.row, edit.values)}
    if isinstance(edit, Hide):
        hide = hide_keys([i for i, word in enumerate(words) if word == edit.word])
        return {"encoder.*.self.allowed": hide, "decoder.*.cross.allowed": hide}

    if isinstance(edit, Without):
        return _PARTS_LEFT_OUT[edit.part](config)
    return {}


class _Keep:
    """Leaves a tensor as it is, and keeps it for the change of another one."""

    value: Tensor

    def __call__(self, value: Tensor) -> Tensor:
        self.value = value
        return value


def _leave_out_positions(config: ModelConfig) -> dict[str, _TensorChange]:
    """Return the changes that take all positions away: vectors of zeros, or queries and keys turned back."""
    if config.positions != "rotary":
        return {f"{stack}.positions": torch.zeros_like for stack in ("encoder", "decoder")}
    table = sinusoids(config.max_positions, config.d_model // config.heads)
    sine, cosine = table[:, 0::2], table[:, 1::2]

    def turn_back(x: Tensor) -> Tensor:
        length = x.shape[2]
        return rotate_pairs(x, -sine[:length].to(x), cosine[:length].to(x))

    return {"*.self.q": turn_back, "*.self.k": turn_back}


def _leave_out_residual(config: ModelConfig) -> dict[str, _TensorChange]:
    """Return the changes that put the output of each sublayer in the place of its sum with the input."""
    parts = []
    for n in range(config.encoder_layers):
        parts += [f"encoder.{n}.self", f"encoder.{n}.ffn"]
    for n in range(config.decoder_layers):
        parts += [f"decoder.{n}.self", f"decoder.{n}.cross", f"decoder.{n}.ffn"]

    changes: dict[str, _TensorChange] = {}
    for part in parts:
        # Dropout is off in every trace, so that the sum without the input is just this output.
        output = changes[f"{part}.output"] = _Keep()
        changes[f"{part}_residual.sum"] = lambda _, output=output: output.value
    return changes


_PARTS_LEFT_OUT: dict[str, Callable[[ModelConfig], dict[str, _TensorChange]]] = {
    "scaling": lambda config: {"*.scores": lambda scores: scores * config.head_width**0.5},
    "positions": _leave_out_positions,
    "mask": lambda config: {"decoder.*.self.allowed": torch.ones_like},
    "residual": _leave_out_residual,
}


def replaced_tensors(
    edits: Sequence[EditSpec],
    config: ModelConfig,
    names: Iterable[str],
) -> frozenset[str]:
    """Return the names of those tensors that the edits replace."""
    # Only the names count here, and they do not depend on the words.
    patterns = []
    for edit in edits:
        for pattern, change in _tensor_changes(edit, config, ()).items():
            if not isinstance(change, _Keep):
                patterns.append(pattern)

    replaced = set()
    for name in names:
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            replaced.add(name)
    return frozenset(replaced)


def silence_heads(heads: Sequence[int]) -> _TensorChange:
    """Return the function that sets the output of these heads to zeros."""
    return lambda output: output.index_fill(1, torch.tensor(heads, device=output.device), 0.0)


def _set_pattern_row(head: int, row: int, values: Sequence[float]) -> _TensorChange:
    """Return the function that puts these weights into one query position of one head."""

    def change(pattern):
        changed = pattern.clone()
        # While a translation grows, a later row is not
        # there yet, and a row has fewer keys than weights.
        if row < pattern.shape[2]:
            weights = torch.tensor(values, dtype=pattern.dtype, device=pattern.device)
            weights = weights[: pattern.shape[3]]
            changed[:, head, row, : len(weights)] = weights
        return changed

    return change


def hide_keys(keys: Sequence[int]) -> _TensorChange:
    """Return the function that forbids reading these keys."""
    numbers = torch.tensor(keys, dtype=torch.int64)  # also where there is none
    return lambda allowed: allowed.index_fill(-1, numbers.to(allowed.device), False)


def _edit_problems(edit: EditSpec, config: ModelConfig, words: Sequence[int | None]) -> list[str]:
    """Return the reasons why an edit does not fit this model and sentence; none if it does."""
    if isinstance(edit, Prefix):
        return [] if edit.text.strip() else ["the prefix is blank; say how the translation begins"]
    if isinstance(edit, Hide):
        word_numbers = sorted({word for word in words if word is not None})
        if edit.word in word_numbers:
            return []
        choices = _describe_choices("its words", word_numbers)
        return [f"word {edit.word} is not in the sentence; {choices}"]

    if isinstance(edit, Without):
        if edit.part == "scaling" and adds_bias(config.positions):
            positions = f"its positions, {config.positions}, are added to the scores"
            return [f"{positions}, so the scores alone cannot be left undivided"]
        if edit.part == "positions" and config.positions not in ("sinusoidal", "learned", "rotary"):
            return [
                f"this model has no position vectors that could be left out; its positions are {config.positions!r}"
            ]
        return []

    attentions = attention_names(config)
    if edit.attention not in attentions:
        return [
            f"{edit.attention!r:.60} is no attention of this model; {_describe_choices('it has', attentions)}"
        ]

    problems = []
    if not 0 <= edit.head < config.heads:
        problems.append(
            f"{edit.attention} has heads 0 to {config.heads - 1}; head {edit.head} is none"
        )

    if isinstance(edit, Pattern):
        problems += _pattern_row_problems(edit, len(words))
    return problems


def _pattern_row_problems(edit: Pattern, source: int) -> list[str]:
    """Return the reasons why these weights cannot stand in a row of a pattern."""
    where = f"row {edit.row} of {edit.attention}"
    is_causal = edit.attention.startswith("decoder") and edit.attention.endswith("self")

    problems = []
    # How many rows the decoder will have is not known before the search: `refuse_rows_beyond`
    # checks them afterwards.
    if edit.row < 0 or (edit.attention.startswith("encoder") and edit.row >= source):
        problems.append(f"{where} is none; rows are counted from 0")
    if not all(isfinite(value) and value >= 0.0 for value in edit.values):
        problems.append(f"{where}: weights must be numbers of at least 0")
    if not is_causal and len(edit.values) != source:
        problems.append(
            f"{where} has {source} weights, one for each source piece; {len(edit.values)} were given"
        )

    # More values than the row needs are accepted if
    # they are 0, as a row of a whole pattern has them.
    if is_causal and (len(edit.values) <= edit.row or any(edit.values[edit.row + 1 :])):
        problems.append(
            f"{where} has {edit.row + 1} weights, for itself and the pieces before it; later ones must be 0"
        )
    return problems


def attention_names(config: ModelConfig) -> list[str]:
    """Return the names of all attentions: encoder.0.self, ..., decoder.0.self, decoder.0.cross, ..."""
    names = [f"encoder.{n}.self" for n in range(config.encoder_layers)]
    for n in range(config.decoder_layers):
        names += [f"decoder.{n}.self", f"decoder.{n}.cross"]
    return names


def _describe_choices(label: str, choices: Sequence[Any]) -> str:
    """Return a label with all of a few choices, or with the first and last of many."""
    if not choices:
        return f"{label}: none"
    if len(choices) < 4:
        return f"{label}: {', '.join(map(str, choices))}"
    return f"{label}: {choices[0]} to {choices[-1]}"


def refuse_rows_beyond(edits: Sequence[EditSpec], positions: int) -> None:
    """Raise ValueError for a decoder row that the translation is too short to reach."""
    problems = []
    for edit in edits:
        if not isinstance(edit, Pattern) or not edit.attention.startswith("decoder"):
            continue
        if edit.row >= positions:
            row = f"row {edit.row} of {edit.attention}"
            problems.append(f"{row} is never reached: the translation has {positions} pieces")

    if problems:
        raise ValueError("; ".join(problems))
