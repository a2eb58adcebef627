"""Measure whether several sentences in one line are translated as each of them alone, with no sentence lost.

    python -m benchmarks.joined                              # runs/demo/best; writes benchmarks/results/joined.md
    python -m benchmarks.joined runs/multi30k/best runs/tatoeba/best --sentences 300

Each model translates those of the texts that are in its two languages: the demo's, and those of PELLUCID_DATA.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.quality import RESULTS, machine
from pellucid.data.text.sentences import count_sentences, sentence_ends
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.translation import Translation

COLUMNS = (
    *("model", "text", "joined with", "lines", "sure", "equal"),
    *("BLEU joined", "BLEU alone", "BLEU together", "ends lost", "noted"),
)
SEPARATORS = {"space": " ", "no-break space": "\u00a0", "two spaces": "  "}
MOST_SENTENCES = 8

Sentences = Literal["auto", "keep"]
Translate = Callable[[Sequence[str], Sentences], Sequence[Translation]]
"""Translates lines, with the search option `sentences`."""


@dataclass(frozen=True)
class Text:
    """Sentences with their translations, one a line, in files of PELLUCID_DATA or of the demo."""

    title: str
    languages: tuple[str, str]
    source: str
    target: str
    is_of_demo: bool = False

    @property
    def folder(self) -> Path:
        """Folder of both files."""
        return Path("" if self.is_of_demo else os.environ.get("PELLUCID_DATA", ""))

    @property
    def is_there(self) -> bool:
        """Whether both files can be read."""
        return (self.folder / self.source).is_file() and (self.folder / self.target).is_file()


TEXTS = (
    Text("phrasebook", ("en", "es"), "runs/demo/data/test.en", "runs/demo/data/test.es", is_of_demo=True),
    Text("Tatoeba", ("en", "es"), "tatoeba_en-es/test.en.gz", "tatoeba_en-es/test.es.gz"),
    Text("Tatoeba", ("en", "de"), "tatoeba_en-de/test.en.gz", "tatoeba_en-de/test.de.gz"),
    Text("Multi30k", ("en", "de"), "multi30k/test_2016_flickr.en.gz", "multi30k/test_2016_flickr.de.gz"),
    Text("Multi30k", ("en", "fr"), "multi30k/test_2016_flickr.en.gz", "multi30k/test_2016_flickr.fr.gz"),
    Text("TED", ("en", "de"), "ted_de-en/TED.tst2014.en.gz", "ted_de-en/TED.tst2014.de.gz"),
    Text("TED", ("de", "en"), "ted_de-en/TED.tst2014.de.gz", "ted_de-en/TED.tst2014.en.gz"),
)


class JoinedLine(NamedTuple):
    """Sentences in one line, which begin with sentence number `first` of their text."""

    first: int
    sentences: tuple[str, ...]
    text: str


@dataclass
class Row:
    """Numbers about one text, joined by one separator and translated by one model.

    `joined` are the translations of the joined lines, `alone` those of their sentences, joined again, and `kept` those
    of the lines when the model reads all sentences together.
    """

    lines: int = 0
    sure: int = 0
    equal: int = 0
    ends_lost: int = 0
    ends_noted: int = 0
    bleu_joined: float = 0.0
    bleu_alone: float = 0.0
    bleu_kept: float = 0.0
    different: tuple[tuple[str, str, str], ...] = ()
    """Of lines that are sure: the line, its translation, and the one that was expected."""


def main() -> None:
    """Measure all models and write the page; exit code 1 where a text differs that must not."""
    options = parse_options(sys.argv[1:])
    import pellucid

    rows: dict[tuple[str, str, str], Row] = {}
    for directory in options.models:
        model = pellucid.load(directory)
        languages = model.manifest.get("languages", {})
        for text in TEXTS:
            if text.languages != (languages.get("source"), languages.get("target")) or not text.is_there:
                continue
            pairs = read_sentence_pairs(text, options.sentences)

            def translate(
                lines: Sequence[str], sentences: Sentences, model: pellucid.Model = model
            ) -> list[Translation]:
                return model.translate(list(lines), sentences=sentences, scores=False)

            for name, row in measure_text(translate, model.translator.reader, pairs):
                rows[directory, f"{text.title} {'-'.join(text.languages)}", name] = row
                print(f"{directory}, {text.title}, {name}: {row.equal} of {row.sure} equal", file=sys.stderr)
            # After each text: on a busy machine somebody may lose patience.
            options.out.write_text("\n".join(page_lines(options.sentences, rows)) + "\n", encoding="utf-8")
    if not rows:
        names = ", ".join(options.models)
        raise SystemExit(f"none of the texts is in the languages of {names}; most of them need PELLUCID_DATA")
    print(options.out.read_text(encoding="utf-8"))
    sys.exit(has_broken_promise(rows.values()))


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joined")
    parser.add_argument("models", nargs="*", default=["runs/demo/best"], help="model directories")
    parser.add_argument("--sentences", type=int, default=720, help="how many of each text; 36 make eight lines")
    parser.add_argument("--out", type=Path, default=RESULTS / "joined.md", help="the page to write")
    return parser.parse_args(arguments)


def read_sentence_pairs(text: Text, count: int) -> list[tuple[str, str]]:
    """Return the first pairs of a text that have two sides."""
    from pellucid.data.corpus import read_lines

    sides = zip(read_lines(text.folder / text.source), read_lines(text.folder / text.target), strict=True)
    return list(islice(((source, target) for source, target in sides if source.strip() and target.strip()), count))


def join_sentences(sentences: Sequence[str], separator: str) -> list[JoinedLine]:
    """Join sentences to lines of one, two, ... up to eight sentences, and then of one again.

    >>> [line.text for line in join_sentences("ABCD", "+")]
    ['A', 'B+C', 'D']
    """
    lines: list[JoinedLine] = []
    first = 0
    while first < len(sentences):
        count = 1 + len(lines) % MOST_SENTENCES
        chosen = tuple(sentences[first : first + count])
        lines.append(JoinedLine(first, chosen, separator.join(chosen)))
        first += count
    return lines


def is_cut_at_joints(line: JoinedLine, separator: str) -> bool:
    """Whether each sentence is one by the rule, and the joined line ends sentences at the joints and nowhere else.

    >>> is_cut_at_joints(JoinedLine(0, ("We go.", "Do you?"), "We go. Do you?"), " ")
    True
    >>> is_cut_at_joints(JoinedLine(0, ("By Dr.", "Bee."), "By Dr. Bee."), " ")
    False
    """
    if any(count_sentences(sentence) != 1 for sentence in line.sentences):
        return False
    # The white space at a joint may stand before the end of a sentence or behind it.
    starts = [0, *accumulate(len(sentence) + len(separator) for sentence in line.sentences)]
    joints = [len(line.text[:start].rstrip()) for start in starts[1:-1]]
    ends = [len(line.text[:end].rstrip()) for end in sentence_ends(line.text, 0, len(line.text))]
    return ends[:-1] == joints


def is_read_alone(line: JoinedLine, reader: SourceReader) -> bool:
    """Whether the model reads each sentence of a line by itself, as its profile has it learned."""
    return reader.sentences_together == 1 or not any(map(reader.continues, line.sentences[1:]))


def measure_text(
    translate: Translate, reader: SourceReader, pairs: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, Row]]:
    """Yield for each separator how the joined sentences of a text are translated."""
    from pellucid.evaluate.scores import corpus_scores

    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    alone = [translation.text for translation in translate(sources, "auto")]
    for name, separator in SEPARATORS.items():
        lines = join_sentences(sources, separator)
        texts = [line.text for line in lines]
        joined, kept = translate(texts, "auto"), translate(texts, "keep")
        expected = [separator.join(alone[line.first : line.first + len(line.sentences)]) for line in lines]
        references = [" ".join(targets[line.first : line.first + len(line.sentences)]) for line in lines]

        row = Row(len(lines))
        different: list[tuple[str, str, str]] = []
        for line, translation, text in zip(lines, joined, expected, strict=True):
            if is_cut_at_joints(line, separator) and is_read_alone(line, reader):
                row.sure += 1
                row.equal += translation.text == text
                different += [(line.text, translation.text, text)] * (translation.text != text)
            lost = max(0, count_sentences(line.text) - count_sentences(translation.text))
            row.ends_lost += lost
            # A note speaks of segments: a sentence too many in another one takes nothing from it.
            row.ends_noted += min(lost, translation.missing_sentences)
        row.different = tuple(different)
        for field, outputs in (
            ("bleu_joined", [translation.text for translation in joined]),
            ("bleu_alone", expected),
            ("bleu_kept", [translation.text for translation in kept]),
        ):
            setattr(row, field, corpus_scores(outputs, references, ["bleu"])["bleu"]["score"])
        yield name, row


def has_broken_promise(rows: Iterable[Row]) -> bool:
    """Whether a line that is cut at its joints has another text than its sentences alone."""
    return any(row.equal < row.sure for row in rows)


def page_lines(sentences: int, rows: dict[tuple[str, str, str], Row]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Several sentences in one line\n"
    yield f"    {' '.join(['python -m benchmarks.joined', *sys.argv[1:]])}\n"
    yield f"{machine()}, {time.strftime('%Y-%m-%d')}; the first {sentences:,} sentences of each text, with beam 4.\n"
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for (model, text, separator), row in rows.items():
        equal = f"{row.equal / row.sure:.2%}" if row.sure else "–"
        scores = [f"{score:.2f}" for score in (row.bleu_joined, row.bleu_alone, row.bleu_kept)]
        counts = [f"{row.lines:,}", f"{row.sure:,}", equal]
        cells = [model, text, separator, *counts, *scores, str(row.ends_lost), str(row.ends_noted)]
        yield f"| {' | '.join(cells)} |"
    yield READING
    different = [(key, example) for key, row in rows.items() for example in row.different]
    if different:
        yield "The first lines that differ:\n"
    for (model, text, separator), (line, translation, expected) in different[:20]:
        yield f"- {model}, {text}, {separator}: `{line!r:.300}` became {translation!r:.300}, not {expected!r:.300}"


READING = """
Lines have one sentence, two, and so on up to eight, and then one again. A line is sure if the rule finds one sentence
in each of its sentences alone, ends sentences of the line at the joints and nowhere else (`is_cut_at_joints`), and if
none of its sentences begins like those that the model has learned together with the one before (`is_read_alone`). The
translation of such a line must have the same text as its sentences translated alone, with the white space of the
line between them; otherwise the program fails.

BLEU is that of all lines, sure or not, against the references of their sentences: of the joined lines as they are
translated by default, of the sentences translated alone, and of the lines where the model reads all sentences together
(`sentences=keep`). "Ends lost" counts how many sentences fewer the translations have than their lines, by the marks at
the ends, and "noted" how many of them `missing_sentences` and a note tell the user about. A note compares each segment
with its own translation. So an end that is lost and not noted is that of a sentence which was translated by itself, and
whose translation ends without a mark, or begins the next one with a small letter.
"""


if __name__ == "__main__":
    main()
