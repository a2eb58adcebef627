"""How far a long measurement is, on standard error and only for a person who looks on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def measurement_bar(what: str, total: int) -> Iterator[Callable[[], object]]:
    """A bar of so many steps; what is yielded is called after each."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
