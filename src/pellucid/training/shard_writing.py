"""Writing of shards: encodes a run's corpora in bounded memory and on all cores; killed at any time, it can be resumed.

The text is read twice: once to learn the vocabulary from some of it, once to encode all of it.
Everything unfinished is in one folder beside the result.
"""

import hashlib
import json
import shutil
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.data.batching import id_type
from pellucid.data.corpus import SentencePairs, SkippedPairs
from pellucid.data.shards import PartContent, join_parts, read_part, write_part
from pellucid.data.source_profile import PROFILED_SOURCES, write_source_words
from pellucid.data.stream import encode_pairs_or_none
from pellucid.data.tokenizer import Tokenizer, sample_lines
from pellucid.store.atomic import (
    MANIFEST,
    explain_unfinished_work,
    join_problems,
    read_json,
    replace_directory,
    unfinished_folder,
    verify_directory,
    write_manifest,
    write_text_whole,
)
from pellucid.training import data
from pellucid.training.config import CorpusConfig, DataConfig, RunConfig
from pellucid.training.data import (
    DEV_FILE,
    FORMAT,
    KIND,
    describe_dev_text,
    describe_profile,
    describe_text_file,
    describe_tokenizer_files,
    draw_dev_pairs,
    find_languages,
    has_changed,
    note_held_out,
    pair_blocks,
    profile_sample,
    read_held_out,
    read_overlap,
    read_shards_manifest,
    reading_notes,
    select_corpora,
    shard_settings,
    training_files,
    training_pairs,
)
from pellucid.training.direction import describe_direction
from pellucid.training.initial_model import initial_tokenizer
from pellucid.training.overlap import DevOverlap
from pellucid.training.process import catch_signals, remove_empty

Say = Callable[[str], None]  # function that shows a message to the user
# Facts of the first reading that the manifest has, too.
_FACTS_KEPT = ("dev", "drawn", "overlap", "languages")
PAIRS_PER_PART = 20_000  # pairs that a thread takes at a time: some ten megabytes of text and lists


@dataclass
class CorpusFacts:
    """Number of pairs, checksum and skipped pairs of a corpus, collected while it is read."""

    pairs: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    skipped: SkippedPairs = field(default_factory=SkippedPairs)

    def row(self) -> dict[str, Any]:
        """Return the facts as they are written down."""
        return {
            "pairs": self.pairs,
            "fingerprint": self.digest.hexdigest(),
            "left_out": dict(self.skipped.counts),
        }


