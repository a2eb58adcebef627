"""Translate unusual lines with both engines and both searches, and check that none is lost, moved, refused or damaged.

    python -m benchmarks.garbage                    # 10,508 lines, runs/demo/best; writes benchmarks/results/garbage.md
    python -m benchmarks.garbage --lines 500 --page /tmp/garbage.md
    python -m benchmarks.garbage --lines 2000 --only "joined sentences" "odd spaces" --page garbage-joined.md

Every fifth line is a sentence whose translation is known. `pellucid translate` reads them all as one file, so a line
that shifts, or that spoils its neighbours, shows in the next known sentence.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.quality import RESULTS, machine
from pellucid.data.text.markup import TAG, extract_tags
from pellucid.data.text.protected import list_protected

CONTROL = "The ball is blue."
EVERY = 5
WORDS = (
    "the",
    "ball",
    "is",
    "blue",
    "cat",
    "dog",
    "drank",
    "Where",
    "house",
    "Yes!",
    "a,",
    "not?",
    "3",
    "O'Neill",
    "co-op",
)
PLACEHOLDERS = (
    "{n}",
    "{name}",
    "{{user.name}}",
    "{{}}",
    "{}",
    "%s",
    "%d",
    "%(name)s",
    "%1$d",
    "${HOME}",
    "{price:.2f}",
)
ADDRESSES = ("http://x.y/z?q=", "https://example.com/a_(b)#c", "www.example.org", "me@example.com", "ftp://a.b/c%20d")
TAGS = ("<b>", "</b>", "<i>", "</i>", "<br/>", '<a href="x">', "</a>", "<1>", "</1>", "<p>", "</p>", "<!-- c -->")
BROKEN = (
    "<",
    ">",
    "<b",
    "b>",
    "</",
    "&lt;",
    "<!--",
    "-->",
    "<a href=",
    "{",
    "}",
    "{{",
    "}}",
    "{{{",
    "<<b>>",
    "<![CDATA[",
)
ENTITIES = ("&amp;", "&lt;", "&gt;", "&nbsp;", "&#39;", "&#x1F600;", "&;", "&amp;amp;", "&copy", "&quot;")
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\ufe0f"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
BREAKS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\t\u00a0\u3000"
EMOJI = ("😀", "👩🏽‍🚀", "🇺🇦", "1️⃣", "👨‍👩‍👧‍👦", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿")
SCRIPTS = (
    "Ж",
    "я",
    "犬",
    "猫",
    "日",
    "한",
    "글",
    "ไ",
    "ท",
    "ย",
    "ع",
    "ר",
    "ב",
    "ह",
    "ि",
    "ন்",
    "ა",
    "ሀ",
    "ᚠ",
    "𐍈",
    "𝔘",
    "Ω",
    "ß",
    "ı",
    "İ",
    "ﬁ",
    "Ǆ",
    "ﷺ",
)
SENTENCES = (
    "The ball is blue.",
    "Where is the house?",
    "The cat is black!",
    "The dog drank the water.",
    "I see 3 cats.",
)
ODD_SPACES = "\u00a0\u1680\u2000\u2002\u2003\u2007\u2009\u200a\u202f\u205f\u3000\t"
ALIKE = str.maketrans("aeopcxBTHKM", "аеорсхВТНКМ")
Draw = random.Random


def draw_parts(draw: Draw, parts: Sequence[str], limit: int, separators: Sequence[str] = (" ",)) -> str:
    """Join parts drawn at random, with a separator drawn between two."""
    return "".join(draw.choice(parts) + draw.choice(separators) for _ in range(draw.randint(1, limit)))


def draw_sentence(draw: Draw) -> str:
    """Draw a sentence of known words."""
    return draw_parts(draw, WORDS, 9).strip()


def draw_character(draw: Draw) -> str:
    """Draw any character of Unicode except surrogates, NUL and the line feed."""
    while True:
        drawn = chr(draw.randrange(1, sys.maxunicode + 1))
        # Surrogates cannot be written as UTF-8, and a line feed would be another line.
        if drawn != "\n" and unicodedata.category(drawn) != "Cs":
            return drawn


KINDS: dict[str, Callable[[Draw], str]] = {
    "tags": lambda draw: draw_parts(draw, (*TAGS, *WORDS), 15, ("", " ")),
    "broken markup": lambda draw: draw_parts(draw, (*BROKEN, *TAGS, *WORDS), 15, ("", " ")),
    "markup and placeholders": lambda draw: draw_parts(
        draw, (*BROKEN, *TAGS, *PLACEHOLDERS, *ADDRESSES, *ENTITIES, *WORDS), 12, ("", " ")
    ),
    "placeholders": lambda draw: draw_parts(draw, (*PLACEHOLDERS, *WORDS), 12, ("", " ")),
    "one placeholder again and again": lambda draw: draw_parts(
        draw, (draw.choice((*PLACEHOLDERS, *ADDRESSES)), draw.choice(WORDS)), 14, ("", " ")
    ),
    "addresses": lambda draw: draw_parts(draw, (*ADDRESSES, *WORDS), 8, ("", " ", ". ")),
    "entities": lambda draw: draw_parts(draw, (*ENTITIES, *WORDS), 20, ("", " ")),
    "controls": lambda draw: draw_parts(
        draw, (*map(chr, range(1, 32)), "\x7f", *map(chr, range(128, 160)), *WORDS), 20, ("", " ")
    ).replace("\n", ""),
    "line breaks that are none": lambda draw: draw_parts(draw, (*BREAKS, *WORDS), 15, ("", " ")),
    "directions": lambda draw: draw_parts(draw, (*BIDI, *WORDS, *SCRIPTS), 15, ("", " ")),
    "unseen characters": lambda draw: draw_parts(draw, (*UNSEEN, *WORDS), 20, ("", " ")),
    "emoji": lambda draw: draw_parts(draw, (*EMOJI, *WORDS), 12, ("", " ", "\u200d")),
    "combining marks": lambda draw: (
        draw.choice("aeiou犬") + draw_parts(draw, [chr(c) for c in range(0x300, 0x370)], 60, ("", "x"))
    ),
    "decomposed": lambda draw: unicodedata.normalize(
        draw.choice(("NFD", "NFKD")), draw_parts(draw, ("café", "niño", "한글", "Å", "ﬁ"), 9)
    ),
    "homoglyphs": lambda draw: draw_sentence(draw).translate(ALIKE),
    "scripts": lambda draw: draw_parts(draw, (*SCRIPTS, *WORDS), 15, ("", " ")),
    "any characters": lambda draw: "".join(draw_character(draw) for _ in range(draw.randint(1, 30))),
    "punctuation": lambda draw: draw_parts(draw, "!?.,;:-–—…¡¿\"'«»()[]*/\\|~^`_#@%$", 40, ("", " ")),
    "numbers": lambda draw: draw_parts(
        draw, ("0", "1e9", "3.14", "1,000", "٣", "Ⅻ", "½", "-5", "9" * 30, "%"), 15, ("", " ")
    ),
    "long word": lambda draw: draw.choice(("a", "xyz", "犬", "é", "ha-")) * draw.randint(50, 400),
    "long line": lambda draw: draw_parts(draw, WORDS, 300),
    "repeated words": lambda draw: (draw.choice(WORDS) + draw.choice((" ", ", "))) * draw.randint(2, 60),
    "tabs": lambda draw: draw_parts(draw, WORDS, 8, ("\t", "\t\t", " \t ")),
    "blank": lambda draw: draw.choice(("", " ", "\t", "\u3000", "\u00a0 ", "😀", "<b></b>", "\u2028", "\ufeff")),
    "capitals": lambda draw: "".join(draw.choice((c.upper(), c.lower())) for c in draw_sentence(draw)),
    "joined sentences": lambda draw: draw_parts(
        draw, SENTENCES, 8, (" ", "  ", *ODD_SPACES, "\u200b ", " \u00a0", " - ", " • ")
    ).rstrip(" -•\u200b"),
    "odd spaces": lambda draw: draw_parts(draw, WORDS, 9, (" ", *ODD_SPACES, "\u00a0 ")),
    "bytes of another encoding": lambda draw: (
        draw_parts(draw, ("¿niño?", "Ünïcode", "“quote”", "犬"), 8).encode().decode("latin-1")
    ),
}


def draw_lines(lines: int, seed: int, only: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Draw the kind and the text of each line: every fifth is the known sentence, the others go through all kinds.

    With `only`, the others go through these kinds.

    >>> kinds = [kind for kind, _ in draw_lines(7, seed=1)]
    >>> kinds[0], kinds[1], kinds[5]
    ('control', 'tags', 'control')
    """
    draw, kinds = random.Random(seed), list(only or KINDS)
    drawn, position = [], 0
    for number in range(lines):
        if number % EVERY == 0:
            # Between all others: a line that shifts or spoils its neighbours shows here.
            drawn.append(("control", CONTROL))
            continue
        kind = kinds[position % len(kinds)]
        position += 1
        drawn.append((kind, KINDS[kind](draw).rstrip("\r")))
    return drawn


