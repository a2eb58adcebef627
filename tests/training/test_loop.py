"""Training runs: the files that they leave, how they end, and what they report."""

import json
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pellucid.config import to_toml
from pellucid.cpu import has_native_bfloat16
from pellucid.data.corpus import SentencePairs
from pellucid.evaluate import score_words
from pellucid.evaluate.reference import ReferenceLine
from pellucid.store.atomic import read_manifest
from pellucid.store.directory import load_bundle
from pellucid.training import defaults, loop, saving
from pellucid.training.checkpoint import average_weights, list_checkpoints
from pellucid.training.config import DataConfig, make_run, read_run
from pellucid.training.data import read_corpus
from pellucid.training.defaults import choose_settings, run_settings
from pellucid.training.dev_evaluation import DevSet, Evaluation, evaluate_model
from pellucid.training.log import read_log
from pellucid.training.loop import train_run
from tests.decode.models import small_tokenizer
from tests.processes import ForkedProcess
from tests.training.corpora import WORDS, small_run, write_corpus

PRECISION = {"precision": "bfloat16"} if has_native_bfloat16(torch.device("cpu")) else {}
"""What settings chosen on this machine say about the format of products."""

ENDLESS_SCRIPT = """
from pathlib import Path
from pellucid.training.loop import train_run
from tests.training.corpora import small_run

lengths = {{"steps": 100_000, "evaluate_every": 50_000, "save_every": 50_000}}
print(train_run(small_run(Path({data!r}), train=lengths), Path({out!r})).stop)
"""


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    outcome = train_run(small_run(folder / "data", train={"keep": 4, "save_every": 2}), folder / "out")
    assert outcome.stop == "done"
    return outcome.out


def test_a_run_directory_holds_settings_reports_checkpoints_and_models(finished_run):
    assert {path.name for path in finished_run.iterdir()} == {
        "run.toml",
        "texts.json",
        "log.jsonl",
        "checkpoints",
        "last",
        "best",
        "average",
    }
    assert [path.name for path in list_checkpoints(finished_run)] == [
        "step-00000006",
        "step-00000008",
        "step-00000010",
        "step-00000012",
    ]
    assert read_run(finished_run / "run.toml").train.keep == 4


@pytest.mark.parametrize(("named_dev_set", "trained"), [(True, "all"), (False, r"\d+")])
def test_the_number_of_pairs_is_said_once_where_all_of_them_are_trained_on(tmp_path, capsys, named_dev_set, trained):
    run = small_run(tmp_path / "data", train={"steps": 1})
    if not named_dev_set:
        run = replace(run, data=replace(run.data, dev_source=None, dev_target=None, held_out=7))
    train_run(run, tmp_path / "out")
    assert re.search(rf"^Text: 211 pairs read, {trained} of them to train on\.", capsys.readouterr().err, re.MULTILINE)


def test_reports_carry_step_seconds_tokens_and_signatures(finished_run):
    rows = read_log(finished_run / "log.jsonl")
    assert {"step", "seconds", "target_tokens", "loss", "learning_rate"} <= rows[0].keys()
    evaluated = [row for row in rows if "bleu" in row]
    assert [row["step"] for row in evaluated] == [6, 12, 12]
    assert "tok:13a" in evaluated[0]["signatures"]["bleu"]
    assert [row["target_tokens"] for row in rows] == sorted(row["target_tokens"] for row in rows)


def test_every_checkpoint_is_a_model_that_translates(finished_run):
    checkpoint = load_bundle(list_checkpoints(finished_run)[0])
    assert checkpoint.manifest["step"] == 6
    assert not checkpoint.model.training


def test_the_averaged_model_is_the_mean_of_the_checkpoints_of_the_last_quarter(finished_run):
    checkpoints = [load_bundle(path).model.state_dict() for path in list_checkpoints(finished_run)[-2:]]
    average = load_bundle(finished_run / "average").model.state_dict()
    for name, value in average.items():
        torch.testing.assert_close(value, (checkpoints[0][name].double() + checkpoints[1][name].double()).float() / 2)


