"""Cross-attention from word to word, as lines for a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.terminal import Terminal, escape_controls, format_table, shorten_text, text_width, wrap_items

if TYPE_CHECKING:
    import numpy as np

Manifest = Mapping[str, Any]

WIDEST_WORD = 14
"""Columns that a word may take in the table; a longer one is cut."""


def attention_lines(
    manifest: Manifest, tensor: "Callable[[str], np.ndarray]", links: Sequence[tuple[int, int]], terminal: Terminal
) -> Iterator[str]:
    """Yield how much each target word reads from each source word, and which words are aligned.

    The table is the mean over all layers and heads; where it is too wide, each word has a line with its largest shares.
    """
    import numpy as np

    # Cross-attention is what has heads, target and source as dimensions; a trace may have kept other tensors only.
    names = [row["name"] for row in manifest["tensors"] if row["dims"] == ["H", "T", "S"] and row["captured"]]
    patterns = [name for name in names if name.endswith(".pattern")]
    if patterns:
        mean = np.mean([np.asarray(tensor(name), dtype=np.float64).mean(axis=0) for name in patterns], axis=0)
        source, target = group_pieces(manifest["source"]), group_pieces(manifest["target"])
        shares = merge_pieces_to_words(mean, [pieces for _, pieces in source], [pieces for _, pieces in target])
        source_words = [word for word, _ in source]
        target_words = [word for word, _ in target]
        yield from attention_rows(shares, source_words, target_words, terminal)
        yield from wrap_items(
            TABLE_LEGEND.format(layers=len(patterns), words=len(source_words)).split(), terminal.width, "  ", gap=" "
        )
    yield from aligned_word_lines(manifest, links, terminal)


TABLE_LEGEND = (
    "Hundredths; each row sums to 100. The mean of all heads in {layers} layers: a source word's pieces are added up, "
    "a written word's averaged. Much weight on </s> usually means that there was nothing to fetch."
)


def attention_rows(
    shares: "np.ndarray", source_words: Sequence[str], target_words: Sequence[str], terminal: Terminal
) -> Iterator[str]:
    """Yield the table or, where it does not fit, a line for each row."""
    heads = [shorten_text(word, WIDEST_WORD) for word in source_words]
    rows = [["", *heads]]
    for word, row in zip(target_words, shares, strict=True):
        rows.append([shorten_text(word, WIDEST_WORD), *(f"{100 * share:.0f}" for share in row)])
    lines = format_table(rows, "l" + "r" * len(heads))
    if max(map(text_width, lines)) + 2 <= terminal.width:
        yield terminal.dim(f"  {lines[0]}")
        for line, row, cells in zip(lines[1:], shares, rows[1:], strict=True):
            yield f"  {embolden_largest(line, row, cells, lines[0], heads, terminal)}"
        return
    for word, row in zip(target_words, shares, strict=True):
        largest = sorted(range(len(row)), key=lambda n: -row[n])[:4]
        yield from wrap_items(
            [f"{word}:", *(f"{source_words[n]} {100 * row[n]:.0f}" for n in largest)], terminal.width, "  "
        )


def embolden_largest(
    line: str, row: "np.ndarray", cells: Sequence[str], head: str, heads: Sequence[str], terminal: Terminal
) -> str:
    """Return the line of a row with its largest number in bold."""
    if not terminal.colour:
        return line
    largest = int(row.argmax())
    # The cell is found by its columns, from the right: the text of a number may occur in other cells too.
    widths = [max(text_width(word), *(len(f"{100 * share:.0f}") for share in row)) for word in heads]
    end = text_width(head) - sum(widths[largest + 1 :]) - 2 * (len(widths) - largest - 1)
    behind = "" if end >= text_width(line) else line[len(line) - (text_width(line) - end) :]
    before = line[: len(line) - len(behind) - len(cells[largest + 1])]
    return f"{before}{terminal.bold(cells[largest + 1])}{behind}"


def aligned_word_lines(manifest: Manifest, links: Sequence[tuple[int, int]], terminal: Terminal) -> Iterator[str]:
    """Yield the aligned pairs of words."""
    source_words, target_words = (manifest[side]["text"].split() for side in ("source", "target"))
    pairs = [
        f"{escape_controls(source_words[i])}–{escape_controls(target_words[j])}"
        for i, j in links
        if i < len(source_words) and j < len(target_words)
    ]
    if pairs:
        yield from wrap_items(
            ["Aligned, by how far each word moves the decoder:", *pairs], terminal.width, "  ", hanging="    "
        )


def group_pieces(side: Mapping[str, Any]) -> list[tuple[str, list[int]]]:
    """Return words, and special tokens by themselves, each with the positions of its pieces."""
    texts = side["text"].split()
    groups: dict[Any, list[int]] = {}
    for position, word in enumerate(side["words"]):
        groups.setdefault(f"mark {position}" if word is None else word, []).append(position)
    return [
        (
            escape_controls(texts[key] if isinstance(key, int) and key < len(texts) else side["pieces"][positions[0]]),
            positions,
        )
        for key, positions in groups.items()
    ]


def merge_pieces_to_words(
    mean: "np.ndarray", source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
) -> "np.ndarray":
    """Merge rows and columns of pieces to rows and columns of words: means of rows, sums of columns.

    >>> import numpy as np
    >>> merge_pieces_to_words(np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]), [[0], [1, 2]], [[0, 1]]).tolist()
    [[0.25, 0.75]]
    """
    import numpy as np

    # A word is read with all of its pieces, and reads on average over them: so each row still sums to 1.
    summed = np.stack([mean[:, list(positions)].sum(axis=1) for positions in source], axis=1)
    return np.stack([summed[list(positions)].mean(axis=0) for positions in target])
