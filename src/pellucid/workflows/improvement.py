"""Improvement of a model by corrections: they are trained on together with old text, and the result must be better."""

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from pellucid.data.batching import EncodedPairs, id_type, pack_sentences
from pellucid.data.corpus import SentencePairs, SkippedPairs, describe_place, read_valid_units
from pellucid.data.formats import find_pair_format
from pellucid.data.formats.tables import list_side_names, read_tsv
from pellucid.data.formats.units import Sides, Unit, languages_in_name
from pellucid.data.lines import read_lines
from pellucid.data.source_profile import load_source_profile, write_source_words
from pellucid.data.tokenizer import sample_lines
from pellucid.evaluate.comparison import (
    FEWEST_SENTENCES,
    Comparison,
    compare_translations,
    plain_words,
)
from pellucid.evaluate.reference import REFERENCE_FILE, ReferenceLine, encode_reference
from pellucid.store.atomic import MANIFEST, join_problems
from pellucid.store.directory import Bundle, add_files, load_bundle, save_bundle
from pellucid.training.checkpoint import average_weights
from pellucid.training.config import CorpusConfig, DataConfig, RunConfig, read_run
from pellucid.training.data import (
    draw_dev_pairs,
    read_dev_pairs,
    save_pairs,
    training_files,
    training_pairs,
)
from pellucid.training.state_store import open_state_store, store_directory, teacher_forced_states
from pellucid.workflows.check.pair_faults import FAULTS, PAIR_CHECKS

# File of a model directory that says what it learned from which correction, a line of JSON each.
CORRECTIONS = "corrections.jsonl"
# Of so many corrections or more, some are held out; a fifth of fewer would be a single one.
_FEWEST_CORRECTIONS = 10
_OLD_PAIRS = 20_000  # most pairs of the old text that are mixed in
_NEAR_PAIRS = 8  # most training pairs that are looked up for each correction
# Parts of the old and of the trained weights in the models that are
# tried; the first of them forgets least.
WEIGHT_PARTS = ((1, 1), (1, 3), (0, 1))
# Share of the held-out corrections that a model must have right for no other to be tried.
ENOUGH_RIGHT = 0.75

_MOST_DEV_PAIRS = 2000
_MOST_CHARACTERS = DataConfig.max_characters

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Correction:
    """A sentence with the translation that somebody found wrong, if it is known, and the right one."""

    number: int  # line of the file, or unit of a file of units
    source: str
    wrong: str | None
    right: str
    held_out: bool

    def is_met(self, text: str, before: str) -> bool:
        """Whether a translation has what was corrected: each word put in, and none taken out, as often as it is right.

        The words are those in which the right translation differs from the wrong one,
        or from the translation of the model `before`; where only order, case or
        punctuation differ, the text must be the right one.
        """
        put_in, taken_out = _word_changes(self.wrong or before, self.right)
        if not put_in and not taken_out:
            return text == self.right
        written, right = Counter(plain_words(text)), Counter(plain_words(self.right))
        has_new = all(written[word] >= right[word] for word in put_in)
        return has_new and all(written[word] <= right[word] for word in taken_out)


def _word_changes(before: str, after: str) -> tuple[Counter[str], Counter[str]]:
    """Return the words that a change of a translation puts in, and those that it takes out."""
    old, new = Counter(plain_words(before)), Counter(plain_words(after))
    return new - old, old - new


