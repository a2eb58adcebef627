"""Options that several commands share; those of a search take help and default from `SearchConfig`."""

from typing import Any, get_type_hints

import typer


def search_option(name: str, **more: Any) -> Any:
    """Return an option whose help is the description of a field of `SearchConfig`."""
    from pellucid.decode.config import SearchConfig

    # The description is the first metadata of the field's Annotated type.
    return typer.Option(help=get_type_hints(SearchConfig, include_extras=True)[name].__metadata__[0], **more)


def search_default(name: str) -> Any:
    """Return the default of a field of `SearchConfig`."""
    from pellucid.decode.config import SearchConfig

    return getattr(SearchConfig, name)


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
DEVICE = typer.Option(
    metavar="cpu|cuda",
    help="device that runs the model; a GPU is used only if you name it (cuda, or cuda:1), and then by torch",
)
EXPORTED = typer.Option(
    metavar="DIR",
    help="translate with this export of the model (`pellucid export --to ctranslate2`), in the precision it has",
)
