"""Lines that nobody wrote for a translator, through both engines and both searches: none is lost, moved or refused.

    python -m benchmarks.garbage                    # 10,508 lines, runs/demo/best; writes benchmarks/results/garbage.md
    python -m benchmarks.garbage --lines 500 --page /tmp/garbage.md

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
from pellucid.text.markup import TAG, extract_tags, list_protected

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
ALIKE = str.maketrans("aeopcxBTHKM", "аеорсхВТНКМ")
Draw = random.Random


def some(draw: Draw, parts: Sequence[str], most: int, between: Sequence[str] = (" ",)) -> str:
    """Parts drawn at random, with something drawn between two."""
    return "".join(draw.choice(parts) + draw.choice(between) for _ in range(draw.randint(1, most)))


def sentence(draw: Draw) -> str:
    return some(draw, WORDS, 9).strip()


def character(draw: Draw) -> str:
    """Any that Unicode has, but for surrogates, NUL and the line feed."""
    while True:
        found = chr(draw.randrange(1, sys.maxunicode + 1))
        if found != "\n" and unicodedata.category(found) != "Cs":
            return found


KINDS: dict[str, Callable[[Draw], str]] = {
    "tags": lambda draw: some(draw, (*TAGS, *WORDS), 15, ("", " ")),
    "broken markup": lambda draw: some(draw, (*BROKEN, *TAGS, *WORDS), 15, ("", " ")),
    "markup and placeholders": lambda draw: some(
        draw, (*BROKEN, *TAGS, *PLACEHOLDERS, *ADDRESSES, *ENTITIES, *WORDS), 12, ("", " ")
    ),
    "placeholders": lambda draw: some(draw, (*PLACEHOLDERS, *WORDS), 12, ("", " ")),
    "one placeholder again and again": lambda draw: some(
        draw, (draw.choice((*PLACEHOLDERS, *ADDRESSES)), draw.choice(WORDS)), 14, ("", " ")
    ),
    "addresses": lambda draw: some(draw, (*ADDRESSES, *WORDS), 8, ("", " ", ". ")),
    "entities": lambda draw: some(draw, (*ENTITIES, *WORDS), 20, ("", " ")),
    "controls": lambda draw: some(
        draw, (*map(chr, range(1, 32)), "\x7f", *map(chr, range(128, 160)), *WORDS), 20, ("", " ")
    ).replace("\n", ""),
    "line breaks that are none": lambda draw: some(draw, (*BREAKS, *WORDS), 15, ("", " ")),
    "directions": lambda draw: some(draw, (*BIDI, *WORDS, *SCRIPTS), 15, ("", " ")),
    "unseen characters": lambda draw: some(draw, (*UNSEEN, *WORDS), 20, ("", " ")),
    "emoji": lambda draw: some(draw, (*EMOJI, *WORDS), 12, ("", " ", "\u200d")),
    "combining marks": lambda draw: (
        draw.choice("aeiou犬") + some(draw, [chr(c) for c in range(0x300, 0x370)], 60, ("", "x"))
    ),
    "decomposed": lambda draw: unicodedata.normalize(
        draw.choice(("NFD", "NFKD")), some(draw, ("café", "niño", "한글", "Å", "ﬁ"), 9)
    ),
    "homoglyphs": lambda draw: sentence(draw).translate(ALIKE),
    "scripts": lambda draw: some(draw, (*SCRIPTS, *WORDS), 15, ("", " ")),
    "any characters": lambda draw: "".join(character(draw) for _ in range(draw.randint(1, 30))),
    "punctuation": lambda draw: some(draw, "!?.,;:-–—…¡¿\"'«»()[]*/\\|~^`_#@%$", 40, ("", " ")),
    "numbers": lambda draw: some(
        draw, ("0", "1e9", "3.14", "1,000", "٣", "Ⅻ", "½", "-5", "9" * 30, "%"), 15, ("", " ")
    ),
    "long word": lambda draw: draw.choice(("a", "xyz", "犬", "é", "ha-")) * draw.randint(50, 400),
    "long line": lambda draw: some(draw, WORDS, 300),
    "repeated words": lambda draw: (draw.choice(WORDS) + draw.choice((" ", ", "))) * draw.randint(2, 60),
    "tabs": lambda draw: some(draw, WORDS, 8, ("\t", "\t\t", " \t ")),
    "blank": lambda draw: draw.choice(("", " ", "\t", "\u3000", "\u00a0 ", "😀", "<b></b>", "\u2028", "\ufeff")),
    "capitals": lambda draw: "".join(draw.choice((c.upper(), c.lower())) for c in sentence(draw)),
    "bytes of another encoding": lambda draw: (
        some(draw, ("¿niño?", "Ünïcode", "“quote”", "犬"), 8).encode().decode("latin-1")
    ),
}


def garbage(lines: int, seed: int) -> list[tuple[str, str]]:
    """The kind of each line and the line: every fifth is the known sentence, the others go through all kinds in turn.

    >>> kinds = [kind for kind, _ in garbage(7, seed=1)]
    >>> kinds[0], kinds[1], kinds[5]
    ('control', 'tags', 'control')
    """
    draw, kinds = random.Random(seed), list(KINDS)
    found, at = [], 0
    for number in range(lines):
        if number % EVERY == 0:
            found.append(("control", CONTROL))
            continue
        kind = kinds[at % len(kinds)]
        at += 1
        found.append((kind, KINDS[kind](draw).rstrip("\r")))
    return found


def differences(line: str, translation: str) -> list[str]:
    """Which placeholders, addresses and tags of a line its translation lacks, or has more often."""
    # A carriage return is written as a space: it would end the line for some readers.
    source, target = (text.replace("\r", " ") for text in (line, translation))
    text = extract_tags(source).text
    # Where tags stand inside a placeholder, the space that they part words with is theirs.
    bare = "".join(TAG.sub("", target).split())
    wanted = Counter("".join(each.split()) for each in list_protected(text))
    problems = [f"{each} is lost" for each, times in wanted.items() if bare.count(each) < times]
    tags = (Counter(match[0] for match in TAG.finditer(each)) for each in (source, target))
    if len({tuple(sorted(each.items())) for each in tags}) > 1:
        problems.append("tags differ")
    return problems


@dataclass
class Passed:
    """What became of the lines in one engine and one search."""

    engine: str
    beam: int
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def translate(model: str, engine: str, beam: int, lines: Sequence[tuple[str, str]], expected: str) -> Passed:
    """All of them as one file through `pellucid translate`, in a process of its own."""
    passed, began = Passed(engine, beam), time.monotonic()
    command = [sys.executable, "-m", "pellucid", "translate", model, "--engine", engine, "--beam", str(beam)]
    with tempfile.NamedTemporaryFile() as file:
        file.write("".join(f"{line}\n" for _, line in lines).encode())
        file.flush()
        done = subprocess.run([*command, file.name], capture_output=True, check=False)
    passed.seconds = time.monotonic() - began
    said = done.stderr.decode(errors="replace")
    if done.returncode or "Traceback" in said:
        passed.problems.append(f"exit code {done.returncode}: {said.strip()[-300:]}")
    passed.problems += compare(lines, done.stdout.decode().split("\n")[:-1], expected)
    return passed


def compare(lines: Sequence[tuple[str, str]], found: Sequence[str], expected: str) -> Iterator[str]:
    """What is wrong with the translations of these lines, where the known sentence becomes `expected`."""
    if len(found) != len(lines):
        yield f"{len(lines)} lines in, {len(found)} out"
    for number, ((kind, line), translation) in enumerate(zip(lines, found, strict=False), start=1):
        if kind == "control" and translation != expected:
            yield f"line {number}: the known sentence became {translation!r:.80}"
        for problem in differences(line, translation):
            yield f"line {number}, {kind}: {problem}: {line!r:.200} became {translation!r:.200}"


def main() -> None:
    """Translate in all four ways and write the page; exit code 1 where a line was lost, moved, refused or damaged."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.garbage")
    parser.add_argument("--model", default="runs/demo/best")
    parser.add_argument("--lines", type=int, default=10_508)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS / "garbage.md")
    arguments = parser.parse_args()
    import pellucid

    expected = pellucid.load(arguments.model).translate(CONTROL).text
    lines = garbage(arguments.lines, arguments.seed)
    passes = []
    for engine in ("ctranslate2", "torch"):
        for beam in (1, 4):
            passes.append(translate(arguments.model, engine, beam, lines, expected))
            print(f"{engine}, beam {beam}: {len(passes[-1].problems)} problems", file=sys.stderr)
    text = "\n".join(page(arguments, lines, passes)) + "\n"
    arguments.page.write_text(text, encoding="utf-8")
    print(text)
    sys.exit(any(each.problems for each in passes))


