"""Options that several commands take, and errors of all commands as one sentence with an exit code."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

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


def file_option(help: str, *names: str) -> Any:
    """Return an option that names a file; it is called as its parameter, unless there are `names`."""
    return typer.Option(*names, metavar="FILE", help=help)


MODEL = typer.Argument(metavar="MODEL", help="a model directory, such as runs/demo/best")
JSON = typer.Option("--json", help="write JSON objects instead of text")
PRECISION = typer.Option(
    metavar="float32|bfloat16",
    help="precision of the weights; bfloat16 takes half the memory, and less time where the processor has it built in",
)
PRECISIONS = typer.Option(
    metavar="float32|bfloat16|int8",
    help="precision of the weights; bfloat16 takes half the memory, and less time where the processor has it built in; "
    "int8 is for CTranslate2 only, and `pellucid export` measures what it costs",
)
ENGINE = typer.Option(
    metavar="auto|torch|ctranslate2",
    help="engine that runs the model; auto takes CTranslate2 where it is installed and gives the same text",
)
SOURCE_LANGUAGE = typer.Option(
    "--from",
    metavar="LANGUAGE",
    help="language of the sources in a file of pairs, such as en for en and en-US, or the name or number of a column; "
    "needed if the file has more than two",
)
TARGET_LANGUAGE = typer.Option("--to", metavar="LANGUAGE", help="language or column of the translations")
DEVICE = typer.Option(
    metavar="cpu|cuda",
    help="device that runs the model; a GPU is used only if you name it (cuda, or cuda:1), and then by torch",
)
CONTEXT = typer.Option(metavar="TEXT", help="the sentence before it, for a model that was trained with data.context")
TERMS = file_option("terminology: on each line a source term, a tab and its target term")
MEMORY = typer.Option(
    metavar="FILE",
    help="translation memory (.tmx or another file of pairs): a line that is in it gets the translation there, and a "
    "similar one is told as such",
)
SETTINGS = typer.Option("--set", metavar="SECTION.KEY=VALUE", help="override a setting; can be repeated")
EXPORTED = typer.Option(
    metavar="DIR",
    help="translate with this export of the model (`pellucid export --to ctranslate2`), in the precision it has",
)

_LIMITS = (
    "characters", "texts", "alternatives", "request_terms", "term_characters", "body", "waiting", "connections",
    "open_requests", "each", "seconds", "arrival", "beam", "traces", "trace_bytes", "trace_minutes",
)  # fmt: skip
_REMOVED_OPTIONS = {
    "serve": {f"--{limit.replace('_', '-')}": f"--set {limit}=NUMBER" for limit in _LIMITS},
}
"""Options that a command had in version 0.1, and what to write instead."""


class Command(TyperCommand):
    """A command that says of each option it once had what to write instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line; exit with code 2 for an option that was removed."""
        removed = _REMOVED_OPTIONS.get(ctx.command_path.partition(" ")[2], {})
        for word in args:
            option = word.partition("=")[0]
            if option in removed:
                instead = f"write {removed[option]}"
                typer.echo(
                    f"pellucid: {option} was removed after version 0.1, the last that had it: {instead}", err=True
                )
                raise typer.Exit(_USERS_MISTAKE)
        return super().parse_args(ctx, args)


Function = TypeVar("Function", bound=Callable[..., Any])

FAILED, _USERS_MISTAKE, INTERRUPTED, _PIPE_CLOSED, TERMINATED = 1, 2, 130, 141, 143  # the last three as shells do


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
        except BrokenPipeError:
            # The reader of our output has stopped, as `head` does. Python flushes standard output once more as it exits
            # and would complain again, so it gets a place that takes everything.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_PIPE_CLOSED) from None
        except (ValueError, OSError) as error:
            typer.echo(f"pellucid: {describe_error(error)}", err=True)
            raise typer.Exit(FAILED if is_failed_write(error) else _USERS_MISTAKE) from None
        except KeyboardInterrupt:
            typer.echo("pellucid: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run_and_report  # pyright: ignore[reportReturnType]


def refuse_removed(app: typer.Typer, name: str, title: str, instead: str) -> None:
    """Let a command that was removed say so in one sentence, whatever its arguments were; no help lists it."""
    # Unknown options and --help belong to the arguments here, so that the answer is always the same.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

    @app.command(name, hidden=True, add_help_option=False, context_settings=settings)
    @report_errors
    def removed_command() -> None:
        raise ValueError(f"{title} was removed after version 0.1, the last that had it: {instead}")


def _show_warning(message: Warning | str, category: type[Warning], filename: str, *location: Any) -> None:
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
