"""Projects embeddings to two or three dimensions: principal components, and t-SNE and UMAP where they are installed."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import numpy as np
from jaxtyping import Float

METHODS = {"pca": ("", ""), "tsne": ("scikit-learn", "sklearn"), "umap": ("umap-learn", "umap")}
"""Methods, the package that each of them needs, and the module it is imported as."""


@dataclass(frozen=True)
class Projection:
    """Coordinates for each row; of principal components also the share of the variance that each one holds."""

    method: Literal["pca", "tsne", "umap"]
    places: Float[np.ndarray, "N K"]
    shares: tuple[float, ...] = ()


def project_vectors(vectors: Float[np.ndarray, "N D"], method: str = "pca", dims: int = 2, seed: int = 1) -> Projection:
    """Project the rows to `dims` dimensions; ValueError for what cannot be done, or is not installed here."""
    require_known(method, dims)
    fewest = dims + 1 if method == "pca" else 5
    if len(vectors) < fewest or vectors.shape[1] < dims:
        raise ValueError(
            f"{len(vectors)} vectors of {vectors.shape[1]} numbers cannot be put on a map of {dims} dimensions by "
            f"{method}; take {fewest} words or more"
        )
    if method == "pca":
        return project_pca(vectors, dims)
    if method == "tsne":
        return Projection("tsne", project_tsne(vectors, dims, seed))
    return Projection("umap", project_umap(vectors, dims, seed))


def require_known(method: str, dims: int) -> None:
    """Raise ValueError for an unknown method and for numbers of dimensions other than 2 and 3.

    A method whose package is missing is refused too, with the command that installs it.
    """
    if method not in METHODS:
        raise ValueError(f"the method is {method!r}, it must be pca, tsne or umap")
    if dims not in (2, 3):
        raise ValueError(f"a map has 2 or 3 dimensions, not {dims}")
    package, module = METHODS[method]
    if module and find_spec(module) is None:
        raise ValueError(f"{method} needs {package}, which is not installed: pip install {package}; pca needs nothing")


def project_pca(vectors: Float[np.ndarray, "N D"], dims: int) -> Projection:
    """Project to the directions along which the rows vary most (Pearson 1901), the eigenvectors of their covariance."""
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    # eigh sorts ascending, and may give an eigenvalue just below zero
    values, directions = values[::-1].clip(min=0.0), directions[:, ::-1][:, :dims]
    # the sign of a direction is free; its largest number is made positive, so that maps can be compared
    largest = directions[np.abs(directions).argmax(axis=0), range(dims)]
    total = values.sum()
    shares = tuple((values[:dims] / total).tolist()) if total > 0.0 else (0.0,) * dims
    return Projection("pca", centred @ (directions * np.where(largest < 0.0, -1.0, 1.0)), shares)


def project_tsne(vectors: Float[np.ndarray, "N D"], dims: int, seed: int) -> Float[np.ndarray, "N K"]:
    """Project by t-SNE of scikit-learn (van der Maaten and Hinton 2008), on cosines."""
    from sklearn.manifold import TSNE  # pyright: ignore[reportMissingImports]

    # scikit-learn refuses a perplexity that is not below the number of rows
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    projector = TSNE(dims, perplexity=perplexity, metric="cosine", init="random", random_state=seed)
    return np.asarray(projector.fit_transform(vectors), dtype=np.float64)


def project_umap(vectors: Float[np.ndarray, "N D"], dims: int, seed: int) -> Float[np.ndarray, "N K"]:
    """Project by UMAP of umap-learn (McInnes et al. 2018), on cosines."""
    from umap import UMAP  # pyright: ignore[reportMissingImports]

    projector = UMAP(n_components=dims, n_neighbors=min(15, len(vectors) - 1), metric="cosine", random_state=seed)
    return np.asarray(projector.fit_transform(vectors), dtype=np.float64)
