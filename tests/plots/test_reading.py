from pathlib import Path

import numpy as np

from pellucid.interpret.plots.charts import ProbePanel, draw_probe_panels
from pellucid.interpret.plots.figure import draw_heat_map


def test_absent_values_are_hatched_and_unexpected_nan_is_magenta(saved_figures, tmp_path: Path):
    values = np.array([[1.0, np.nan], [0.5, 0.5]])
    for absent in (True, False):
        draw_heat_map(values, tmp_path / "a.png", absent=absent)
    colours = [figure.axes[0].images[0].cmap(np.ma.masked_invalid([np.nan]))[0].tolist() for figure in saved_figures]
    assert colours == [[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0]]
    assert [figure.axes[0].patch.get_hatch() for figure in saved_figures] == ["///", None]


def test_each_probe_has_a_panel_with_its_heads_and_ranks(saved_figures, tmp_path: Path):
    first_panel = ProbePanel(
        "b more than a",
        ["x 0", "x 1"],
        ["a", "b", "</s>"],
        [[0.1, 0.2, 0.7], [0.5, 0.2, 0.3]],
        [True, False],
        [[1], [0]],
    )
    second_panel = ProbePanel("$each", ["y 0"], ["c"], [[1.0]], [False], [])
    draw_probe_panels([first_panel, second_panel], tmp_path / "a.png")
    first, second = [axes for axes in saved_figures[0].axes if axes.images and axes.get_title()]
    np.testing.assert_allclose(first.images[0].get_array(), first_panel.values)
    assert [label.get_text() for label in first.get_yticklabels()] == ["✓ x 0", "x 1"]
    assert [label.get_text() for label in first.get_xticklabels()] == ["a (2)", "b (1)", "</s>"]
    assert second.get_title() == r"\$each"
