"""A file to which corrections are appended: sentences with the translations that users suggest for them."""

import json
import os
from pathlib import Path
from threading import Lock

from pellucid.serve.bodies import Refusal

_LARGEST = 2**28  # bytes of a file of corrections; a server that anyone can reach must not fill the disk

_ONE_LINE = str.maketrans("\t\n\r\0\x85\u2028\u2029", "       ")


class Corrections:
    """A file of corrections: TSV, or JSONL with the languages as names, which `pellucid train` and others read."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if self.path.suffix.lower() not in (".tsv", ".jsonl"):
            raise ValueError(f"{path} must end in .tsv or .jsonl: corrections are stored as one or the other")
        # Found out now, and not when the first correction is lost.
        with self.path.open("ab"):
            pass
        self._lock = Lock()

    def append(self, source: str, target: str, languages: tuple[str, str]) -> None:
        """Append a correction as one line, as a whole or not at all; raise `Refusal` where that is not possible."""
        pair = [" ".join(text.translate(_ONE_LINE).split()) for text in (source, target)]
        line = "\t".join(pair) if self.path.suffix.lower() == ".tsv" else ""
        line = line or json.dumps(dict(zip(languages, pair, strict=True)), ensure_ascii=False)
        content = f"{line}\n".encode()
        with self._lock:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(file).st_size
                if size + len(content) > _LARGEST:
                    raise Refusal(503, f"{size:,} bytes of corrections are stored already, as many as may be")
                try:
                    written = os.write(file, content)
                    if written < len(content):
                        raise OSError("no space left on device")
                    os.fsync(file)
                except OSError as error:
                    os.ftruncate(file, size)
                    raise Refusal(503, f"the correction could not be stored: {error.strerror or error}") from None
            finally:
                os.close(file)