def test_the_average_of_one_model_is_that_model(finished_run):
    model = load_bundle(finished_run / "best").model
    average_weights([finished_run / "last"], into=model)
    for name, value in load_bundle(finished_run / "last").model.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([(40, 2.0), (43, 1.8), (42.5, 1.7), (41.5, 1.6)], 3),  # the fourth is lower by more than chance
        ([(40, 2.0), (40.8, 2.1), (40.9, 1.9), (38, 2.5)], 3),  # chance decides about BLEU, so the loss does
        ([(40, 2.0), (40.8, 2.1), (41.2, 2.2), (40, 2.3)], 3),  # the third is higher by more than chance
        ([(40, 2.0), (40.8, 2.1), (40.9, 2.2), (40, 1.9)], 4),
    ],
)
def test_best_has_the_lowest_loss_of_those_with_the_highest_bleu_but_for_chance(tmp_path, monkeypatch, scores, best):
    sentences = (ReferenceLine("a", "b", 0.0),) * 900  # with so many, differences below 1 are chance
    evaluations = (Evaluation(loss, bleu, 50.0, {}, sentences) for bleu, loss in [*scores, (20, 3.0)])
    monkeypatch.setattr(saving, "evaluate_model", lambda *arguments: next(evaluations))
    lengths = {"steps": 4, "evaluate_every": 1, "keep_reference": False}
    outcome = train_run(small_run(tmp_path / "data", train=lengths), tmp_path / "out")
    assert read_manifest(outcome.best)["step"] == best


@pytest.mark.parametrize(("pairs", "asked_for", "taken"), [(10, 4, [0, 2, 5, 7]), (3, 3, [0, 1, 2]), (3, 9, [0, 1, 2])])
def test_as_many_dev_sentences_as_asked_for_are_spread_evenly_over_the_file(pairs, asked_for, taken):
    sources = [str(number) for number in range(pairs)]
    dev = DevSet.from_pairs(SentencePairs.from_lists(sources, sources), small_tokenizer(), asked_for, 64, 32)
    assert dev.sources == dev.references == [sources[i] for i in taken]


def test_a_last_checkpoint_that_is_the_whole_average_is_evaluated_once(tmp_path, monkeypatch):
    evaluations = []

    def evaluate(*arguments):
        evaluations.append(evaluate_model(*arguments))
        return evaluations[-1]

    monkeypatch.setattr(saving, "evaluate_model", evaluate)
    outcome = train_run(small_run(tmp_path / "data", train={"steps": 2, "evaluate_every": 2}), tmp_path / "out")
    assert len(evaluations) == 1
    assert outcome.evaluation is evaluations[0]


def test_patience_ends_a_run_that_no_longer_improves(tmp_path):
    run = small_run(tmp_path / "data", train={"steps": 500, "evaluate_every": 2, "patience": 3}, optim={"peak": 1e-30})
    outcome = train_run(run, tmp_path / "out")
    assert outcome.stop == "patience"
    rows = [row for row in read_log(tmp_path / "out" / "log.jsonl") if "bleu" in row]
    assert len(rows) < 10


def test_minutes_end_a_run(tmp_path):
    run = small_run(tmp_path / "data", train={"steps": None, "minutes": 0.01, "evaluate_every": None})
    outcome = train_run(run, tmp_path / "out")
    rows = read_log(tmp_path / "out" / "log.jsonl")
    assert outcome.stop == "done"
    assert rows[-1]["seconds"] >= 0.6
    assert rows[-1]["step"] == rows[-2]["step"]  # the model that is averaged is the one that was evaluated last


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_saves_the_run_and_says_how_to_resume_it(name, tmp_path):
    script = ENDLESS_SCRIPT.format(data=str(tmp_path / "data"), out=str(tmp_path / "out"))
    child = ForkedProcess(program=script)
    log = tmp_path / "out" / "log.jsonl"
    for _ in range(1200):
        if log.exists() and log.stat().st_size:
            break
        time.sleep(0.05)
    child.send_signal(signal.Signals[name])
    out, messages = child.communicate(timeout=60)
    assert child.returncode == 0, messages
    assert out.strip() == name
    assert "everything is saved" in messages
    assert "--resume" in messages
    step = int(list_checkpoints(tmp_path / "out")[-1].name[5:])
    assert step >= 1
    resumed = train_run(small_run(tmp_path / "data", train={"steps": step + 2}), tmp_path / "out", resume=True)
    assert json.loads((list_checkpoints(resumed.out)[-1] / "training.json").read_text())["counts"]["step"] == step + 2


