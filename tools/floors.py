"""Table of who may import whom, floor by floor, and the check that every import points down and none in a circle."""

import ast
import os.path
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
WEB = SOURCE.parent / "web" / "src"
PACKAGE = "pellucid"
ANYTHING = "*"


@dataclass(frozen=True)
class Floor:
    """Imports that one folder or file of the package may make, names between spaces; the standard library is free."""

    ours: str = ""
    others: str = ""
    ours_inside: str = ""  # inside a function only, so that importing the module stays quick
    others_inside: str = ""


ENGINE = ("config", "cpu", "model", "data", "store", "decode", "evaluate", "training")
WINGS = ("interpret", "localize", "workflows", "interop", "demo")

# In the order of reading, from the ground up. The engine comes first, and imports nothing of what stands below it in
# this table. A wing imports the engine, and no other wing; what two of them need belongs to the engine, or is handed in
# by what stands above: the Python interface, the server and the commands.
FLOORS = {
    "config": Floor(others="pydantic"),
    "cpu": Floor(others_inside="torch"),
    "model": Floor(ours="model", others="torch jaxtyping"),
    "data": Floor(ours="data", others="numpy sentencepiece torch jaxtyping lxml", others_inside="pyarrow"),
    "data.text": Floor(ours="data.text"),
    "store": Floor(ours="config store model data.languages data.tokenizer", others="safetensors torch"),
    "decode": Floor(ours="config decode cpu store model data", others="numpy torch jaxtyping"),
    "evaluate": Floor(ours="evaluate data.text", others="numpy", others_inside="sacrebleu"),
    "training": Floor(
        ours="training cpu config data model store decode evaluate",
        others="numpy torch jaxtyping safetensors pydantic",
        others_inside="rich mlflow",
    ),
    # wings
    "interpret": Floor(),
    "interpret.page": Floor(ours="interpret.page store.atomic", others="numpy", others_inside="anywidget traitlets"),
    "interpret.trace": Floor(
        ours="config interpret.trace decode cpu store model data.context data.source_profile data.tokenizer data.text",
        ours_inside="interpret.page",
        others="numpy torch jaxtyping safetensors pydantic",
    ),
    "interpret.studies": Floor(
        ours="config interpret.studies interpret.trace decode store model data.batching data.context data.tokenizer "
        "data.text",
        others="numpy torch jaxtyping pydantic",
    ),
    "interpret.influence": Floor(
        ours="interpret.influence interpret.studies interpret.trace training decode store model data",
        others="numpy torch jaxtyping",
    ),
    "interpret.plots": Floor(ours="interpret.plots store.atomic", others="numpy", others_inside="matplotlib"),
    "localize": Floor(),
    "localize.terminology": Floor(ours="decode store.atomic data"),
    "localize.translation_memory": Floor(ours="decode data"),
    "localize.documents": Floor(
        ours="localize.documents data.encodings data.formats data.languages data.text",
        others_inside="markdown_it yaml",
    ),
    "workflows": Floor(),
    "workflows.check": Floor(ours="workflows.check store.atomic data.links data.text evaluate", others="numpy"),
    "workflows.align": Floor(ours="workflows.align data.links data.text", others="numpy"),
    "workflows.plan": Floor(ours="workflows.plan workflows.check training cpu data model", others="numpy torch"),
    "workflows.distillation": Floor(ours="config data.corpus evaluate store.atomic training"),
    "workflows.calibration": Floor(ours="workflows.check.evidence decode evaluate data.text", others="numpy"),
    "workflows.term_extraction": Floor(ours="data.links data.term_spans data.text", others="numpy"),
    "workflows.improvement": Floor(ours="workflows.check data evaluate store training"),
    "interop": Floor(
        ours="interop cpu decode store model data.tokenizer",
        others="safetensors numpy torch",
        others_inside="ctranslate2 huggingface_hub",
    ),
    "interop.pipeline": Floor(ours="decode", ours_inside="api"),  # it hands out what users hold
    "demo": Floor(),
    "demo.phrasebook": Floor(ours="store.atomic"),
    "demo.mini": Floor(others="torch"),  # one file that people take away: it imports nothing of ours
    # above
    "api": Floor(
        ours="config decode store data interop",
        ours_inside="model evaluate training cpu interpret localize workflows.check",
    ),
    "cluster": Floor(ours="cluster data store", others_inside="ray"),
    "serve": Floor(
        ours="serve api interpret.trace interpret.page localize decode store cpu config data.context "
        "data.corpus data.formats data.languages data.tokenizer",
        others="numpy pydantic anyio fastapi starlette torch uvicorn h11 prometheus_client",
    ),
    "cli": Floor(ours="cli store.atomic", others="typer rich", ours_inside=ANYTHING, others_inside=ANYTHING),
    "__main__": Floor(ours="cli"),
    "__init__": Floor(ours_inside="api interop.pipeline"),
}


