"""A run's corpora as shards: in bounded memory, on all cores; when it is killed, what is whole stays, and it goes on.

The text is read twice: once to learn the vocabulary from some of it, once to cut all of it into pieces. Threads do the
cutting, for SentencePiece lets go of Python's lock meanwhile. All that is unfinished stands in one folder beside.
"""

import json
import shutil
import signal
from array import array
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.atomic import (
    MANIFEST,
    WriteFailed,
    explain_write_error,
    is_failed_write,
    read_json,
    replace_directory,
    verify_directory,
    write_manifest,
)
from pellucid.data.corpus import SentencePairs, SkippedPairs
from pellucid.data.corpus import side_files as sides_of
from pellucid.data.shards import join_parts, write_part
from pellucid.data.stream import encode_pairs_or_none, id_type
from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import CorpusConfig, RunConfig
from pellucid.train.initial_model import initial_tokenizer
from pellucid.train.lock import remove_empty
from pellucid.train.pairs import note_too_long, read_dev_pairs
from pellucid.train.process import catch_signals
from pellucid.train.shard_reading import (
    FORMAT,
    KIND,
    describe_text_file,
    has_changed,
    read_held_out,
    read_shards_manifest,
    shard_settings,
    training_files,
)
from pellucid.train.text_reading import Say, learn_from_text, training_pairs, write_json_file

PAIRS_PER_PART = 20_000
"""Pairs a thread takes at a time: some ten megabytes of text and lists."""


def prepare_shards(run: RunConfig, out: Path, workers: int, say: Say) -> None:
    """Write the corpora of `run` to the directory `out`, whole or not at all; shards that are there are replaced.

    A run that starts from a model has its text cut by that model's tokenizer. Raises ValueError for text that cannot be
    trained on, for a place where something else stands, and for a file that changes meanwhile.
    """
    out = out.resolve()
    refuse_non_shards(out)
    with explain_full_disk(out):
        write_shards(run, out, workers, say)


@contextmanager
def explain_full_disk(out: Path) -> Iterator[None]:
    """What a full disk refuses becomes NotWritten."""
    try:
        yield
    except OSError as error:
        if isinstance(error, WriteFailed) and str(error).startswith(f"{out} "):
            raise  # it was written
        if not is_failed_write(error):
            raise
        kept = "nothing was left behind"
        if unfinished_folder(out).exists():
            kept = f"what is done so far is in {unfinished_folder(out)}, and the same command goes on with it"
        raise WriteFailed(f"{out} could not be written: {explain_write_error(error)}; {kept}") from error


def write_shards(run: RunConfig, out: Path, workers: int, say: Say) -> None:
    """Read, cut, put together; what stands at `out` is replaced at the end, by what is whole."""
    known = initial_tokenizer(run)
    made_of = {
        "shards_format": FORMAT,
        "settings": shard_settings(run, known),
        "texts": [describe_text_file(path) for path in training_files(run)],
    }
    if shards_are_done(out, made_of):
        if is_work_folder(unfinished_folder(out)):
            shutil.rmtree(unfinished_folder(out))  # what a crash after the last step left
        say(f"{out} is prepared already")
        return
    read_dev_pairs(run.data)  # so that what is wrong with it is said now
    work = open_work_folder(unfinished_folder(out), made_of, say)
    if not shards_are_done(work / "whole", made_of):
        tokenizer, facts = learn_from_text(run, work / "learned", say, known)
        parts = write_parts(run, tokenizer, facts, work / "parts", workers, say)
        for text in made_of["texts"]:
            if has_changed(Path(text["path"]), text):
                raise ValueError(f"{text['path']} changed while it was prepared; run the command again")
        join_shards(work, tokenizer, facts, parts, made_of)
    replace_directory(work / "whole", out)
    shutil.rmtree(work, ignore_errors=True)  # what cannot be removed goes the next time
    about = read_shards_manifest(out)
    total = sum(each["pairs"] for each in about["corpora"])
    say(f"{total:,} pairs are in {out}; a run trains on them with data.shards = {json.dumps(str(out))}")


def refuse_non_shards(out: Path) -> None:
    """ValueError for a place where something other than shards stands."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        about = read_json(out / MANIFEST) if (out / MANIFEST).is_file() else {}
        if about.get("kind") != KIND:
            raise ValueError(f"{out} holds other things than shards and is not replaced; choose another --out")


def shards_are_done(out: Path, made_of: dict[str, Any]) -> bool:
    """Whether `out` holds just these shards, every byte of them."""
    try:
        return same_shards(read_shards_manifest(out), made_of) and bool(verify_directory(out))
    except ValueError:
        return False


def same_shards(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two are made of the same text with the same settings, and written alike."""
    sums = ([text["sha256"] for text in each["texts"]] for each in (one, other))
    alike = all(one.get(key) == other.get(key) for key in ("settings", "shards_format"))
    return alike and next(sums) == next(sums)


def unfinished_folder(out: Path) -> Path:
    """Where everything stands until it is whole."""
    return out.with_name(f"{out.name}.unfinished")