def test_pairs_held_out_share_no_sentence_with_training(tmp_path):
    files = write_corpus(tmp_path, pairs=307)
    corpus = read_corpus(DataConfig(source=files["source"], target=files["target"]), 1)
    [train], [dev] = corpus.train, corpus.dev_sets
    assert not set(train.sources) & set(dev.sources)
    assert not set(train.targets) & set(dev.targets)
    assert 1 <= len(dev) <= 30
    assert any("kept apart" in note for note in corpus.notes)


def test_too_few_pairs_to_hold_some_out_are_refused(tmp_path):
    files = write_corpus(tmp_path, pairs=11)
    data = DataConfig(source=files["source"], target=files["target"])
    with pytest.raises(ValueError, match="11 pairs are too few to train on and to measure with; give a few hundred"):
        read_corpus(data, 1)


def test_held_out_pairs_keep_their_line_numbers(tmp_path):
    files = write_corpus(tmp_path, pairs=101)
    corpus = read_corpus(DataConfig(source=files["source"], target=files["target"]), 1)
    lines = Path(files["source"]).read_text(encoding="utf-8").split("\n")
    for pairs in (*corpus.train, *corpus.dev_sets):
        assert [lines[number - 1] for number in pairs.lines] == pairs.sources


@pytest.mark.parametrize(
    ("pairs", "size", "batch"), [(30, "tiny", 1024), (70_000, "small", 4096), (600_000, "base", 4096)]
)
def test_settings_follow_from_the_number_of_pairs_and_say_why(pairs, size, batch):
    files = {"source": "a.en", "target": "a.es"}
    choice = choose_settings(files, pairs)
    assert choice.tables["model"]["size"] == size
    always = {"batch_tokens": batch, "initial_embeddings": "text", **PRECISION}
    both = {"both_directions": 0.3} if pairs <= 60_000 else {}
    assert choice.tables["train"] == {"minutes": 30.0, **both, **always}
    optim = make_run(choice.tables).optim
    assert (optim.kind, optim.weight_decay) == ("muon", 0.1)
    assert optim.dropout_rise > 0
    assert any(f"{pairs:,} pairs" in reason for _, reason in choice.choices)
    overridden = choose_settings(files, pairs, size="base", steps=9)
    assert overridden.tables["model"]["size"] == "base"
    assert overridden.tables["train"] == {"steps": 9, **always}


@pytest.mark.parametrize(
    ("pairs", "length", "batch", "share"),
    [
        (29_000, {"minutes": 9.9}, 1024, 0.0),
        (29_000, {"minutes": 10}, 2048, 0.3),
        (29_000, {}, 2048, 0.3),
        (29_000, {"steps": 90_000}, 1024, 0.0),
        (15_000, {"minutes": 20}, 1024, 0.3),
        (15_000, {"minutes": 5}, 1024, 0.0),
        (113_000, {"minutes": 20}, 4096, 0.0),
    ],
)
def test_a_long_run_on_little_text_has_larger_batches_and_begins_in_both_directions(pairs, length, batch, share):
    files = {"source": "a.en", "target": "a.es"}
    choice = choose_settings(files, pairs, **length)
    run = make_run(choice.tables)
    assert files == {"source": "a.en", "target": "a.es"}
    assert (run.train.batch_tokens, run.train.both_directions) == (batch, share)
    assert run.data.terms == (0.1 if share and pairs > 20_000 else 0.0)
    assert any("translated backwards" in reason for _, reason in choice.choices) == (share > 0)


