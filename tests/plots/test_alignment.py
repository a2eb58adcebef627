from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pellucid.interpret.plots.charts import draw_alignment_figure


def test_the_matrix_the_links_and_the_layers_are_drawn(monkeypatch, tmp_path: Path):
    figures, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: (figures.append(figure), save(figure, *to, **how))
    )
    values = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, 0.25]])
    lines = {f"way {n}": [10.0 + n, 20.0 - n] for n in range(4)}
    words = ["a", "$b", "c"], ["x", "y"]
    draw_alignment_figure(
        values, *words, tmp_path / "a.png", links=[(0, 0), (2, 1)], gold={(1, 1)}, lines=lines, measure="AER"
    )
    matrix_axes, layer_axes = figures[0].axes[:2]
    np.testing.assert_array_equal(matrix_axes.images[0].get_array(), values)
    assert [label.get_text() for label in matrix_axes.get_yticklabels()] == ["x", "y"]
    assert [points.get_offsets().tolist() for points in matrix_axes.collections] == [[[1, 1]], [[0, 0], [2, 1]]]
    assert [list(line.get_ydata()) for line in layer_axes.lines] == list(lines.values())
    assert layer_axes.get_ylabel() == "AER"


def test_a_pair_without_words_is_drawn_too(tmp_path: Path):
    lines = {f"way {n}": [1.0] for n in range(4)}
    draw_alignment_figure(np.zeros((0, 0)), [], [], tmp_path / "a.svg", links=[], gold=None, lines=lines, measure="x")
    assert (tmp_path / "a.svg").exists()
