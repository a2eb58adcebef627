"""What users of other toolkits report of trainings: a run goes on after its end, text that grew, signs inside lines."""

import shutil
from pathlib import Path

import pytest

from pellucid.config import to_toml
from pellucid.data.corpus import read_pairs
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.loop import train_run
from tests.laws.runs import assert_same_end, read_weights, same_weights
from tests.training.corpora import small_run, write_corpus


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the run file of six steps, its text, and the directory of the finished run, `out`."""
    folder = tmp_path_factory.mktemp("finished")
    run = small_run(folder / "data", train={"steps": 6, "save_every": 3})
    (folder / "run.toml").write_text(to_toml(run), encoding="utf-8")
    train_run(run, folder / "out")
    return folder


def test_a_finished_run_that_was_renamed_trains_on_as_one_that_was_longer_from_the_start(call, finished_run, tmp_path):
    shutil.copytree(finished_run / "out", tmp_path / "renamed")
    result = call("train", "--out", "renamed", "--resume", "--steps", 9)
    assert (result.exit_code, result.stdout) == (0, "renamed/best\n"), result.stderr
    assert call("train", finished_run / "run.toml", "--out", "whole", "--steps", 9).exit_code == 0
    assert same_weights(read_weights(tmp_path / "renamed/last"), read_weights(tmp_path / "whole/last"))


def test_a_finished_run_that_is_resumed_without_more_steps_stays_what_it_was(call, finished_run, tmp_path):
    shutil.copytree(finished_run / "out", tmp_path / "again")
    assert call("train", "--out", "again", "--resume").exit_code == 0
    assert_same_end(finished_run / "out", tmp_path / "again")


def test_text_that_was_appended_since_a_run_began_is_refused_by_name(refuse, finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "grown")
    for name, line in (("source.txt", "one six"), ("target.txt", "seis uno")):
        with (tmp_path / "grown/data" / name).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    grown = (
        (tmp_path / "grown/run.toml").read_text(encoding="utf-8").replace(str(finished_run), str(tmp_path / "grown"))
    )
    (tmp_path / "grown/run.toml").write_text(grown, encoding="utf-8")
    before = [path.name for path in list_checkpoints(tmp_path / "grown/out")]
    sentence = refuse("train", "grown/run.toml", "--out", "grown/out", "--resume", "--steps", 9)
    assert f"{tmp_path}/grown/data/source.txt, {tmp_path}/grown/data/target.txt have changed since" in sentence
    assert [path.name for path in list_checkpoints(tmp_path / "grown/out")] == before


@pytest.mark.parametrize("sign", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_sign_that_some_programs_take_for_a_line_end_shifts_no_line(sign, call, model, tmp_path):
    """Checked where text is read to be converted, trained on and translated."""
    files = write_corpus(tmp_path, pairs=61)
    for side in ("source", "target"):
        path = Path(files[side])
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[4] = lines[4].replace(" ", sign, 1)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    source, target = (Path(files[side]).read_bytes().decode().split("\n")[:-1] for side in ("source", "target"))
    assert call("convert", files["source"], files["target"], "pairs.jsonl").exit_code == 0
    pairs = read_pairs(tmp_path / "pairs.jsonl", max_characters=1000)
    assert (list(pairs.sources), list(pairs.targets)) == (source, target)

    short = [" ".join(line.split()[:1]) for line in source[:4]] + [f"one{sign}two", "six"]
    (tmp_path / "short.txt").write_text("\n".join(short) + "\n", encoding="utf-8", newline="\n")
    translated = call("translate", model, "short.txt", "--set", "max_extra=1")
    assert translated.stdout_bytes.count(b"\n") == len(short)
    assert call("check", files["source"], files["target"]).exit_code == 0


def test_a_run_reads_a_lone_carriage_return_as_part_of_its_line(tmp_path, capsys):
    run = small_run(tmp_path / "data", train={"steps": 2, "save_every": 2, "evaluate_every": 2})
    for side in (run.data.source, run.data.target):
        path = Path(str(side))
        path.write_bytes(path.read_bytes().replace(b" ", b"\r", 3))
    train_run(run, tmp_path / "out")
    assert "211 pairs read" in capsys.readouterr().err