@pytest.mark.parametrize(
    ("overrides", "share"),
    [
        ([], 0.1),
        (["train.minutes=10"], 0.1),
        (["train.minutes=9.9"], 0.0),
        (["train.steps=90000"], 0.0),
        (["data.terms=0"], 0.0),
        (["data.terms=0.3"], 0.3),
        (["tokenizer.joint=false"], 0.0),
        (["tokenizer.kind=marian"], 0.0),
    ],
)
def test_a_long_run_learns_to_use_a_glossary_where_its_vocabulary_can_mark_terms(
    overrides, share, tmp_path, monkeypatch
):
    monkeypatch.setattr(defaults, "count_training_pairs", lambda *_: 29_000)
    files = write_corpus(tmp_path)
    run, reasons = run_settings(None, overrides, source=files["source"], target=files["target"])
    assert run.data.terms == share
    assert any("marked term" in reason for reason in reasons) == (share == 0.1)


def test_what_a_model_learned_of_terms_and_memories_is_kept_when_it_is_trained_on(tmp_path):
    small = partial(small_run, tmp_path / "data", train={"steps": 1}, model={"max_positions": 256})
    train_run(small(data={"terms": 0.25, "memory": 0.5}), tmp_path / "general")
    train_run(small(), tmp_path / "plain")
    files = write_corpus(tmp_path)

    def settings_from(start: Path, *overrides: str) -> tuple[tuple[float, float], str]:
        run, reasons = run_settings(None, overrides, source=files["source"], target=files["target"], start=start)
        return (run.data.terms, run.data.memory), " ".join(reasons)

    shares, reasons = settings_from(tmp_path / "general/last")
    assert shares == (0.25, 0.5)
    assert "As many sources have marked terms and a similar sentence before them as in the training" in reasons
    assert settings_from(tmp_path / "general/last", "data.terms=0")[0] == (0.0, 0.5)
    shares, reasons = settings_from(tmp_path / "plain/last")
    assert shares == (0.0, 0.0)
    assert "As many sources" not in reasons


@pytest.mark.parametrize("override", ["train.steps=2", "train.minutes=3"])
def test_a_length_named_as_an_override_chooses_what_the_option_chooses(override, tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "count_training_pairs", lambda *_: 29_000)
    files = write_corpus(tmp_path)
    name, value = override.removeprefix("train.").split("=")
    length: dict[str, Any] = {name: int(value)}
    by_option = run_settings(source=files["source"], target=files["target"], **length)
    by_override = run_settings(None, [override], source=files["source"], target=files["target"])
    assert by_override[0] == by_option[0]
    assert by_override[0].train.both_directions == 0


@pytest.mark.parametrize(("kind", "overrides", "decay"), [("muon", [], 0.1), ("adam", ["optim.kind=adam"], 0.0)])
def test_learning_rate_and_decay_suit_the_optimizer_and_the_size(kind, overrides, decay, tmp_path):
    files = write_corpus(tmp_path)
    settings_for = partial(run_settings, source=files["source"], target=files["target"], steps=1)
    run, reasons = settings_for(overrides=["model.size=small", *overrides])
    assert (run.optim.kind, run.optim.peak) == (kind, defaults.PEAKS[kind]["small"])
    assert run.optim.weight_decay == decay
    assert any(f"learning rate goes up to {run.optim.peak:g} in" in reason for reason in reasons)
    with pytest.raises(ValueError, match=r"optim\.kind"):
        settings_for(overrides=["optim.kind=[1]"])


