"""Recipes of clusters: each is what its scheduler reads, and on one machine its command survives being stopped."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.config import to_toml
from pellucid.store.directory import WEIGHTS
from tests.laws.torchrun import wait_for_file
from tests.training.corpora import small_run

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "recipes/cluster"
RECIPES = sorted(FOLDER.iterdir())

# `srun` of two machines: it runs a command once for each, and passes a signal on to both.
SRUN = """\
#!/bin/bash
"$@" & first=$!
"$@" & second=$!
trap 'kill -TERM "$first" "$second" 2>/dev/null' TERM
while kill -0 "$first" 2>/dev/null || kill -0 "$second" 2>/dev/null; do wait "$first" "$second"; done
wait "$first" && wait "$second"
"""
SCONTROL = """\
#!/bin/bash
[ "$1" = show ] && echo 127.0.0.1 || echo "$@" >> "$LOG"
"""


def read_script(path: Path) -> str:
    """Return the shell script of a recipe."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sbatch":
        return text
    last = list(yaml.safe_load_all(text))[-1]
    if "spec" not in last:
        return last["run"]
    if "entrypoint" in last["spec"]:
        return last["spec"]["entrypoint"]
    [container] = last["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bash", "-c"]
    return container["args"][0]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_a_recipe_is_a_script_whose_command_can_be_given_again(path: Path):
    script = read_script(path)
    subprocess.run(["bash", "-n", "-c", script], check=True)
    words = re.sub(r"\\\n", " ", script)
    if path.name.startswith("train"):
        assert re.search(r'-m pellucid train "\$RUN" --out "\$OUT" --resume', words)
        assert "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" in path.read_text(encoding="utf-8")
    else:
        assert re.search(r"pellucid translate \S+ \S+ --out \S+ --cluster (auto|local)", words)


def test_each_recipe_has_a_link_in_the_book():
    pages = [ROOT / f"docs/training/{name}.md" for name in ("more-machines", "many-workers")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [path.name for path in RECIPES if f"recipes/cluster/{path.name}" not in text] == []


def start_by_slurm(script: str, folder: Path, variables: dict[str, str]) -> list[subprocess.Popen[str]]:
    """Start a batch script, as Slurm does on the first of two machines."""
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (folder / "bin" / name).write_text(text, encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    slurm = {
        "SLURM_JOB_NODELIST": "two",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_ID": "7",
        "LOG": str(folder / "log"),
    }
    path = os.pathsep.join([str(folder / "bin"), variables["PATH"]])
    return [start(script, {**variables, **slurm, "PATH": path, "WORKERS": "1"})]


def start_by_kubernetes(script: str, folder: Path, variables: dict[str, str]) -> list[subprocess.Popen[str]]:
    """Start the containers of two pods of an indexed job."""
    pod = {**variables, "FIRST": "127.0.0.1", "WORKERS": "1"}
    return [start(script, {**pod, "JOB_COMPLETION_INDEX": str(index)}) for index in range(2)]


def start_by_skypilot(script: str, folder: Path, variables: dict[str, str]) -> list[subprocess.Popen[str]]:
    """Start the command on two machines of a job."""
    sky = {"SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.1", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NUM_GPUS_PER_NODE": "1"}
    return [start(script, {**variables, **sky, "SKYPILOT_NODE_RANK": str(rank)}) for rank in range(2)]


def start(script: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(["bash", "-c", script], env=environment, stderr=subprocess.PIPE, text=True)


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Wait for processes; return the exit code and the messages of each."""
    try:
        messages = [process.communicate(timeout=300)[1] for process in processes]
        return [(process.returncode, text) for process, text in zip(processes, messages, strict=True)]
    finally:
        for process in processes:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start_by"),
    [
        ("train.sbatch", start_by_slurm),
        ("train-kubernetes.yaml", start_by_kubernetes),
        ("train-skypilot.yaml", start_by_skypilot),
    ],
)
def test_a_run_that_its_scheduler_stops_goes_on_by_the_same_command_to_the_same_bit(
    name: str, start_by: Callable[..., Any], tmp_path: Path
):
    train = {"steps": 300, "accumulate": 2, "evaluate_every": 300, "save_every": 10, "keep": 1, "fused": "never"}
    run = small_run(tmp_path / "data", train=train)
    (tmp_path / "run.toml").write_text(to_toml(run), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        script = read_script(FOLDER / name).replace("29500", str(probe.getsockname()[1]))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**os.environ, "RUN": str(tmp_path / "run.toml"), "PATH": path, "OMP_NUM_THREADS": "1"}

    def train_into(out: str) -> list[subprocess.Popen[str]]:
        return start_by(script, tmp_path, {**variables, "OUT": str(tmp_path / out)})

    results = finish(train_into("undisturbed"))
    assert {code for code, _ in results} == {0}, results

    processes = train_into("stopped")
    wait_for_file(tmp_path / "stopped/checkpoints/step-00000010/manifest.json", processes)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    results = finish(processes)
    assert not (tmp_path / "stopped/last").exists(), results
    if name.endswith(".sbatch"):
        assert (tmp_path / "log").read_text(encoding="utf-8") == "requeue 7\n"
        assert results[0][0] == 0

    results = finish(train_into("stopped"))
    assert {code for code, _ in results} == {0}, results
    assert "resuming after step" in "".join(messages for _, messages in results)
    weights = [(tmp_path / out / "last" / WEIGHTS).read_bytes() for out in ("undisturbed", "stopped")]
    assert weights[0] == weights[1]
