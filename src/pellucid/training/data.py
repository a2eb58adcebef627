"""Data of a run: pairs read and encoded, from text or from shards, and some held out of training."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

from pellucid.data.batching import CorpusShare, EncodedPairs
from pellucid.data.context import split_context
from pellucid.data.corpus import (
    HELD_OUT_FILE,
    SentencePairs,
    SkippedPairs,
    fingerprint_pairs,
    read_pairs,
    read_valid_pairs,
    side_files,
)
from pellucid.data.formats.objects import encode_jsonl
from pellucid.data.formats.units import Sides, Unit
from pellucid.data.lines import read_lines
from pellucid.data.pair_noise import vary_case
from pellucid.data.shards import join_mapped_pairs, map_shards
from pellucid.data.source_profile import (
    PROFILED_SOURCES,
    SourceProfile,
    profile_sources,
    read_source_profile,
    read_source_words,
)
from pellucid.data.stream import concatenate_corpora, encode_pairs
from pellucid.data.text.spelling import describe_character
from pellucid.data.tokenizer import MEMORY_MARK, TERM_MARKS, Tokenizer
from pellucid.store.atomic import (
    MANIFEST,
    file_sha256,
    join_problems,
    manifest_sha256,
    read_json,
    write_text_whole,
)
from pellucid.training.config import CorpusConfig, DataConfig, RunConfig
from pellucid.training.direction import read_dev_sides, read_sides
from pellucid.training.initial_model import initial_tokenizer
from pellucid.training.overlap import DevOverlap

# Largest number of lines of each side that the vocabulary is learned from.
TOKENIZER_SENTENCES = 1_000_000
# Reason for leaving out a pair that shares a sentence with a held-out one: testing on it would
# reward memory.
SHARED_SENTENCE = "a sentence of a pair that is kept apart"

KIND, FORMAT = "pellucid shards", 2

DEV_FILE = "dev.jsonl"  # file of shards with the pairs held out, where no dev set was named


@dataclass(frozen=True)
class CorpusAccount:
    """Numbers of pairs of a corpus that are trained on, held out, or left out for a reason."""

    corpus: str
    trained_on: int
    held_out: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Number of pairs that were read."""
        return self.trained_on + self.held_out + sum(self.left_out.values())

    def row(self) -> dict[str, Any]:
        """Return the account as it is written into model directories."""
        return {"read": self.read, **asdict(self)}


@dataclass(frozen=True)
class TrainingData:
    """Tokenizer, training pairs and dev pairs of a run, with what is to be reported of them."""

    tokenizer: Tokenizer
    encoded: EncodedPairs
    # Dev pairs of every direction of a multilingual model, otherwise of the one there is.
    dev_sets: tuple[SentencePairs, ...]
    fingerprint: str  # SHA-256 of the training text: a run resumes only with the same text
    notes: tuple[str, ...]
    accounts: tuple[CorpusAccount, ...] = ()  # one account for each corpus; stand-in data has none
    # Codes of the "source" and the "target" language, where the text says them.
    languages: dict[str, str] | None = None
    # What the sources look like; None where nobody looked at them.
    profile: SourceProfile | None = None
    # Number of pairs of the named dev sets that were found in the training text.
    dev_overlap: int = 0
    # Descriptions of the files of text that shards were made from (`describe_text_file`).
    texts: tuple[dict[str, Any], ...] = ()

    @property
    def dev(self) -> SentencePairs:
        """Dev pairs of the first direction."""
        return self.dev_sets[0]

    @property
    def dev_fingerprint(self) -> str:
        """SHA-256 of the dev text."""
        return combine_fingerprints([fingerprint_pairs(pairs) for pairs in self.dev_sets])


# A look at pairs, their sources, targets and line numbers: a sentence about what seems wrong, None
# where nothing does.
CorpusGlance = Callable[[Sequence[str], Sequence[str], Sequence[int]], str | None]


