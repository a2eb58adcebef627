"""Every pair that is read is trained on, or counted by the reason why not."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pellucid.store.directory import load_bundle
from pellucid.training import shard_writing
from pellucid.training.config import RunConfig, make_run
from pellucid.training.data import SHARED_SENTENCE, TrainingData, read_data
from pellucid.training.defaults import run_settings
from pellucid.training.loop import train_run
from tests.training.corpora import small_run

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


def write_sides(folder: Path, name: str, count: int, seed: int) -> list[tuple[str, str]]:
    """Write a corpus with all that leaves training: repeated pairs and sides, near copies, empty and long lines."""
    random, rows = Random(seed), []
    for _ in range(count):
        words = random.choices(WORDS, k=random.randint(1, 6))
        source, target = " ".join(words), " ".join(reversed(words))
        kind = random.randrange(12)
        if kind == 0:
            source = source.upper()
        elif kind == 1:
            target += " "
        elif kind == 2:
            source = random.choice(["", " ", "\u3000"])
        elif kind == 3:
            target = "x" * random.choice([40, 41, 99])
        elif kind == 4:
            source = "".join(random.choices("abcdefghij", k=random.choice([5, 39])))  # hardly a piece has two letters
        elif kind < 7 and rows:
            source, target = random.choice(rows)
        elif kind < 9:
            target = random.choice(["yes", "no", "thank you"])
        rows.append((source, target))
    for side, number in (("en", 0), ("es", 1)):
        (folder / f"{name}.{side}").write_text("".join(f"{row[number]}\n" for row in rows), encoding="utf-8")
    return rows


def one_corpus_run(folder: Path, seed: int) -> tuple[RunConfig, list[list[tuple[str, str]]]]:
    rows = write_sides(folder, "a", 307, seed)
    return make_small_run({"source": str(folder / "a.en"), "target": str(folder / "a.es")}, seed), [rows]


def mixture_run(folder: Path, seed: int) -> tuple[RunConfig, list[list[tuple[str, str]]]]:
    rows = [write_sides(folder, name, count, seed + i) for i, (name, count) in enumerate((("a", 211), ("b", 89)))]
    third = [(" ".join(WORDS[: i % 7 + 1]), f"{i % 5} times") for i in range(43)]
    (folder / "c.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in third), encoding="utf-8")
    corpora: list[dict] = [
        {"source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.es"), "weight": weight}
        for name, weight in (("a", 1.0), ("b", 0.3))
    ]
    return make_small_run({"corpus": [*corpora, {"pairs": str(folder / "c.tsv"), "weight": 2.0}]}, seed), [*rows, third]


def make_small_run(data: dict, seed: int) -> RunConfig:
    tables = {"data": {**data, "held_out": 13, "max_characters": 40, "max_pieces": 17}, "train": {"steps": 1}}
    return make_run({**tables, "tokenizer": {"vocabulary": 300}, "seed": seed})


def with_dev_set(make_kind, folder: Path, seed: int):
    run, rows = make_kind(folder, seed)
    write_sides(folder, "dev", 31, seed + 7)
    dev_files = {"dev_source": str(folder / "dev.en"), "dev_target": str(folder / "dev.es")}
    return replace(run, data=replace(run.data, **dev_files)), rows


KINDS = {
    "one corpus": one_corpus_run,
    "a mixture": mixture_run,
    "one corpus, dev named": lambda folder, seed: with_dev_set(one_corpus_run, folder, seed),
    "a mixture, dev named": lambda folder, seed: with_dev_set(mixture_run, folder, seed),
}


def count_noted_pairs(notes: tuple[str, ...]) -> int:
    """Return how many pairs of the training data the notes say are not trained on."""
    counts = [
        re.match(r"^([\d,]+) pairs are not trained on|left out: ([\d,]+) pairs|^([\d,]+) pairs are kept apart", note)
        for note in notes
    ]
    return sum(int("".join(filter(None, count.groups())).replace(",", "")) for count in counts if count)


def read_from_shards(run: RunConfig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingData:
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 29)
    shard_writing.prepare_shards(run, folder, 2, lambda message: None)
    return read_data(replace(run, data=replace(run.data, shards=str(folder))))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_read_is_trained_on_or_counted_in_the_notes(kind, seed, tmp_path, monkeypatch):
    run, rows = KINDS[kind](tmp_path, seed)
    text = read_data(run)
    for data in (text, read_from_shards(run, tmp_path / "shards", monkeypatch)):
        assert data.accounts == text.accounts
        assert [account.read for account in data.accounts] == [len(account) for account in rows]
        assert sum(account.trained_on for account in data.accounts) == len(data.encoded)
        assert len(data.encoded) + count_noted_pairs(data.notes) == sum(map(len, rows))
        held_out = len(data.dev) if "dev" not in kind else 0
        assert [account.held_out for account in data.accounts] == [held_out] + [0] * (len(rows) - 1)
    reasons = sum((Counter(account.left_out) for account in text.accounts), Counter())
    assert {"empty source", "target of more than 40 characters", "source of more than 17 pieces"} <= reasons.keys()
    assert (reasons[SHARED_SENTENCE] > 20) == ("dev" not in kind)


@pytest.mark.parametrize("kind", ["one corpus", "a mixture"])
def test_pairs_that_share_a_sentence_are_counted_as_a_reader_would_count_them(kind, tmp_path):
    run, rows = KINDS[kind](tmp_path, 5)
    data = read_data(run)
    sides = set(data.dev.sources), set(data.dev.targets)
    held_out_lines = set(data.dev.lines)
    for number, (pairs, account) in enumerate(zip(rows, data.accounts, strict=True)):
        sound = [
            (line, source, target)
            for line, (source, target) in enumerate(pairs, start=1)
            if source.strip() and target.strip() and max(len(source), len(target)) <= 40
        ]
        candidates = [row for row in sound if number or row[0] not in held_out_lines]
        expected = sum(source in sides[0] or target in sides[1] for _, source, target in candidates)
        assert account.left_out.get(SHARED_SENTENCE, 0) == expected


def test_size_and_schedule_follow_from_the_pairs_that_are_left(tmp_path):
    """Two thousand pairs with sixty different translations: nearly all of them share one with a held-out pair."""
    random = Random(1)
    (tmp_path / "h.en").write_text("".join(f"sentence {i}\n" for i in range(2000)), encoding="utf-8")
    answers = [f"answer {min(int(random.expovariate(0.2)), 59)}\n" for _ in range(2000)]
    (tmp_path / "h.es").write_text("".join(answers), encoding="utf-8")
    run, reasons = run_settings(
        source=tmp_path / "h.en", target=tmp_path / "h.es", steps=1, overrides=["data.held_out=50"]
    )
    [account] = read_data(run).accounts
    assert account.left_out[SHARED_SENTENCE] > 1500
    assert account.read == 2000
    assert f"enough for the {account.trained_on:,} pairs left to train on" in reasons[0]


def test_a_run_reports_its_pairs_and_its_models_and_directory_record_them(tmp_path, capsys):
    run = small_run(tmp_path / "data", train={"steps": 1})
    run = replace(run, data=replace(run.data, dev_source=None, dev_target=None, held_out=11))
    train_run(run, tmp_path / "out")
    [account] = load_bundle(tmp_path / "out" / "best").manifest["pairs"]
    assert account["read"] == 211 == account["trained_on"] + 11 + account["left_out"][SHARED_SENTENCE]
    [recorded] = json.loads((tmp_path / "out" / "texts.json").read_text(encoding="utf-8"))["pairs"]
    assert recorded == account
    messages = capsys.readouterr().err
    assert f"211 pairs read, {account['trained_on']} of them to train on." in messages
    assert f"{account['left_out'][SHARED_SENTENCE]} with {SHARED_SENTENCE} (" in messages
    assert "11 pairs are kept apart to measure progress" in messages


def test_a_corpus_without_a_pair_left_is_refused(tmp_path):
    (tmp_path / "a.en").write_text("".join(f"sentence {i}\n" for i in range(40)), encoding="utf-8")
    (tmp_path / "a.es").write_text("yes\n" * 40, encoding="utf-8")
    run = make_small_run({"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.es")}, seed=1)
    for prepare_data in (
        read_data,
        lambda run: shard_writing.prepare_shards(run, tmp_path / "shards", 1, lambda message: None),
    ):
        with pytest.raises(
            ValueError, match="every pair shares a sentence with another; name dev_source and dev_target"
        ):
            prepare_data(run)
