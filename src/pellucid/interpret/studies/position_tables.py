"""Vectors of positions: the table of a model, its wavelengths, the similarity of positions, and a table that is wrong.

The wrong one is code that circulates, in which i counts dimensions (0, 2, 4, ...) and is doubled
once more in the exponent: 10000^(2i / d_model) instead of 10000^(i / d_model).
"""

from dataclasses import dataclass
from math import pi

import numpy as np
from jaxtyping import Float

from pellucid.interpret.studies.word_vectors import to_unit_length
from pellucid.model import Transformer
from pellucid.model.positions import Learned, Rotary, Sinusoidal, adds_bias

NEARLY_ZERO = 1e-3  # a sine below this tells a position from the next no more than noise does
CONSTANT = 0.01  # a dimension whose values differ by less, over the positions looked at, tells them apart badly


@dataclass(frozen=True)
class PositionTable:
    """Vectors that positions are given.

    `kind` is the setting of the model, `trained` whether they were learned.
    """

    kind: str
    values: Float[np.ndarray, "P D"]
    trained: bool

    @property
    def similarity(self) -> Float[np.ndarray, "P P"]:
        directions = to_unit_length(self.values)
        return directions @ directions.T

    def by_distance(self) -> Float[np.ndarray, " P"]:
        """Return the mean cosine of two positions by their distance, from 0."""
        cosines = self.similarity
        return np.array([cosines.diagonal(distance).mean() for distance in range(len(cosines))])

    @property
    def first_rise(self) -> int | None:
        """The distance at which a mean cosine exceeds the one at the distance before.

        None if it only falls.
        """
        # rounding must not look like a rise
        rises = np.nonzero(np.diff(self.by_distance()) > 1e-9)[0]
        return int(rises[0]) + 1 if len(rises) else None


@dataclass(frozen=True)
class WrongTable:
    """Differences of the table with the doubled exponent from the right one."""

    d_model: int
    entries: int
    different: int  # entries of `position` that differ by more than 1e-6
    largest: float
    position: int
    first_dimension: int  # the first dimension that differs
    first_wrong: float
    first_right: float
    longest_wavelength_wrong: float
    longest_wavelength_right: float
    nearly_zero_wrong: int
    nearly_zero_right: int  # sines of `position` below `NEARLY_ZERO`, of d_model / 2
    constant_wrong: int
    constant_right: int  # dimensions that stay within `CONSTANT` over `positions` positions
    positions: int


def position_vectors(model: Transformer, positions: int, side: str = "source") -> PositionTable:
    """Return the vectors of the first positions of a side: sines, learned vectors, or the sines of rotary angles.

    Raises ValueError for a model without positions, and for more positions than it has.
    """
    if side not in ("source", "target"):
        raise ValueError(f"side is {side!r}, it must be source or target")
    limit = model.config.max_positions
    if not 1 <= positions <= limit:
        raise ValueError(f"{positions:,} positions were asked for, this model has 1 to {limit:,}")

    module = getattr(model, f"{side}_positions")
    if isinstance(module, Rotary):
        # rotary angles are never added to a vector; their sines stand for the position here
        pairs = np.stack([_as_numpy(module.sine[:positions]), _as_numpy(module.cosine[:positions])], axis=-1)
        return PositionTable("rotary", pairs.reshape(positions, -1), trained=False)

    if isinstance(module, Sinusoidal | Learned):
        return PositionTable(
            model.config.positions,
            _as_numpy(module.table[:positions]),
            isinstance(module, Learned),
        )
    if adds_bias(model.config.positions):
        raise ValueError(
            f"positions are {model.config.positions!r}: they have no vectors, they add numbers to the scores of "
            "self-attention; see them there: pellucid inspect attention"
        )
    raise ValueError("this model has no positions: it reads a bag of pieces")


def wavelengths(width: int) -> Float[np.ndarray, " half"]:
    """Return how many positions each pair of sine and cosine takes to come round: 2 pi 10000^(2i / width).

    >>> wavelengths(512)[[0, -1]].round(2).tolist()
    [6.28, 60611.48]
    """
    return 2 * pi * 10000.0 ** (np.arange(0, width, 2) / width)


def paper_table(positions: int, d_model: int) -> Float[np.ndarray, "P D"]:
    """Return the table of the paper (3.5) in float64."""
    return interleave_sine_cosine(np.arange(positions)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model))


def doubled_exponent_table(positions: int, d_model: int) -> Float[np.ndarray, "P D"]:
    """Return the table of the wrong code, which doubles an i that is even already."""
    # np.arange(0, d_model, 2) is i already, so the factor 2 is the mistake
    return interleave_sine_cosine(np.arange(positions)[:, None] / 10000.0 ** (2 * np.arange(0, d_model, 2) / d_model))


def compare_with_wrong_table(d_model: int, position: int = 3, positions: int = 50) -> WrongTable:
    """Compare the two tables, at one position and over several."""
    rows = max(positions, position + 1)
    wrong, right = doubled_exponent_table(rows, d_model), paper_table(rows, d_model)
    differences = np.abs(wrong[position] - right[position])
    different = np.nonzero(differences > 1e-6)[0]

    # the very first pair, exponent 0, is right in both tables
    first = int(different[0]) if len(different) else 0
    # a dimension that hardly moves over all positions tells them apart badly
    spread = [np.ptp(table[:positions], axis=0) for table in (wrong, right)]
    return WrongTable(
        d_model=d_model,
        entries=d_model,
        different=len(different),
        largest=float(differences.max()),
        position=position,
        first_dimension=first,
        first_wrong=float(wrong[position, first]),
        first_right=float(right[position, first]),
        # the last pair has i = d_model - 2
        longest_wavelength_wrong=2 * pi * 10000.0 ** (2 * (d_model - 2) / d_model),
        longest_wavelength_right=float(wavelengths(d_model)[-1]),
        nearly_zero_wrong=int((np.abs(wrong[position, 0::2]) < NEARLY_ZERO).sum()),
        nearly_zero_right=int((np.abs(right[position, 0::2]) < NEARLY_ZERO).sum()),
        constant_wrong=int((spread[0] < CONSTANT).sum()),
        constant_right=int((spread[1] < CONSTANT).sum()),
        positions=positions,
    )


def interleave_sine_cosine(angles: Float[np.ndarray, "P half"]) -> Float[np.ndarray, "P D"]:
    """Put sine and cosine of each angle side by side."""
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), -1)


def _as_numpy(tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()