def read_data(
    run: RunConfig,
    tokenizer: Tokenizer | None = None,
    glance: CorpusGlance | None = None,
    parts: "Sequence[ShardPart]" = (),
) -> TrainingData:
    """Return the encoded pairs, the dev pairs and the tokenizer of a run.

    They come from its shards if it names some, otherwise from its text, with the same result;
    `parts` are these shards where they were read already (`read_shard_parts`). A run that is
    resumed passes its `tokenizer`; otherwise it is the initial model's, or a new one. With a
    `glance` the notes have what it says of the text of each corpus. Raises ValueError for data that
    cannot be trained on, and for shards that are not of this run.
    """
    tokenizer = tokenizer or initial_tokenizer(run)
    if run.data.shards is not None:
        return _read_shards(run, tokenizer, parts or read_shard_parts(run.data))

    corpus = read_corpus(run.data, run.seed)
    looks = []
    if glance is not None:
        for pairs in corpus.train:
            look = glance([*sentences_alone(pairs.sources)], pairs.targets, pairs.lines)
            if look:
                looks.append(look)

    if tokenizer is None:
        sources = chain.from_iterable(pairs.sources for pairs in corpus.train)
        targets = chain.from_iterable(pairs.targets for pairs in corpus.train)
        tokenizer = learn_tokenizer(sources, targets, run)

    encoded, encoding_notes, accounts = _encode_corpora(corpus, tokenizer, run.data)
    profile = profile_sample(_chain_pairs(corpus.train), sum(map(len, corpus.train)))
    return TrainingData(
        tokenizer,
        encoded,
        corpus.dev_sets,
        fingerprint=combine_fingerprints(list(map(fingerprint_pairs, corpus.train))),
        notes=(
            *corpus.notes,
            *looks,
            *tokenizer.notes,
            *encoding_notes,
            *describe_profile(profile),
        ),
        accounts=accounts,
        languages=find_languages(run.data),
        profile=profile,
        dev_overlap=corpus.overlap,
    )


def _chain_pairs(corpora: Iterable[SentencePairs]) -> Iterator[tuple[str, str]]:
    """Yield all pairs, one corpus after the other."""
    for pairs in corpora:
        yield from zip(pairs.sources, pairs.targets, strict=True)


