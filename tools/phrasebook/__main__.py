"""Writes the phrasebook's file anew."""

import lzma

from pellucid.demo.phrasebook import PHRASEBOOK_FILE
from tools.phrasebook import draw_stored_lines

# Settings for text: a byte is expected from the four upper bits of the one before, and not from its place.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]


def write_phrasebook() -> None:
    """Draw all pairs, compress them, and write the file into the package."""
    text = "".join(draw_stored_lines()).encode()
    PHRASEBOOK_FILE.write_bytes(lzma.compress(text, filters=FILTERS))
    print(f"{PHRASEBOOK_FILE}: {PHRASEBOOK_FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    write_phrasebook()