def find_differences(line: str, translation: str) -> list[str]:
    """List the placeholders, addresses and tags of a line that its translation lacks, or has more often."""
    # A carriage return is written as a space: it would end the line for some readers.
    source, target = (text.replace("\r", " ") for text in (line, translation))
    text = extract_tags(source).text
    # Spaces do not count: a tag inside a placeholder may have brought its own.
    bare = "".join(TAG.sub("", target).split())
    expected = Counter("".join(fragment.split()) for fragment in list_protected(text))
    problems = [f"{fragment} is lost" for fragment, times in expected.items() if bare.count(fragment) < times]
    tags = (Counter(match[0] for match in TAG.finditer(side)) for side in (source, target))
    if len({tuple(sorted(counts.items())) for counts in tags}) > 1:
        problems.append("tags differ")
    return problems


@dataclass
class Pass:
    """Result of all lines in one engine and one search."""

    engine: str
    beam: int
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def translate_lines(model: str, engine: str, beam: int, lines: Sequence[tuple[str, str]], expected: str) -> Pass:
    """Translate all lines as one file through `pellucid translate`, in a process of its own."""
    result, began = Pass(engine, beam), time.monotonic()
    command = [sys.executable, "-m", "pellucid", "translate", model, "--engine", engine, "--beam", str(beam)]
    # Each sentence alone, too, so that it can be looked for where it is joined with others.
    all_lines = [*lines, *(("alone", sentence) for sentence in SENTENCES)]
    with tempfile.NamedTemporaryFile() as file:
        # Bytes, so that no line break is translated on the way.
        file.write("".join(f"{line}\n" for _, line in all_lines).encode())
        file.flush()
        process = subprocess.run([*command, file.name], capture_output=True, check=False)
    result.seconds = time.monotonic() - began
    messages = process.stderr.decode(errors="replace")
    if process.returncode or "Traceback" in messages:
        result.problems.append(f"exit code {process.returncode}: {messages.strip()[-300:]}")
    # Not splitlines, which also breaks at the separators that some lines contain.
    translations = process.stdout.decode().split("\n")[:-1]
    result.problems += find_problems(all_lines, translations, expected)
    result.problems += find_lost_sentences(all_lines, translations)
    return result


