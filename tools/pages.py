"""Pages of the book made from the code: commands, settings, glossary and more; --check names stale ones."""

import ast
import dataclasses
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from textwrap import fill
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import articles
from floors import PACKAGE, SOURCE

from pellucid.config import key_of_field

DOCS = SOURCE.parent / "docs"
NOTICE = "<!-- Made by `make fix` from the code; edits here are lost. -->\n\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check name those that differ from the code; exit status 1 where there is one."""
    if arguments not in ([], ["--check"]):
        print(f"tools/pages.py takes --check or nothing, not: {' '.join(arguments)}", file=sys.stderr)
        return 2
    pages = {DOCS / name: NOTICE + make() for name, make in PAGES.items()}
    # Only pages that differ are written, so that their time of change means something.
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


def commands_page() -> str:
    """Return the --help of `pellucid` and of each of its commands, at a fixed width and without colours."""
    # Set before the import of typer, which reads some of these only then.
    os.environ.update(COLUMNS="110", TERMINAL_WIDTH="110", TYPER_USE_RICH="0", NO_COLOR="1")
    from typer.main import get_command
    from typer.testing import CliRunner

    sys.path.insert(0, str(SOURCE))
    app = import_module(f"{PACKAGE}.cli").app
    texts: list[str] = []
    for words in command_paths(get_command(app)):
        # In this process: starting Python for each of the commands would take longer.
        result = CliRunner().invoke(app, [*words, "--help"], prog_name=PACKAGE)
        if result.exit_code != 0:
            raise SystemExit(f"pages: {' '.join([PACKAGE, *words])} --help failed:\n{result.output}")
        texts.append(f"## {' '.join([PACKAGE, *words])}\n\n```\n{strip_lines(result.output)}\n```\n")

    counts = Counter(option for text in texts for option in read_options(text))
    shared = {option for option, count in counts.items() if count >= 2 and not option[0].startswith("-h")}
    introduction = (
        "# The commands\n\nThis is what each command prints with `--help`. Options and arguments that several commands "
        "have are explained once, here; further down only their names are printed, with a star where the option is "
        "required.\n\n"
    )
    # What a name means in one command it means in another, but for a word or two.
    meanings: dict[str, list[str]] = {}
    for name, explanation in sorted(shared):
        meanings.setdefault(name, []).append(explanation)
    table = "".join(f"- `{name}`: {'; or: '.join(several)}\n" for name, several in meanings.items())
    return introduction + table + "\n" + "\n".join(shorten_help(text, shared) for text in texts)


REQUIRED = "[required]"


def read_options(text: str) -> dict[tuple[str, str], str]:
    """Return options and arguments in the help of a command, each name with its explanation, and how it is printed.

    The names and explanations are without the type of an argument, and without the word that it is required.
    """
    options = {}
    for heading in ("Arguments", "Options"):
        printed = text.partition(f"\n{heading}:\n")[2].partition("\n\n")[0].removesuffix("\n```\n")
        # An explanation goes on in lines that are indented further.
        for option in re.split(r"\n(?=  \S)", printed):
            name, _, explanation = re.sub(r"\n +", "  ", option.strip()).partition("  ")
            if not name:
                continue
            words = " ".join(explanation.split()).removesuffix(REQUIRED).strip()
            options[TYPE.sub("", name).strip(), words] = option
    return options


TYPE = re.compile(r"<(str|list\[str\])>")


def shorten_help(text: str, shared: set[tuple[str, str]]) -> str:
    """Leave out what stands elsewhere: the explanations of shared options and arguments, `--help`, and the usage."""
    above: list[str] = []
    for (name, explanation), printed in read_options(text).items():
        if (name, explanation) not in shared:
            continue
        if name.startswith("-"):
            above.append(name.split()[0] + "*" * (REQUIRED in printed))
            text = text.replace(f"{printed}\n", "")
        else:
            text = text.replace(printed, f"  {name}")
    text = re.sub(r"\n  -h, --help(  .*(\n {20,}.*)*)?$", "", text, flags=re.MULTILINE)
    if above:
        names = fill(f"Explained above: {', '.join(above)}", 80, initial_indent="  ", subsequent_indent="  ")
        before, heading, rest = text.partition("\nOptions:\n")
        # The list ends where the examples begin, or the block.
        [end] = [match.start() for match in [re.search(r"\n(?=\n|```)", rest)] if match]
        text = f"{before}{heading}{rest[:end]}\n{names}{rest[end:]}"
    text = text.replace("\nOptions:\n\n", "\n").replace("\nOptions:\n```", "```")
    # What is explained beside an argument says its type; as many spaces keep the columns.
    text = strip_lines(TYPE.sub(lambda kind: " " * len(kind[0]), text)) + "\n"
    return re.sub(r"```\nUsage: .*\n\n", "```\n", text, count=1)


