"""Cross-attention from word to word, for a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.terminal import Terminal, escape_controls, flow_parts, format_table, shorten_text, text_width

if TYPE_CHECKING:
    import numpy as np

Manifest = Mapping[str, Any]

WIDEST_WORD = 14
"""Columns of a word in the head of the table; a longer one is cut."""


def attention_lines(
    manifest: Manifest, tensor: "Callable[[str], np.ndarray]", links: Sequence[tuple[int, int]], at: Terminal
) -> Iterator[str]:
    """How much each written word reads from each source word, and which words are aligned.

    The table is the mean over all layers and heads; where it is too wide, each word has a line with what it reads most.
    """
    import numpy as np

    names = [row["name"] for row in manifest["tensors"] if row["dims"] == ["H", "T", "S"] and row["captured"]]
    patterns = [name for name in names if name.endswith(".pattern")]
    if patterns:
        mean = np.mean([np.asarray(tensor(name), dtype=np.float64).mean(axis=0) for name in patterns], axis=0)
        source, target = group_pieces(manifest["source"]), group_pieces(manifest["target"])
        shares = merge_pieces_to_words(mean, [pieces for _, pieces in source], [pieces for _, pieces in target])
        read = [word for word, _ in source]
        written = [word for word, _ in target]
        yield from attention_rows(shares, read, written, at)
        yield from flow_parts(
            TABLE_LEGEND.format(layers=len(patterns), words=len(read)).split(), at.width, "  ", gap=" "
        )
    yield from aligned_word_lines(manifest, links, at)


TABLE_LEGEND = (
    "Hundredths; each row sums to 100. The mean of all heads in {layers} layers: a source word's pieces are added up, "
    "a written word's averaged. Much weight on </s> usually means that there was nothing to fetch."
)


def attention_rows(shares: "np.ndarray", read: Sequence[str], written: Sequence[str], at: Terminal) -> Iterator[str]:
    """The table, or, where it does not fit, a line for each row."""
    heads = [shorten_text(word, WIDEST_WORD) for word in read]
    rows = [["", *heads]]
    for word, row in zip(written, shares, strict=True):
        rows.append([shorten_text(word, WIDEST_WORD), *(f"{100 * share:.0f}" for share in row)])
    lines = format_table(rows, "l" + "r" * len(heads))
    if max(map(text_width, lines)) + 2 <= at.width:
        yield at.dim(f"  {lines[0]}")
        for line, row, cells in zip(lines[1:], shares, rows[1:], strict=True):
            yield f"  {embolden_largest(line, row, cells, lines[0], heads, at)}"
        return
    for word, row in zip(written, shares, strict=True):
        most = sorted(range(len(row)), key=lambda n: -row[n])[:4]
        yield from flow_parts([f"{word}:", *(f"{read[n]} {100 * row[n]:.0f}" for n in most)], at.width, "  ")


def embolden_largest(
    line: str, row: "np.ndarray", cells: Sequence[str], head: str, heads: Sequence[str], at: Terminal
) -> str:
    """The line with its largest number in bold."""
    if not at.colour:
        return line
    largest = int(row.argmax())
    widths = [max(text_width(word), *(len(f"{100 * share:.0f}") for share in row)) for word in heads]
    end = text_width(head) - sum(widths[largest + 1 :]) - 2 * (len(widths) - largest - 1)
    behind = "" if end >= text_width(line) else line[len(line) - (text_width(line) - end) :]
    before = line[: len(line) - len(behind) - len(cells[largest + 1])]
    return f"{before}{at.bold(cells[largest + 1])}{behind}"


def aligned_word_lines(manifest: Manifest, links: Sequence[tuple[int, int]], at: Terminal) -> Iterator[str]:
    """The pairs of words that belong together."""
    read, written = (manifest[side]["text"].split() for side in ("source", "target"))
    pairs = [
        f"{escape_controls(read[i])}–{escape_controls(written[j])}"
        for i, j in links
        if i < len(read) and j < len(written)
    ]
    if pairs:
        yield from flow_parts(
            ["Aligned, by how far each word moves the decoder:", *pairs], at.width, "  ", hanging="    "
        )


def group_pieces(side: Mapping[str, Any]) -> list[tuple[str, list[int]]]:
    """Words, and marks by themselves, each with the positions of its pieces."""
    texts = side["text"].split()
    found: dict[Any, list[int]] = {}
    for position, word in enumerate(side["words"]):
        found.setdefault(f"mark {position}" if word is None else word, []).append(position)
    return [
        (
            escape_controls(texts[key] if isinstance(key, int) and key < len(texts) else side["pieces"][places[0]]),
            places,
        )
        for key, places in found.items()
    ]


def merge_pieces_to_words(
    mean: "np.ndarray", source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
) -> "np.ndarray":
    """Rows and columns of pieces as rows and columns of words: sums of columns, means of rows.

    >>> import numpy as np
    >>> merge_pieces_to_words(np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]), [[0], [1, 2]], [[0, 1]]).tolist()
    [[0.25, 0.75]]
    """
    import numpy as np

    summed = np.stack([mean[:, list(places)].sum(axis=1) for places in source], axis=1)
    return np.stack([summed[list(places)].mean(axis=0) for places in target])
