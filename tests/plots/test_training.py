from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from pellucid.interpret.plots.charts import draw_training_curve

LOG = [
    {"step": 1, "seconds": 6.0, "loss": 7.0},
    {"step": 50, "seconds": 60.0, "loss": 5.0},
    {"step": 50, "seconds": 66.0, "dev_loss": 4.5, "bleu": 3.0, "chrf": 17.0},
    {"step": 100, "seconds": 120.0, "loss": 3.0},
    {"step": 100, "seconds": 126.0, "dev_loss": 3.5, "bleu": 29.0, "chrf": 51.0},
    {"step": 100, "seconds": 130.0, "model": "average", "dev_loss": 3.3, "bleu": 31.0, "chrf": 53.0},
]


def draw_figure(log: list[dict], path: Path, monkeypatch: pytest.MonkeyPatch) -> Figure:
    """Draw the training curve, and return its figure."""
    figures, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: (figures.append(figure), save(figure, *to, **how))
    )
    draw_training_curve(log, path)
    [figure] = figures
    return figure


def test_each_curve_is_drawn_against_minutes(tmp_path, monkeypatch):
    losses, scores = draw_figure(LOG, tmp_path / "training.png", monkeypatch).axes
    lines = {
        line.get_label(): np.asarray(line.get_xydata()).tolist() for axes in (losses, scores) for line in axes.lines
    }
    assert lines == {
        "training, smoothed labels: 3": [[0.1, 7.0], [1.0, 5.0], [2.0, 3.0]],
        "dev: 3.5": [[1.1, 4.5], [2.1, 3.5]],
        "dev, averaged model: 3.3": [[130 / 60, 3.3]],
        "BLEU: 29": [[1.1, 3.0], [2.1, 29.0]],
        "BLEU, averaged model: 31": [[130 / 60, 31.0]],
        "chrF: 51": [[1.1, 17.0], [2.1, 51.0]],
        "chrF, averaged model: 53": [[130 / 60, 53.0]],
    }
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("log", [[], LOG[:1]])
def test_a_run_stopped_early_is_drawn_too(log, tmp_path, monkeypatch):
    assert len(draw_figure(log, tmp_path / "training.svg", monkeypatch).axes) == 2
    assert b"<svg" in (tmp_path / "training.svg").read_bytes()


def test_drawing_leaves_no_figure_behind(tmp_path):
    draw_training_curve(LOG, tmp_path / "training.pdf")
    from matplotlib import _pylab_helpers

    assert _pylab_helpers.Gcf.get_all_fig_managers() == []
