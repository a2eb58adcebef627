"""Embeddings in two or three dimensions: principal components here, t-SNE and UMAP where they are installed."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import numpy as np
from jaxtyping import Float

METHODS = {"pca": ("", ""), "tsne": ("scikit-learn", "sklearn"), "umap": ("umap-learn", "umap")}
"""What there is, the package that each needs, and the module it is imported as."""


@dataclass(frozen=True)
class Projection:
    """A place for each row; of principal components also the share of the variance that each one holds."""

    method: Literal["pca", "tsne", "umap"]
    places: Float[np.ndarray, "N K"]
    shares: tuple[float, ...] = ()


def project_vectors(vectors: Float[np.ndarray, "N D"], method: str = "pca", dims: int = 2, seed: int = 1) -> Projection:
    """The rows in `dims` dimensions. ValueError for what cannot be done, or is not installed here."""
    require_known(method, dims)
    least = dims + 1 if method == "pca" else 5
    if len(vectors) < least or vectors.shape[1] < dims:
        raise ValueError(
            f"{len(vectors)} vectors of {vectors.shape[1]} numbers cannot be put on a map of {dims} dimensions by "
            f"{method}; take {least} words or more"
        )
    if method == "pca":
        return project_pca(vectors, dims)
    if method == "tsne":
        return Projection("tsne", project_tsne(vectors, dims, seed))
    return Projection("umap", project_umap(vectors, dims, seed))


def require_known(method: str, dims: int) -> None:
    """ValueError for a method there is none of or whose package is not here, saying how to get it, and other dims."""
    if method not in METHODS:
        raise ValueError(f"the method is {method!r}, it must be pca, tsne or umap")
    if dims not in (2, 3):
        raise ValueError(f"a map has 2 or 3 dimensions, not {dims}")
    package, module = METHODS[method]
    if module and find_spec(module) is None:
        raise ValueError(f"{method} needs {package}, which is not installed: pip install {package}; pca needs nothing")


def project_pca(vectors: Float[np.ndarray, "N D"], dims: int) -> Projection:
    """The directions along which the rows vary most (Pearson 1901), by the eigenvectors of their covariance.

    The sign of a direction is free; the largest of its numbers is made positive.
    """
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    values, directions = values[::-1].clip(min=0.0), directions[:, ::-1][:, :dims]
    largest = directions[np.abs(directions).argmax(axis=0), range(dims)]
    total = values.sum()
    shares = tuple((values[:dims] / total).tolist()) if total > 0.0 else (0.0,) * dims
    return Projection("pca", centred @ (directions * np.where(largest < 0.0, -1.0, 1.0)), shares)


def project_tsne(vectors: Float[np.ndarray, "N D"], dims: int, seed: int) -> Float[np.ndarray, "N K"]:
    """van der Maaten and Hinton 2008, by scikit-learn, on cosines."""
    from sklearn.manifold import TSNE  # pyright: ignore[reportMissingImports]

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    made = TSNE(dims, perplexity=perplexity, metric="cosine", init="random", random_state=seed)
    return np.asarray(made.fit_transform(vectors), dtype=np.float64)


def project_umap(vectors: Float[np.ndarray, "N D"], dims: int, seed: int) -> Float[np.ndarray, "N K"]:
    """McInnes et al. 2018, by umap-learn, on cosines."""
    from umap import UMAP  # pyright: ignore[reportMissingImports]

    made = UMAP(n_components=dims, n_neighbors=min(15, len(vectors) - 1), metric="cosine", random_state=seed)
    return np.asarray(made.fit_transform(vectors), dtype=np.float64)
