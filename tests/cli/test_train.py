import gzip
import json
import re
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from pellucid.cli import demo
from pellucid.demo import phrasebook
from pellucid.store.directory import load_bundle
from pellucid.training import loop
from pellucid.training.log import read_log
from tests.processes import ForkedProcess
from tests.training.corpora import write_corpus

SMALL = {
    "tokenizer.vocabulary": 290,
    "model.d_model": 6,
    "model.d_ff": 11,
    "model.heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.max_positions": 256,
    "train.batch_tokens": 257,
    "train.dev_sentences": 3,
    "train.dev_beam": 1,
}
SETS = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Write a corpus of numbers and run files beside it; return the paths of the corpus."""
    data = write_corpus(tmp_path, pairs=61)
    toml = "".join(f"{key} = {Path(value).name!r}\n" for key, value in data.items())
    (tmp_path / "small.toml").write_text(f"[data]\n{toml}[train]\nsteps = 3\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("one\tuno\n", encoding="utf-8")
    (tmp_path / "both.toml").write_text(f"[data]\n{toml}[train]\nsteps = 3\nminutes = 1\n", encoding="utf-8")
    return data


def test_a_run_file_gives_a_run_directory_and_its_best_model(call, refuse, drawn_curve, files, tmp_path):
    result = call("train", "small.toml", *SETS, "--set", "optim.peak=2e-3")
    assert (result.exit_code, result.stdout) == (0, "runs/small/best\n"), result.stderr
    out = tmp_path / "runs" / "small"
    assert load_bundle(out / "best").manifest["dev"]["signatures"]["bleu"].startswith("nrefs:1")
    assert {"run.toml", "log.jsonl", "training.png", "best", "last", "average"} <= {path.name for path in out.iterdir()}
    assert read_log(out / "log.jsonl")[-1]["step"] == 3
    assert "runs/small/training.png" in result.stderr
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")

    assert "--resume" in refuse("train", "small.toml", *SETS)
    longer = call("train", "--out", out, "--resume", "--set", "train.steps=5")
    assert (longer.exit_code, longer.stdout) == (0, f"{out}/best\n"), longer.stderr
    assert read_log(out / "log.jsonl")[-1]["step"] == 5
    beside = call("train", out / "run.toml", "--resume", "--set", "train.steps=6")
    assert (beside.exit_code, beside.stdout) == (0, f"{out}/best\n"), beside.stderr
    sentence = refuse("train", "--out", out, "--resume", "--set", "optim.peak=1e-3")
    assert "optim.peak is 0.001, it began with 0.002" in sentence


@pytest.mark.parametrize("explain", [False, True])
def test_two_files_are_enough_and_every_choice_is_explained(call, files, tmp_path, explain):
    words = ["train", "--source", "source.txt", "--target", "target.txt", "--out", "mine", "--steps", 2, *SETS]
    result = call(*words, *["--explain"] * explain)
    assert (result.exit_code, result.stdout) == (0, "mine/best\n"), result.stderr
    [count] = re.findall(r"61 pairs read, (\d+) of them to train on", result.stderr)
    reason = f"A model of size tiny is large enough for the {count} pairs left to train on"
    assert (reason in result.stderr) == explain
    assert ("--explain says why" in result.stderr) != explain
    comments = (tmp_path / "mine/run.toml").read_text("utf-8").partition("\n\n")[0].splitlines()
    assert all(line.startswith("# ") for line in comments)
    assert any(reason in line for line in comments)
    assert "6 pairs are kept apart" in result.stderr
    longer = call("train", "--out", "mine", "--resume", "--steps", 3)
    assert longer.exit_code == 0, longer.stderr
    assert (tmp_path / "mine/run.toml").read_text("utf-8").partition("\n\n")[0].splitlines() == comments


def test_three_lines_come_first_and_a_verdict_with_the_next_commands_last(call, files, tmp_path):
    words = ["--source", "source.txt", "--target", "target.txt", "--out", "my run", *SETS]
    result = call("train", *words, "--steps", 9, "--set", "train.evaluate_every=3")
    assert result.exit_code == 0, result.stderr
    lines = result.stderr.splitlines()
    assert lines[0].startswith("It learns to translate source.txt into target.txt")
    assert [line.partition(":")[0] for line in lines[1:4]] == ["Text", "Model", "Ready"]
    judgement, *commands = result.stderr.partition("\n\n")[2].splitlines()
    assert re.match(r"BLEU \d+\.\d on 3 sentences kept apart: not usable yet\. The model has hardly begun", judgement)
    assert commands[0].endswith("train --out 'my run' --resume --steps 36")
    assert [words[-1] for words in map(shlex.split, commands[-3:])] == ["my run/best", "--open", "target.txt"]
    # The proposed commands can be typed as they stand.
    shown = next(command for command in commands if command.startswith("  echo "))
    _, sentence, bar, *command = shlex.split(shown)
    assert bar == "|"
    assert sentence in (tmp_path / "source.txt").read_text("utf-8").splitlines()
    (tmp_path / "one.txt").write_text(f"{sentence}\n", encoding="utf-8")
    assert call(*command[command.index("translate") :], "one.txt").exit_code == 0


def test_a_directory_that_holds_a_run_is_refused_before_the_text_is_looked_for(refuse, files, tmp_path):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "log.jsonl").write_text("", encoding="utf-8")
    sentence = refuse("train", "--source", "gone.en", "--target", "gone.es", "--out", "runs/mine")
    assert "runs/mine already holds a run (log.jsonl)" in sentence


@pytest.mark.parametrize(("ending", "options"), [("tsv.gz", []), ("jsonl", ["--dev-source", "dev.jsonl"])])
def test_one_file_of_pairs_is_enough(call, files, tmp_path, ending, options):
    sides = [(tmp_path / f"{side}.txt").read_text(encoding="utf-8").splitlines() for side in ("source", "target")]
    rows = [
        json.dumps({"source": source, "target": target}) if ending == "jsonl" else f"{source}\t{target}"
        for source, target in zip(*sides, strict=True)
    ]
    for name, lines in (("pairs", rows), ("dev", rows[:5])):
        text = "".join(f"{row}\n" for row in lines).encode()
        (tmp_path / f"{name}.{ending}").write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    result = call("train", "--source", f"pairs.{ending}", *options, "--out", "mine", "--steps", 1, *SETS)
    assert (result.exit_code, result.stdout) == (0, "mine/best\n"), result.stderr
    assert "61 pairs read" in result.stderr


def test_a_run_file_may_be_given_another_length(call, files, tmp_path):
    result = call("train", "small.toml", *SETS, "--steps", 2)
    assert (result.exit_code, result.stdout) == (0, "runs/small/best\n"), result.stderr
    assert read_log(tmp_path / "runs" / "small" / "log.jsonl")[-1]["step"] == 2
    longer = call("train", "--out", "runs/small", "--resume", "--steps", 4)
    assert longer.exit_code == 0, longer.stderr
    assert read_log(tmp_path / "runs" / "small" / "log.jsonl")[-1]["step"] == 4
    assert call("train", "small.toml", *SETS, "--minutes", 0.0001, "--out", "short").exit_code == 0
    assert "minutes = 0.0001" in (tmp_path / "short" / "run.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--out is missing: name the directory of the run"),
        (["--out", "x"], "nothing to train on: name a run file, or source and target"),
        (["--out", "x", "--source", "source.txt"], "target is missing: name the file that belongs to source.txt"),
        (["--out", "x", "--target", "target.txt"], "source is missing: name the file that belongs to target.txt"),
        (
            ["--out", "x", "--source", "source.txt", "--target", "target.txt", "--dev-source", "dev_source.txt"],
            "dev_target is missing: name the file that belongs to dev_source.txt",
        ),
        (["--out", "x", "--source", "pairs.tsv", "--target", "target.txt"], "pairs.tsv is a file of pairs by its name"),
        (["--out", "x", "--source", "memory.ods"], "memory.ods is a spreadsheet"),
        (["pairs.tsv", "--steps", "2"], "pairs.tsv is a file of pairs, not a run file"),
        (["--out", "x", "--resume"], "there is no run in x to resume, and nothing to train on is named"),
        (["nowhere.toml"], "nowhere.toml: no such file or directory"),
        (["."], ".: is a directory"),
        (["source.txt"], "source.txt is not a TOML file"),
        (["small.toml", "--source", "a", "--target", "b"], "a run file and source, target are both given"),
        (["small.toml", "--size", "tiny"], "override: --set model.size=tiny"),
        (["small.toml", "--minutes", "3", "--steps", "2"], "steps and minutes are both given; name one"),
        (["small.toml", "--set", "train.steps"], "--set 'train.steps' is not KEY=VALUE"),
        (["small.toml", "--set", "train.stepps=3"], "unknown key 'train.stepps'; did you mean 'steps'?"),
        (["small.toml", "--set", "train.steps=many"], "'train.steps' is 'many'"),
        (["both.toml"], "train.steps and train.minutes are both given"),
        (["small.toml", "--set", "model.size=huge"], "'model.size' is 'huge'"),
        (["small.toml", "--set", "data.source=gone.txt"], "gone.txt: no such file or directory"),
        (["small.toml", "--set", "data.dev_target=gone.txt"], "gone.txt: no such file or directory"),
        (
            ["--source", "source.txt", "--target", "target.txt", "--out", "x", "--size", "huge"],
            "'model.size' is 'huge'",
        ),
        (["--source", "-", "--target", "target.txt", "--out", "x"], "none of them can be standard input"),
        (["--source", "gone.txt", "--target", "target.txt", "--out", "x"], "gone.txt: no such file or directory"),
        (["small.toml", "--steps", "few"], "Invalid value for '--steps'"),
    ],
)
def test_an_impossible_run_is_refused_before_anything_is_written(refuse, files, tmp_path, words, message: str):
    before = sorted(tmp_path.rglob("*"))
    assert message in refuse("train", *words)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("side", "content", "message"),
    [
        ("source", b"one two\nthr\xe9e\n", "source.txt:2:4: byte 0xE9 is not UTF-8"),
        ("target", b"uno\0dos\n", "target.txt:1: a NUL byte"),
        ("target", b"uno\n", "source.txt has 61 lines and "),
        ("source", b"", "source.txt has 0 lines and "),
        ("target", b"\n" * 61, "61 with empty target"),
        ("target", ("x" * 2001 + "\n").encode() * 61, "61 with target of more than 2,000 characters"),
    ],
)
def test_text_that_cannot_be_trained_on_names_file_and_line(refuse, files, tmp_path, side, content, message: str):
    (tmp_path / f"{side}.txt").write_bytes(content)
    assert message in refuse("train", "small.toml", *SETS)
    assert not (tmp_path / "runs").exists()


def test_a_vocabulary_larger_than_the_text_allows_is_reported_and_made_smaller(call, files):
    result = call("train", "small.toml", *SETS, "--set", "tokenizer.vocabulary=8000")
    assert (result.exit_code, result.stdout) == (0, "runs/small/best\n"), result.stderr
    [note] = [line for line in result.stderr.splitlines() if line.startswith("the joint vocabulary has ")]
    assert note.endswith(" pieces, not 8,000: the text has no more")
    again = call(
        "train", "small.toml", "--resume", "--set", "train.steps=4", *SETS, "--set", "tokenizer.vocabulary=8000"
    )
    assert again.exit_code == 0, again.stderr


def test_missing_dev_files_are_named_when_a_run_is_resumed(call, refuse, files, tmp_path):
    assert call("train", "small.toml", *SETS).exit_code == 0
    (tmp_path / "dev_source.txt").unlink()
    sentence = refuse("train", "small.toml", "--resume", *SETS, "--set", "train.steps=4")
    assert f"{tmp_path}/dev_source.txt: no such file" in sentence


@pytest.mark.parametrize("as_user", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_typo_is_one_clear_sentence_in_a_process_of_its_own(shell, files, as_user):
    result = shell("train", "small.toml", "--set", "optim.warm_up=3", as_user=as_user)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith(b"pellucid: small.toml: unknown key 'optim.warm_up'; did you mean 'warmup'?")
    assert result.stderr.count(b"\n") == 1


def test_an_interrupted_run_says_how_to_resume_and_resumes(shell, files, tmp_path):
    words = ["train", "small.toml", *SETS, "--set", "train.steps=100000", "--set", "train.evaluate_every=100000"]
    process, log = ForkedProcess(*words, folder=tmp_path), tmp_path / "runs" / "small" / "log.jsonl"
    while not log.exists() or not read_log(log):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert "everything is saved. Resume with: pellucid train runs/small/run.toml --out runs/small --resume" in errors
    step = read_log(log)[-1]["step"]
    result = shell("train", "--out", "runs/small", "--resume", "--set", f"train.steps={step + 60}")
    assert (result.returncode, result.stdout) == (0, b"runs/small/best\n"), result.stderr


@pytest.mark.parametrize(
    "words",
    [("small.toml",), ("--source", "source.txt", "--target", "target.txt", "--out", "runs/small", "--size", "tiny")],
)
def test_one_command_begins_a_run_goes_on_with_it_and_ends_it(call, files, words, monkeypatch):
    command = "train", *words, *SETS, "--set", "train.save_every=2", "--steps", 5, "--resume"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_last_models", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        assert call(*command).exit_code == 130
    resumed, again = call(*command), call(*command)
    assert (resumed.exit_code, again.exit_code) == (0, 0), resumed.stderr + again.stderr
    assert "resuming after step 5 of runs/small/checkpoints/step-00000005\n" in resumed.stderr
    assert resumed.stdout == again.stdout == "runs/small/best\n"


def test_a_resume_by_the_run_file_of_its_directory_finds_it_before_the_first_checkpoint(call, files, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(loop, "open_log", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        assert call("train", "small.toml", *SETS, "--out", "mine").exit_code == 130
    result = call("train", "mine/run.toml", "--resume", "--steps", 2)
    assert (result.exit_code, result.stdout) == (0, "mine/best\n"), result.stderr
    assert "mine has no checkpoint yet: its run starts from the beginning" in result.stderr


def test_without_matplotlib_a_run_ends_with_a_hint(call, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    def fail(*arguments: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("pellucid.interpret.plots.charts.draw_training_curve", fail)
    result = call("train", "small.toml", *SETS)
    assert (result.exit_code, result.stdout) == (0, "runs/small/best\n")
    assert "training.png is not drawn, for lack of matplotlib: pip install 'pellucid[plots]'" in result.stderr


def shrink_demo(monkeypatch) -> None:
    """Make the demo one of 101 pairs and a model of a few numbers."""
    split_phrases = phrasebook.split_phrases
    monkeypatch.setattr(phrasebook, "split_phrases", lambda train: split_phrases(train, dev=13, test=11))
    monkeypatch.setattr(demo, "DEMO_PAIRS", 101)
    recipe: dict = {}
    for key, value in SMALL.items():
        section, name = key.split(".")
        recipe.setdefault(section, {})[name] = value
    recipe["tokenizer"]["vocabulary"] = 401
    monkeypatch.setattr(demo, "DEMO_RECIPE", recipe)


def test_the_demo_trains_scores_translates_and_suggests_what_to_try_next(call, monkeypatch, tmp_path):
    shrink_demo(monkeypatch)
    result = call("demo", "--out", "out", "--steps", 3)
    assert result.exit_code == 0, result.stderr
    output = result.stdout
    assert "on 11 sentences the model has never seen (nrefs:1|case:mixed|" in output
    for phrase in phrasebook.HELD_OUT:
        assert f"    {phrase.source}\n" in output
        assert f"    {phrase.target}  (reference)\n" in output
    assert output.count("  ✗ ") == 6
    assert "out/training.png" in output
    commands = [line.strip() for line in output.partition("Next, try:\n")[2].splitlines()]
    assert len(commands) == 6
    [evaluation] = [command.split() for command in commands if " evaluate " in command]
    model, source, reference = (evaluation[i] for i in (-5, -3, -1))
    assert call("evaluate", model, "--source", source, "--reference", reference, "--beam", 1).exit_code == 0

    again = call("demo", "--out", "out")
    assert (again.exit_code, again.stdout, again.stderr) == (0, output, "")


def test_the_demo_has_a_fixed_number_of_updates_or_the_length_asked_for():
    def demo_length(**options: float) -> tuple[int | None, float | None]:
        train = demo.demo_settings(Path("nowhere"), {"steps": None, "minutes": None, **options}).train
        return train.steps, train.minutes

    assert demo_length() == (demo.DEMO_STEPS, None)
    assert demo_length(steps=7) == (7, None)
    assert demo_length(minutes=0.5) == (None, 0.5)


def test_a_demo_with_two_lengths_writes_nothing(refuse, tmp_path):
    assert "are both given; name one" in refuse("demo", "--out", "out", "--steps", 5, "--minutes", 1)
    assert not Path("out").exists()


@pytest.mark.slow  # tests/laws/test_resume.py kills a run so early
def test_a_demo_that_was_killed_before_its_first_checkpoint_begins_again(call, monkeypatch):
    shrink_demo(monkeypatch)
    assert call("demo", "--out", "out", "--steps", 2).exit_code == 0
    for folder in ("checkpoints", "best", "last", "average"):
        shutil.rmtree(Path("out", folder))
    result = call("demo", "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert "out has no checkpoint yet: its run starts from the beginning\n" in result.stderr
    assert "step 2 after" in result.stderr