def profile_sample(pairs: Iterable[tuple[str, str]], total: int) -> SourceProfile:
    """Count what the sources look like, in all pairs or in some, spread evenly, if they are many."""
    return profile_sources(islice(pairs, None, None, 1 + total // PROFILED_SOURCES))


def describe_profile(profile: SourceProfile) -> list[str]:
    """Return notes on sources of several sentences, and on spellings too rare to be learned."""
    notes = []
    if profile.several_sentences >= 0.001:
        count = profile.sentences_together
        what = "each sentence of a line by itself"
        if count > 1:
            what = f"up to {count} sentences of a line"
        notes.append(
            f"{profile.several_sentences:.1%} of the sources hold several sentences: the model "
            f"will translate {what} (--set sentences=keep or split changes it)"
        )

    rare = {}
    for name, count in profile.spellings.items():
        if not profile.knows_spelling(name):
            rare[name] = count
    if rare:
        commonest = sorted(rare, key=lambda name: -rare[name])[:5]
        listing = [f"{describe_character(name)} in {rare[name]:,}" for name in commonest]
        if len(rare) > 5:
            listing.append(f"and {len(rare) - 5} more")
        notes.append(
            "sources hold characters that are too rare to be learned, and are read as plain ones "
            f"when the model translates: {', '.join(listing)}"
        )
    return notes


@dataclass(frozen=True)
class _TextCorpus:
    """Training pairs by corpus, dev pairs, and notes on both for the user."""

    train: tuple[SentencePairs, ...]
    dev_sets: tuple[SentencePairs, ...]
    notes: tuple[str, ...]
    held_out: int  # number of dev pairs that were taken from the first corpus
    overlap: int  # number of pairs of the named dev sets that stand in the training text


def read_corpus(data: DataConfig, seed: int) -> _TextCorpus:
    """Read the training pairs and the dev pairs; without a dev set, `seed` draws some of the first corpus."""
    drawn = draw_dev_pairs(data, seed)
    if drawn is None:
        held_out, (dev_sets, dev_notes) = 0, read_dev_pairs(data)
    else:
        held_out = len(drawn)
        dev_sets, dev_notes = (drawn,), (note_held_out(held_out),)

    train, notes, overlap = [], [], read_overlap(data)
    for corpus in data.corpora:
        skipped = SkippedPairs()
        rows = training_pairs(corpus, data, drawn, skipped, overlap)
        train.append(SentencePairs.from_rows(rows, side_files(*corpus.files), skipped))
        notes += reading_notes(skipped)

    standing = 0
    if overlap is not None:
        notes += overlap.notes()
        standing = overlap.standing
    return _TextCorpus(tuple(train), dev_sets, (*notes, *dev_notes), held_out, standing)


def find_languages(data: DataConfig) -> dict[str, str] | None:
    """Return the codes of the languages of the training text, "source" and "target", if it says them.

    A corpus says them in its settings, in the names of its two files, or in its file of pairs,
    whose beginning is read; None where the corpora do not say the same, and where that file is
    gone, as text may be once there are shards.
    """
    found = {read_sides(corpus, data.max_characters).languages for corpus in data.corpora}
    codes = found.pop() if len(found) == 1 else None
    return {"source": codes[0], "target": codes[1]} if codes else None


def read_dev_pairs(data: DataConfig) -> tuple[tuple[SentencePairs, ...], tuple[str, ...]]:
    """Read the dev pairs of each direction, with notes on those that are left out.

    There are none where no dev set is named.
    """
    named = {}
    for corpus in data.corpora:
        if corpus.dev_files:
            named[corpus.languages] = corpus.dev_files, corpus.sides
    files_and_sides = [named[direction] for direction in data.directions]

    first = data.dev_source or data.dev
    if first is not None:
        languages = find_languages(data)
        direction = (languages["source"], languages["target"]) if languages else None
        files_and_sides.append(((first, data.dev_target), read_dev_sides(data, direction)))

    dev_sets, notes = [], []
    options = {"max_characters": data.max_characters, "context": data.context}
    for files, sides in files_and_sides:
        dev = read_pairs(*files, sides=sides, **options)
        dev_sets.append(dev)
        if dev.skipped:
            notes.append(f"left out of the dev data: {dev.skipped}")

    return tuple(dev_sets), tuple(notes)


def read_overlap(data: DataConfig) -> DevOverlap | None:
    """Return the sentences of the named dev sets, which training pairs are compared with.

    None where no dev set is named.
    """
    if not data.dev_files:
        return None
    dev_sets, _ = read_dev_pairs(data)
    directions = data.directions or [()]
    return DevOverlap(zip(directions, dev_sets, strict=True), data.allow_overlap)


def reading_notes(skipped: SkippedPairs) -> list[str]:
    """Return the notes on training pairs that were not read, and on those whose lines were joined."""
    notes = [skipped.describe("are not trained on")] if skipped else []
    return [*notes, skipped.describe_joined()] if skipped.joined else notes


def note_held_out(drawn: int) -> str:
    """Return the note on pairs that were taken out of training."""
    return (
        f"{drawn:,} pairs are kept apart to measure progress, and pairs that share a sentence with "
        "them are left out. To choose them yourself: --dev-source, --dev-target."
    )


def combine_fingerprints(fingerprints: Sequence[str]) -> str:
    """Return one SHA-256 for all corpora; a single corpus keeps its own."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.sha256(" ".join(fingerprints).encode()).hexdigest()


@dataclass(frozen=True)
class HeldOutSentences:
    """Sentences of held-out pairs; training sees none of them."""

    sources: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()

    @classmethod
    def from_pairs(cls, pairs: SentencePairs) -> "HeldOutSentences":
        """Collect both sides of the pairs."""
        return cls(frozenset(sentences_alone(pairs.sources)), frozenset(pairs.targets))

    def filter_rows(
        self,
        rows: Iterable[tuple[int, str, str]],
        file: str,
        skipped: SkippedPairs,
        held_out: Container[int] = (),
        is_range: bool = False,
    ) -> Iterator[tuple[int, str, str]]:
        """Yield the rows (line, source, target) of a file that contain none of these sentences.

        Other rows are counted in `skipped`, except for the lines that are `held_out` themselves.
        Raises ValueError, at the end, if no row remains; of a range of a file's lines none may.
        """
        remaining = 0
        for line, source, target in rows:
            # Either side: a sentence that was seen with another translation is known, too.
            if split_context(source)[1] not in self.sources and target not in self.targets:
                remaining += 1
                yield line, source, target
            elif line not in held_out:
                skipped.add(SHARED_SENTENCE, f"{file}:{line}")

        # Known only at the end: a large file is read row by row.
        if not remaining and not is_range:
            culprit = "another" if held_out else "the dev pairs"
            raise ValueError(
                f"every pair shares a sentence with {culprit}; name dev_source and dev_target"
            )


def draw_held_out(pairs: int, limit: int, seed: int) -> list[int]:
    """Draw the indices of the pairs to hold out: a tenth of all `pairs`, at most `limit`."""
    # A tenth of fewer would be a single pair.
    if pairs < 20:
        raise ValueError(
            f"{pairs} pairs are too few to train on and to measure with; give a few hundred, or "
            "files to measure with (dev_source and dev_target)"
        )
    return Random(seed).sample(range(pairs), min(limit, pairs // 10))


def draw_dev_pairs(data: DataConfig, seed: int) -> SentencePairs | None:
    """Draw the pairs of the first corpus to measure with, unless a dev set is named."""
    if data.dev_files:
        return None

    # Two passes over the file instead of all of its pairs in memory.
    first = data.corpora[0]
    files, limit = first.files, data.max_characters
    total = sum(1 for _ in read_valid_pairs(*files, limit, SkippedPairs(), first.sides))
    indices = draw_held_out(total, data.held_out, seed)

    # In the order in which they were drawn.
    drawn: dict[int, tuple[int, str, str]] = dict.fromkeys(indices, (0, "", ""))
    rows = read_valid_pairs(*files, limit, SkippedPairs(), first.sides, data.context)
    for index, row in enumerate(rows):
        if index in drawn:
            drawn[index] = row
    return SentencePairs.from_rows(drawn.values(), side_files(*first.files), SkippedPairs())


def write_held_out(run: RunConfig, dev: SentencePairs, out: Path) -> None:
    """Write the pairs that a run without a dev set holds out, without their contexts, beside its models."""
    if not run.data.dev_files:
        pairs = zip(sentences_alone(dev.sources), dev.targets, strict=True)
        save_pairs(out / HELD_OUT_FILE, pairs)


def save_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write a JSONL file of pairs, which every option for a file of pairs takes."""
    units = (Unit(i, source, target) for i, (source, target) in enumerate(pairs, start=1))
    lines = encode_jsonl(units, Sides(), lambda unit, reason: None)
    write_text_whole(path, b"".join(lines).decode())


def training_pairs(
    corpus: CorpusConfig,
    data: DataConfig,
    dev: SentencePairs | None,
    skipped: SkippedPairs,
    overlap: DevOverlap | None = None,
) -> Iterable[tuple[int, str, str]]:
    """Yield the pairs of a corpus to train on, each with its line.

    Other pairs are counted in `skipped`. `dev` are the pairs that were drawn (`draw_dev_pairs`); in
    the first corpus they themselves are not counted. Where none were drawn, the `overlap` with the
    named dev sets is left out, and counted there.
    """
    rows = read_valid_pairs(*corpus.files, data.max_characters, skipped, corpus.sides, data.context)
    # Without anybody to count for, allowed overlap needs no looking.
    if dev is None and overlap is None and not data.allow_overlap:
        overlap = read_overlap(data)
    return leave_out_dev(rows, corpus, data, dev, skipped, overlap)


def leave_out_dev(
    rows: Iterator[tuple[int, str, str]],
    corpus: CorpusConfig,
    data: DataConfig,
    dev: SentencePairs | None,
    skipped: SkippedPairs,
    overlap: DevOverlap | None,
    is_range: bool = False,
) -> Iterator[tuple[int, str, str]]:
    """Yield the rows of a corpus, or of a range of its lines, that `training_pairs` keeps."""
    file = corpus.files[0]
    if dev is None:
        if overlap is None:
            return rows
        languages = corpus.languages if data.directions else ()
        return overlap.filter_rows(rows, file, languages, skipped, is_range)

    lines = frozenset(dev.lines) if corpus == data.corpora[0] else ()
    held_out = HeldOutSentences.from_pairs(dev)
    return held_out.filter_rows(rows, file, skipped, lines, is_range)


def pair_blocks(
    corpus: CorpusConfig, data: DataConfig, dev: SentencePairs | None, size: int
) -> Iterator[SentencePairs]:
    """Yield the pairs of a corpus to train on, `size` at a time."""
    rows = iter(training_pairs(corpus, data, dev, SkippedPairs()))
    while block := list(islice(rows, size)):
        yield SentencePairs.from_rows(block, side_files(*corpus.files), SkippedPairs())


def sentences_alone(sources: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of sources without their contexts."""
    return (split_context(source)[1] for source in sources)


def list_marks(data: DataConfig) -> list[str]:
    """Return the names of the pieces that the vocabulary needs for marked terms and similar pairs."""
    return [*(TERM_MARKS if data.terms else ()), *([MEMORY_MARK] if data.memory else ())]


def learn_tokenizer(sources: Iterable[str], targets: Iterable[str], run: RunConfig) -> Tokenizer:
    """Learn the vocabulary of these sentences, or of a sample if they are many."""
    options = {
        "seed": run.seed,
        "max_sentences": TOKENIZER_SENTENCES,
        "languages": run.data.target_languages,
        "marks": list_marks(run.data),
    }
    sources, noise = sentences_alone(sources), run.data.noise
    if noise.capitals or noise.title_case:
        languages = find_languages(run.data) or {}
        sources = vary_case(sources, noise, run.seed, languages.get("source"), is_source=True)
        targets = vary_case(targets, noise, run.seed, languages.get("target"), is_source=False)

    return Tokenizer.train(sources, targets, run.tokenizer, **options)


def encode_with_note(
    pairs: SentencePairs, tokenizer: Tokenizer, limit: int
) -> tuple[EncodedPairs, tuple[str, ...]]:
    """Encode the pairs, with a note on those that have more than `limit` pieces."""
    encoded, skipped = encode_pairs(pairs, tokenizer, limit)
    return encoded, (f"left out: {skipped}",) if skipped else ()


def _encode_corpora(
    corpus: _TextCorpus, tokenizer: Tokenizer, data: DataConfig
) -> tuple[EncodedPairs, tuple[str, ...], tuple[CorpusAccount, ...]]:
    """Encode all training pairs, corpus by corpus, with notes and accounts of what was left out."""
    encoded, notes, accounts = [], [], []
    for settings, pairs in zip(data.corpora, corpus.train, strict=True):
        of_direction = data.tokenizer_of(settings.languages, tokenizer)
        encoded_corpus, skipped = encode_pairs(pairs, of_direction, data.max_pieces)
        encoded.append(encoded_corpus)
        if skipped:
            notes.append(f"left out: {skipped}")

        # Some pairs were skipped while reading, others while encoding.
        left_out = dict(pairs.skipped.counts + skipped.counts)
        # Only the first corpus has held-out pairs, and it has no account yet.
        held_out = 0 if accounts else corpus.held_out
        name = settings.display_name
        accounts.append(CorpusAccount(name, len(encoded_corpus), held_out, left_out))

    all_pairs = encoded[0] if len(encoded) == 1 else concatenate_corpora(encoded)
    all_pairs = _with_corpus_shares(all_pairs, list(map(len, encoded)), data)
    return all_pairs, tuple(notes), tuple(accounts)


def _with_corpus_shares(
    encoded: EncodedPairs, counts: Sequence[int], data: DataConfig
) -> EncodedPairs:
    """Return the pairs with the size and the weight of each corpus."""
    shares = []
    for corpus, count in zip(data.corpora, counts, strict=True):
        shares.append(CorpusShare(corpus.display_name, count, corpus.weight))
    return replace(encoded, corpora=tuple(shares))


@dataclass(frozen=True)
class ShardPart:
    """Directory of shards, its manifest, and the numbers of the run's corpora that it holds, from 1."""

    folder: Path
    manifest: dict[str, Any]
    corpora: range


def read_shard_parts(data: DataConfig) -> list[ShardPart]:
    """Read the manifests of all directories of shards that a run names, in the order of the corpora.

    There are none where it names none.

    Raises ValueError for a directory that holds no sound shards, for corpora that no directory
    holds or that two hold, and for directories that were not made with one tokenizer.
    """
    parts, total = [], len(data.corpora)
    for folder in data.shard_folders:
        manifest = read_shards_manifest(folder)
        first, last = manifest.get("part") or (1, len(manifest["corpora"]))
        parts.append(ShardPart(folder, manifest, range(first, last + 1)))

    if not parts:
        return []
    parts.sort(key=lambda part: part.corpora.start)
    if len(parts) == 1 and "part" not in parts[0].manifest:
        return parts  # other numbers of corpora are named among the settings that differ

    held = Counter(number for part in parts for number in part.corpora)
    missing, twice, other = [], [], []
    for number in range(1, max(total, *held) + 1):
        if held[number] and number > total:
            other.append(str(number))
        elif not held[number]:
            missing.append(str(number))
        elif held[number] > 1:
            twice.append(str(number))

    problems = []
    if missing:
        problems.append(f"none holds corpus {', '.join(missing)}")
    if twice:
        problems.append(f"more than one holds corpus {', '.join(twice)}")
    if other:
        problems.append(f"one holds corpus {', '.join(other)}")

    first = parts[0]
    for part in parts[1:]:
        if describe_tokenizer_files(part.manifest) != describe_tokenizer_files(first.manifest):
            problems.append(
                f"{part.folder} was cut into pieces by another tokenizer than {first.folder}"
            )
        elif part.manifest["dev"] != first.manifest["dev"]:
            problems.append(f"{part.folder} holds out other pairs than {first.folder}")
    if problems:
        raise ValueError(
            f"data.shards: {join_problems(problems)}; the run has {total} corpora, and each "
            "directory is made from the same run file with `pellucid prepare RUN.toml --corpora "
            f"FIRST-LAST --tokenizer {first.folder}`"
        )
    return parts


def describe_tokenizer_files(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return size and checksum of each file of the tokenizer of some shards."""
    files = manifest["files"]
    return {name: files[name] for name in files if name.startswith("tokenizer.")}


def _read_shards(
    run: RunConfig, tokenizer: Tokenizer | None, parts: Sequence[ShardPart]
) -> TrainingData:
    """Return the data of a run from the shards that it names, as `read_data` does.

    The ids stay on the disk until they are needed. Raises ValueError for a directory that holds no
    shards, is damaged, or was made from other text or with other settings.
    """
    for part in parts:
        _refuse_other_shards(run, tokenizer, part)

    first = parts[0]
    shards_tokenizer = Tokenizer.load(first.folder, run.tokenizer)
    if tokenizer is not None and tokenizer.contents != shards_tokenizer.contents:
        raise ValueError(
            f"{first.folder} was cut into pieces by another tokenizer than the run began with; "
            "prepare it again"
        )

    corpora, notes, mapped = list[dict[str, Any]](), list[str](), list[EncodedPairs]()
    for part in parts:
        total = sum(entry["pairs"] for entry in part.manifest["corpora"])
        mapped.append(map_shards(part.folder, total, part.manifest["types"]))
        corpora += part.manifest["corpora"]
        notes += part.manifest["notes"]

    counts = [entry["pairs"] for entry in corpora]
    encoded = _with_corpus_shares(join_mapped_pairs(mapped), counts, run.data)

    (dev_sets, dev_notes), held_out = read_dev_pairs(run.data), 0
    if dev := first.manifest["dev"]:
        dev_sets = (read_held_out(first.folder, dev),)
        held_out = len(dev["lines"])

    notes += dev_notes
    for part in parts:
        notes += _explain_other_overlap(run, part)

    accounts = []
    for corpus, entry in zip(run.data.corpora, corpora, strict=True):
        # Only the first corpus has held-out pairs, and it has no account yet.
        ours = 0 if accounts else held_out
        name, trained_on = corpus.display_name, entry["pairs"]
        accounts.append(CorpusAccount(name, trained_on, ours, entry["left_out"]))

    return TrainingData(
        shards_tokenizer,
        encoded,
        dev_sets,
        fingerprint=combine_fingerprints([entry["fingerprint"] for entry in corpora]),
        notes=tuple(dict.fromkeys(notes)),
        accounts=tuple(accounts),
        languages=find_languages(run.data) or first.manifest.get("languages"),
        profile=_join_profiles(parts),
        dev_overlap=_count_overlap(parts),
        texts=tuple(text for part in parts for text in part.manifest["texts"]),
    )


def _refuse_other_shards(run: RunConfig, tokenizer: Tokenizer | None, part: ShardPart) -> None:
    """Raise ValueError for shards that were made from other text or with other settings."""
    problems = list(_explain_other_settings(run, tokenizer, part))
    if not problems:
        files = training_files(run.data, part.corpora)
        for path, recorded in zip(files, part.manifest["texts"], strict=True):
            # A missing file is no problem: the shards hold all of its pairs.
            if path.exists() and has_changed(path, recorded):
                problems.append(f"{path} has changed since")
    if problems:
        raise ValueError(
            f"{part.folder} is not of this run: {join_problems(problems)}; run `pellucid prepare` "
            "again"
        )


def _join_profiles(parts: Sequence[ShardPart]) -> SourceProfile | None:
    """Return what the sources of all parts look like; None where older shards do not say it."""
    profiles = []
    for part in parts:
        if "sources" not in part.manifest:
            return None
        words = read_source_words(part.folder)
        profiles.append(read_source_profile(part.manifest["sources"], words))

    return SourceProfile.join(profiles)


def _count_overlap(parts: Sequence[ShardPart]) -> int:
    """Count the pairs of the named dev sets that were found in the text of any part."""
    found, most = set[int](), 0
    for part in parts:
        overlap = part.manifest.get("overlap") or {}
        # Shards of older versions, which are never parts, have the number alone.
        found.update(overlap.get("found", ()))
        most = max(most, overlap.get("dev_pairs", 0))

    return max(most, len(found))


def describe_dev_text(data: DataConfig) -> dict[str, Any] | None:
    """Return what shards depend on: the text of named dev sets, and whether overlap is allowed."""
    if not data.dev_files:
        return None
    dev_sets, _ = read_dev_pairs(data)
    fingerprint = combine_fingerprints(list(map(fingerprint_pairs, dev_sets)))
    return {"sha256": fingerprint, "allow_overlap": data.allow_overlap}


def _explain_other_overlap(run: RunConfig, part: ShardPart) -> Iterator[str]:
    """Yield a sentence where shards were made with another dev set, or `data.allow_overlap`."""
    manifest, folder = part.manifest, part.folder
    ours, recorded = describe_dev_text(run.data), manifest.get("dev_text")
    if ours is None:
        return
    if recorded is None or recorded["sha256"] != ours["sha256"]:
        yield (
            f"{folder} was not prepared with this dev set, so nobody looked whether its pairs "
            "stand in the training text, too; `pellucid prepare` again leaves them out"
        )
        return
    if recorded["allow_overlap"] == ours["allow_overlap"]:
        return

    if sharing := manifest["overlap"]["training_pairs"]:
        kept = "trained on, since" if recorded["allow_overlap"] else "left out, since"
        yield (
            f"data.allow_overlap is {str(ours['allow_overlap']).lower()}, but {sharing:,} "
            f"training pairs that share a sentence with the dev set are {kept} {folder} was "
            "prepared so; run `pellucid prepare` again to change it"
        )


def read_shards_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a directory of shards; check its SHA-256 and the size of every file."""
    if not (folder / MANIFEST).is_file():
        raise ValueError(
            f"{folder} holds no shards; make them with `pellucid prepare RUN.toml --out {folder}`"
        )

    manifest = read_json(folder / MANIFEST)
    if manifest.get("kind") != KIND or manifest.get("shards_format") != FORMAT:
        raise ValueError(
            f"{folder} holds no shards that this version can read; make them with `pellucid "
            "prepare`"
        )
    if manifest.get("sha256") != manifest_sha256(manifest):
        raise ValueError(
            f"{folder / MANIFEST} was changed after it was written; run `pellucid prepare` again"
        )

    # Sizes only; `prepare.shards_are_done` verifies every byte.
    problems = []
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            problems.append(f"{name} is missing or was cut")

    if problems:
        raise ValueError(
            f"{folder} is damaged: {join_problems(problems)}; run `pellucid prepare` again"
        )

    return manifest


def shard_settings(
    run: RunConfig, tokenizer: Tokenizer | None, numbers: range | None = None
) -> dict[str, Any]:
    """Return the settings that the ids depend on; the weights of corpora are not among them.

    Corpora that do not have one of these `numbers` do not matter.
    """
    data, noise = run.data, run.data.noise
    corpora = select_corpora(data, numbers)
    settings = {
        "seed": run.seed,
        "data.max_characters": data.max_characters,
        "data.max_pieces": data.max_pieces,
        "data.held_out": None if data.dev_files else data.held_out,
    }
    for name, value in asdict(run.tokenizer).items():
        settings[f"tokenizer.{name}"] = value
    settings["tokenizer sentences"] = TOKENIZER_SENTENCES
    if noise.capitals or noise.title_case:
        settings["capitals and titles of data.noise"] = [noise.capitals, noise.title_case]

    # The vocabulary has the same marks for any share above 0.
    if marks := list_marks(data):
        settings["marks of data.terms and data.memory"] = marks

    settings["files of each corpus"] = [len(_corpus_files(corpus)) for corpus in corpora]
    if data.context:
        settings["data.context"] = data.context
    # Shards of version 0.2 do not have this setting, and need none.
    languages = [[corpus.source_language, corpus.target_language] for corpus in corpora]
    if any(map(any, languages)):
        settings["languages of each corpus"] = languages
    if data.directions:
        settings["direction of each corpus"] = [list(corpus.languages) for corpus in corpora]

    # A tokenizer that comes from the initial model, and is not learned from the text, is such a
    # setting itself.
    if tokenizer and run.model.start:
        digest = hashlib.sha256(repr(tokenizer.contents).encode()).hexdigest()
        settings["tokenizer of model.start"] = digest[:12]
    return settings


def _explain_other_settings(
    run: RunConfig, tokenizer: Tokenizer | None, part: ShardPart
) -> Iterator[str]:
    """Yield a sentence for each setting that differs from those the shards were made with."""
    manifest = part.manifest
    ours = shard_settings(run, tokenizer, part.corpora if "part" in manifest else None)
    for name in {**ours, **manifest["settings"]}:
        value, recorded = ours.get(name), manifest["settings"].get(name)
        # The seed matters only if something was drawn with it: held-out pairs, or a sample for the
        # vocabulary.
        if recorded != value and not (name == "seed" and not manifest["drawn"]):
            yield f"{name} is {value!r}, it was made with {recorded!r}"


def _corpus_files(corpus: CorpusConfig) -> list[Path]:
    """Return the files of a corpus, one or two."""
    return [Path(file) for file in corpus.files if file is not None]


def select_corpora(data: DataConfig, numbers: range | None) -> tuple[CorpusConfig, ...]:
    """Return the corpora with these numbers, which count from 1, or all."""
    if numbers is None:
        return data.corpora
    return data.corpora[numbers.start - 1 : numbers.stop - 1]


def training_files(data: DataConfig, numbers: range | None = None) -> list[Path]:
    """Return all files of training text, corpus by corpus; with `numbers`, of these corpora alone."""
    files = []
    for corpus in select_corpora(data, numbers):
        files += _corpus_files(corpus)
    return files


def describe_text_file(path: Path) -> dict[str, Any]:
    """Return path, size, time and SHA-256 of a file of text, by which it is recognised later."""
    status = path.stat()
    return {
        "path": str(path),
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": file_sha256(path),
    }


def has_changed(path: Path, recorded: dict[str, Any]) -> bool:
    """Whether a file has other bytes than `recorded`.

    One with the same size and time is not read again.
    """
    status = path.stat()
    if status.st_size != recorded["bytes"]:
        return True
    return status.st_mtime_ns != recorded["mtime_ns"] and file_sha256(path) != recorded["sha256"]


def read_held_out(folder: Path, dev: dict[str, Any]) -> SentencePairs:
    """Read the pairs that were held out of training, with the lines they stood on."""
    # Not by `read_pairs`, which would join a source and its context.
    sources, targets = [], []
    for line in read_lines(folder / DEV_FILE):
        row = json.loads(line)
        sources.append(row["source"])
        targets.append(row["target"])
    return SentencePairs(sources, targets, dev["lines"], tuple(dev["files"]), SkippedPairs())