def _learn_from_text(
    run: RunConfig,
    corpora: Sequence[CorpusConfig],
    folder: Path,
    say: Say,
    given: Tokenizer | None = None,
) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the tokenizer, `given` or learned, and the facts that a first reading finds."""
    # Written last: with it, an earlier call has finished this reading.
    if (folder / "facts.json").exists():
        return Tokenizer.load(folder, run.tokenizer), read_json(folder / "facts.json")

    say(describe_direction(run.data))
    say("reading the text")
    dev = draw_dev_pairs(run.data, run.seed)
    facts = [CorpusFacts() for _ in corpora]
    overlap = read_overlap(run.data)
    rows = count_rows(run.data, dev, facts, overlap, corpora)
    if given is None:
        sample = sample_lines(rows, data.TOKENIZER_SENTENCES, run.seed)
        profile = profile_sample(sample, len(sample))
        total = sum(counts.pairs for counts in facts)
        say(f"learning the vocabulary from {len(sample):,} of {total:,} pairs")
        sources, targets = [source for source, _ in sample], [target for _, target in sample]
        # A million pairs should not stay in memory twice while the vocabulary is learned.
        del sample
        tokenizer = data.learn_tokenizer(sources, targets, run)
    else:
        # Reads all rows for their facts.
        sample = sample_lines(rows, PROFILED_SOURCES, run.seed)
        profile = profile_sample(sample, len(sample))
        tokenizer = given
    tokenizer.save(folder)
    write_source_words(folder, profile)

    rows_of_facts, notes = [], []
    for corpus_facts in facts:
        rows_of_facts.append(corpus_facts.row())
        notes += reading_notes(corpus_facts.skipped)
    if overlap:
        notes += overlap.notes()
    if dev is not None:
        notes.append(note_held_out(len(dev)))
        _write_held_out(folder, dev)

    total = sum(corpus_facts.pairs for corpus_facts in facts)
    was_sampled = given is None and total > data.TOKENIZER_SENTENCES
    written = {
        "corpora": rows_of_facts,
        "notes": [*notes, *tokenizer.notes, *describe_profile(profile)],
        "sources": profile.as_json(),
        "dev": None if dev is None else {"files": dev.files, "lines": list(dev.lines)},
        "overlap": overlap and overlap.row(),
        "languages": find_languages(run.data),
        "drawn": dev is not None or was_sampled,
    }
    write_text_whole(folder / "facts.json", f"{json.dumps(written)}\n")
    # From the file, so that a first call returns just what a resumed one does.
    return tokenizer, read_json(folder / "facts.json")


def _write_held_out(folder: Path, dev: SentencePairs) -> None:
    """Write the pairs that are held out of training, as `read_held_out` reads them."""
    with (folder / DEV_FILE).open("w", encoding="utf-8") as file:
        for source, target in zip(dev.sources, dev.targets, strict=True):
            file.write(json.dumps({"source": source, "target": target}) + "\n")


def count_rows(
    data: DataConfig,
    dev: SentencePairs | None,
    facts: list[CorpusFacts],
    overlap: DevOverlap | None = None,
    corpora: Sequence[CorpusConfig] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of all corpora, or of some, without their lines, and count them in `facts`."""
    for corpus, corpus_facts in zip(corpora or data.corpora, facts, strict=True):
        for _, source, target in training_pairs(corpus, data, dev, corpus_facts.skipped, overlap):
            corpus_facts.pairs += 1
            corpus_facts.digest.update(f"{source}\n{target}\n".encode())
            yield source, target


def count_training_pairs(data: DataConfig, seed: int) -> int:
    """Count the pairs to train on, those with too many pieces included, without keeping them."""
    dev = draw_dev_pairs(data, seed)
    count = 0
    for corpus in data.corpora:
        count += sum(1 for _ in training_pairs(corpus, data, dev, SkippedPairs()))
    return count


def prepare_shards(
    run: RunConfig,
    out: Path,
    workers: int,
    say: Say,
    numbers: range | None = None,
    tokenizer_of: Path | None = None,
    ranges: Iterable[PartContent] | None = None,
) -> None:
    """Write the corpora of `run`, or some of them, as shards to `out`, as a whole or not at all.

    `numbers` are the numbers of the corpora, from 1. All ranges of the lines of a single corpus may
    have been encoded before (`RangeEncoder`); they come in order.

    Shards that are there are replaced. The text of a run from an initial model is encoded by that
    model's tokenizer, other text by the tokenizer of the shards in `tokenizer_of`, or a new one. Raises
    ValueError for text that cannot be trained on, for an `out` that holds something else, for a
    file that changes meanwhile, and for a tokenizer that was learned with other settings.
    """
    out = out.resolve()
    _refuse_non_shards(out)
    corpora = select_corpora(run.data, numbers)
    with explain_unfinished_work(out):
        recipe, given = _describe_shards(run, numbers, tokenizer_of)
        if shards_are_done(out, recipe):
            if _is_work_folder(unfinished_folder(out)):
                shutil.rmtree(unfinished_folder(out))  # left by a crash after the last step
            say(f"{out} is prepared already")
            return

        work = _open_work_folder(unfinished_folder(out), recipe, say)
        if not shards_are_done(work / "whole", recipe):
            tokenizer, facts = _learn_from_text(run, corpora, work / "learned", say, given)
            if ranges is None:
                files = write_parts(run, corpora, tokenizer, facts, work / "parts", workers, say)
                parts = ((number, read_part(file)) for number, file in files)
            else:
                parts = ((0, content) for content in ranges)
            # The text is read twice: a file that changed in between would not match its facts.
            for text in recipe["texts"]:
                if has_changed(Path(text["path"]), text):
                    raise ValueError(
                        f"{text['path']} changed while it was prepared; run the command again"
                    )
            join_shards(work, tokenizer, facts, parts, recipe)
        replace_directory(work / "whole", out)
        shutil.rmtree(work, ignore_errors=True)  # what cannot be removed now goes next time

        manifest = read_shards_manifest(out)
        total = sum(entry["pairs"] for entry in manifest["corpora"])
        if numbers is None:
            setting = f"data.shards = {json.dumps(str(out))}"
            say(f"{total:,} pairs are in {out}; a run trains on them with {setting}")
        else:
            say(f"{total:,} pairs are in {out}; list it in data.shards, with the other parts")


