"""A trace as data: the facts of one translation and every captured tensor, each an array with named axes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.config import suggest_nearest
from pellucid.decode.translation import Translation
from pellucid.interpret.trace.edits import replaced_tensors
from pellucid.interpret.trace.facts import TraceFacts
from pellucid.model import ModelConfig
from pellucid.model.glossary import TensorRow, glossary
from pellucid.store.directory import Bundle


class TraceData(Mapping[str, "Named"]):
    """One traced translation: its facts as attributes, its captured tensors by their names in the glossary.

    `TraceFacts` says what each fact is; `model` and `tokenizer` are those that ran. Tensors have no
    batch axis, and cannot be written to.
    """

    def __init__(
        self,
        facts: TraceFacts,
        config: ModelConfig,
        tensors: Mapping[str, np.ndarray],
        bundle: Bundle,
    ):
        self.facts = facts
        self.config = config
        self.dims = {row.name: tensor_dims(row) for row in glossary(config)}
        self._tensors = dict(tensors)

        # The manifest and the checks are computed once and
        # cached: arrays that changed later would contradict them.
        for values in self._tensors.values():
            values.setflags(write=False)
        self.model, self.tokenizer = bundle.model, bundle.tokenizer
        self.id, self.sentence, self.forced = facts.id, facts.sentence, facts.forced
        self.source, self.target, self.inputs = facts.source, facts.target, facts.inputs
        self.log_prob, self.score, self.stop = facts.log_prob, facts.score, facts.stop
        self.steps, self.tree = facts.steps, facts.tree
        self.edits, self.notes = facts.edits, facts.notes
        self.sha256, self.tokenizer_sha256 = facts.model.sha256, facts.model.tokenizer_sha256

    def __getitem__(self, name: str) -> "Named":
        """Return a tensor with named axes.

        Raises KeyError, with the nearest name, for an unknown name; ValueError for a tensor that
        was not captured.
        """
        return Named(name, self.values_of(name), self.dims[name], self.labels)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<Trace {self.id}: {self.source.text!r:.60} to {self.target.text!r:.60}, {len(self)} tensors>"

    def values_of(self, name: str) -> np.ndarray:
        """Return the numbers as captured: float64 for a model in float64, booleans for `allowed`."""
        if name in self._tensors:
            return self._tensors[name]
        if name in self.dims:
            raise ValueError(
                f"{name!r} was not captured; trace the sentence again with keep={name!r}"
            )
        raise KeyError(f"{name!r:.60} is no tensor of this model{suggest_nearest(name, self.dims)}")

    def tensor(self, name: str) -> np.ndarray:
        """Return the numbers in float32, in C order."""
        return np.ascontiguousarray(self.values_of(name), dtype=np.float32)

    def parameter(self, name: str) -> np.ndarray:
        """Return a weight of the model as it is now.

        Raises KeyError for a name the model does not have.
        """
        try:
            return self.model.get_parameter(name).detach().cpu().numpy()
        except AttributeError:  # which get_parameter raises for an unknown name
            known_names = [parameter for parameter, _ in self.model.named_parameters()]
            raise KeyError(
                f"{name!r:.60} is no parameter of this model{suggest_nearest(name, known_names)}"
            ) from None

    @property
    def names(self) -> list[str]:
        """Names of the captured tensors, in the order of computation."""
        return list(self._tensors)

    @property
    def nbytes(self) -> int:
        """Bytes that the captured tensors take."""
        return sum(values.nbytes for values in self._tensors.values())

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """The pieces along the axes S and T."""
        # T counts decoder positions, so its labels are the
        # pieces read, beginning with BOS, not those written.
        return {"S": self.source.pieces, "T": self.inputs.pieces}

    @property
    def replaced(self) -> frozenset[str]:
        """Names of the tensors that an edit replaced."""
        return replaced_tensors(self.edits, self.config, self.dims)

    @property
    def translation(self) -> Translation:
        """The translation as `Model.translate` returns it."""
        f = self.facts
        scores = f.text, f.score, f.log_prob, f.stop
        return Translation(
            *scores,
            f.target.pieces,
            f.piece_log_probs,
            f.source.pieces,
            notes=tuple(f.translation_notes),
            alarms=tuple(f.alarms),
            grade=f.grade,
        )


@dataclass(frozen=True)
class Named:
    """`values` with a name for each axis (letters of the glossary's legend), and labels for some axes.

    NumPy functions accept it as an array.
    """

    name: str
    values: np.ndarray
    dims: tuple[str, ...]
    labels: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        assert len(self.dims) == self.values.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.values.shape

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a table, or pictures side by side."""
        from pellucid.interpret.page.notebook import tensor_html

        return tensor_html(self.name, self.values, self.dims, self.labels)

    def at(self, **positions: int | str) -> "Named":
        """Select one position along each named axis: by index (0 first), or by a label that occurs once.

        Where two axes have the same letter (queries and keys of self-attention), the first one, the
        queries, is meant.

        >>> pattern = Named("pattern", np.array([[0.9, 0.1], [0.2, 0.8]]), ("T", "S"), {"S": ["The", "ball"]})
        >>> float(pattern.at(T=1).at(S="ball").values)
        0.8

        Raises ValueError for an unknown axis, KeyError for a label, IndexError for an index out of
        range.
        """
        values, dims = self.values, self.dims
        for dim, position in positions.items():
            if dim not in dims:
                raise ValueError(
                    f"{self.name} has no axis {dim!r}; its axes are {', '.join(dims) or 'none'}"
                )

            axis = dims.index(dim)
            values = values.take(self._position_of(dim, position, values.shape[axis]), axis=axis)
            dims = dims[:axis] + dims[axis + 1 :]

        return Named(self.name, np.asarray(values), dims, self.labels)

    def _position_of(self, dim: str, position: int | str, size: int) -> int:
        """Return the index of a position given by its index or label."""
        if not isinstance(position, str):
            if not -size <= position < size:
                raise IndexError(
                    f"axis {dim} of {self.name} has {size} positions, 0 to {size - 1}; {position} is none"
                )
            return int(position)

        labels = list(self.labels.get(dim, ()))
        # SentencePiece marks the beginning of a word with
        # this character, which a user need not type.
        indices: list[int] = []
        for i, label in enumerate(labels):
            if position in (label, label.removeprefix("▁")):
                indices.append(i)
        if len(indices) != 1:
            occurrence = f"stands {len(indices)} times" if indices else "is not"
            choices = f"its labels are {', '.join(labels)}" if labels else "it has numbers only"
            raise KeyError(f"{position!r} {occurrence} on axis {dim} of {self.name}; {choices}")
        return indices[0]


def axis_sizes(config: ModelConfig, source: int, target: int) -> dict[str, int]:
    """Return the length of each dimension, by its letter in the legend."""
    c = config
    return {
        "B": 1,
        "S": source,
        "T": target,
        "D": c.d_model,
        "H": c.heads,
        "E": c.head_width,
        "F": c.d_ff,
        "2F": 2 * c.d_ff,
        "V": c.target_vocabulary,
        "1": 1,
    }


def tensor_shape(row: TensorRow, size: Mapping[str, int]) -> list[int]:
    """Return the shape of a tensor without the batch axis, the `size` of each of its dimensions by letter."""
    return [size[letter] for letter in tensor_dims(row)]


def tensor_dims(row: TensorRow) -> tuple[str, ...]:
    """Return the dimensions of a tensor without the batch axis; `positions` has none to leave out.

    >>> [tensor_dims(TensorRow("", dims, "", "")) for dims in ("B H T S", "1 1 T T", "S D")]
    [('H', 'T', 'S'), ('1', 'T', 'T'), ('S', 'D')]
    """
    letters = tuple(row.dims.split())
    return letters[1:] if letters[0] in ("B", "1") else letters
