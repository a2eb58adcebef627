"""The weights file of CTranslate2, model.bin: what it holds, read without the library and without trusting it."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

_VERSIONS = range(4, 7)  # of the layout of the file; before version 4 a number did not say its type
_MOST_NAMES = 100_000  # a model of 1,000 layers has some 30,000
_MOST_DIMENSIONS = 4
_TYPES = {
    0: torch.float32,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.float16,
    5: torch.bfloat16,
}


@dataclass(frozen=True)
class StoredTensor:
    """Where the numbers of one variable lie in the file."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int


@dataclass(frozen=True)
class CTranslate2File:
    """The variables of a model.bin by their names; a matrix that several names share stands under each of them."""

    path: Path
    kind: str
    revision: int
    variables: Mapping[str, StoredTensor]

    def read(self, name: str) -> Tensor:
        """Read one variable, in the type in which it is stored."""
        stored = self.variables[name]
        with self.path.open("rb") as file:
            file.seek(stored.offset)
            content = bytearray(file.read(prod(stored.shape) * stored.dtype.itemsize))
        return torch.frombuffer(content, dtype=stored.dtype).reshape(stored.shape)

    def read_number(self, name: str) -> float | None:
        """Read a variable that is one number; None where there is no such variable."""
        if name not in self.variables:
            return None
        stored = self.variables[name]

        if stored.shape:
            raise ValueError(
                f"{self.path}: {name!r:.80} is {stored.shape}, expected a single number"
            )

        number = float(self.read(name).item())
        if not isfinite(number):
            raise ValueError(f"{self.path}: {name!r:.80} is {number}")
        return number

    def read_floats(self, name: str) -> Tensor:
        """Read a matrix or vector in float32; rounded weights become the numbers that they stand for.

        Weights of one byte have a scale for each row, weights of two bytes one for all: what was
        multiplied by the scale when it was rounded is divided by it here.
        """
        numbers, scale = self.read(name), f"{name}_scale"

        if scale not in self.variables:
            return numbers.float()
        scales = self.read(scale).float()
        return numbers.float() / (scales[:, None] if scales.ndim else scales)


def read_ctranslate2_file(path: Path) -> CTranslate2File:
    """Read the names, shapes and places of all variables of a model.bin, and none of its numbers.

    Raises ValueError for a file that is cut off, contradicts itself, or has another layout.
    """
    with path.open("rb") as file:
        try:
            return _read_index(path, file)
        except (struct.error, UnicodeDecodeError):
            raise ValueError(
                f"{path} is cut off, or no weights file of CTranslate2; copy or download it again"
            ) from None


def _read_index(path: Path, file: BinaryIO) -> CTranslate2File:
    version = _read_number(file, "<I")
    if version not in _VERSIONS:
        raise ValueError(
            f"{path} has version {version:,} of CTranslate2's file layout; versions {_VERSIONS[0]} to {_VERSIONS[-1]} "
            "can be read: convert the model again with a newer CTranslate2"
        )

    kind, revision = _read_text(file), _read_number(file, "<I")

    size = path.stat().st_size
    variables: dict[str, StoredTensor] = {}
    for _ in range(_read_count(path, file)):
        name, rank = _read_text(file), _read_number(file, "<B")
        shape = tuple(_read_number(file, "<I") for _ in range(min(rank, _MOST_DIMENSIONS)))
        dtype, length = _TYPES.get(_read_number(file, "<B")), _read_number(file, "<I")

        offset = file.tell()
        if rank > _MOST_DIMENSIONS or dtype is None or length != prod(shape) * dtype.itemsize:
            raise ValueError(
                f"{path}: the variable {name!r:.80} has a shape or a type that no weights have"
            )
        if offset + length > size:
            raise ValueError(
                f"{path} is cut off within the variable {name!r:.80}; copy or download it again"
            )
        variables[name] = StoredTensor(shape, dtype, offset)
        file.seek(offset + length)

    for _ in range(_read_count(path, file)):
        name, same = _read_text(file), _read_text(file)
        if same not in variables:
            raise ValueError(
                f"{path} says that {name!r:.80} is the same as {same!r:.80}, which it does not hold"
            )
        variables[name] = variables[same]
    return CTranslate2File(path, kind, revision, variables)


def _read_count(path: Path, file: BinaryIO) -> int:
    count = _read_number(file, "<I")
    if count > _MOST_NAMES:
        raise ValueError(
            f"{path} says that it has {count:,} variables, more than any model ({_MOST_NAMES:,})"
        )
    return count


def _read_number(file: BinaryIO, layout: str) -> int:
    (number,) = struct.unpack(layout, file.read(struct.calcsize(layout)))
    return number


def _read_text(file: BinaryIO) -> str:
    """Read a text: its length in two bytes, its bytes, and a NUL that the length counts."""
    length = _read_number(file, "<H")
    content = file.read(length)
    if len(content) < length:
        raise struct.error
    return content.removesuffix(b"\0").decode()