@pytest.mark.parametrize(("native", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_products_are_bfloat16_where_the_machine_has_it_built_in(native, precision, tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "has_native_bfloat16", lambda _: native)
    files = write_corpus(tmp_path)
    settings_for = partial(run_settings, source=files["source"], target=files["target"], steps=1)
    run, reasons = settings_for()
    assert run.train.precision == precision
    assert any("bfloat16" in reason for reason in reasons) == native
    run, reasons = settings_for(overrides=["train.precision=float32"])
    assert (run.train.precision, any("bfloat16" in reason for reason in reasons)) == ("float32", False)
    # A run that is resumed on a machine of the other kind keeps the format it began with.
    (tmp_path / "run.toml").write_text(to_toml(settings_for()[0]), encoding="utf-8")
    monkeypatch.setattr(defaults, "has_native_bfloat16", lambda _: not native)
    assert settings_for(began=tmp_path)[0].train.precision == precision


def test_a_run_that_is_resumed_keeps_what_was_chosen_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "count_training_pairs", lambda *_: 29_000)
    files = write_corpus(tmp_path)
    settings_for = partial(run_settings, source=files["source"], target=files["target"])
    short, _ = settings_for(minutes=5)
    assert short.train.batch_tokens == 1024
    (tmp_path / "run.toml").write_text(to_toml(short), encoding="utf-8")
    # A longer run, and another version, would choose otherwise.
    monkeypatch.setitem(defaults.PEAKS, "muon", {"tiny": 1e-3})
    assert settings_for(minutes=20)[0].train.batch_tokens == 2048
    longer, reasons = settings_for(minutes=20, began=tmp_path)
    assert longer == replace(short, train=replace(short.train, minutes=20.0))
    assert reasons == ()
    assert settings_for(steps=70, began=tmp_path)[0].train.steps == 70
    # What the user names is not overruled, but compared when the run goes on.
    assert settings_for(overrides=["train.batch_tokens=512"], minutes=20, began=tmp_path)[0].train.batch_tokens == 512
    # Without a length, the one it began with.
    assert settings_for(began=tmp_path)[0] == short
    (tmp_path / "run.toml").write_text("data = 3\nmodel = 4\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"run\.toml.*data"):
        settings_for(began=tmp_path)


@pytest.mark.parametrize(("minutes", "sentences"), [(0.5, 100), (4, 200), (9.5, 475), (10, 500), (60, 500)])
def test_a_short_run_evaluates_on_fewer_dev_sentences(minutes, sentences, tmp_path):
    choice = choose_settings(write_corpus(tmp_path), 211, minutes=minutes)
    run = make_run(choice.tables)
    assert (run.train.minutes, run.train.dev_sentences) == (minutes, sentences)
    assert any(f"measured on {sentences} sentences" in reason for _, reason in choice.choices) == (sentences < 500)


@pytest.mark.parametrize(
    ("minutes", "cost", "evaluations"), [(1, 4.0, 3), (1, 20.0, 2), pytest.param(5, 20.0, 3, marks=pytest.mark.slow)]
)
def test_evaluations_take_a_bounded_share_of_a_run_in_minutes(minutes, cost, evaluations, tmp_path, monkeypatch):
    """A fake clock advances by three seconds for each update, and by `cost` for each evaluation."""
    now = [0.0]

    def prolong(module, name, seconds):
        real_function = getattr(module, name)

        def call(*arguments):
            now[0] += seconds
            return real_function(*arguments)

        monkeypatch.setattr(module, name, call)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    prolong(loop, "update_within_memory", 3.0)
    prolong(saving, "evaluate_model", cost)
    settings = {"steps": None, "minutes": minutes, "evaluate_every": None, "save_every": None, "batch_tokens": 17}
    run = small_run(tmp_path / "data", train={**settings, "dev_sentences": 1, "dev_beam": 1})
    out = train_run(run, tmp_path / "out").out
    rows = [row for row in read_log(out / "log.jsonl") if "bleu" in row and "model" not in row]
    assert len(rows) == evaluations
    assert all(row["seconds"] >= 30 + cost for row in rows)
    seconds_between = cost * len(rows[1:-1])
    assert seconds_between <= 0.2 * 60 * minutes
    assert rows[-1]["seconds"] >= 60 * minutes  # the end is always measured
    assert len(list_checkpoints(out)) == run.train.keep  # which are saved all along


def test_steps_and_minutes_together_are_refused_in_the_two_file_form_too(tmp_path):
    files = write_corpus(tmp_path)
    choice = choose_settings(files, 211, steps=5, minutes=2.0)
    with pytest.raises(ValueError, match="both given; name one"):
        make_run(choice.tables)


def test_reasons_are_given_for_settings_that_hold_and_follow_a_size_named_as_an_override(tmp_path):
    files = write_corpus(tmp_path)
    settings_for = partial(
        run_settings,
        source=files["source"],
        target=files["target"],
        dev_source=files["dev_source"],
        dev_target=files["dev_target"],
        steps=5,
    )
    _, reasons = settings_for()
    subjects = ("size", "Dropout", "update learns", "vocabulary", "bfloat16", "rate", "Muon", "Weight", "vectors")

    def find_subjects(reasons: Sequence[str]) -> list[str]:
        return [next(subject for subject in subjects if subject in reason) for reason in reasons]

    products = ["bfloat16"] if PRECISION else []
    assert find_subjects(reasons) == [name for name in subjects if name != "bfloat16" or PRECISION]
    overrides = ["tokenizer.vocabulary=300", "optim.warmup=7", "optim.kind=adam", "model.dropout=0"]
    run, kept = settings_for(overrides=overrides)
    assert find_subjects(kept) == ["size", "update learns", *products, "vectors"]
    assert run.optim.warmup == 7
    by_option, _ = settings_for(size="small")
    by_override, _ = settings_for(overrides=["model.size=small"])
    assert by_option == by_override


def test_skipped_dev_pairs_are_named(tmp_path, capsys):
    run = small_run(tmp_path / "data", train={"steps": 1})
    dev = tmp_path / "data" / "dev_source.txt"
    dev.write_text(dev.read_text(encoding="utf-8").replace("\n", " one" * 400 + "\n", 1), encoding="utf-8")
    train_run(run, tmp_path / "out")
    assert "dev_source.txt:1 source of more than 41 pieces" in capsys.readouterr().err


CHINESE_WORDS = dict(zip(WORDS.values(), ["一个", "两条", "三只", "四本", "五张", "六座"], strict=True))


@pytest.mark.parametrize(("setting", "tokenizer"), [({}, "zh"), ({"dev_tokenize": "13a"}, "13a")])
def test_the_bleu_that_chooses_the_best_model_cuts_the_dev_references_as_their_script_asks(
    tmp_path, setting, tokenizer
):
    run = small_run(tmp_path / "data", train={"steps": 2, "evaluate_every": 1, **setting})
    for file in filter(None, (run.data.target, run.data.dev_target)):
        spanish = Path(file).read_text(encoding="utf-8")
        chinese = ["".join(CHINESE_WORDS[word] for word in line.split()) for line in spanish.splitlines()]
        Path(file).write_text("\n".join(chinese) + "\n", encoding="utf-8")
    train_run(run, tmp_path / "run")
    reports = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    signatures = [report["signatures"]["bleu"] for report in reports if "signatures" in report]
    assert signatures
    assert all(f"|tok:{tokenizer}|" in signature for signature in signatures)
    manifest = json.loads((tmp_path / "run" / "best" / "manifest.json").read_text(encoding="utf-8"))
    assert f"|tok:{tokenizer}|" in manifest["dev"]["signatures"]["bleu"]


def test_tokenized_dev_references_are_said_once_before_training(tmp_path, capsys):
    run = small_run(tmp_path / "data", train={"steps": 2, "evaluate_every": 1, "dev_sentences": 23})
    for file in filter(None, (run.data.target, run.data.dev_target)):
        text = Path(file).read_text(encoding="utf-8")
        Path(file).write_text(text.replace("\n", " .\n"), encoding="utf-8")
    train_run(run, tmp_path / "run")
    said = "".join(capsys.readouterr())
    assert said.count("23 of 23 dev references end in a space and a full stop") == 1


def test_a_tokenizer_of_dev_bleu_that_cannot_be_used_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="dev_tokenize"):
        small_run(tmp_path, train={"dev_tokenize": "moses"})
    # What is not installed here may be where the run was trained: its settings are read, and no training begins.
    monkeypatch.setattr(score_words, "is_installed", lambda name: False)
    run = small_run(tmp_path / "data", train={"dev_tokenize": "ja-mecab"})
    with pytest.raises(ValueError, match="the tokenizer ja-mecab needs MeCab"):
        train_run(run, tmp_path / "run")
    assert not (tmp_path / "run" / "run.toml").exists()