def find_problems(lines: Sequence[tuple[str, str]], translations: Sequence[str], expected: str) -> Iterator[str]:
    """Yield the problems of these translations, where the known sentence becomes `expected`."""
    if len(translations) != len(lines):
        yield f"{len(lines)} lines in, {len(translations)} out"
    for number, ((kind, line), translation) in enumerate(zip(lines, translations, strict=False), start=1):
        if kind == "control" and translation != expected:
            yield f"line {number}: the known sentence became {translation!r:.80}"
        for problem in find_differences(line, translation):
            yield f"line {number}, {kind}: {problem}: {line!r:.200} became {translation!r:.200}"


def find_lost_sentences(lines: Sequence[tuple[str, str]], translations: Sequence[str]) -> Iterator[str]:
    """Yield the lines of joined sentences that are not the translations of each alone, with all that stands between."""
    alone = {
        line: translation for (kind, line), translation in zip(lines, translations, strict=False) if kind == "alone"
    }
    for number, ((kind, line), translation) in enumerate(zip(lines, translations, strict=False), start=1):
        if kind == "joined sentences":
            expected = re.sub("|".join(map(re.escape, alone)), lambda match: alone[match[0]], line)
            if translation != expected:
                yield f"line {number}, {kind}: {line!r:.200} became {translation!r:.200}, not {expected!r:.200}"