def prepare_facts(
    run: RunConfig, out: Path, numbers: range | None, tokenizer_of: Path | None
) -> None:
    """Read the corpora that `prepare_shards` will write to `out`, for what it must know first."""
    out = out.resolve()
    with explain_unfinished_work(out):
        recipe, given = _describe_shards(run, numbers, tokenizer_of)
        work = _open_work_folder(unfinished_folder(out), recipe, say_nothing)
        corpora = select_corpora(run.data, numbers)
        _learn_from_text(run, corpora, work / "learned", say_nothing, given)


def say_nothing(message: str) -> None:
    """Show no message."""


def are_prepared(
    run: RunConfig, out: Path, numbers: range | None, tokenizer_of: Path | None
) -> bool:
    """Whether `out` holds what `prepare_shards` would write there, with every byte verified."""
    has_manifest = (out / MANIFEST).exists()
    return has_manifest and shards_are_done(out, _describe_shards(run, numbers, tokenizer_of)[0])


def prepare_tokenizer(run: RunConfig, out: Path, say: Say) -> None:
    """Learn the tokenizer of all corpora of a run, as for shards of the whole, and write it to `out`.

    `out` becomes shards without a pair, and `prepare_shards` takes their tokenizer for any part.
    """
    out = out.resolve()
    _refuse_non_shards(out)
    with explain_unfinished_work(out):
        recipe = {**_describe_recipe(run, None, None), "tokenizer": "alone"}
        if shards_are_done(out, recipe):
            return

        work = _open_work_folder(unfinished_folder(out), recipe, say)
        tokenizer, facts = _learn_from_text(run, run.data.corpora, work / "learned", say)
        join_shards(work, tokenizer, facts, [], recipe)
        replace_directory(work / "whole", out)
        shutil.rmtree(work, ignore_errors=True)


def _describe_shards(
    run: RunConfig, numbers: range | None, tokenizer_of: Path | None
) -> tuple[dict[str, Any], Tokenizer | None]:
    """Return what decides some shards, and their tokenizer, unless it is to be learned."""
    initial = initial_tokenizer(run)
    recipe = _describe_recipe(run, initial, numbers)
    if tokenizer_of is None:
        return recipe, initial

    given = load_shards_tokenizer(run, tokenizer_of, recipe["settings"])
    recipe["tokenizer"] = describe_tokenizer_files(read_shards_manifest(tokenizer_of))
    return recipe, given


def _describe_recipe(
    run: RunConfig, initial: Tokenizer | None, numbers: range | None
) -> dict[str, Any]:
    """Return what decides the shards of a run, or of the corpora with these numbers."""
    recipe = {
        "shards_format": FORMAT,
        # A dev set that cannot be read is refused here, and not after hours.
        "dev_text": describe_dev_text(run.data),
        "settings": shard_settings(run, initial, numbers),
        "texts": [describe_text_file(path) for path in training_files(run.data, numbers)],
    }
    if numbers is not None:
        recipe["part"] = [numbers.start, numbers.stop - 1]
    return recipe


