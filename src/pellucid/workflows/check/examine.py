"""Examines a corpus: reads it a few times, finds every fault with its lines, and writes the text that is left."""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.links import Bools, Floats, Ints, WordStems
from pellucid.data.text.spelling import describe_character
from pellucid.store.atomic import atomic_file
from pellucid.workflows.check import corpus_faults, evidence
from pellucid.workflows.check.block_work import BlockFaults, BlockWork, Rows, WorkHere
from pellucid.workflows.check.corpus_faults import Marks
from pellucid.workflows.check.evidence import Shift
from pellucid.workflows.check.language_model import LanguageModel
from pellucid.workflows.check.packed_words import PackedWords
from pellucid.workflows.check.pair_faults import FAULTS, PAIR_CHECKS

EXAMPLES = 5  # examples of a fault that are shown
MOST_SPELLINGS = 20  # rare spellings that are named; --json has all of them
_LANGUAGE_PAIRS = 20_000  # pairs that letter trigrams are learned from


class Example(NamedTuple):
    """A pair with a fault, by its line, and the target that belongs to it where the lines have shifted."""

    line: int
    source: str
    target: str
    right_target: str | None = None


@dataclass(frozen=True)
class FaultFinding:
    """A fault that was found: in how many pairs, and the worst of them."""

    fault: str
    pairs: int
    examples: tuple[Example, ...]


@dataclass
class CorpusReport:
    """Everything that was found in a corpus."""

    pairs: int = 0
    # Findings by fault, the worst fault first.
    findings: dict[str, FaultFinding] = field(default_factory=dict)
    # Shifted blocks, and blocks of pairs that are no translations, by line number, from 1.
    blocks: list[Shift] = field(default_factory=list)
    # Characters with a plain counterpart that are rare on their side, the commonest first.
    spellings: list[corpus_faults.RareSpelling] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # sentences about what could not be judged
    # Of each fault: the pairs that have it, counted from 0 in the order of reading, and how badly.
    marks: dict[str, Marks] = field(default_factory=dict, repr=False)
    # Of units that hold no pair: how many have each reason. They
    # are among the pairs, with empty sides.
    reasons: dict[str, int] = field(default_factory=dict)
    # Characters of both sides of each pair.
    lengths: Sequence[NDArray[np.int32]] = field(default=(), repr=False)
    # Evidence of each pair for being translations, none where it could not be judged.
    logits: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    judge: evidence.Judge | None = field(default=None, repr=False)
    words: WordStems | None = field(default=None, repr=False)

    def removed_pairs(self, faults: Collection[str]) -> Bools:
        """Return whether each pair has one of these faults."""
        removed = np.zeros(self.pairs, bool)
        for fault in faults:
            if fault in self.marks:
                removed[self.marks[fault].places] = True
        return removed

    def blocks_of(self, fault: str) -> list[Shift]:
        """Return the blocks of a fault that comes in blocks, none of another."""
        if fault == "shifted":
            return [block for block in self.blocks if block.offset]
        if fault == "not_translation":
            return [block for block in self.blocks if not block.offset]
        return []

    def details_of(self, fault: str) -> list[str]:
        """Return a line for each block, rare spelling, or reason why there is no pair; none of other faults."""
        if fault == "empty":
            reasons = sorted(self.reasons.items(), key=lambda item: -item[1])
            return [f"{count:,} without a pair: {reason}" for reason, count in reasons]
        if fault == "spelling":
            return [spelling.describe() for spelling in self.spellings[:MOST_SPELLINGS]]
        return [describe_block(block) for block in self.blocks_of(fault)]

    @property
    def faulty(self) -> int:
        """Number of pairs with a fault that is taken out by default."""
        return int(self.removed_pairs(faults_removed()).sum())


def faults_removed(remove: Collection[str] = (), keep: Collection[str] = ()) -> list[str]:
    """Return the names of the faults that are taken out; raise ValueError for a name that is no fault."""
    for name in (*remove, *keep):
        if name not in FAULTS:
            raise ValueError(f"{name!r} is no fault; known: {', '.join(FAULTS)}")
    if both := set(remove) & set(keep):
        raise ValueError(f"{', '.join(sorted(both))} cannot be both removed and kept")

    removed: list[str] = []
    for name, fault in FAULTS.items():
        if name in remove or (fault.removed and name not in keep):
            removed.append(name)
    return removed