def page(arguments: argparse.Namespace, lines: Sequence[tuple[str, str]], passes: Sequence[Passed]) -> Iterator[str]:
    """What was done, and what was found."""
    controls = sum(kind == "control" for kind, _ in lines)
    markup = sum(len(list_protected(extract_tags(line).text)) for _, line in lines)
    tags = sum(len(re.findall(TAG, line)) for _, line in lines)
    yield "# Lines that nobody wrote for a translator\n"
    yield f"Made by `python -m benchmarks.garbage --lines {len(lines)} --seed {arguments.seed}` on {machine()}, with"
    yield f"{arguments.model}.\n"
    yield f"{len(lines):,} lines of {len(KINDS)} kinds are one file for `pellucid translate`, {controls:,} of them a"
    yield f"known sentence. They have {markup:,} placeholders and addresses and {tags:,} tags, each of which must come"
    yield "out. A problem is a line that is lost or moved, a known sentence that is not translated as it is alone, a"
    yield "placeholder or tag that is missing, or an exit code that is not 0.\n"
    yield "| engine | beam | problems | seconds |"
    yield "|---|---|---|---|"
    for each in passes:
        yield f"| {each.engine} | {each.beam} | {len(each.problems)} | {each.seconds:.0f} |"
    found = [f"- {each.engine}, beam {each.beam}: `{problem}`" for each in passes for problem in each.problems]
    if found:
        yield "\nThe first problems:\n"
        yield "\n".join(found[:40])
    yield f"\nThe kinds: {', '.join(KINDS)}."


if __name__ == "__main__":
    main()
