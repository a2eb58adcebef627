"""Reports that go to TensorBoard and MLflow, read back with their own libraries."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.training import tracking
from pellucid.training.log import ProgressOutput, read_log
from pellucid.training.loop import train_run
from pellucid.training.tracking import MLFLOW_FILE, Tracker, name_scalars, require_tracker
from tests.training.corpora import small_run


class Messages(ProgressOutput):
    """Keeps what a run says."""

    def __init__(self):
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


def train_in_two_parts(folder: Path, log: str) -> Path:
    """Train a run that is made longer after its end, and return its directory."""
    short = small_run(folder / "data", train={"steps": 6, "evaluate_every": 3, "log": log})
    train_run(short, folder / "out")
    train_run(replace(short, train=replace(short.train, steps=12)), folder / "out", resume=True)
    return folder / "out"


def expected_points(out: Path) -> dict[str, dict[int, float]]:
    """Return the numbers of `log.jsonl` by name and step."""
    points: dict[str, dict[int, float]] = {}
    for row in read_log(out / "log.jsonl"):
        for name, value in name_scalars(row).items():
            points.setdefault(name, {})[row["step"]] = value
    assert {"train/loss", "dev/bleu", "average/chrf"} <= set(points)
    return points


def test_tensorboard_shows_every_number_of_the_log(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = train_in_two_parts(tmp_path, "tensorboard")
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    for name, points in expected_points(out).items():
        shown = {event.step: event.value for event in events.Scalars(name)}
        # What the first part sent at its end, such as its average, stays: it was so.
        assert {step: shown[step] for step in points} == pytest.approx(points, rel=1e-6), name
    settings = events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "evaluate_every = 3" in settings


def test_mlflow_holds_every_number_of_the_log_once(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    from mlflow import MlflowClient

    out, client = train_in_two_parts(tmp_path, "mlflow"), MlflowClient()
    number = (out / MLFLOW_FILE).read_text().strip()
    run = client.get_run(number)
    assert run.info.status == "FINISHED"
    assert run.data.params["train.evaluate_every"] == "3"
    for name, points in expected_points(out).items():
        steps = [point.step for point in client.get_metric_history(number, name)]
        assert len(steps) == len(set(steps)), name
        shown = {point.step: point.value for point in client.get_metric_history(number, name)}
        assert {step: shown[step] for step in points} == pytest.approx(points), name
    [experiment] = client.search_experiments(filter_string="name = 'pellucid'")
    assert len(client.search_runs([experiment.experiment_id])) == 1


def test_an_mlflow_that_does_not_answer_is_said_before_training(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ValueError, match="MLflow refused the run"):
        train_run(small_run(tmp_path / "data", train={"log": "mlflow"}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_that_is_missing_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ValueError, match="install it: pip install mlflow"):
        train_run(small_run(tmp_path / "data", train={"log": "mlflow"}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    require_tracker("none")


def test_an_error_on_the_way_is_said_once_and_does_not_stop_the_run():
    messages, sent = Messages(), list[int]()

    def send(name: str, value: float, step: int) -> None:
        sent.append(step)
        if step == 2:
            raise ConnectionError("gone")

    tracker = Tracker(send, lambda: None, messages)
    for step in range(1, 6):
        tracker.report({"step": step, "loss": 1.0})
    tracker.close()
    assert sent == [1, 2]
    assert len(messages.said) == 1
    assert "ConnectionError: gone" in messages.said[0]


def test_a_run_does_not_wait_for_ever_for_a_server(monkeypatch):
    from threading import Event

    monkeypatch.setattr(tracking, "SECONDS_TO_FINISH", 0.1)
    messages, go = Messages(), Event()
    tracker = Tracker(lambda name, value, step: go.wait(30), lambda: None, messages)
    tracker.report({"step": 1, "loss": 1.0})
    tracker.close()
    go.set()
    assert "no answer within 0.1 s" in messages.said[0]


def test_numbers_that_json_cannot_hold_are_not_sent(tmp_path):
    """A skipped update has no finite loss; `log.jsonl` leaves it out, and so do the others."""
    assert name_scalars(json.loads('{"step": 3, "learning_rate": 0.1}')) == {"train/learning_rate": 0.1}
