"""A progress bar for long measurements on standard error, shown only to a person who watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def measurement_bar(title: str, total: int) -> Iterator[Callable[[], object]]:
    """Show a bar of `total` steps; yield a function to call after each."""
    if not sys.stderr.isatty():  # results may go to the terminal too: nothing is written before the measuring ends
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
