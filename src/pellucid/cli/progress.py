"""How far a command is, on standard error and only for a person who looks on."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def show_progress(items: Iterable[Item], total: int | None = None) -> Iterator[Item]:
    """The same items; they are counted where standard error is a terminal and results go elsewhere."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (MofNCompleteColumn(), TextColumn("lines"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        for item in items:
            yield item
            bar.advance(task)