def open_work_folder(work: Path, made_of: dict[str, Any], say: Say) -> Path:
    """The folder of work: the one that is there if it is of this run, else a new one."""
    if (work / "plan.json").is_file() and same_shards(read_json(work / "plan.json"), made_of):
        say(f"going on with {work}")
        return work
    if work.exists() and not is_work_folder(work):
        raise ValueError(f"{work} is in the way; remove it or choose another --out")
    if (work / "plan.json").is_file():
        say(f"{work} was made from other text or settings; beginning anew")
    if work.exists():
        shutil.rmtree(work)
    missing = [folder for folder in (work, *work.parents) if not folder.exists()]
    try:
        for name in ("learned", "parts"):
            (work / name).mkdir(parents=True)
        write_json_file(work / "plan.json", made_of)
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
        remove_empty(missing)
        raise
    return work


def is_work_folder(work: Path) -> bool:
    """Whether a folder holds what this command leaves unfinished, and nothing else."""
    ours = {"learned", "parts", "whole", "plan.json", ".plan.json.new"}
    return work.is_dir() and {path.name for path in work.iterdir()} <= ours


def write_parts(
    run: RunConfig, tokenizer: Tokenizer, facts: dict[str, Any], folder: Path, workers: int, say: Say
) -> list[tuple[int, Path]]:
    """Write every part that is not there yet; each with the number of its corpus, in their order.

    A signal is heeded between two parts: within the executor it could leave a lock held that its threads then wait for.
    """
    dev = read_held_out(folder.parent / "learned", facts["dev"], run.data.max_characters) if facts["dev"] else None
    say(f"cutting {sum(each['pairs'] for each in facts['corpora']):,} pairs into pieces, {workers} threads")
    parts: list[tuple[int, Path]] = []
    waiting: deque[Future[None]] = deque()
    of_all = (
        (number, *block)
        for number, corpus in enumerate(run.data.corpora)
        for block in pair_blocks(corpus, run, dev, folder / f"{number}")
    )
    with catch_signals() as asked, ThreadPoolExecutor(workers) as pool:
        for number, place, some in of_all:
            if asked:
                break
            parts.append((number, place))
            if place.exists():
                continue
            while len(waiting) > workers:
                waiting.popleft().result()
            waiting.append(pool.submit(encode_part, place, some, tokenizer, run.data.max_pieces))
        for each in waiting:
            each.result()
    if asked:
        signal.raise_signal(signal.Signals[asked[0]])
        raise KeyboardInterrupt  # where that signal is one to be ignored: parts are missing
    return parts


def encode_part(place: Path, some: SentencePairs, tokenizer: Tokenizer, limit: int) -> None:
    """One part, from text to disk."""
    write_part(place, *encode_pairs_or_none(some, tokenizer, limit))


def pair_blocks(
    corpus: CorpusConfig, run: RunConfig, dev: SentencePairs | None, folder: Path
) -> Iterator[tuple[Path, SentencePairs]]:
    """The pairs of a corpus, some at a time, and where their ids go."""
    folder.mkdir(exist_ok=True)
    rows = iter(training_pairs(corpus, run.data, dev, SkippedPairs()))
    for number in count():
        lines, sources, targets = array("q"), [], []
        for line, source, target in islice(rows, PAIRS_PER_PART):
            lines.append(line)
            sources.append(source)
            targets.append(target)
        if not sources:
            return
        yield (
            folder / f"{number:06d}.npz",
            SentencePairs(sources, targets, lines, sides_of(*corpus.files), SkippedPairs()),
        )


def join_shards(
    work: Path, tokenizer: Tokenizer, facts: dict[str, Any], parts: list[tuple[int, Path]], made_of: dict[str, Any]
) -> None:
    """Join the parts, and write beside them what is known of them."""
    whole = work / "whole"
    if whole.exists():
        shutil.rmtree(whole)
    whole.mkdir()
    for path in (work / "learned").iterdir():
        if path.name != "facts.json":
            shutil.copyfile(path, whole / path.name)
    corpora, notes = [], list(facts["notes"])
    joined = zip((number for number, _ in parts), join_parts((place for _, place in parts), whole), strict=True)
    for number, each in groupby(joined, key=lambda one: one[0]):
        kept, skipped = 0, SkippedPairs()
        for _, (some, more) in each:
            kept += some
            skipped.add_later(more)
        expected = facts["corpora"][number]
        assert kept + skipped.counts.total() == expected["pairs"]
        if not kept:
            raise ValueError(f"no pair is left of {expected['pairs']:,}: {skipped}")
        notes += [note_too_long(skipped)] if skipped else []
        left_out = expected["left_out"] | skipped.counts  # for reasons that differ: before cutting and after it
        corpora.append({"pairs": kept, "fingerprint": expected["fingerprint"], "left_out": left_out})
    kinds = (id_type(tokenizer.source_vocabulary), id_type(tokenizer.target_vocabulary))
    types = dict(zip(("source", "target"), (np.dtype(kind).newbyteorder("<").str for kind in kinds), strict=True))
    about = {"kind": KIND, "types": types, "dev": facts["dev"], "drawn": facts["drawn"]}
    write_manifest(whole, {**about, **made_of, "corpora": corpora, "notes": notes})
