"""A file to which corrections are appended: sentences with the translations that users suggest for them."""

import json
import os
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from pellucid.serve.bodies import Refusal

# Bytes of a file of corrections; a server that anyone can reach must not fill the disk.
_LARGEST = 2**28
_LONGEST_FIRST_LINE = 2**20  # bytes of the line by which a file is known

# Line ends and all other control characters: a text is one line of text,
# and a terminal that shows it obeys none.
_ONE_LINE = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")
_BLANK_LETTERS = (
    # Fillers and an empty Braille cell: letters and signs that show nothing.
    "\u115f\u1160\u3164\uffa0\u2800"
)


class Corrections:
    """A file of corrections in JSONL, each with its languages and its time, which `pellucid train` and others read."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        suffix = self.path.suffix.lower()
        if suffix != ".jsonl":
            reason = "each correction is stored as a JSON object with its languages"
            if suffix == ".tsv":
                reason += "; what is in an old file stays there, and `pellucid improve` reads it"
            raise ValueError(f"{path} must end in .jsonl: {reason}")

        if self.path.is_fifo() or self.path.is_socket():
            raise ValueError(
                f"{path} is a pipe or a socket; corrections are appended to a file, so name one"
            )

        # Found out now, and not when the first correction is lost.
        with self.path.open("ab+") as file:
            file.seek(0)
            first = file.readline(_LONGEST_FIRST_LINE)
        if first.strip() and not first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            raise ValueError(
                f"{path}:1: no JSON object, so this is no file of corrections; name another one"
            )

        self._lock = Lock()

    def append(self, source: str, target: str, languages: tuple[str, str]) -> None:
        """Append a correction as one line, as a whole or not at all; raise `Refusal` where that is not possible."""
        texts = [" ".join(text.translate(_ONE_LINE).split()) for text in (source, target)]
        for field, text in zip(("q", "s"), texts, strict=True):
            if not any(map(_is_visible, text)):
                raise Refusal(
                    422, f"{field}: there is nothing to see in this text, so it is not stored"
                )

        row = {
            "source": texts[0],
            "target": texts[1],
            "source_language": languages[0],
            "target_language": languages[1],
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()

        with self._lock:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(file).st_size
                # A file that somebody edited may end inside of a line.
                is_open = size > 0 and os.pread(file, 1, size - 1) != b"\n"
                content = b"\n" * is_open + line
                if size + len(content) > _LARGEST:
                    raise Refusal(
                        503, f"{size:,} bytes of corrections are stored already, as many as may be"
                    )
                try:
                    written = os.write(file, content)
                    if written < len(content):
                        raise OSError("no space left on device")
                    os.fsync(file)
                except OSError as error:
                    os.ftruncate(file, size)
                    raise Refusal(
                        503, f"the correction could not be stored: {error.strerror or error}"
                    ) from None
            finally:
                os.close(file)


def _is_visible(character: str) -> bool:
    """Whether a character is a letter, a number, a mark of punctuation or a sign that shows something."""
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANK_LETTERS
