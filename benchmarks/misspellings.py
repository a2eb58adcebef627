"""Count what `KnownWords` makes of new words that are spelled right, and of known words that are not.

    python -m benchmarks.misspellings multi30k:train:test_2016_flickr:en tatoeba_en-es:train:test:es

Each argument is a folder below PELLUCID_DATA, its training text, its test text, and their language. Prints a table for
benchmarks/results/noise.md.
"""

import os
import random
import sys
from itertools import islice
from pathlib import Path

from pellucid.data.lines import read_lines
from pellucid.data.source_profile import PROFILED_SOURCES, profile_sources
from pellucid.data.text.misspellings import LONE_WORD, KnownWords
from pellucid.data.text.noise import mistype_word


def main(names: list[str]) -> None:
    """Print a row for each text."""
    print("| text | words | new words | read as another | typing errors | mended | read as a wrong word |")
    print("|---|---|---|---|---|---|---|")
    data = Path(os.environ["PELLUCID_DATA"])
    for name in names:
        folder, train, test, language = name.split(":")
        lines = islice(read_lines(data / folder / f"{train}.{language}.gz"), PROFILED_SOURCES)
        training_words = profile_sources((line, "") for line in lines).words
        known = KnownWords(training_words)
        lower = {word.lower() for word in training_words}
        words: list[str] = []
        for line in read_lines(data / folder / f"{test}.{language}.gz"):
            words += filter(str.islower, LONE_WORD.findall(line))

        new = [word for word in words if word not in lower]
        changed = [(word, intended) for word in new if (intended := known.find_intended(word))]
        generator = random.Random(1)
        typed = [(word, mistype_word(word, generator)) for word in words if len(word) > 2 and word in lower]
        typed = [(word, error) for word, error in typed if error != word]
        read = [(word, known.find_intended(error)) for word, error in typed if error not in lower]
        right = sum(word == intended for word, intended in read)
        wrong = sum(intended is not None and word != intended for word, intended in read)
        cells = [f"{folder} {language}", f"{len(words):,}", f"{len(new):,}", f"{len(changed)}", f"{len(typed):,}"]
        cells += [f"{right / len(typed):.1%}", f"{wrong / len(typed):.1%}"]
        print(f"| {' | '.join(cells)} |")
        print(f"{name}: {changed}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
