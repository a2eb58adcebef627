"""Options that several commands take, and errors of all commands as one sentence with an exit code."""

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from pellucid.cli.removed_options import REMOVED_OPTIONS
from pellucid.cli.standard_streams import drop_unwritten_output
from pellucid.store.atomic import is_failed_write


def search_option(name: str, **more: Any) -> Any:
    """Return an option whose help is the description of a field of `SearchConfig`."""
    from pellucid.decode.request import SearchConfig

    # The description is the first metadata of the field's Annotated type.
    return typer.Option(help=get_type_hints(SearchConfig, include_extras=True)[name].__metadata__[0], **more)


def search_default(name: str) -> Any:
    """Return the default of a field of `SearchConfig`."""
    from pellucid.decode.request import SearchConfig

    return getattr(SearchConfig, name)


def search_settings(changes: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """Return the settings of a search from options and `--set`.

    Raises ValueError for what no search can have.
    """
    from pellucid.config import apply_overrides
    from pellucid.decode.request import SearchConfig

    settings = apply_overrides(options, changes or (), "max_extra=80")
    SearchConfig.from_options(settings)
    return settings


def option(help: str, metavar: str | None = None, *names: str, **limits: Any) -> Any:
    """Return an option, called as its parameter unless there are `names`.

    `limits` are `min` and `max` of a number.
    """
    return typer.Option(*names, metavar=metavar or ("N" if limits else None), help=help, **limits)


def file_option(help: str, *names: str) -> Any:
    """Return an option that names a file."""
    return option(help, "FILE", *names)


def flag(name: str, help: str) -> Any:
    """Return an option that is there or not, without a --no- of its own."""
    return option(help, None, name)


def argument(metavar: str, help: str) -> Any:
    """Return an argument of the command line."""
    return typer.Argument(metavar=metavar, help=help)


MODEL = argument("MODEL", "a model directory, such as runs/demo/best")
SENTENCE = argument("SENTENCE", "sentence to translate")
TEXT_OR_PAIRS = argument("SOURCE", "sentences, one per line, plain or .gz; or one file of pairs, such as .tsv or .tmx")
TEXT_TARGET = typer.Argument(metavar="[TARGET]", help="their translations, line by line", show_default=False)
TARGET = option("look into this translation instead of searching for one", "TEXT")
DOCUMENT = flag("--document", "read each line with the one before it, as `translate --document` does")
CONTEXT = option("the sentence before it, for a model that was trained with data.context", "TEXT")
JSON = flag("--json", "write JSON objects instead of text")
PLOT = file_option("also draw a figure into this file, .png or .svg", "--plot")
PRECISIONS = option(
    "precision of the weights; bfloat16 takes half the memory, and less time where the processor has it; int8 is for "
    "CTranslate2 only, and `pellucid export` measures what it costs; so are float16 and int8_float16, on a GPU",
    "float32|bfloat16|int8|float16|int8_float16",
)
ENGINE = option(
    "engine that runs the model; auto takes CTranslate2 where it is installed and gives the same text",
    "auto|torch|ctranslate2",
)
DEVICE = option(
    "device that runs the model; a GPU is used only if you name it (cuda, or cuda:1)",
    "cpu|cuda",
)
EXPORTED = option(
    "translate with this export of the model (`pellucid export --to ctranslate2`), in the precision it has",
    "DIR",
)
CLUSTER = option(
    "share the work among processes, by Ray: auto (the cluster that this machine belongs to, or its own cores), local "
    "(its own cores), or the address of a cluster",
    "auto|local|ADDRESS",
)
WORKERS = option("with --cluster, the most workers; as many as there is room for, if left out", min=1)
CORES = option("with --cluster, processor cores of each worker; workers do not share memory", min=1)
LINES_PER_PART = 4096
PART_LINES = option(
    "with --cluster, lines of a part, which a worker takes at a time; multiples of 2048 make the scores, too, the same "
    "as in one process",
    min=1,
)
SOURCE_LANGUAGE = option(
    "language of the sources in a file of pairs, such as en for en and en-US, or the name or number of a column; "
    "needed if the file has more than two, or does not say its direction",
    "LANGUAGE",
    "--from",
)
TARGET_LANGUAGE = option("language or column of the translations", "LANGUAGE", "--to")
LANGUAGE_TO_WRITE = option("language to write, for a multilingual model", "LANGUAGE", "--to")
LANGUAGE_OF_TRANSLATIONS = option(
    "language or column of the translations, and the language to write for a multilingual model",
    "LANGUAGE",
    "--to",
)
SOURCE = file_option("source sentences, one per line, plain or .gz; - is standard input")
TRANSLATIONS = file_option("their translations, line by line")
TERMS = file_option("terminology: on each line a source term, a tab and its target term; or a .tbx, .csv or .xlsx")
MEMORY = file_option(
    "translation memory (.tmx or another file of pairs): a line that is in it gets the translation there, and a "
    "similar one is told as such"
)
SETTINGS = option("override a setting; can be repeated", "SECTION.KEY=VALUE", "--set")
SEARCH_SETTINGS = option(
    "change a setting of the search, such as max_extra=80; can be repeated; docs/reference/settings.md lists them",
    "KEY=VALUE",
    "--set",
)

TOKENIZE = option(
    "how BLEU, TER and WER cut text into words: a tokenizer of sacreBLEU, such as 13a, intl, zh, ja-mecab, ko-mecab, "
    "char or none; if left out, the script of the references decides",
    "NAME",
    "--tokenize",
)


class Command(TyperCommand):
    """A command that says of each option it once had what to write instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line; exit with code 2 for an option that was removed."""
        removed = REMOVED_OPTIONS.get(ctx.command_path.partition(" ")[2], {})
        for word in args:
            option = word.partition("=")[0]
            if option in removed:
                typer.echo(f"pellucid: {option} was removed; {removed[option]}", err=True)
                raise typer.Exit(_USERS_MISTAKE)
        return super().parse_args(ctx, args)


Function = TypeVar("Function", bound=Callable[..., Any])

FAILED = 1
_USERS_MISTAKE = 2
# These, and the codes of signals, are as in shells.
INTERRUPTED = 130
_PIPE_CLOSED = 141
# Exit codes of a run that saved everything at a signal.
SIGNAL_CODES = {"SIGHUP": 129, "SIGINT": INTERRUPTED, "SIGTERM": 143}


def report_errors(command: Function) -> Function:
    """Return the command with ValueError and OSError turned into a message on standard error.

    Any other error is a fault of ours and keeps its traceback.
    """

    @wraps(command)
    def run_and_report(*arguments: Any, **options: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                result = command(*arguments, **options)
            sys.stdout.flush()  # here, where a broken pipe is still caught, and not while Python shuts down
            return result
        except (ValueError, OSError) as error:
            raise typer.Exit(report_error(error)) from None
        except KeyboardInterrupt:
            typer.echo("pellucid: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run_and_report  # pyright: ignore[reportReturnType]


def report_error(error: ValueError | OSError) -> int:
    """Say on standard error what went wrong, and return the exit code.

    Say nothing where a reader has stopped.
    """
    drop_unwritten_output()
    if isinstance(error, BrokenPipeError):  # the reader of our output has stopped, as `head` does
        return _PIPE_CLOSED
    typer.echo(f"pellucid: {describe_error(error)}", err=True)
    return FAILED if is_failed_write(error) else _USERS_MISTAKE


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    *location: Any,
) -> None:
    """Print a warning: one of ours as its bare message, one of a library as Python shows it."""
    ours = Path(filename).is_relative_to(Path(__file__).parent)
    text = f"pellucid: {message}\n" if ours else warnings.formatwarning(message, category, filename, *location[:1])
    typer.echo(text, err=True, nl=False)


def describe_error(error: ValueError | OSError) -> str:
    """Return the error in words.

    >>> describe_error(FileNotFoundError(2, "No such file or directory", "a.txt"))
    'a.txt: no such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror[0].lower() + error.strerror[1:]
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    return str(error) or type(error).__name__