def read_corrections(
    path: str, sides: Sides, seed: int, languages: tuple[str, str] | None = None
) -> tuple[list[Correction], list[str]]:
    """Read corrections from a TSV of three columns (source, wrong, right) or any file of pairs (source, right).

    Of several for one sentence the last counts. A fifth, drawn by the seed, is held out. Of a file
    in JSONL those are read that have the model's `languages`, unless `sides` names others. Returns
    notes on what was left out or looks wrong, too. Raises ValueError with file and line for a file
    that cannot be read, or does not say its languages.
    """
    pair_format, wrong = find_pair_format(path), dict[int, str]()
    if pair_format and "tsv" in pair_format.endings:
        first = next(iter(read_lines(path)), "").split("\t")
        if len(first) == 3 and sides.source is sides.target is None:
            wrong = {unit.number: unit.target for unit in read_tsv(path, Sides("1", "2"))}
            sides = Sides("1", "3")
        elif len(first) == 2 and not _says_languages(path, first, sides):
            # Servers of older versions put the corrections of all
            # their directions into one such file.
            source, target = languages or ("en", "es")
            raise ValueError(
                f"{path} has two columns and does not say in which languages; if all of its lines are {source} to "
                f"{target}, give --from {source} --to {target}, or write that as its first line, with a tab between"
            )
    elif (
        pair_format
        and "jsonl" in pair_format.endings
        and languages
        and sides.source is sides.target is None
    ):
        sides = Sides(*languages)

    skipped = SkippedPairs()
    units: dict[str, Unit] = {}
    for unit in read_valid_units(path, None, _MOST_CHARACTERS, skipped, sides):
        # Not the words over the columns, if there are some.
        if (unit.source.lower(), unit.target.lower()) != ("source", "right"):
            units[unit.source] = unit

    if not units:
        raise ValueError(
            f"{path} has no correction below its header; a line is: source, wrong, right, with tabs"
        )

    notes = [f"left out of the corrections: {skipped}"] if skipped else []
    chosen = sorted(units.values(), key=lambda unit: unit.number)
    for unit in chosen:
        for name, check in PAIR_CHECKS.items():
            if FAULTS[name].removed and check(unit.source, unit.target) > 0:
                place = describe_place(path, unit.number, unit.line)
                notes.append(f"{place} looks wrong: {FAULTS[name].title}")

    count = len(chosen) // 5 if len(chosen) >= _FEWEST_CORRECTIONS else 0
    held_out = set(Random(seed).sample(range(len(chosen)), count))
    if not count:
        notes.append(
            f"{len(chosen)} corrections are too few to hold some out ({_FEWEST_CORRECTIONS} are enough): only the dev "
            "set and --keep decide"
        )

    corrections: list[Correction] = []
    for i, unit in enumerate(chosen):
        wrong_text, is_held_out = wrong.get(unit.number), i in held_out
        correction = Correction(unit.number, unit.source, wrong_text, unit.target, is_held_out)
        corrections.append(correction)
    return corrections, notes


def _says_languages(path: str, first: Sequence[str], sides: Sides) -> bool:
    """Whether it is known of a TSV of two columns in which languages they are: asked for, a header, or its name."""
    return bool(
        sides.source
        or sides.target
        or len(set(list_side_names(first, sides))) == 2
        or languages_in_name(path)
    )


def leave_out(
    corrections: Sequence[Correction], numbers: Collection[int], path: str
) -> list[Correction]:
    """Return the corrections except the ones with these numbers; ValueError for a number that no correction has."""
    if unknown := set(numbers) - {correction.number for correction in corrections}:
        raise ValueError(
            f"--without {min(unknown)}: {path} has no correction with that number; it is that of its line"
        )
    return [correction for correction in corrections if correction.number not in numbers]


def find_old_runs(model: Path) -> list[RunConfig]:
    """Return the run that trained a model, and those that it goes back to; ValueError where their text is gone."""
    runs, start = list[RunConfig](), str(model)
    while start and (run_file := Path(start).resolve().parent / "run.toml").is_file():
        runs.append(read_run(run_file, began=run_file.parent))
        start = runs[-1].model.start or ""
    gone = [str(path) for run in runs for path in training_files(run.data) if not path.is_file()]
    if gone or not runs:
        reason = f"{Path(model).resolve().parent} has no run.toml"
        if gone:
            reason = f"{join_problems(gone)} is gone"
        raise ValueError(
            f"the text that {model} was trained on is not found ({reason}), and without old text a model forgets; give "
            "that text, or some of its kind: --source FILE --target FILE"
        )

    return runs


