"""The command line: one small file for each command; heavy imports wait until a command runs."""

from typing import Annotated

import typer

from pellucid.cli import (
    calibrate,
    check,
    compare,
    convert,
    demo,
    distill,
    evaluate,
    explain,
    export,
    import_,
    improve,
    inspecting,
    mini,
    plan,
    prepare,
    push,
    remember,
    score,
    serve,
    train,
    translate,
    verify,
)
from pellucid.cli.options import Command, report_errors

app = typer.Typer(
    name="pellucid",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # every command below takes them from here
    rich_markup_mode=None,  # plain text is faster, and copies into documents
    pretty_exceptions_enable=False,  # a failure of ours keeps its plain traceback; report_errors handles the rest
)
for name, module in {
    "demo": demo,
    "plan": plan,
    "check": check,
    "convert": convert,
    "prepare": prepare,
    "train": train,
    "translate": translate,
    "remember": remember,
    "explain": explain,
    "serve": serve,
    "evaluate": evaluate,
    "compare": compare,
    "score": score,
    "verify": verify,
    "calibrate": calibrate,
    "improve": improve,
    "distill": distill,
    "export": export,
    "import": import_,
    "push": push,
    "mini": mini,
}.items():
    # \b keeps Click from rewrapping the examples as one paragraph.
    app.command(name, cls=Command, epilog=f"\b\nExamples:\n{module.EXAMPLES}")(report_errors(module.run))
app.add_typer(inspecting.app)


def main() -> None:
    """Run the `pellucid` command."""
    app(prog_name="pellucid")


def _show_version(requested: bool) -> None:
    """Print the version of the installed package and exit."""
    if requested:
        import pellucid

        typer.echo(f"pellucid {pellucid.__version__}")
        raise typer.Exit


@app.callback()
def pellucid(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    """A Transformer you can see through: train it on your own sentence pairs, translate with it, score it.

    Start with: pellucid demo

    Results go to standard output, progress and messages to standard error. Exit code 0: success; 1: the run failed; 2:
    something is wrong with the input, and one message says what; 130: interrupted.
    """
