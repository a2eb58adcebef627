"""What options of a search mean, and their defaults: both are written once, in `SearchConfig`."""

from typing import Any, get_type_hints

import typer


def search_option(name: str, **more: Any) -> Any:
    """An option with the meaning of a field of `SearchConfig` as its help."""
    from pellucid.decode.config import SearchConfig

    return typer.Option(help=get_type_hints(SearchConfig, include_extras=True)[name].__metadata__[0], **more)


def search_default(name: str) -> Any:
    """The default of a field of `SearchConfig`."""
    from pellucid.decode.config import SearchConfig

    return getattr(SearchConfig, name)


MODEL = typer.Argument(metavar="MODEL", help="a model directory, such as runs/demo/best")
JSON = typer.Option("--json", help="write JSON objects instead of text")
PRECISION = typer.Option(
    metavar="float32|bfloat16",
    help="of the weights; bfloat16 takes half the memory, and less time where it is built in",
)
PRECISIONS = typer.Option(
    metavar="float32|bfloat16|int8",
    help="of the weights; bfloat16 takes half the memory, and less time where it is built in; int8 is CTranslate2's "
    "alone, and `pellucid export` measures what it costs",
)
ENGINE = typer.Option(
    metavar="auto|torch|ctranslate2",
    help="what runs the model: auto takes CTranslate2 where that is installed and gives the same text",
)
DEVICE = typer.Option(
    metavar="cpu|cuda",
    help="where the model is run; a GPU is taken only when it is named (cuda, or cuda:1), and then by torch",
)
EXPORTED = typer.Option(
    metavar="DIR",
    help="what `pellucid export --to ctranslate2` made of the model: translate with that, in the precision it has",
)
