"""Refuses names and sentences that say nothing: a name in two modules, a bare participle, "The same ...", "that of"."""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pellucid"
FOLDERS = ("src", "tools", "benchmarks")

STANDALONE = "demo/mini.py"
"""The Transformer in one file, which people take away: what it defines has the field's names, as the package's has."""

NOT_NAMES = """
    again all alone along already also another any anything are aside away be been before begun beside best
    better between beyond both bound built but by chosen come cut done drawn each else elsewhere every
    everything few first found from given gone got had has heard held her here him his how in inside is it its
    just kept known laid last least left lent less like lost made many may mean meant met more most much must
    near next none nothing of off on one only other others ours out over own paid put rather read rest right
    said same sat seen sent shown shut so some somebody something sought spent spoken spread spun stood such
    sung taken taught that the theirs them there these they thing things this those thought to together told
    under up upon wanted was were what when where which while who whole whose why with within without wound
    written wrong yet
"""
"""Single words that tell a reader nothing when they name a function: pronouns, adverbs, irregular participles."""

GOOD_NAMES = """
    cut embed exceed feed need proceed put read seed shred speed split spread
    to within again edited
"""
"""Verbs and nouns that look like participles; `batch.to(device)` as torch has it, and names of the documented API."""

RIDDLE = re.compile(r"(The same|As|What|Those|That)\b")
"""A docstring that begins so refers to something that a reader of the hover does not see."""

IDIOM = re.compile(r"\b(that of|those of|of which|of whom|whatever|(?:is|are) none of|such, too)\b", re.IGNORECASE)
"""Words in a docstring or a comment of the package that leave out a noun, so that a reader has to look for it."""


def main() -> int:
    """Print every fault of a name or a docstring; exit status 1 where there is one."""
    problems = find_problems()
    print("\n".join(problems) or "names: each says what it is", file=sys.stderr if problems else sys.stdout)
    return 1 if problems else 0


def find_problems() -> list[str]:
    """Return one sentence for each name, docstring and comment of the project that is at fault."""
    return [*repeated_names(), *(problem for path in python_files() for problem in file_problems(path))]


def python_files() -> Iterator[Path]:
    """Yield the Python files whose names and docstrings are checked."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def repeated_names() -> list[str]:
    """Return one sentence for each public top-level name that two modules of the package define."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / STANDALONE}):
        for name in top_level_names(ast.parse(path.read_text(encoding="utf-8"))):
            modules[name].append(path.relative_to(ROOT).as_posix())
    return [
        f"{', '.join(paths)} all define {name}; give each a name of its own"
        for name, paths in modules.items()
        if len(paths) > 1
    ]


def top_level_names(tree: ast.Module) -> list[str]:
    """Return the public functions and classes that a module defines.

    >>> top_level_names(ast.parse("def encode(): ...\\nclass Batch: ...\\ndef _cut(): ...\\nLIMIT = 7"))
    ['encode', 'Batch']
    """
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]


def file_problems(path: Path) -> list[str]:
    """Return one sentence for each part of a file that is named or described badly."""
    text = path.read_text(encoding="utf-8")
    problems = list(tree_problems(ast.parse(text)))
    if path.is_relative_to(PACKAGE):
        problems += idiom_problems(text)
    where = path.relative_to(ROOT).as_posix()
    return [f"{where}:{line} {problem}" for line, problem in problems]


def tree_problems(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each badly named function and each docstring that needs its neighbours.

    >>> list(tree_problems(ast.parse("def told(x):\\n    'The same for x.'")))
    [(1, "function 'told' needs a verb and its object"), (1, "the docstring of 'told' begins with 'The same'")]
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and names_nothing(node.name, is_property(node)):
            yield node.lineno, f"function '{node.name}' needs a verb and its object"
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            riddle = RIDDLE.match(ast.get_docstring(node) or "")
            if riddle:
                name = getattr(node, "name", "the module")
                yield getattr(node, "lineno", 1), f"the docstring of '{name}' begins with '{riddle[0]}'"


def idiom_problems(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each docstring and each comment that leaves out a noun.

    >>> list(idiom_problems("x = 1  # that of the model"))
    [(1, "the comment says 'that of'; name the thing again, in a plain sentence")]
    """
    for kind, lines in (("docstring", docstrings(text)), ("comment", comment_blocks(text))):
        for line, words in lines:
            if idiom := IDIOM.search(" ".join(words.split())):
                yield line, f"the {kind} says '{idiom[0]}'; name the thing again, in a plain sentence"


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that stands as a statement: of modules, functions and attributes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comment_blocks(text: str) -> list[tuple[int, str]]:
    """Return the first line and the text of each comment; comments on lines below each other are one.

    >>> comment_blocks("# one\\n# block\\nx = 1  # another")
    [(1, 'one block'), (3, 'another')]
    """
    blocks: list[tuple[int, str]] = []
    last_line = -1  # of a comment that has its line to itself
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, words = token.start[0], token.string.lstrip("# ")
        is_alone = token.line.lstrip().startswith("#")
        if is_alone and line == last_line + 1:
            blocks[-1] = blocks[-1][0], f"{blocks[-1][1]} {words}"
        else:
            blocks.append((line, words))
        last_line = line if is_alone else -1
    return blocks


def names_nothing(name: str, adjective: bool = False) -> bool:
    """Whether a name is a single participle, pronoun or adverb; with `adjective`, a participle in -ed is allowed.

    >>> [name for name in ("told", "_found", "cached", "embed", "read_pairs", "__next__") if names_nothing(name)]
    ['told', '_found', 'cached']
    >>> names_nothing("closed", adjective=True), names_nothing("told", adjective=True)
    (False, True)
    """
    word = name.strip("_").lower()
    if name.startswith("__") or word in GOOD_NAMES.split():
        return False
    return word in NOT_NAMES.split() or (not adjective and re.fullmatch(r"[a-z]{2,}ed", word) is not None)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is read as an attribute, where `update.skipped` and `file.closed` read well."""
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


if __name__ == "__main__":
    sys.exit(main())