@dataclass(frozen=True)
class Import:
    """One imported name: the line it is on, and whether the module is loaded only when it is needed."""

    line: int
    name: str
    inside: bool  # in a function, or for the type checker only
    typing: bool = False  # for the type checker only


def main() -> int:
    """Print every import that points up or in a circle; exit status 1 where there is one."""
    problems = [
        *find_breaches(),
        *find_violations(SOURCE),
        *find_circles(python_imports(SOURCE / PACKAGE)),
        *find_circles(typescript_imports(WEB)),
    ]
    print("\n".join(problems) or "floors: every arrow points down", file=sys.stderr if problems else sys.stdout)
    return 1 if problems else 0


def find_violations(source: Path) -> list[str]:
    """Return one sentence for each import under `source`/pellucid that the table does not allow."""
    return [
        problem
        for path in sorted((source / PACKAGE).rglob("*.py"))
        for problem in module_violations(path.relative_to(source / PACKAGE), path.read_text(encoding="utf-8"))
    ]


def module_violations(path: Path, text: str) -> list[str]:
    """Return the violations of one module, given its path inside the package and its text.

    >>> module_violations(Path("model/masks.py"), "from pellucid.data import batching")
    ['src/pellucid/model/masks.py:1 imports pellucid.data.batching; model may import: model, torch, jaxtyping']
    """
    floor_name = find_floor(path)
    if floor_name is None:
        room = path.with_suffix("").parts[0]
        return [f"src/{PACKAGE}/{path.as_posix()} stands on no floor; add a row for {room!r} to tools/floors.py"]
    return [
        f"src/{PACKAGE}/{path.as_posix()}:{found_import.line} imports {found_import.name}; "
        f"{describe_row(floor_name, found_import.inside)}"
        for found_import in find_imports(ast.parse(text), package=(PACKAGE, *path.parent.parts))
        if not is_allowed(FLOORS[floor_name], found_import)
    ]


def find_floor(path: Path) -> str | None:
    """Return the longest name in the table that stands for a file, None where none does.

    >>> find_floor(Path("interpret/trace/session.py")), find_floor(Path("data/text/casing.py"))
    ('interpret.trace', 'data.text')
    """
    parts = path.with_suffix("").parts
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in FLOORS), None)


def find_breaches() -> list[str]:
    """Return one sentence for each row of the table that would let an arrow through a wall.

    The engine imports no wing and nothing that stands above them, and a wing imports no other wing.
    """
    problems = []
    for name, floor in FLOORS.items():
        room = name.partition(".")[0]
        if room not in (*ENGINE, *WINGS) or name == "interop.pipeline":
            continue
        allowed = (*ENGINE, room)
        targets = f"{floor.ours} {floor.ours_inside}".split()
        problems += [
            f"tools/floors.py: {name} may not import {target}: an arrow from the engine to a wing, or between wings"
            for target in targets
            if target.partition(".")[0] not in allowed or (room in ENGINE and target.partition(".")[0] in WINGS)
        ]
    return problems