def examine_corpus(
    read: Callable[[], Rows],
    against: Iterable[str] | None = None,
    examples: int = EXAMPLES,
    score: evidence.ScorePairs | None = None,
    work: BlockWork | None = None,
) -> CorpusReport:
    """Return what is wrong with a corpus, which is read four times; `against` are sentences of test sets.

    With `score`, the scores of a model decide which pairs are no translations, and the corpus
    is read once more. `work`, which has its own scores, does elsewhere what can be done block by
    block. Raises ValueError for a corpus without pairs, for a model that cannot judge it, and for
    every fault that reading finds.
    """
    report = CorpusReport()
    work = work or WorkHere(read, score)
    held_out = None if against is None else corpus_faults.hash_held_out(against)
    first = _join_faults(work.find_faults(), report, held_out)
    if not report.pairs:
        raise ValueError("there is no pair in it")
    filled = np.ones(report.pairs, bool)
    if "empty" in report.marks:
        filled[report.marks["empty"].places] = False

    found = _find_repeated(first, filled)
    found["ratio"] = corpus_faults.find_odd_ratios(first.lengths)
    if first.leaked is not None:
        found["leaked"] = first.leaked
    report.spellings = first.spellings.find_rare(report.pairs)
    rare = corpus_faults.weigh_rare_spellings(report.spellings, report.pairs)
    found["spelling"] = Marks.from_degrees(rare)
    report.lengths = first.lengths
    _judge_pairs(report, first, found, filled)

    sample = _sample_texts(read(), report.pairs)
    if work.has_model:
        scores = work.score_pairs(report.pairs, evidence.OtherSources(sample[0]))
        found["not_translation"] = Marks.from_degrees(_judge_by_model(report, scores))
    language = LanguageModel(*sample)
    if language.tells_apart:
        found["language"] = _join_degrees(work.find_wrong_languages(language))
    else:
        report.notes.append(
            "both sides look like one language, so lines in the wrong language were not looked for"
        )

    for name, marks in found.items():
        # An empty side is one fault, and says nothing about another.
        kept = filled[marks.places]
        if kept.any():
            report.marks[name] = Marks(marks.places[kept], marks.degrees[kept])
    _find_examples(report, read(), examples)
    return report


