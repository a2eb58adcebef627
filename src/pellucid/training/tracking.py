"""The reports of a run, sent to TensorBoard or MLflow as they come (`train.log`); `log.jsonl` has them in any case."""

import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

from pellucid.config import to_toml
from pellucid.store.atomic import write_text_whole

if TYPE_CHECKING:
    from pellucid.training.config import RunConfig
    from pellucid.training.log import ProgressOutput

# Seconds that a run waits at its end for reports that are still on their way.
SECONDS_TO_FINISH = 20.0
# Where a run's directory keeps TensorBoard's files, and the number of its run in MLflow.
TENSORBOARD_FOLDER, MLFLOW_FILE = "tensorboard", "mlflow.txt"

_EXPERIMENT = "pellucid"

# Numbers of a report on training itself; the others are scores of a model.
_OF_TRAINING = ("loss", "tokens_per_second", "learning_rate", "gradient_norm")
# Takes a number's name, its value and the step.
Send = Callable[[str, float, int], object]


def name_scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a report by the names they are shown under.

    >>> name_scalars({"step": 9, "loss": 2.5, "seen": {"a.en": 3}})
    {'train/loss': 2.5}
    >>> name_scalars({"step": 9, "model": "average", "bleu": 31.0})
    {'average/bleu': 31.0}
    """
    model = row.get("model", "dev")
    names = {key: f"train/{key}" for key in _OF_TRAINING}
    names |= {"dev_loss": f"{model}/loss", "bleu": f"{model}/bleu", "chrf": f"{model}/chrf"}
    return {name: float(row[key]) for key, name in names.items() if row.get(key) is not None}


class Tracker:
    """Sends reports from a thread of its own, so that a slow server does not hold up training.

    The first error is said once, and nothing more is sent: a run does not fail because nobody draws
    it.
    """

    def __init__(self, send: Send, finish: Callable[[], object], output: "ProgressOutput"):
        self._send, self._finish, self._output = send, finish, output
        self._error = ""
        self._rows: Queue[Mapping[str, Any] | None] = Queue()
        # A daemon: a server that never answers must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="pellucid-tracker", daemon=True)
        self._thread.start()

    def report(self, row: Mapping[str, Any]) -> None:
        """Send the numbers of a report, which has its `step`; return at once."""
        self._rows.put(row)
        self._tell_error()

    def close(self) -> None:
        """Wait for what is on its way, at most `SECONDS_TO_FINISH`."""
        self._rows.put(None)
        self._thread.join(SECONDS_TO_FINISH)
        if self._thread.is_alive():
            self._error = f"no answer within {SECONDS_TO_FINISH:g} s"
        self._tell_error()

    def _tell_error(self) -> None:
        # Said by the thread that trains: a progress bar belongs to one thread.
        if self._error:
            self._output.say(
                f"train.log: {self._error}; nothing more is sent, log.jsonl has all reports"
            )
            self._error = ""

    def _run(self) -> None:
        try:
            while (row := self._rows.get()) is not None:
                for name, value in name_scalars(row).items():
                    self._send(name, value, row["step"])
            self._finish()
        # No error of another library may end a training that may have run for days.
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"


@contextmanager
def track_run(
    run: "RunConfig", out: Path, step: int, output: "ProgressOutput"
) -> Iterator[Tracker | None]:
    """Yield a tracker as `train.log` says, for a run that has made `step` updates; None where it says none.

    Raises ValueError where MLflow refuses the run.
    """
    if run.train.log == "none":
        yield None
        return

    open_tracker = _open_tensorboard if run.train.log == "tensorboard" else _open_mlflow
    send, finish = open_tracker(run, out, step)
    tracker = Tracker(send, finish, output)
    try:
        yield tracker
    finally:
        tracker.close()


def require_tracker(name: str) -> None:
    """Raise ValueError where the package of a tracker is missing, or MLflow does not answer.

    To be asked before anything of a run is written.
    """
    try:
        if name == "tensorboard":
            import torch.utils.tensorboard  # noqa: F401
        elif name == "mlflow":
            from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]

            with _explain_mlflow():
                MlflowClient().search_experiments(max_results=1)
    except ImportError as error:
        raise ValueError(
            f"train.log = {name!r} needs the package {name} ({error}); install it: pip install "
            f"{name}"
        ) from None


def _open_tensorboard(run: "RunConfig", out: Path, step: int) -> tuple[Send, Callable[[], object]]:
    from torch.utils.tensorboard import SummaryWriter

    # Reports of updates that a resumed run makes again are hidden, as they are dropped from
    # log.jsonl.
    writer = SummaryWriter(str(out / TENSORBOARD_FOLDER), purge_step=step + 1)
    settings = "".join(f"    {line}\n" for line in to_toml(run).splitlines())
    writer.add_text("settings", settings, step)

    def send(name: str, value: float, at_step: int) -> None:
        writer.add_scalar(name, value, at_step)
        writer.flush()  # reports are minutes apart, and whoever looks wants the newest

    return send, writer.close


def _open_mlflow(run: "RunConfig", out: Path, step: int) -> tuple[Send, Callable[[], object]]:
    from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]

    remembered = out / MLFLOW_FILE
    with _explain_mlflow():
        client, sent = MlflowClient(), 0
        if step and remembered.is_file():
            number = remembered.read_text(encoding="utf-8").strip()
            # MLflow keeps every report it gets: those that are there already are not sent again.
            history = client.get_metric_history(number, "train/loss")
            sent = max((report.step for report in history), default=0)
            client.update_run(number, status="RUNNING")
        else:
            experiment = client.get_experiment_by_name(_EXPERIMENT)
            if experiment:
                identifier = experiment.experiment_id
            else:
                identifier = client.create_experiment(_EXPERIMENT)
            number = client.create_run(identifier, run_name=out.name).info.run_id
            write_text_whole(remembered, f"{number}\n")
            for section, table in tomllib.loads(to_toml(run)).items():
                for key, value in (table if isinstance(table, dict) else {section: table}).items():
                    client.log_param(number, key if key == section else f"{section}.{key}", value)

    def send(name: str, value: float, at_step: int) -> None:
        if at_step > sent:
            client.log_metric(number, name, value, step=at_step)

    return send, lambda: client.set_terminated(number)


@contextmanager
def _explain_mlflow() -> Iterator[None]:
    """Make an error of MLflow's server a ValueError."""
    from mlflow.exceptions import MlflowException  # pyright: ignore[reportMissingImports]

    try:
        yield
    except MlflowException as error:
        raise ValueError(f"train.log = 'mlflow': MLflow refused the run: {error}") from None