def is_allowed(floor: Floor, found_import: Import) -> bool:
    """Whether the floor may import this name at this place."""
    top, _, inner_path = found_import.name.partition(".")
    if top in sys.stdlib_module_names:
        return True
    is_ours = top == PACKAGE
    names = (floor.ours if is_ours else floor.others).split()
    if found_import.inside:
        names += (floor.ours_inside if is_ours else floor.others_inside).split()
    target = inner_path if is_ours else top
    # With the dot: `data.tokenizer` may be all that is allowed, and `data` must not allow `database`.
    return any(name == ANYTHING or f"{target}.".startswith(f"{name}.") for name in names)


def describe_row(floor_name: str, inside: bool) -> str:
    """Describe a row of the table in words."""
    floor = FLOORS[floor_name]
    words = f"{floor_name} may import: {', '.join(f'{floor.ours} {floor.others}'.split()) or 'the standard library'}"
    inside_words = ", ".join(f"{floor.ours_inside} {floor.others_inside}".replace(ANYTHING, "").split())
    if ANYTHING in floor.ours_inside + floor.others_inside:
        inside_words = "anything"
    return f"{words}; inside a function also: {inside_words}" if inside_words and not inside else words


def find_circles(imports: dict[str, set[str]]) -> list[str]:
    """Return one sentence for each group of files that import each other, straight or by way of others.

    >>> find_circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})
    ['a, b, c import each other in a circle; move what they share into a file below them']
    """
    reached: dict[str, set[str]] = {}
    for file in imports:
        reached[file], waiting = set(), [file]
        while waiting:
            new = imports[waiting.pop()] - reached[file]
            reached[file] |= new
            waiting += new
    circles = {tuple(sorted(other for other in reached[file] if file in reached[other])) for file in imports}
    return [
        f"{', '.join(circle)} import each other in a circle; move what they share into a file below them"
        for circle in sorted(circles - {()})
    ]


def python_imports(root: Path) -> dict[str, set[str]]:
    """Return the files of the package that each file imports, inside functions too, but not for the type checker."""
    paths = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.py"))}
    graph: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for found_import in find_imports(tree, package=(root.name, *Path(name).parent.parts)):
            top, *words = found_import.name.split(".")
            # The last words may be a name in a file, or the file itself.
            files = ["/".join(words[:length]) for length in (len(words), len(words) - 1)]
            targets = [file for stem in files for file in (f"{stem}.py", f"{stem}/__init__.py") if file in paths]
            if top == root.name and targets and not found_import.typing:
                graph[name] |= {targets[0]} - {name}
    return graph


def typescript_imports(root: Path) -> dict[str, set[str]]:
    """Return the files of the page that each of its files imports; `import type` does not count."""
    paths = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.ts*"))}
    graph: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for target in TYPESCRIPT_IMPORT.findall(path.read_text(encoding="utf-8")):
            stem = os.path.normpath(Path(name).parent / target).replace(os.sep, "/")
            graph[name] |= {file for file in (stem, f"{stem}.ts", f"{stem}.tsx") if file in paths}
    return graph


TYPESCRIPT_IMPORT = re.compile(
    r"^(?:import|export)\s+(?!type\b)(?:[^'\";]*?from\s+)?['\"](\.[^'\"]+)['\"]", re.MULTILINE
)


def find_imports(
    tree: ast.AST, package: tuple[str, ...], inside: bool = False, typing: bool = False
) -> Iterator[Import]:
    """Yield every import of a module in `package`, with relative imports written out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, inside, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # One dot is the package itself, each further dot its parent.
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from (Import(node.lineno, f"{stem}.{alias.name}", inside, typing) for alias in node.names)
        else:
            # These imports do not run when the module is loaded.
            typing_here = typing or is_type_checking(node)
            lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or typing_here
            yield from find_imports(node, package, inside or lazy, typing_here)


def is_type_checking(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


if __name__ == "__main__":
    sys.exit(main())
