"""The command line: a file for each command; heavy imports wait until a command runs."""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pellucid.cli import inspecting
from pellucid.cli.options import Command, option, report_error, report_errors
from pellucid.cli.standard_streams import replace_closed_streams

_GROUPS = {
    "Start": "demo mini",
    "Prepare text": "check convert align terms prepare",
    "Train": "plan train improve distill",
    "Translate": "translate serve calibrate",
    "Measure": "evaluate compare score verify",
    "Look inside": "explain inspect remember",
    "Exchange models": "export import push",
}
"""Names of the commands, in the groups and the order of the help; each has a file."""


class _Groups(TyperGroup):
    """Commands that the help lists in groups."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return " ".join(_GROUPS.values()).split()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each group under its name, a command with its short help a line."""
        width = max(map(len, self.commands))
        for name, commands in _GROUPS.items():
            rows = []

            for command in commands.split():
                # As wide in every group, so that all help stands in one column.
                room = formatter.width - 6 - width
                rows.append((command.ljust(width), self.commands[command].get_short_help_str(room)))

            with formatter.section(name):
                formatter.write_dl(rows)


app = typer.Typer(
    name="pellucid",
    cls=_Groups,
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["-h", "--help"],  # every command below takes them from here
        # Typer imports pydantic to check the None of its own flags: half of the time of a --help.
        "default_map": dict.fromkeys(("help", "install_completion", "show_completion"), False)
        | {"inspect": {"help": False}},
    },
    rich_markup_mode=None,  # plain text is faster, and copies into documents
    pretty_exceptions_enable=False,  # a failure of ours keeps its plain traceback; report_errors handles the rest
)
for name in " ".join(_GROUPS.values()).split():
    if name == "inspect":  # a group of commands, which is added below
        continue
    # `import` is a keyword of Python.
    module = import_module(f"pellucid.cli.{'import_' if name == 'import' else name}")
    run, examples = getattr(module, f"run_{name}"), getattr(module, f"{name.upper()}_EXAMPLES")
    # \b keeps Click from rewrapping the examples as one paragraph.
    app.command(name, cls=Command, epilog=f"\b\nExamples:\n{examples}")(report_errors(run))
app.add_typer(inspecting.app)


def main() -> None:
    """Run the `pellucid` command."""
    replace_closed_streams()
    try:
        app(prog_name="pellucid")
    except OSError as error:  # raised while a help or a version is written; `report_errors` reports errors of commands
        sys.exit(report_error(error))


def _show_version(requested: bool) -> None:
    """Print the version of the installed package and exit."""
    if requested:
        import pellucid

        typer.echo(f"pellucid {pellucid.__version__}")
        raise typer.Exit


@app.callback()
def pellucid(
    version: Annotated[
        bool,
        option(
            "show the version and exit",
            None,
            "--version",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """A Transformer you can see through: train it on your own sentence pairs, translate with it, score it.

    Start with: pellucid demo

    Results go to standard output, progress and messages to standard error. A file that a command
    writes appears when it is complete; a link keeps pointing, and a device, a FIFO or a socket is
    written directly. Exit code 0: success; 1: the run failed; 2: something is wrong with the input,
    and one message says what; 130: interrupted (a training that saved everything when it was told
    to stop: 129, 130 or 143, as shells count signals).
    """
