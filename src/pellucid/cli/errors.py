"""Errors of a command as one clear sentence and an exit code: 2 for a mistake of the user, 1 for a failed disk."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer

from pellucid.store.atomic import is_failed_write

Command = TypeVar("Command", bound=Callable[..., Any])

FAILED, USERS_MISTAKE, INTERRUPTED, PIPE_CLOSED, TERMINATED = 1, 2, 130, 141, 143  # the last three as shells do


def report_errors(command: Command) -> Command:
    """Return the command with ValueError and OSError turned into a message on standard error.

    Any other error is a fault of ours and keeps its traceback.
    """

    @wraps(command)
    def run_and_report(*arguments: Any, **options: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                result = command(*arguments, **options)
            sys.stdout.flush()  # here, where a broken pipe is still caught, and not while Python shuts down
            return result
        except BrokenPipeError:
            # The reader of our output has stopped, as `head` does. Python flushes standard output once more as it exits
            # and would complain again, so it gets a place that takes everything.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        except (ValueError, OSError) as error:
            typer.echo(f"pellucid: {describe_error(error)}", err=True)
            raise typer.Exit(FAILED if is_failed_write(error) else USERS_MISTAKE) from None
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


def show_warning(message: Warning | str, category: type[Warning], filename: str, *location: Any) -> None:
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
