"""An array with named axes, and labels along the axes whose positions are pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


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

    def at(self, **positions: int | str) -> "Named":
        """Select one position along each named axis: by index (0 first), or by a label that occurs once.

        Where two axes have the same letter (queries and keys of self-attention), the first one, the queries, is meant.

        >>> pattern = Named("pattern", np.array([[0.9, 0.1], [0.2, 0.8]]), ("T", "S"), {"S": ["The", "ball"]})
        >>> float(pattern.at(T=1).at(S="ball").values)
        0.8

        Raises ValueError for an unknown axis, KeyError for a label, IndexError for an index out of range.
        """
        values, dims = self.values, self.dims
        for dim, position in positions.items():
            if dim not in dims:
                raise ValueError(f"{self.name} has no axis {dim!r}; its axes are {', '.join(dims) or 'none'}")
            axis = dims.index(dim)
            values = values.take(self.position_of(dim, position, values.shape[axis]), axis=axis)
            dims = dims[:axis] + dims[axis + 1 :]
        return Named(self.name, np.asarray(values), dims, self.labels)

    def position_of(self, dim: str, position: int | str, size: int) -> int:
        """Return the index of a position given by its index or label."""
        if not isinstance(position, str):
            if not -size <= position < size:
                raise IndexError(f"axis {dim} of {self.name} has {size} positions, 0 to {size - 1}; {position} is none")
            return int(position)
        labels = list(self.labels.get(dim, ()))
        # SentencePiece marks the beginning of a word with this character, which a user need not type.
        indices = [i for i, label in enumerate(labels) if position in (label, label.removeprefix("▁"))]
        if len(indices) != 1:
            occurrence = f"stands {len(indices)} times" if indices else "is not"
            choices = f"its labels are {', '.join(labels)}" if labels else "it has numbers only"
            raise KeyError(f"{position!r} {occurrence} on axis {dim} of {self.name}; {choices}")
        return indices[0]
