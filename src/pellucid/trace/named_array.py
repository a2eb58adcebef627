"""An array whose axes have names, and labels where positions are pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Named:
    """`values` with a name for each axis (letters of the glossary's legend) and labels for some.

    It is taken for an array wherever numpy wants one.
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

    def at(self, **places: int | str) -> "Named":
        """Without the axes named: of each, what stands at a number (0 first) or at a label that stands there once.

        Of two axes with one letter (queries and keys of self-attention) the first is taken, the queries.

        >>> pattern = Named("pattern", np.array([[0.9, 0.1], [0.2, 0.8]]), ("T", "S"), {"S": ["The", "ball"]})
        >>> float(pattern.at(T=1).at(S="ball").values)
        0.8

        ValueError for an axis there is none of, KeyError for a label, IndexError for a number.
        """
        values, dims = self.values, self.dims
        for dim, place in places.items():
            if dim not in dims:
                raise ValueError(f"{self.name} has no axis {dim!r}; its axes are {', '.join(dims) or 'none'}")
            axis = dims.index(dim)
            values = values.take(self.position_of(dim, place, values.shape[axis]), axis=axis)
            dims = dims[:axis] + dims[axis + 1 :]
        return Named(self.name, np.asarray(values), dims, self.labels)

    def position_of(self, dim: str, place: int | str, size: int) -> int:
        """The number of a position given by its number or label."""
        if not isinstance(place, str):
            if not -size <= place < size:
                raise IndexError(f"axis {dim} of {self.name} has {size} positions, 0 to {size - 1}; {place} is none")
            return int(place)
        labels = list(self.labels.get(dim, ()))
        found = [i for i, label in enumerate(labels) if place in (label, label.removeprefix("▁"))]
        if len(found) != 1:
            said = f"stands {len(found)} times" if found else "is not"
            known = f"its labels are {', '.join(labels)}" if labels else "it has numbers only"
            raise KeyError(f"{place!r} {said} on axis {dim} of {self.name}; {known}")
        return found[0]