def load_shards_tokenizer(run: RunConfig, folder: Path, settings: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer of other shards, which must have been learned with the same settings."""
    recorded, problems = read_shards_manifest(folder)["settings"], []
    if run.model.start:
        problems.append("model.start has a tokenizer already")
    for name, value in settings.items():
        if name.startswith("tokenizer") and recorded.get(name) != value:
            problems.append(f"{name} is {value!r}, it was made with {recorded.get(name)!r}")
    if problems:
        raise ValueError(f"--tokenizer {folder}: {join_problems(problems)}")
    return Tokenizer.load(folder, run.tokenizer)


def _refuse_non_shards(out: Path) -> None:
    """Raise ValueError if something other than shards is at `out`."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        manifest = read_json(out / MANIFEST) if (out / MANIFEST).is_file() else {}
        if manifest.get("kind") != KIND:
            raise ValueError(
                f"{out} holds something other than shards and is not replaced; choose another --out"
            )


def shards_are_done(out: Path, recipe: dict[str, Any]) -> bool:
    """Whether `out` holds the shards of this recipe, with every byte verified."""
    try:
        return _same_shards(read_shards_manifest(out), recipe) and bool(verify_directory(out))
    except ValueError:
        return False


def _same_shards(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two manifests describe shards of the same text, settings and format."""
    for key in ("settings", "shards_format", "dev_text", "part", "tokenizer"):
        if first.get(key) != second.get(key):
            return False
    # By checksum and not by path: the text may have been moved.
    first_checksums = [text["sha256"] for text in first["texts"]]
    return first_checksums == [text["sha256"] for text in second["texts"]]


def _open_work_folder(work: Path, recipe: dict[str, Any], say: Say) -> Path:
    """Return the folder of unfinished work: the existing one if it is of this run, or a new one."""
    if (work / "plan.json").is_file() and _same_shards(read_json(work / "plan.json"), recipe):
        say(f"continuing with {work}")
        return work
    if work.exists() and not _is_work_folder(work):
        raise ValueError(f"{work} is in the way; remove it or choose another --out")

    if (work / "plan.json").is_file():
        say(f"{work} was made from other text or settings; beginning anew")
    if work.exists():
        shutil.rmtree(work)

    # Parents that this call makes are removed again if it fails.
    missing = [folder for folder in (work, *work.parents) if not folder.exists()]
    try:
        for name in ("learned", "parts"):
            (work / name).mkdir(parents=True)
        write_text_whole(work / "plan.json", f"{json.dumps(recipe)}\n")
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
        remove_empty(missing)
        raise

    return work


def _is_work_folder(work: Path) -> bool:
    """Whether a folder holds unfinished work of this command and nothing else."""
    # It is deleted as a whole, so a file of somebody else's must not be in it.
    known_names = {"learned", "parts", "whole", "plan.json", ".plan.json.new"}
    return work.is_dir() and {path.name for path in work.iterdir()} <= known_names


def write_parts(
    run: RunConfig,
    corpora: Sequence[CorpusConfig],
    tokenizer: Tokenizer,
    facts: dict[str, Any],
    folder: Path,
    workers: int,
    say: Say,
) -> list[tuple[int, Path]]:
    """Write every part that does not exist yet; return all in order, with the numbers of their corpora."""
    dev = None
    if facts["dev"]:
        dev = read_held_out(folder.parent / "learned", facts["dev"])
    total = sum(entry["pairs"] for entry in facts["corpora"])
    say(f"cutting {total:,} pairs into pieces, {workers} threads")

    parts: list[tuple[int, Path]] = []
    pending: deque[Future[None]] = deque()
    # SentencePiece releases Python's lock, so threads suffice. A signal is heeded between two
    # parts: inside of the executor it could leave a lock held that its threads then wait for.
    with catch_signals() as caught, ThreadPoolExecutor(workers) as pool:
        for corpus_number, block_number, block_pairs in _number_blocks(corpora, run.data, dev):
            if caught:
                break
            path = folder / f"{corpus_number}" / f"{block_number:06d}.npz"
            path.parent.mkdir(exist_ok=True)
            parts.append((corpus_number, path))
            if path.exists():
                continue
            # Bounds the text in memory: reading is faster than encoding.
            while len(pending) > workers:
                pending.popleft().result()
            languages = corpora[corpus_number].languages
            of_direction = run.data.tokenizer_of(languages, tokenizer)
            limit = run.data.max_pieces
            pending.append(pool.submit(encode_part, path, block_pairs, of_direction, limit))
        for future in pending:
            future.result()

    if caught:
        signal.raise_signal(signal.Signals[caught[0]])
        raise KeyboardInterrupt  # if that signal is ignored: parts are missing

    return parts


def _number_blocks(
    corpora: Sequence[CorpusConfig], data: DataConfig, dev: SentencePairs | None
) -> Iterator[tuple[int, int, SentencePairs]]:
    """Yield the pairs of these corpora in blocks, with the numbers of the corpus and of the block."""
    for corpus_number, corpus in enumerate(corpora):
        for block_number, block in enumerate(pair_blocks(corpus, data, dev, PAIRS_PER_PART)):
            yield corpus_number, block_number, block


def encode_part(path: Path, pairs: SentencePairs, tokenizer: Tokenizer, limit: int) -> None:
    """Encode the pairs of one part and write them."""
    write_part(path, *encode_pairs_or_none(pairs, tokenizer, limit))


def join_shards(
    work: Path,
    tokenizer: Tokenizer,
    facts: dict[str, Any],
    parts: Iterable[tuple[int, PartContent]],
    recipe: dict[str, Any],
) -> None:
    """Join parts, which come with the number of their corpus; write tokenizer and manifest."""
    result = work / "whole"
    # Left by a run that was killed while it joined.
    if result.exists():
        shutil.rmtree(result)
    result.mkdir()
    for path in (work / "learned").iterdir():
        if path.name != "facts.json":
            shutil.copyfile(path, result / path.name)

    corpora, notes = [], list(facts["notes"])
    joined = join_parts(parts, result)
    for corpus_number, corpus_parts in groupby(joined, key=lambda numbered: numbered[0]):
        trained_on, skipped = 0, SkippedPairs()
        for _, pair_count, part_skipped in corpus_parts:
            trained_on += pair_count
            skipped.add_later(part_skipped)

        expected = facts["corpora"][corpus_number]
        # The first reading counted the same pairs: a file that changed since then was refused
        # before.
        assert trained_on + skipped.counts.total() == expected["pairs"]
        if not trained_on:
            raise ValueError(f"no pair is left of {expected['pairs']:,}: {skipped}")
        if skipped:
            notes.append(f"left out: {skipped}")
        corpora.append(
            {
                "pairs": trained_on,
                "fingerprint": expected["fingerprint"],
                # Reasons of reading and of encoding never coincide.
                "left_out": expected["left_out"] | skipped.counts,
            }
        )

    manifest: dict[str, Any] = {
        "kind": KIND,
        "types": {
            "source": _file_type(tokenizer.source_vocabulary),
            "target": _file_type(tokenizer.target_vocabulary),
        },
    }
    for name in _FACTS_KEPT:
        manifest[name] = facts[name]
    # A reading that an older version finished has no profile.
    if "sources" in facts:
        manifest["sources"] = facts["sources"]
    write_manifest(result, {**manifest, **recipe, "corpora": corpora, "notes": notes})


def _file_type(vocabulary: int) -> str:
    """Return numpy's name of the numbers that hold the ids of a vocabulary in a file."""
    # Little-endian, on every machine.
    return np.dtype(id_type(vocabulary)).newbyteorder("<").str