class _FirstReading:
    """Everything kept of every pair after the first reading, about a hundred bytes for short sentences."""

    def __init__(self) -> None:
        self.repeated = corpus_faults.RepeatedPairs()
        self.words = PackedWords(), PackedWords()
        self.spellings = corpus_faults.SpellingLines()
        self.leaked: Marks | None = None
        self._characters = array("i"), array("i")

    def add_lengths(self, lengths: Ints) -> None:
        """Add the characters of both sides of the pairs of a block."""
        for kept, values in zip(self._characters, lengths, strict=True):
            kept.frombytes(values.astype(np.int32).tobytes())

    @property
    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Characters of the sources and of the targets."""
        sources, targets = self._characters
        return np.frombuffer(sources, np.int32), np.frombuffer(targets, np.int32)


def _join_faults(
    blocks: Iterable[BlockFaults], report: CorpusReport, held_out: Ints | None
) -> _FirstReading:
    """Put together the faults of single pairs, and what later questions need of each pair."""
    first, vocabulary = _FirstReading(), WordStems()
    marks: dict[str, list[Marks]] = {name: [] for name in PAIR_CHECKS}
    leaked: list[Floats] = []
    for block in blocks:
        start, size = report.pairs, block.hashes.exact.shape[1]
        filled = np.ones(size, bool)
        for name, (places, degrees) in block.marks.items():
            marks[name].append(Marks(start + places, degrees))
            if name == "empty":
                filled[places] = False

        first.repeated.add(block.hashes, filled)
        first.add_lengths(block.hashes.lengths[:2])
        first.spellings.add(start, block.spellings)
        if held_out is not None:
            leaked.append(corpus_faults.find_leaks(block.hashes, held_out))
        numbers = vocabulary.join_stems(block.stems)
        for words, block_words in zip(first.words, block.words, strict=True):
            words.append(replace(block_words, ids=numbers[block_words.ids]))

        report.pairs += size

    report.words = vocabulary
    for name, found in marks.items():
        if found:
            report.marks[name] = Marks.join(found)
    if held_out is not None:
        first.leaked = _join_degrees(leaked)
    return first


def _join_degrees(blocks: Iterable[Floats]) -> Marks:
    """Return the marks of a fault by its degrees in block after block."""
    marks, start = list[Marks](), 0
    for degrees in blocks:
        found = Marks.from_degrees(degrees)
        marks.append(Marks(start + found.places, found.degrees))
        start += len(degrees)
    return Marks.join(marks)


def _find_repeated(first: _FirstReading, filled: Bools) -> dict[str, Marks]:
    """Return the marks of repetitions, by places among all pairs."""
    places = np.flatnonzero(filled)
    found = first.repeated.find(first.lengths[0][places])
    return {name: Marks(places[marks.places], marks.degrees) for name, marks in found.items()}


def _sample_texts(rows: Rows, pairs: int) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of some pairs, evenly spread."""
    every = 1
    while -(-pairs // every) > 2 * _LANGUAGE_PAIRS:
        every *= 2

    sources, targets = list[str](), list[str]()
    for _, source, target in islice(rows, 0, None, every):
        sources.append(source)
        targets.append(target)

    return sources, targets


def _judge_pairs(
    report: CorpusReport, first: _FirstReading, found: dict[str, Marks], filled: Bools
) -> None:
    """Find shifted blocks, and pairs that are no translations; leave a note where that cannot be judged."""
    pairs = report.pairs if filled.any() else 0
    if pairs < evidence.FEWEST_PAIRS:
        report.notes.append(
            f"{pairs:,} pairs are too few to learn which words belong together (it takes "
            f"{evidence.FEWEST_PAIRS}), so shifted lines and pairs that are no translations were not looked for"
        )
        return

    sources, targets = first.words
    offsets = evidence.guess_offsets(sources.lengths, targets.lengths)
    # Repeated pairs would confirm themselves.
    is_learned = filled.copy()
    for name in ("duplicate", "boilerplate"):
        is_learned[found[name].places] = False
    i = np.flatnonzero(is_learned)
    i = i[:: max(1, -(-len(i) // evidence.MOST_PAIRS))]
    judge = evidence.Judge(sources, targets, i, i + offsets[i])
    del offsets
    if judge.separation < evidence.LEAST_SEPARATION:
        report.notes.append(
            "the words of this text do not tell its pairs from shuffled ones (too few pairs, or too many that are no "
            "translations), so shifted lines and pairs that are no translations were not looked for"
        )
        return

    report.judge, report.logits = judge, judge.weigh_all()
    wrong, shifted = np.maximum(judge.threshold - report.logits + 1e-6, 0), np.zeros(report.pairs)
    for block in evidence.find_blocks(judge, report.logits):
        lines = slice(block.first, block.last + 1)
        if block.offset:
            # The first lines of the longest blocks are the examples.
            wrong[lines], shifted[lines] = 0, 1e-3
            shifted[block.first] = block.last - block.first + 1
        else:
            # Within a block of pairs that are no translations, evidence against a pair is enough.
            wrong[lines] = np.maximum(wrong[lines], np.maximum(-report.logits[lines], 0))

        report.blocks.append(Shift(block.first + 1, block.last + 1, block.offset))
    wrong[(sources.lengths == 0) | (targets.lengths == 0)] = 0
    found["shifted"] = Marks.from_degrees(shifted)
    found["not_translation"] = Marks.from_degrees(wrong)


def _judge_by_model(report: CorpusReport, blocks: Iterable[evidence.BlockScores]) -> Floats:
    """Return how surely each pair is no translation, by the scores of a model; raise ValueError if it cannot tell."""
    logits, fit = evidence.weigh_by_model(blocks)
    if fit is None:
        raise ValueError(
            "the model can take none of these pairs: each is too long for it, or has an empty side"
        )

    if fit.better_separation < evidence.LEAST_MODEL_SEPARATION:
        raise ValueError(
            "the model hardly tells the pairs of this text from shuffled ones; it must have learned to translate such "
            "texts, from the language of the sources into that of the targets, and most pairs must be translations"
        )

    if unknown := int(np.isnan(logits).sum()):
        report.notes.append(
            f"whether {unknown:,} of the pairs are translations, which are too long for the model or have an empty side"
        )

    wrong = np.where(logits <= fit.threshold, fit.threshold - logits + 1e-6, 0)
    for block in report.blocks:
        lines = slice(block.first - 1, block.last)
        # Shifted lines have a fault of their own; in a block of wrong
        # pairs, evidence against a pair is enough.
        wrong[lines] = 0 if block.offset else np.where(logits[lines] < 0, -logits[lines], 0)
    return wrong


def _find_examples(report: CorpusReport, rows: Rows, examples: int) -> None:
    """Read once more, to keep the worst pairs of each fault as text."""
    offsets = {block.first - 1: block.offset for block in report.blocks if block.offset}
    wanted = {index + offset for index, offset in offsets.items()}
    worst: dict[str, list[int]] = {}
    for name, (indices, degrees) in report.marks.items():
        worst[name] = indices[np.argsort(-degrees, kind="stable")[:examples]].tolist()
        wanted.update(worst[name])
    texts = {index: row for index, row in enumerate(rows) if index in wanted}

    for name in FAULTS:
        if name not in worst:
            continue
        found: list[Example] = []
        for index in worst[name]:
            right = None
            if name == "shifted" and index in offsets:
                right = texts.get(index + offsets[index])
            found.append(Example(*texts[index], right[2] if right else None))
        report.findings[name] = FaultFinding(name, len(report.marks[name].places), tuple(found))


def write_fixed(
    report: CorpusReport, rows: Rows, prefix: str, faults: Sequence[str]
) -> tuple[int, int]:
    """Write the pairs without these faults to PREFIX.source and PREFIX.target, and the others to PREFIX.removed.tsv.

    Each row of the latter has the line, its faults, the source and the target.
    No line is ever moved: a pair is kept as it is or taken out as a whole.
    Returns the numbers of pairs kept and removed.
    """
    removed, faults_of = report.removed_pairs(faults), dict[int, list[str]]()
    for name in faults:
        for index in report.marks[name].places.tolist() if name in report.marks else ():
            faults_of.setdefault(index, []).append(name)
    kept = 0
    with (
        atomic_file(Path(f"{prefix}.source")) as write_source,
        atomic_file(Path(f"{prefix}.target")) as write_target,
        atomic_file(Path(f"{prefix}.removed.tsv")) as write_removed,
    ):
        for index, (line, source, target) in enumerate(rows):
            if index >= report.pairs:
                raise ValueError("the text has changed while it was checked; run the command again")
            if removed[index]:
                cells = (
                    str(line),
                    ",".join(faults_of[index]),
                    *(text.replace("\t", " ") for text in (source, target)),
                )
                write_removed(("\t".join(cells) + "\n").encode())
            else:
                kept += 1
                write_source(f"{source}\n".encode())
                write_target(f"{target}\n".encode())

        if kept + int(removed.sum()) != report.pairs:
            raise ValueError("the text has changed while it was checked; run the command again")
    return kept, report.pairs - kept


def describe_block(block: Shift) -> str:
    """Return a block, by line numbers, in words.

    >>> describe_block(Shift(1201, 2404, 1))
    'lines 1,201 to 2,404: the target is 1 line late'
    """
    lines = f"lines {block.first:,} to {block.last:,}"
    if not block.offset:
        return f"{lines}: most pairs are no translations of each other"
    count, direction = abs(block.offset), "late" if block.offset > 0 else "early"
    return f"{lines}: the target is {count} line{'s' if count > 1 else ''} {direction}"


def report_as_object(report: CorpusReport, files: Sequence[str]) -> dict[str, object]:
    """Return the report as an object for JSON."""
    faults: list[dict[str, object]] = []
    for name, finding in report.findings.items():
        examples: list[dict[str, object]] = []
        for example in finding.examples:
            fields = example._asdict().items()
            examples.append({key: value for key, value in fields if value is not None})
        fault = {
            "fault": name,
            "title": FAULTS[name].title,
            "pairs": finding.pairs,
            "share": finding.pairs / report.pairs,
            "means": FAULTS[name].means,
            "costs": FAULTS[name].costs,
            "option": removing_option(name),
            "examples": examples,
        }
        faults.append(fault)

    shifts: list[dict[str, int]] = []
    for block in report.blocks_of("shifted"):
        lines = {"first_line": block.first, "last_line": block.last}
        shifts.append({**lines, "offset": block.offset})
    blocks: list[dict[str, int]] = []
    for block in report.blocks_of("not_translation"):
        blocks.append({"first_line": block.first, "last_line": block.last})

    spellings: list[dict[str, object]] = []
    for spelling in report.spellings:
        row = {
            "side": spelling.side,
            "character": spelling.character,
            "name": describe_character(spelling.character),
            "plain": spelling.plain,
            "lines": len(spelling.pairs),
        }
        spellings.append(row)

    return {
        "files": list(files),
        "pairs": report.pairs,
        "faulty": report.faulty,
        "faults": faults,
        "shifts": shifts,
        "blocks": blocks,
        "spellings": spellings,
        "no_pair": report.reasons,
        "not_judged": report.notes,
    }


def removing_option(fault: str) -> str:
    """Return the option that takes pairs with this fault out."""
    return "--fix PREFIX" if FAULTS[fault].removed else f"--fix PREFIX --remove {fault}"


# Windows, evenly spaced, and lines in each: shifts show among neighbours only.
_WINDOWS, _LINES = 125, 40
_LEAST_SHARE = 0.01  # share of pairs with a fault from which it is worth a line
_MOST_BLOCKS = 3  # blocks that are named in the line


def glance_at_corpus(
    sources: Sequence[str], targets: Sequence[str], lines: Sequence[int]
) -> str | None:
    """Return one line about what looks wrong with pairs, None where nothing does; `lines` are their line numbers.

    It looks at 5,000 pairs at most, so the numbers are estimates. It sees shifted
    blocks of a few hundred lines, pairs that are no translations, and faults of
    single pairs that `pellucid check --fix` takes out.
    """
    pairs = len(sources)
    starts = np.linspace(0, max(0, pairs - _LINES), _WINDOWS).astype(np.int64)
    windows = (starts[:, None] + np.arange(_LINES)).clip(max=pairs - 1)
    chosen: list[int] = np.unique(windows).tolist()
    some_sources, some_targets = [sources[i] for i in chosen], [targets[i] for i in chosen]

    wrong: dict[str, np.ndarray] = {}
    for name, check in PAIR_CHECKS.items():
        if FAULTS[name].removed:
            wrong[name] = np.array(list(map(check, some_sources, some_targets))) > 0

    blocks: list[Shift] = []
    if pairs >= evidence.FEWEST_PAIRS:
        words, places = WordStems(), np.arange(len(chosen))
        a, b = words.encode(some_sources), words.encode(some_targets)
        judge = evidence.Judge(a, b, places, places + evidence.guess_offsets(a.lengths, b.lengths))
        if judge.separation >= evidence.LEAST_SEPARATION:
            logits = judge.weigh(places, places)
            blocks = evidence.find_blocks(judge, logits)
            wrong["not_translation"] = logits <= judge.threshold
            wrong["shifted"] = np.zeros(len(chosen), bool)
        for block in blocks:
            wrong["shifted"][block.first : block.last + 1] = bool(block.offset)
            wrong["not_translation"][block.first : block.last + 1] = not block.offset

    bad = np.logical_or.reduce(list(wrong.values()))
    if not blocks and bad.mean() < _LEAST_SHARE:
        return None
    reasons: list[str] = []
    for block in [block for block in blocks if block.offset][:_MOST_BLOCKS]:
        named = Shift(lines[chosen[block.first]], lines[chosen[block.last]], block.offset)
        reasons.append(f"about {describe_block(named)}")
    for name, marks in sorted(wrong.items(), key=lambda item: -item[1].mean()):
        if name != "shifted" and marks.mean() >= _LEAST_SHARE / 2:
            reasons.append(f"{FAULTS[name].title} in {marks.mean():.1%}")

    about = f"about {round(bad.mean() * pairs):,} of {pairs:,} pairs look wrong"
    details = f" ({'; '.join(reasons)})" if reasons else ""
    return f"check: {about}{details}; `pellucid check` names them"
