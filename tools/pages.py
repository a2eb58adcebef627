"""The pages of the book made from the code: map, commands, settings, glossary, laws; --check says which are stale."""

import ast
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import articles
from floors import FLOORS, PACKAGE, SOURCE

DOCS = SOURCE.parent / "docs"
NOTICE = "<!-- Made by `make fix` from the code; edits here are lost. -->\n\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check name those that differ from the code; exit status 1 where there is one."""
    if arguments not in ([], ["--check"]):
        print(f"tools/pages.py takes --check or nothing, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    pages = {DOCS / name: NOTICE + make() for name, make in PAGES.items()}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not arguments:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path], encoding="utf-8", newline="\n")
    elif stale:
        names = ", ".join(str(path.relative_to(DOCS.parent)) for path in stale)
        print(f"pages: {names} differ from the code; run `make fix`", file=sys.stderr)
        return 1
    return 0


def file_map() -> str:
    """Every module with the sentence it starts with, folder by folder from the ground up."""
    root = SOURCE / PACKAGE
    order = list(FLOORS)
    floors = sorted(
        (path for path in root.iterdir() if path.stem in order and (path / "__init__.py").exists() | path.is_file()),
        key=lambda path: order.index(path.stem),
    )
    loose = table("", [path for path in floors if path.is_file()])
    folders = [table(path.name, sorted(path.rglob("*.py"))) for path in floors if path.is_dir()]
    return "# The map\n\nEvery module and the sentence it starts with; lower floors first.\n\n" + "\n".join(
        [loose, *folders]
    )


def table(folder: str, paths: list[Path]) -> str:
    """One folder as a heading, its own sentence and a row for each module."""
    root = SOURCE / PACKAGE
    first = root / folder / "__init__.py"
    rows = [
        f"| [{path.relative_to(root / folder).as_posix()}](../../{path.relative_to(SOURCE.parent).as_posix()}) "
        f"| {sentence(path)} |"
        for path in paths
        if path != first
    ]
    heading = f"## {PACKAGE}{f'/{folder}' if folder else ''}\n\n{sentence(first)}\n\n"
    return heading + "\n".join(["| file | |", "|---|---|", *rows]) + "\n"


def sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not words:
        raise SystemExit(f"pages: {path.relative_to(SOURCE.parent)} does not start with a sentence saying what it is")
    return " ".join(words.split("\n\n")[0].split()).replace("|", "\\|")


def commands() -> str:
    """The --help of `pellucid` and of each of its commands, at a fixed width and without colours."""
    os.environ.update(COLUMNS="110", TERMINAL_WIDTH="110", TYPER_USE_RICH="0", NO_COLOR="1")
    from typer.main import get_command
    from typer.testing import CliRunner

    sys.path.insert(0, str(SOURCE))
    app = import_module(f"{PACKAGE}.cli").app
    texts: list[str] = []
    for words in lines_of(get_command(app)):
        result = CliRunner().invoke(app, [*words, "--help"], prog_name=PACKAGE)
        if result.exit_code != 0:
            raise SystemExit(f"pages: {' '.join([PACKAGE, *words])} --help failed:\n{result.output}")
        texts.append(f"## {' '.join([PACKAGE, *words])}\n\n```\n{tidy(result.output)}\n```\n")
    return "# The commands\n\nWhat each of them says of itself with `--help`.\n\n" + "\n".join(texts)


def lines_of(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call a command, then those of each command inside it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from lines_of(inner, (*words, name))


def tidy(text: str) -> str:
    """Without spaces at the ends of lines and empty lines around."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def settings() -> str:
    """Every key of a run file and every option of a search: type, default, meaning, as their dataclasses have them."""
    sys.path.insert(0, str(SOURCE))
    run, search = (
        getattr(import_module(f"{PACKAGE}.{name}.config"), kind)
        for name, kind in (("train", "RunConfig"), ("decode", "SearchConfig"))
    )
    sections = {name: kind for name, kind in tables_of(run) if name != "data.corpus"}
    corpus = next(kind for name, kind in tables_of(run) if name == "data.corpus")
    texts = [
        "# The settings",
        "A run file is TOML: a key before the first table, then one table for each section. Every key has a default "
        "but the data and the length of the run, `--set section.key=value` overrides any, and `run.toml` in the "
        "directory of a run holds them all as they were resolved. An unknown key is refused, with the nearest known "
        "one. How to name data is told in [Your data](../training/data.md); the files behind "
        "[Recipes](../training/recipes.md) are examples.",
        f"## Of the run\n\n{keys(run)}",
        *(f"## [{name}]\n\n{purpose(kind)}\n\n{keys(kind)}" for name, kind in sections.items()),
        f"## [[data.corpus]]\n\n{purpose(corpus)} A table for each.\n\n{keys(corpus)}",
        "## Of a search\n\nOptions of `pellucid translate`, with `-` for `_`, and names for `Model.translate`: "
        f"`model.translate(lines, beam=1)`.\n\n{keys(search)}",
    ]
    return "\n\n".join(texts) + "\n"


def tables_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """The dataclasses among the fields of one, by their place: data, data.corpus, train, ..."""
    for name, hint in get_type_hints(kind).items():
        inner = [each for each in get_args(hint) if dataclasses.is_dataclass(each)]
        if dataclasses.is_dataclass(hint):
            yield name, hint
            yield from ((f"{name}.{within}", each) for within, each in tables_of(hint))
        elif inner:
            yield name, inner[0]


def purpose(kind: Any) -> str:
    """What a section is for: its docstring, without what it raises."""
    return kind.__doc__.partition(" Raises ")[0]


def keys(kind: Any) -> str:
    """A row for each key of a section that is no section itself."""
    hints = get_type_hints(kind, include_extras=True)
    inner = {name.partition(".")[0] for name, _ in tables_of(kind)}
    rows = [
        f"| `{each.name}` | {kind_of(hints[each.name])} | {default_of(each)} | {meaning_of(hints[each.name])} |"
        for each in dataclasses.fields(kind)
        if each.name not in inner
    ]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def kind_of(hint: Any) -> str:
    """A type in words: int, text, one of some texts."""
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    choices = [each for each in (plain, *get_args(plain)) if get_origin(each) is Literal]
    if choices:
        return " or ".join(f"`{word}`" for word in get_args(choices[0]))
    named: list[type] = [each for each in (get_args(plain) or (plain,)) if each is not type(None)]
    return ", ".join({"str": "text", "bool": "true or false"}.get(each.__name__, each.__name__) for each in named)


def default_of(field: "dataclasses.Field[Any]") -> str:
    """A default as TOML writes it; nothing where there is none."""
    if field.default is dataclasses.MISSING or field.default is None:
        return ""
    value = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def meaning_of(hint: Any) -> str:
    """The sentence beside an annotated field."""
    [words] = [each for each in hint.__metadata__ if isinstance(each, str)]
    return in_cell(words)


def glossary() -> str:
    """Every visible tensor of a model of the paper's form, layer 0 standing for all; then what options change."""
    sys.path.insert(0, str(SOURCE))
    model = import_module(f"{PACKAGE}.model.glossary")
    config = import_module(f"{PACKAGE}.model").ModelConfig
    one = {"d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 1, "decoder_layers": 1}
    usual = model.glossary(config(8000, 8000, **one))
    texts = [
        "# The glossary of tensors",
        "Every tensor of a translation that can be looked at, in the order in which it is computed. One name for each, "
        'everywhere: in a trace (`trace["decoder.3.cross.pattern"]`), in an edit, in the page, in an exported file. '
        "`N` is the number of a layer, 0 the first. A name in the last column that has no dot stands beside the "
        "tensor: `scores` in the row of `decoder.N.cross.pattern` is `decoder.N.cross.scores`.",
        "The letters are sizes; in a trace of one sentence B is left out.",
        "\n".join(["| letter | size |", "|---|---|", *(f"| {k} | {in_cell(v)} |" for k, v in model.LEGEND.items())]),
    ]
    for places, heading in (("encoder memory", "The encoder"), ("decoder states", "The decoder"), ("logits", "Logits")):
        rows = [row for row in usual if row.name.partition(".")[0] in places.split()]
        texts.append(f"## {heading}\n\n{rows_of(rows)}")
    texts.append(
        "## What options change\n\nAbove are the defaults: norms before each sublayer, sinusoidal positions, ReLU. "
        "With other settings these rows differ:"
    )
    for options in ({"norm": "post"}, {"positions": "learned"}, {"positions": "rotary"}, {"activation": "swiglu"}):
        [(key, value)] = options.items()
        rows = [row for row in model.glossary(config(8000, 8000, **one, **options)) if row not in usual]
        texts.append(f'`model.{key} = "{value}"`:\n\n{rows_of(rows)}')
    texts.append("With positions `none` or `rotary` there is no `encoder.positions` and no `decoder.positions`.")
    return "\n\n".join(texts) + "\n"


def rows_of(rows: list[Any]) -> str:
    """Tensors as a table."""
    lines = [
        f"| `{each.name.replace('.0.', '.N.')}` | {each.dims} | {in_cell(each.means)} "
        f"| `{each.of.replace('.0.', '.N.')}` |"
        for each in rows
    ]
    return "\n".join(["| tensor | dimensions | what it is | made of |", "|---|---|---|---|", *lines])


def laws() -> str:
    """Every test of tests/laws as the sentence that it proves, file by file."""
    texts = [
        "# The laws",
        "What holds whatever the options, the data and the machine. Each sentence is the name of a test that proves "
        "it; a change keeps them all, and a new promise comes with a new law. `make test` runs them.",
    ]
    for path in sorted((SOURCE.parent / "tests" / "laws").glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
        link = f"[{path.name}](../../{path.relative_to(SOURCE.parent).as_posix()})"
        heading = path.stem.removeprefix("test_").replace("_", " ").capitalize()
        texts.append(f"## {heading}\n\n{sentence(path)} ({link})\n\n" + "\n".join(map(law, found)))
    return "\n\n".join(texts) + "\n"


def law(test: ast.FunctionDef) -> str:
    """The name of a test as a sentence, and the first sentence of what is said of it."""
    name = test.name.removeprefix("test_").replace("_", " ")
    said = " ".join((ast.get_docstring(test) or "").split("\n\n")[0].split())
    return f"- **{name[0].upper()}{name[1:]}.** {said}".rstrip()


def in_cell(text: str) -> str:
    """Text as a cell of a table shows it."""
    return re.sub(r"([|*_<\[\]])", r"\\\1", text)


PAGES: dict[str, Callable[[], str]] = {
    "reference/map.md": file_map,
    "reference/commands.md": commands,
    "reference/settings.md": settings,
    "reference/glossary.md": glossary,
    "reference/articles.md": articles.page,
    "design/laws.md": laws,
}
"""What each page is made by, by its place in docs/."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