def dev_pairs_of(run: RunConfig) -> SentencePairs:
    """Return the dev pairs of a run, those it named or those it held out, and not more than 2000 of them."""
    run = replace(run, data=replace(run.data, context=0))  # the callers translate single sentences
    dev = draw_dev_pairs(run.data, run.seed) or read_dev_pairs(run.data)[0][0]
    rows = slice(None, None, -(-len(dev) // _MOST_DEV_PAIRS))
    return replace(dev, sources=dev.sources[rows], targets=dev.targets[rows], lines=dev.lines[rows])


def sample_old_text(
    runs: Sequence[RunConfig], without: Collection[str], seed: int
) -> list[tuple[str, str]]:
    """Draw pairs of the training text of the runs, none with a source `without` which it is to be."""

    def read_old_text() -> Iterator[tuple[str, str]]:
        for run in runs:
            dev = draw_dev_pairs(run.data, run.seed)
            for corpus in run.data.corpora:
                for _, source, target in training_pairs(corpus, run.data, dev, SkippedPairs()):
                    # Old text may translate such a sentence in the wrong way.
                    if source not in without:
                        yield source, target

    return sample_lines(read_old_text(), _OLD_PAIRS, seed)


def find_near_pairs(
    bundle: Bundle, corrections: Sequence[Correction], before: Mapping[str, str]
) -> list[list[tuple[str, str, str]]]:
    """Return for each correction the training pairs that did what is right in the most similar situation.

    The situation is the decoder's state where the right translation departs from the one
    `before`, and what is right the token it writes there. A pair is its place, source and
    target. Without a store of states there are none.
    """
    if not (store_directory(bundle.directory) / MANIFEST).is_file():
        return [[] for _ in corrections]
    store, tokenizer = open_state_store(bundle.directory, bundle.manifest), bundle.tokenizer
    sources = tokenizer.encode_source([correction.source for correction in corrections])
    rights = tokenizer.encode_target([correction.right for correction in corrections])
    wrong_texts = [correction.wrong or before[correction.source] for correction in corrections]
    wrongs = tokenizer.encode_target(wrong_texts)
    limit, found = bundle.config.max_positions, []
    for correction, source, right, wrong in zip(corrections, sources, rights, wrongs, strict=True):
        differs = (i for i, (a, b) in enumerate(zip_longest(right, wrong)) if a != b)
        place = next(differs, len(right))
        if place >= len(right) or max(len(source), len(right)) > limit:
            found.append([])
            continue
        types = id_type(tokenizer.source_vocabulary), id_type(tokenizer.target_vocabulary)
        pair = EncodedPairs(pack_sentences([source], types[0]), pack_sentences([right], types[1]))
        state = teacher_forced_states(bundle.model, pair)[place].numpy()
        nearest, _ = store.find_nearest(state, right[place], _NEAR_PAIRS)
        numbers = store.pair_of(nearest.positions).tolist()

        near = []
        for number in dict.fromkeys(numbers):
            text = tokenizer.decode_source(store.pairs.sources[number].tolist())
            files, line = store.place_of(number)
            if text != correction.source:
                target = tokenizer.decode_target(store.pairs.targets[number].tolist())
                near.append((f"{files[0]}:{line}", text, target))

        found.append(near)
    return found


def write_mixture(
    folder: Path, corrections: Pairs, near: Pairs, keep: Pairs, old: Pairs, dev: SentencePairs
) -> dict[str, Any]:
    """Write what is trained on and the dev pairs as files of pairs; return the settings of [data] that name them.

    A quarter of what an epoch shows are corrections, a quarter the pairs
    near them and those to keep, half is old text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"corrections": corrections, "near": [*near, *keep], "old": old}
    corpora = []
    for name, pairs in parts.items():
        if not pairs:
            continue
        # Larger weights are refused; one correction among 20,000 old pairs
        # is then shown a thousand times an epoch.
        weight = 1.0 if name == "old" else min(1000.0, max(1.0, len(old) / 2 / len(pairs)))
        path = folder / f"{name}.jsonl"
        save_pairs(path, pairs)
        corpora.append(CorpusConfig(pairs=str(path.resolve()), name=name, weight=weight))

    dev_path = folder / "dev.jsonl"
    save_pairs(dev_path, zip(dev.sources, dev.targets, strict=True))
    dev_file = str(dev_path.resolve())
    return {
        "train": None,
        "dev_source": None,
        "dev_target": None,
        "corpus": tuple(corpora),
        "dev": dev_file,
    }


@dataclass(frozen=True)
class Changes:
    """Translations before and after: of the sentences that were corrected, of dev, and of those that must stay."""

    corrections: Sequence[Correction]
    before: Mapping[str, str]
    after: Mapping[str, str]
    dev_sources: Sequence[str]
    references: Sequence[str]
    keep: Sequence[str] = ()
    lowercase: bool = False

    @cached_property
    def asked_for(self) -> frozenset[str]:
        """Sources of dev whose translation changed as a correction asked: it puts in and takes out the same words.

        The references were written before anybody asked for it, and would call it worse.
        """
        asked: list[tuple[Counter[str], Counter[str]]] = []
        for correction in self.corrections:
            wrong = correction.wrong or self.before[correction.source]
            put_in, taken_out = _word_changes(wrong, correction.right)
            if put_in and taken_out:
                asked.append((put_in, taken_out))

        sources: set[str] = set()
        for source in self.dev_sources:
            new, old = _word_changes(self.before[source], self.after[source])
            if any(put_in <= new and taken_out <= old for put_in, taken_out in asked):
                sources.add(source)
        return frozenset(sources)

    @cached_property
    def comparison(self) -> Comparison:
        """Comparison of the translations of dev before (A) and after (B), without those that were asked for.

        Where all were asked for, all are compared: something must be left to notice a loss by.
        """
        left_out = frozenset() if self.asked_for.issuperset(self.dev_sources) else self.asked_for
        sources: list[str] = []
        references: list[str] = []
        for source, reference in zip(self.dev_sources, self.references, strict=True):
            if source not in left_out:
                sources.append(source)
                references.append(reference)

        before = [self.before[source] for source in sources]
        after = [self.after[source] for source in sources]
        return compare_translations(before, after, references, sources, lowercase=self.lowercase)

    def count_met(self, texts: Mapping[str, str], held_out: bool) -> tuple[int, int]:
        """Return how many corrections are met by these translations, of how many."""
        chosen = [one for one in self.corrections if one.held_out == held_out]
        met = [one.is_met(texts[one.source], self.before[one.source]) for one in chosen]
        return sum(met), len(met)

    def find_objections(self) -> list[str]:
        """Return why the new model is not to be kept; nothing where it is."""
        objections: list[str] = []
        before, count = self.count_met(self.before, held_out=True)
        after, _ = self.count_met(self.after, held_out=True)
        if count and after <= before:
            objections.append(
                f"of {count} corrections held out it has {after} right, the old model {before}"
            )

        for name in ("bleu", "chrf"):
            score = self.comparison.scores[name]
            if score.better == "A":
                loss = f"{score.title} on dev is lower by {-score.difference.score:.2f}"
                objections.append(f"{loss}, which is more than chance")

        if lost := [source for source in self.keep if self.before[source] != self.after[source]]:
            objections.append(
                f"{len(lost)} of {len(self.keep)} sentences that must stay are translated otherwise"
            )
        return objections

    def report_lines(self) -> Iterator[str]:
        """Yield what changed, in a few lines."""
        for held_out, name in ((False, "trained on"), (True, "held out")):
            before, count = self.count_met(self.before, held_out)
            after, _ = self.count_met(self.after, held_out)
            if count:
                yield f"corrections {name}: {before} of {count} were right, {after} are"

        dev = self.comparison
        yield (
            f"dev: {len(self.asked_for)} sentences changed as was asked for; of the {dev.sentences:,} that "
            f"are compared, {dev.sentences - dev.identical:,} changed (A is the old model, B the new)"
        )
        for score in (dev.scores["bleu"], dev.scores["chrf"]):
            yield f"dev: {score.title} was {score.a.score:.2f}, is {score.b.score:.2f}: {score.verdict}"
        if dev.sentences < FEWEST_SENTENCES:
            yield f"dev has less than {FEWEST_SENTENCES} sentences: too few to notice a loss"
        if self.keep:
            stayed = sum(self.before[source] == self.after[source] for source in self.keep)
            yield f"to be kept: {stayed} of {len(self.keep)} are translated as before"

    def changed_rows(self) -> Iterator[str]:
        """Yield a line of TSV for each sentence of dev and of the list that changed: set, number, source and both.

        The set is "dev", "asked" for sentences of dev that changed as was asked for, or "keep".
        """
        for name, sources in (("dev", self.dev_sources), ("keep", self.keep)):
            for number, source in enumerate(sources, start=1):
                if self.before[source] != self.after[source]:
                    kind = "asked" if name == "dev" and source in self.asked_for else name
                    cells = (kind, str(number), source, self.before[source], self.after[source])
                    yield "\t".join(" ".join(cell.split()) for cell in cells) + "\n"


def save_mixed_weights(old: Path, trained: Path, parts: tuple[int, int], out: Path) -> None:
    """Write the model whose weights are a mean of the old and the trained ones, in these parts.

    It keeps nearly all that was learned and forgets much less than
    the trained one (Wortsman et al. 2022).
    """
    bundle = load_bundle(trained)
    average_weights([old] * parts[0] + [trained] * parts[1], into=bundle.model)

    # Not the scores on dev and the reference, which belong to the model that was trained.
    facts = (
        "data",
        "pairs",
        "step",
        "longest_source",
        "start",
        "languages",
        "sources",
        "terms",
        "memory",
    )
    about = {name: bundle.manifest[name] for name in facts if name in bundle.manifest}
    profile = load_source_profile(bundle.directory, bundle.manifest)

    def write_words(folder: Path) -> None:
        if profile is not None:
            write_source_words(folder, profile)

    save_bundle(out, bundle.model, bundle.tokenizer, also=write_words, **about)


def save_improved(
    new: Path,
    out: Path,
    changes: Changes,
    near: Mapping[int, Sequence[str]],
    reference: Sequence[ReferenceLine],
    search: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Move the new model to `out`, with its reference and a file that says what it learned from which correction.

    `search` has the settings of the search that wrote the reference.
    """
    text = ""
    for correction in changes.corrections:
        before, after = changes.before[correction.source], changes.after[correction.source]
        row = asdict(correction) | {
            "before": before,
            "after": after,
            "right_after": correction.is_met(after, before),
            "near": near.get(correction.number, []),
        }
        text += json.dumps(row, ensure_ascii=False) + "\n"

    files = {REFERENCE_FILE: encode_reference(reference), CORRECTIONS: text}
    add_files(new, files, out, reference={"lines": len(reference), **search}, improved=dict(about))
    shutil.rmtree(new)
