"""The reading path: the files that show how a sentence is learned from and translated, in the order to read them.

`make map` prints them with their lengths, and then every module with the sentence it starts with; `make check` refuses
a path that has grown too long, one that README.md does not name in this order, and a module without such a sentence.
"""

import ast
import sys
from pathlib import Path

from floors import FLOORS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "src/pellucid"
MOST_LINES = 1220
"""Lines of all files together, blank ones not counted: what can be read in an afternoon."""

READING_PATH = {
    "model/positions.py": "how the model knows where in the sentence a piece stands",
    "model/attention.py": "how each position reads from others: the formula, and the fused kernel beside it",
    "model/layers.py": "what stands around attention: the residual, the norm and the feed-forward",
    "model/masks.py": "which positions may be read: no padding, and no later piece",
    "model/transformer.py": "the whole model: pieces in, a score for every next piece out",
    "data/batching.py": "how pairs of like length become the rectangles of numbers that the model is given",
    "training/loss.py": "what training makes smaller: smoothed cross-entropy, summed first and divided once",
    "training/update.py": "one update: forward pass, loss, gradient, clipping, and Adam's step at the scheduled rate",
    "decode/beam.py": "how a translation is searched for, one piece at a time",
}
"""Files below src/pellucid, and what the reader knows after each."""


def main(arguments: list[str]) -> int:
    """Print the path, with --modules every module, too; exit status 1 where README.md does not follow the path."""
    lengths = count_lines()
    for number, (name, knowledge) in enumerate(READING_PATH.items(), start=1):
        print(f"{number:2} {lengths[name]:4}  {name:22} {knowledge}")
    print(f"{'':2} {sum(lengths.values()):4}  lines in all, blank ones not counted; {MOST_LINES:,} are allowed")
    modules = list_modules()
    if arguments == ["--modules"]:
        print("", *modules, sep="\n")
    problems = find_faults(lengths, (ROOT / "README.md").read_text(encoding="utf-8"))
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


def count_lines() -> dict[str, int]:
    """Return the number of lines of each file on the path that are not blank; 0 for one that is not there."""
    paths = {name: ROOT / SOURCE / name for name in READING_PATH}
    texts = {name: path.read_text(encoding="utf-8") if path.exists() else "" for name, path in paths.items()}
    return {name: sum(bool(line.strip()) for line in text.splitlines()) for name, text in texts.items()}


def find_faults(lengths: dict[str, int], readme: str) -> list[str]:
    """Return one sentence for each fault of the path: too many lines, or another order in README.md."""
    problems = [f"map: {SOURCE}/{name} is not there" for name, length in lengths.items() if not length]
    if sum(lengths.values()) > MOST_LINES:
        problems.append(f"map: the reading path has {sum(lengths.values()):,} lines, {MOST_LINES:,} are allowed")
    # The line that begins so holds the path as links, in order.
    line = next((line for line in readme.splitlines() if line.startswith("To read it in an afternoon")), "")
    if [word.partition(")")[0] for word in line.split(f"]({SOURCE}/")[1:]] != list(READING_PATH):
        problems.append("map: the line of README.md that begins 'To read it in an afternoon' does not name this path")
    return problems


def list_modules() -> list[str]:
    """Return every module of the package with the sentence it starts with, folder by folder from the ground up."""
    root = ROOT / SOURCE
    lines = []
    for name in FLOORS:
        folder, file = root / name, root / f"{name}.py"
        if file.is_file():
            lines.append(f"{file.name}: {first_paragraph(file)}")
        elif folder.is_dir():
            lines += ["", f"{name}/: {first_paragraph(folder / '__init__.py')}"]
            for path in sorted(folder.rglob("*.py")):
                if path != folder / "__init__.py":
                    lines.append(f"  {path.relative_to(root)}: {first_paragraph(path)}")
    return lines


def first_paragraph(path: Path) -> str:
    """Return the first paragraph of a module's docstring, on one line.

    Raises:
        SystemExit: the module has none. Rule of the house: the map needs a sentence from every module.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise SystemExit(f"map: {path.relative_to(ROOT)} does not start with a sentence saying what it is")
    return " ".join(docstring.split("\n\n")[0].split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
