"""A progress bar on standard error, shown only to a person who watches."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def show_progress(items: Iterable[Item], total: int | None = None) -> Iterator[Item]:
    """Yield the items, counted by a bar if standard error is a terminal and standard output is not."""
    # Where results go to the terminal, the bar would stand between them, and they show the progress themselves.
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
