from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pellucid.interpret.plots.architecture import draw_architecture
from pellucid.interpret.plots.charts import draw_by_length, draw_positions
from pellucid.interpret.plots.figure import draw_heat_map


def test_a_heat_map_shows_the_matrix_it_was_given(saved_figures, tmp_path):
    values = np.array([[0.0, 0.25, 1.0], [0.5, np.nan, 0.75]])
    words = [["a", "b", "$c$"], ["d", "e", "f"]]
    draw_heat_map(values, tmp_path / "a.png", rows=["r0", "r1"], columns=["x", "$y", "z"], cells=words)
    axes = saved_figures[0].axes[0]
    np.testing.assert_array_equal(np.ma.filled(axes.images[0].get_array().astype(float), np.nan), values)
    assert axes.images[0].get_clim() == (0.0, 1.0)
    assert [text.get_text() for text in axes.texts] == ["a", "b", r"\$c\$", "d", "e", "f"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", r"\$y", "z"]


def test_the_scale_of_signed_numbers_is_symmetric(saved_figures, tmp_path):
    draw_heat_map(np.array([[-3.0, 1.0]]), tmp_path / "a.png", signed=True)
    draw_heat_map(np.zeros((2, 2)), tmp_path / "a.png")
    assert saved_figures[0].axes[0].images[0].get_clim() == (-3.0, 3.0)
    assert saved_figures[1].axes[0].images[0].get_clim() == (0.0, 1.0)


def test_lengths_are_drawn_with_the_longest_of_training(saved_figures, tmp_path):
    draw_by_length([2.5, 6.5], [1.0, 2.0], [50.0, 40.0], tmp_path / "a.png", longest_seen=5)
    lines = [[line.get_xydata().tolist() for line in axes.lines] for axes in saved_figures[0].axes]
    assert [panel[0] for panel in lines] == [[[2.5, 1.0], [6.5, 2.0]], [[2.5, 50.0], [6.5, 40.0]]]
    assert all(np.array(panel[1])[:, 0].tolist() == [5, 5] for panel in lines)


def test_positions_may_be_drawn_without_wavelengths_and_curves(saved_figures, tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    draw_positions(values, np.eye(2), tmp_path / "a.png")
    draw_positions(
        values, np.eye(2), tmp_path / "a.png", wavelengths=np.array([6.0, 60.0]), curves=(values[0], values[1])
    )
    assert [bool(axes.lines) for axes in saved_figures[0].axes[:4]] == [False] * 4
    assert [len(axes.lines) for axes in saved_figures[1].axes[:4]] == [0, 0, 1, 2]
    assert saved_figures[1].axes[3].lines[0].get_xydata().tolist() == [[0.0, 0.0], [2.0, 2.0]]


def make_box(title: str, kind: str) -> SimpleNamespace:
    return SimpleNamespace(title=title, detail="detail", kind=kind, parameters=7)


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_architecture_fits_its_picture(norm_first: bool, saved_figures, tmp_path):
    sublayers = [make_box("norm", "norm"), make_box("read $", "cross")]
    layers = SimpleNamespace(times=5, parts=[sublayers if norm_first else sublayers[::-1]], norm_first=norm_first)
    encoder = [make_box("in", "embedding")]
    draw_architecture(
        encoder, [*encoder, layers, make_box("out", "output")], tmp_path / "a.svg", title="t", notes=["shared"]
    )
    words = {text.get_text() for text in saved_figures[0].axes[0].texts}
    assert {"in", "norm", r"read \$", "out", "5 ×", "t", "shared", "memory: keys and values", "next piece"} <= words
    assert ("+" in words) == norm_first
    [axes] = saved_figures[0].axes
    limits = axes.get_xlim(), axes.get_ylim()
    for text in axes.texts:
        assert all(low <= xy <= high for xy, (low, high) in zip(text.get_position(), limits, strict=True))


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        draw_heat_map(np.eye(2), tmp_path / f"{name}.svg")
        draw_heat_map(np.eye(2), tmp_path / f"{name}.png")
    for kind in ("svg", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
