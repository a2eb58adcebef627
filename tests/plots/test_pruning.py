import numpy as np

from pellucid.plots.heads import draw_head_study
from pellucid.plots.pruning import draw_pruning_curves


def test_random_orders_are_a_band_and_the_others_are_lines(tmp_path, saved_figures):
    bleu = {"ablation": [9.0, 8.0, 1.0], "random 1": [9.0, 5.0, 1.0], "random 2": [9.0, 3.0, 1.0]}
    loss = {name: [-value for value in values] for name, values in bleu.items()}
    draw_pruning_curves(
        [4, 2, 0], {"BLEU": bleu, "loss": loss}, tmp_path / "a.png", learned=(1, {"BLEU": 7.0, "loss": -7.0})
    )
    [figure] = saved_figures
    for axes, sign in zip(figure.axes, (1, -1), strict=True):
        lines = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
        assert lines == {
            "ablation": [[4, 9 * sign], [2, 8 * sign], [0, sign]],
            "mean of 2 random orders": [[4, 9 * sign], [2, 4 * sign], [0, sign]],
            "l0": [[1, 7 * sign]],
        }
        band = np.asarray(axes.collections[0].get_paths()[0].vertices)
        assert {tuple(row) for row in band.tolist()} >= {(2.0, 3.0 * sign), (2.0, 5.0 * sign)}
        assert axes.xaxis_inverted()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_attentions_may_have_different_numbers_of_heads(tmp_path, saved_figures):
    alike = [[1.0, None, None], [None, 1.0, 0.5], [None, 0.5, 1.0]]
    curves = {"ablation": ([3, 0], [1.0, 2.0])}
    draw_head_study(["a", "b"], [[0.1], [0.2, -0.3]], [["A"], ["", "S"]], alike, curves, "loss", tmp_path / "a.png")
    importance_axes, similarity_axes = saved_figures[0].axes[:2]
    cells = np.ma.filled(np.ma.asarray(importance_axes.images[0].get_array()), np.nan)
    np.testing.assert_array_equal(cells, [[0.1, np.nan], [0.2, -0.3]])
    assert [text.get_text() for text in importance_axes.texts] == ["A", "", "S"]
    assert similarity_axes.get_yticks().tolist() == [0, 1]
    assert importance_axes.images[0].cmap.get_bad()[3] == 0.0  # a head that is not there is not drawn