def main() -> None:
    """Translate in all four ways and write the page; exit code 1 where a line was lost, moved, refused or damaged."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.garbage")
    parser.add_argument("--model", default="runs/demo/best")
    parser.add_argument("--lines", type=int, default=10_508)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=(), metavar="KIND", help="kinds of lines")
    parser.add_argument("--page", type=Path, default=RESULTS / "garbage.md")
    arguments = parser.parse_args()
    import pellucid

    expected = pellucid.load(arguments.model).translate(CONTROL).text
    lines = draw_lines(arguments.lines, arguments.seed, arguments.only)
    passes = []
    for engine in ("ctranslate2", "torch"):
        for beam in (1, 4):
            passes.append(translate_lines(arguments.model, engine, beam, lines, expected))
            print(f"{engine}, beam {beam}: {len(passes[-1].problems)} problems", file=sys.stderr)
    text = "\n".join(page_lines(arguments, lines, passes)) + "\n"
    arguments.page.write_text(text, encoding="utf-8")
    print(text)
    sys.exit(any(result.problems for result in passes))


def page_lines(
    arguments: argparse.Namespace, lines: Sequence[tuple[str, str]], passes: Sequence[Pass]
) -> Iterator[str]:
    """Yield the lines of the page."""
    controls = sum(kind == "control" for kind, _ in lines)
    markup = sum(len(list_protected(extract_tags(line).text)) for _, line in lines)
    tags = sum(len(re.findall(TAG, line)) for _, line in lines)
    yield "# Lines that nobody wrote for a translator\n"
    kinds = arguments.only or list(KINDS)
    only = "".join(f' "{kind}"' for kind in arguments.only)
    options = f"--lines {len(lines)} --seed {arguments.seed}" + (f" --only{only}" if only else "")
    yield f"Made by `python -m benchmarks.garbage {options}` on {machine()}, with"
    yield f"{arguments.model}.\n"
    yield f"`pellucid translate` gets a file of {len(lines):,} lines of {len(kinds)} kinds; {controls:,} of the lines"
    yield f"are known sentences. The lines contain {markup:,} placeholders and addresses and {tags:,} tags, and each of"
    yield "these must be in the output. A problem is a line that is lost or moved, a known sentence that is translated"
    yield "differently than alone, a placeholder or tag that is missing, joined sentences that are not translated as"
    yield "each alone, or an exit code that is not 0.\n"
    yield "| engine | beam | problems | seconds |"
    yield "|---|---|---|---|"
    for result in passes:
        yield f"| {result.engine} | {result.beam} | {len(result.problems)} | {result.seconds:.0f} |"
    problems = [
        f"- {result.engine}, beam {result.beam}: `{problem}`" for result in passes for problem in result.problems
    ]
    if problems:
        yield "\nThe first problems:\n"
        yield "\n".join(problems[:40])
    yield f"\nThe kinds: {', '.join(kinds)}."


if __name__ == "__main__":
    main()
