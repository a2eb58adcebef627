import numpy as np
import pytest

from pellucid.interpret.studies.word_vectors import project_vectors


def random_vectors(seed: int = 1, count: int = 31, width: int = 7) -> np.ndarray:
    """Random vectors around a point that is not 0, stretched differently along each axis."""
    return np.random.default_rng(seed).standard_normal((count, width)) * np.arange(1, width + 1) + 5.0


@pytest.mark.article("C3")
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("shape", [(31, 7), (6, 13)])
def test_principal_components_are_those_of_the_singular_values(dims: int, shape: tuple[int, int]):
    vectors = random_vectors(1, *shape)
    u, s, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    projection = project_vectors(vectors, dims=dims)
    for k in range(dims):
        expected = u[:, k] * s[k]
        sign = np.sign(expected @ projection.places[:, k])
        assert projection.places[:, k] == pytest.approx(sign * expected, abs=1e-9 * s[0])
    assert projection.shares == pytest.approx((s[:dims] ** 2 / (s**2).sum()).tolist())


def test_flat_vectors_keep_every_distance():
    flat = np.zeros((11, 7))
    flat[:, [2, 5]] = random_vectors(3, 11, 2)
    projection = project_vectors(flat)
    before, after = (np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (flat, projection.places))
    assert after == pytest.approx(before)
    assert sum(projection.shares) == pytest.approx(1.0)


def test_the_order_of_vectors_changes_nothing():
    vectors, order = random_vectors(), np.random.default_rng(4).permutation(31)
    assert project_vectors(vectors[order]).places == pytest.approx(project_vectors(vectors).places[order])


def test_equal_vectors_are_all_at_one_place():
    projection = project_vectors(np.ones((5, 3)))
    assert (projection.places, projection.shares) == (pytest.approx(0.0), (0.0, 0.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dims": 4}, "a map has 2 or 3 dimensions, not 4"),
        (
            {"vectors": random_vectors(1, 2)},
            "2 vectors of 7 numbers cannot be put on a map of 2 dimensions; take 3 words",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        project_vectors(**{"vectors": random_vectors(), **arguments})
