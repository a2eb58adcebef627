"""Standard input, output and error of the commands where they are closed, full, or read by nobody any more."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

_CLOSED_INPUT = "standard input is closed, so nothing can be read from it; name a file, or give it one: < FILE"
_CLOSED_OUTPUT = "standard output is closed, so nothing can be written to it; give it a file: > FILE"


class ClosedStream:
    """Stands for a standard stream that was closed before the program began, and says so when it is used."""

    encoding, errors, closed = "utf-8", "strict", False

    def __init__(self, message: str) -> None:
        """Keep the sentence that is said where the stream is used."""
        self.message = message

    @property
    def buffer(self) -> "ClosedStream":
        """The stream of bytes, which is as closed."""
        return self

    def isatty(self) -> bool:
        """Return False: nobody sits at a closed stream."""
        return False

    def flush(self) -> None:
        """Do nothing, for nothing was written."""

    def refuse(self, *arguments: Any) -> NoReturn:
        """Raise OSError with the sentence."""
        raise OSError(self.message)

    read = read1 = readline = readlines = readinto = peek = write = writelines = fileno = refuse

    def __iter__(self) -> Iterator[Any]:
        """Raise OSError with the sentence."""
        self.refuse()


def replace_closed_streams() -> None:
    """Put streams that say so in place of standard streams that are closed.

    Messages then go nowhere.
    """
    # A file opened later would get the number of a closed stream, and a library that prints would
    # write into it. What stands there cannot be read as input or written as output, so that
    # /dev/stdin and /dev/stdout are as closed.
    for number, access in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, access)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)

    # Python has None for these, which the type checker does not know.
    streams: Any = sys
    if streams.stdin is None:
        streams.stdin = ClosedStream(_CLOSED_INPUT)
    if streams.stdout is None:
        streams.stdout = ClosedStream(_CLOSED_OUTPUT)
    if streams.stderr is None:
        streams.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def drop_unwritten_output() -> None:
    """Give standard output a place that takes everything, if it takes no more.

    Python writes what is left once more as it ends, and would complain again.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
