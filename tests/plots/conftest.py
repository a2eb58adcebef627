import pytest
from matplotlib.figure import Figure


@pytest.fixture
def saved_figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that a test saves."""
    figures, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: (figures.append(figure), save(figure, *to, **how))
    )
    return figures