def command_paths(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words that call a command, then those of each command inside it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from command_paths(inner, (*words, name))


def strip_lines(text: str) -> str:
    """Remove spaces at the ends of lines, and empty lines around the text."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def settings_page() -> str:
    """List the keys of a run file, options of a search and limits of a server, from their dataclasses."""
    sys.path.insert(0, str(SOURCE))
    run, search, limits = (
        getattr(import_module(f"{PACKAGE}.{name}"), kind)
        for name, kind in (
            ("training.config", "RunConfig"),
            ("decode.request", "SearchConfig"),
            ("serve.settings", "Limits"),
        )
    )
    # Corpora are an array of tables in TOML, so they come last and under their own heading.
    sections = {name: kind for name, kind in list_sections(run) if name != "data.corpus"}
    corpus = next(kind for name, kind in list_sections(run) if name == "data.corpus")
    texts = [
        "# The settings",
        "A run file describes a training. It is written in TOML: first the key that belongs to no section, then one "
        "table for each section. A key without a default has its type in brackets, and may be left out, except for the "
        "data and the length of the run. `--set section.key=value` overrides any key, and `run.toml` in the directory "
        "of a run shows all values with which it was made. An unknown key is refused, and the error names the nearest "
        "known one. "
        "[Your data](../training/data.md) explains how to name the data; the files behind "
        "[Recipes](../training/recipes.md) are examples.",
        f"## Of the run\n\n{keys_table(run)}",
        *(f"## [{name}]\n\n{section_purpose(kind)}\n\n{keys_table(kind)}" for name, kind in sections.items()),
        f"## [[data.corpus]]\n\n{section_purpose(corpus)} Write one table for each corpus.\n\n{keys_table(corpus)}",
        "## Of a search\n\nThese are options of `pellucid translate`, where `-` takes the place of `_`, and arguments "
        f"of `Model.translate`, as in `model.translate(lines, beam=1)`.\n\n{keys_table(search)}",
        "## Of a server\n\nThese are the limits on what `pellucid serve` accepts. `--set` changes one, for example "
        "`--set characters=2000`.\n\n"
        f"{keys_table(limits)}",
    ]
    return "\n\n".join(texts) + "\n"


def list_sections(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the dataclasses among the fields of one, with their dotted names: data, data.corpus, train, ..."""
    for name, hint in get_type_hints(kind).items():
        # A tuple of dataclasses, such as the corpora, is one section too.
        elements = [argument for argument in get_args(hint) if dataclasses.is_dataclass(argument)]
        if dataclasses.is_dataclass(hint):
            yield name, hint
            yield from ((f"{name}.{inner_name}", section) for inner_name, section in list_sections(hint))
        elif elements:
            yield name, elements[0]


def section_purpose(kind: Any) -> str:
    """Return the docstring of a section, without the errors it raises."""
    return kind.__doc__.partition(" Raises ")[0]


def keys_table(kind: Any) -> str:
    """Return a row for each key of a section that is not a section itself."""
    hints = get_type_hints(kind, include_extras=True)
    section_names = {name.partition(".")[0] for name, _ in list_sections(kind)}
    rows = [
        f"| `{key_of_field(field.name)}` | {value_text(field, hints[field.name])} | {meaning_text(hints[field.name])} |"
        for field in dataclasses.fields(kind)
        if field.name not in section_names
    ]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def value_text(field: "dataclasses.Field[Any]", hint: Any) -> str:
    """Return the default of a key, which shows its type, and its other choices; or the type where there is no default.

    A whole number is written without a point, any other number with one.
    """
    default, types = default_text(field), type_words(hint)
    if not default:
        return f"({types})"
    choices = [choice for choice in types.split(" or ") if choice.startswith("`") and choice != default]
    return f"{default} (or {', '.join(choices)})" if choices else default


def type_words(hint: Any) -> str:
    """Describe a type in words: whole number, text, one of some texts."""
    # Annotated[T, "meaning"] is T; Literal may stand inside an optional type.
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    choices = [argument for argument in (plain, *get_args(plain)) if get_origin(argument) is Literal]
    if choices:
        return " or ".join(f"`{word}`" for word in get_args(choices[0]))
    if get_origin(plain) is tuple:
        return f"list of {type_words(get_args(plain)[0])}"
    types: list[type] = [argument for argument in (get_args(plain) or (plain,)) if argument is not type(None)]
    words = {"str": "text", "bool": "true or false", "int": "whole number", "float": "number", "tuple": "list"}
    return " or ".join(words[argument.__name__] for argument in types)


def default_text(field: "dataclasses.Field[Any]") -> str:
    """Format a default as TOML writes it; return an empty text where there is none."""
    if field.default is dataclasses.MISSING or field.default in (None, ()):
        return ""
    # Python writes True, TOML true.
    value = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{value}`"


def meaning_text(hint: Any) -> str:
    """Return the sentence beside an annotated field."""
    [meaning] = [item for item in hint.__metadata__ if isinstance(item, str)]
    return escape_cell(meaning)


def glossary_page() -> str:
    """List every visible tensor of a model of the paper's form, layer 0 standing for all; then what options change."""
    sys.path.insert(0, str(SOURCE))
    model = import_module(f"{PACKAGE}.model.glossary")
    config = import_module(f"{PACKAGE}.model").ModelConfig
    # The paper's base model, with one layer of each kind: the rows of the other layers differ only in a number.
    sizes = {"d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 1, "decoder_layers": 1}
    usual_rows = model.glossary(config(8000, 8000, **sizes))
    texts = [
        "# The glossary of tensors",
        "This page lists every tensor of a translation that you can look at, in the order of computation. Each has the "
        'same name everywhere: in a trace (`trace["decoder.3.cross.pattern"]`), in an edit, on the page and in an '
        "exported file. `N` is the number of a layer, counted from 0. In the last column, a name without a dot belongs "
        "to the same part of the model: `scores` in the row of `decoder.N.cross.pattern` is `decoder.N.cross.scores`.",
        "The letters stand for sizes. A trace has only one sentence, so B is left out there.",
        "\n".join(
            ["| letter | size |", "|---|---|", *(f"| {k} | {escape_cell(v)} |" for k, v in model.LEGEND.items())]
        ),
    ]
    for prefixes, heading in (
        ("encoder memory", "The encoder"),
        ("decoder states", "The decoder"),
        ("logits", "Logits"),
    ):
        rows = [row for row in usual_rows if row.name.partition(".")[0] in prefixes.split()]
        texts.append(f"## {heading}")
        if heading == "The decoder":
            twins = {as_encoder_row(row) for row in usual_rows if row.name.startswith("encoder.")}
            rows = [row for row in rows if as_encoder_row(row) not in twins]
            texts.append(
                "The decoder has all tensors above as well, as `decoder.N.self.q` and so on, with T positions instead "
                "of S; these are those that differ, and those that it has besides:"
            )
        texts.append(tensor_table(rows))
    texts.append(
        "## What options change\n\nThe tables above are for the defaults: norms before each sublayer, sinusoidal "
        "positions and ReLU. With other settings the following rows differ:"
    )
    for options in ({"norm": "post"}, {"positions": "learned"}, {"positions": "rotary"}, {"activation": "swiglu"}):
        [(key, value)] = options.items()
        # Only the rows that this option adds or changes.
        rows = [row for row in model.glossary(config(8000, 8000, **sizes, **options)) if row not in usual_rows]
        texts.append(f'`model.{key} = "{value}"`:\n\n{tensor_table(rows)}')
    texts.append("With positions `none` or `rotary` there is no `encoder.positions` and no `decoder.positions`.")
    return "\n\n".join(texts) + "\n"


def as_encoder_row(row: Any) -> tuple[str, str, str]:
    """Return the name, the dimensions and the meaning that a row has in the encoder."""
    return row.name.replace("decoder", "encoder"), row.dims.replace("T", "S"), row.means.replace("target", "source")


def tensor_table(rows: list[Any]) -> str:
    """Format tensors as a table."""
    lines = [
        f"| `{row.name.replace('.0.', '.N.')}` | {row.dims} | {escape_cell(row.means)} "
        f"| `{row.of.replace('.0.', '.N.')}` |"
        for row in rows
    ]
    return "\n".join(["| tensor | dimensions | what it is | made of |", "|---|---|---|---|", *lines])


def documents_page() -> str:
    """List what becomes of the parts of a document, format by format."""
    sys.path.insert(0, str(SOURCE))
    formats = import_module(f"{PACKAGE}.localize.documents.formats").FORMATS
    kinds = import_module(f"{PACKAGE}.localize.documents.reading").KEPT_KINDS
    rows = []
    for described in formats:
        endings = " ".join(f"`{ending}`" for ending in described.media_types)
        kept = "; ".join(f"*{kind}*: {what}" for kind, what in described.kept.items())
        cells = [f"{described.name} {endings}", described.translated, kept, described.stays, described.rewritten]
        rows.append(f"| {' | '.join(cells)} |")
    names = "; ".join(f"*{kind}* {several}" for kind, (_, several) in kinds.items())
    texts = [
        "# Formats of documents",
        "What `pellucid translate` and the server do with the parts of a [document](../start/documents.md). In all of "
        "them the text of paragraphs is translated, and what the second column names. What stays is byte for byte as "
        "it was, and so is all else but what the last column names: of an archive, this is said of the files in it. "
        "The table is made from the code, and a test reads a document for each kind of text that the third column has.",
        "\n".join(
            [
                "| format | translated | stays, and is counted | stays | written anew |",
                "|---|---|---|---|---|",
                *rows,
            ]
        ),
        f"The kinds are those of the account at the end: {names}. In every format a text without letters stays and is "
        "counted, and in every format of XML a character that XML cannot hold is left out and counted.",
    ]
    return "\n\n".join(texts) + "\n"


def laws_page() -> str:
    """List the promises, and name the files of tests/laws that prove them, each with its number of laws."""
    names: list[str] = []
    for path in sorted((SOURCE.parent / "tests" / "laws").glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        laws = sum(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body)
        heading = path.stem.removeprefix("test_").replace("_", " ")
        names.append(f"[{heading}](../../{path.relative_to(SOURCE.parent).as_posix()}) ({laws})")
    return f"{PROMISES}{', '.join(names)}.\n"


PROMISES = """\
# The promises

- **Nothing is lost.** One line in, one line out, in order. Lines end at `\\n` or `\\r\\n` and nowhere else;
  text is UTF-8, checked. Unequal line counts, undecodable bytes and NUL are refused with file and line; empty
  and over-long sides are skipped by a stated rule, counted and named. No pair is ever shifted. Each sentence of
  a line with several is translated; where a translation seems to lack one, [a note says
  so](../start/whole-text.md).
- **Nothing is cut.** Every translation says why it stopped: `eos`, `length` or `empty`.
- **Nothing depends on the neighbours.** A translation follows from its own line, whatever stands beside it, in
  whatever order, and however many are translated at a time.
- **Nothing is silent.** A mistake of yours ends with one message and exit code 2, and leaves no half-written
  file.
- **A run can be killed.** A checkpoint is written to a new file first and takes the old one's name only when it
  is safely on the disk. `--resume` ends where an undisturbed run does, to the bit (on a CPU with the same
  number of threads; with `--minutes` the schedule follows the clock, which no two runs share).
- **Workers change the time of a run, and nothing else**, however many share it.
- **What came out comes out again.** A model keeps lines of its dev text with their translations; `pellucid
  verify` says whether an upgrade, another machine or another engine changes one of them.
- **What you look at is what ran.** Every intermediate passes through one `watch`; recording and editing are
  arguments of the call. The formula stands beside the fast way, and a test ties them together.

## The laws

The tests in tests/laws prove these and more. The name of each test is the sentence that it proves, so each file reads
as a specification. A change of the code must keep them all, and a new promise needs a new law. The files, with the
number of their laws:

"""


def escape_cell(text: str) -> str:
    """Escape text for the cell of a table."""
    return re.sub(r"([|*_<\[\]])", r"\\\1", text)


PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
    "reference/glossary.md": glossary_page,
    "reference/documents.md": documents_page,
    "design/articles.md": articles.articles_page,
    "design/laws.md": laws_page,
}
"""Function that makes each page, by its path in docs/."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
