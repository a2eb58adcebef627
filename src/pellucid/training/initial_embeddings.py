"""Initial embeddings from the training text: pieces that occur in the same pairs begin with similar vectors."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from pellucid.cpu import limit_threads
from pellucid.data.batching import EncodedPairs
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.training.distributed import Workers

# Largest number of tokens, of both sides, that is looked at; of a larger corpus an evenly spaced
# sample of pairs.
SAMPLE_TOKENS = 8_000_000
# Pairs in one sparse matrix: a product with it needs a dense row for each of them.
_CHUNK_PAIRS = 8192
# Lengths of the two parts of a vector: one from the text, and a random one, by which pieces used
# alike still differ. The squares add up to 1, as random vectors are nearly at right angles to all
# others.
_TEXT_SHARE, _RANDOM_SHARE = 0.8, 0.6
# Directions computed beyond those that are kept, which makes these more exact (Halko et al. 2011,
# section 4.2).
_EXTRA_DIRECTIONS = 16
# Products that turn the random directions to the dominant ones, before the last product measures
# them.
_ITERATIONS = 2


def fill_embeddings_from_text(
    model: Transformer, encoded: EncodedPairs, seed: int, workers: Workers
) -> None:
    """Replace the random table of a new model on all workers; both languages must share it."""
    assert model.config.tie == "all"
    weight = model.source_embedding.weight
    # Another processor may round otherwise: the first worker computes for all, and adding zeros
    # changes nothing.
    table = torch.zeros_like(weight)
    if workers.is_first:
        table = embeddings_from_text(weight.detach(), encoded, seed)
    table = table.to(workers.device)
    workers.all_reduce_sum([table])
    with torch.no_grad():
        weight.copy_(table)


def embeddings_from_text(
    table: Float[Tensor, "V D"], encoded: EncodedPairs, seed: int
) -> Float[Tensor, "V D"]:
    """Return a table for both languages in which a piece and its translation are near each other.

    This is latent semantic indexing (Deerwester et al. 1990) of a parallel text (Landauer and
    Littman 1990): in a matrix of pieces by pairs, a piece and its translation have their numbers in
    the same columns, so that the dominant left singular vectors, times the roots of the singular
    values, put them near each other. They are turned at random, so that no dimension means more
    than another, and mixed with the random `table`, whose lengths remain. Rows of pieces that are
    in no pair, in one only or in all stay as they are. The result depends on `seed`, the pairs and
    the table only, not on the number of threads.
    """
    vocabulary, d_model = table.shape
    generator = torch.Generator().manual_seed(seed)
    # How many threads share a product decides how its sums are rounded.
    with limit_threads(1):
        matrices, frequencies, pairs = _count_pieces(encoded, vocabulary)
        vectors = _dominant_vectors(matrices, vocabulary, min(d_model, vocabulary), generator)

        rotation = nn.init.orthogonal_(torch.empty(d_model, d_model), generator=generator)
        directions = F.normalize(vectors @ rotation[: vectors.shape[1]])
        mixed = F.normalize(_TEXT_SHARE * directions + _RANDOM_SHARE * F.normalize(table))
        is_telling = (frequencies >= 2) & (frequencies < pairs)
        return torch.where(is_telling[:, None], mixed * table.norm(dim=1, keepdim=True), table)


def _count_pieces(
    encoded: EncodedPairs, vocabulary: int
) -> tuple[list[Tensor], Int[Tensor, " V"], int]:
    """Return sparse matrices of pairs by pieces, and two counts.

    The counts are how many pairs have each piece, and how many pairs were looked at. A piece of a
    pair, on either side, weighs its inverse document frequency log(pairs / frequency); the weights
    of a pair have length 1 together.
    """
    tokens = len(encoded.sources.ids) + len(encoded.targets.ids)
    pairs = min(len(encoded), max(1, len(encoded) * SAMPLE_TOKENS // tokens))
    chosen = np.arange(pairs) * len(encoded) // pairs
    chunks, frequencies = [], torch.tensor(0)
    for start in range(0, pairs, _CHUNK_PAIRS):
        rows, pieces = _distinct_pieces(encoded, chosen[start : start + _CHUNK_PAIRS])
        chunks.append((rows, pieces))
        frequencies = frequencies + torch.bincount(pieces, minlength=vocabulary)

    idf = torch.log(pairs / frequencies.clamp(min=1))
    return [_weigh_pieces(rows, pieces, idf) for rows, pieces in chunks], frequencies, pairs


def _distinct_pieces(
    encoded: EncodedPairs, pairs: NDArray[np.integer]
) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"]]:
    """Return each piece of each pair once, as numbers of rows and of pieces, row by row."""
    sides = [encoded.sources.pad_rows(pairs), encoded.targets.pad_rows(pairs)]
    rectangle = np.concatenate(sides, axis=1)
    rectangle.sort(axis=1)
    # Padding has the lowest id, so a rise begins each piece, and padding itself is none.
    is_new = np.diff(rectangle, axis=1, prepend=PAD) > 0
    return torch.from_numpy(is_new.nonzero()[0]), torch.from_numpy(rectangle[is_new])


def _weigh_pieces(
    rows: Int[Tensor, " N"], pieces: Int[Tensor, " N"], idf: Float[Tensor, " V"]
) -> Tensor:
    """Return the sparse matrix of these rows, each of length 1."""
    size = (int(rows[-1]) + 1, len(idf))
    squares = torch.zeros(size[0]).index_add_(0, rows, idf[pieces] ** 2)
    weights = idf[pieces] / squares.sqrt().clamp(min=1e-12)[rows]
    return torch.sparse_coo_tensor(
        torch.stack([rows, pieces]), weights, size, check_invariants=True, is_coalesced=True
    )


def _dominant_vectors(
    matrices: Sequence[Tensor], vocabulary: int, count: int, generator: torch.Generator
) -> Float[Tensor, "V K"]:
    """Return the dominant right singular vectors, times the roots of the singular values.

    They are of the stacked matrices, by the randomised iteration of Halko et al. (2011, algorithm
    4.4) on the product of the matrix with itself, so that no dense row is kept for any pair.
    """

    def multiply(basis: Tensor) -> Tensor:
        return sum((matrix.t() @ (matrix @ basis) for matrix in matrices), torch.tensor(0.0))

    basis = torch.randn(vocabulary, min(count + _EXTRA_DIRECTIONS, vocabulary), generator=generator)
    for _ in range(_ITERATIONS):
        # qr returns columns one after the other in memory, and sparse products read rows: ten times
        # as slow.
        basis = torch.linalg.qr(multiply(basis)).Q.contiguous()

    squares, turn = _find_eigenvectors(basis.T @ multiply(basis))
    # The eigenvalues, smallest first, are squares of the singular values.
    return (basis @ (turn * squares.clamp(min=0.0) ** 0.25))[:, -count:]


def _find_eigenvectors(
    matrix: Float[Tensor, "K K"],
) -> tuple[Float[Tensor, " K"], Float[Tensor, "K K"]]:
    """Return the eigenvalues of a symmetric matrix, smallest first, and the vectors as columns."""
    # In float32 the solver gives up on some matrices of few pieces, with many eigenvalues of 0, or
    # returns NaN for them.
    with suppress(RuntimeError):
        values, vectors = torch.linalg.eigh(matrix)
        if values.isfinite().all() and vectors.isfinite().all():
            return values, vectors
    values, vectors = torch.linalg.eigh(matrix.double())
    return values.float(), vectors.float()
