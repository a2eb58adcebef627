import numpy as np
from matplotlib.figure import Figure

from pellucid.interpret.plots.charts import draw_head_study


def test_cells_marks_and_curves_are_drawn_as_given(tmp_path, monkeypatch):
    figures, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: (figures.append(figure), save(figure, *to, **how))
    )
    importance = [[0.1, -0.2, 0.0], [0.3, 0.05, 0.02]]
    similarity = [[1.0 if (a < 3) == (b < 3) else None for b in range(6)] for a in range(6)]
    curves = {"ablation": ([6, 3, 0], [1.0, 2.0, 5.0]), "random 1": ([6, 3, 0], [1.0, 4.0, 5.0])}
    draw_head_study(
        ["encoder.0.self", "decoder.0.$x"],
        importance,
        [["-1", "", ""], ["A,R", "", ""]],
        similarity,
        curves,
        "loss",
        tmp_path / "heads.png",
    )
    [figure] = figures
    importance_axes, similarity_axes, curve_axes = figure.axes[:3]
    np.testing.assert_allclose(importance_axes.images[0].get_array(), importance)
    assert importance_axes.images[0].get_clim() == (-0.3, 0.3)
    assert [text.get_text() for text in importance_axes.texts] == ["-1", "", "", "A,R", "", ""]
    assert np.isnan(np.asarray(similarity_axes.images[0].get_array().filled(np.nan))).sum() == 18
    lines = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in curve_axes.lines}
    assert lines == {name: [list(pair) for pair in zip(*points, strict=True)] for name, points in curves.items()}
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
