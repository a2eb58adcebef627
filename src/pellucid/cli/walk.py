"""A walk through the trace of one translation, as lines for a terminal: from the text to the last check."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pellucid.cli.terminal import (
    Terminal,
    escape_controls,
    format_blocks,
    format_table,
    pad_right,
    shorten_text,
    text_width,
    wrap_items,
)
from pellucid.cli.walk_search import search_lines
from pellucid.cli.walk_words import attention_lines

if TYPE_CHECKING:
    import numpy as np

Manifest = Mapping[str, Any]

ROOM_FOR_BARS = 80
"""Columns a terminal needs if bars are drawn beside probabilities."""

UNKNOWN = "?"
"""Mark behind the id of a piece that is UNK, or a byte of a character that no piece covers."""


def walk_trace(
    manifest: Manifest, tensor: "Callable[[str], np.ndarray]", links: Sequence[tuple[int, int]], terminal: Terminal
) -> Iterator[str]:
    """Yield the lines of the walk; `links` pair words of the source and of the translation."""
    yield from heading_lines(manifest, terminal)
    stops: list[tuple[str, Iterator[str]]] = [
        ("From text to pieces", piece_lines(manifest, terminal)),
        ("What is computed", shape_lines(manifest, terminal)),
        ("Writing, step by step", step_lines(manifest, terminal)),
        ("What each word attends to", attention_lines(manifest, tensor, links, terminal)),
        ("The search", search_lines(manifest, terminal)),
        ("What adds to the logit of each piece written", account_lines(manifest, terminal)),
        ("What may be wrong with this translation", finding_lines(manifest, terminal)),
        ("Checks of these numbers", check_lines(manifest, terminal)),
    ]
    # Sections without lines are left out, such as the search where the translation was given, and not numbered.
    sections = [
        (title, lines) for title, lines in ((title, list(section_lines)) for title, section_lines in stops) if lines
    ]
    for number, (title, lines) in enumerate(sections, start=1):
        yield from ("", terminal.bold(f"{number}  {title}"), *lines)
    yield ""
    last = "With --html FILE: the same as a page, with every number."
    yield from (terminal.dim(line) for line in wrap_items(last.split(" "), terminal.width, gap=" "))


def heading_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield source, translation, and a description of the model."""
    model, run = manifest["model"], manifest["run"]
    yield terminal.bold(escape_controls(manifest["source"]["text"]))
    yield f"→ {terminal.bold(escape_controls(manifest['target']['text']))}"
    config = model["config"]
    about = (
        f"{escape_controls(model['name'])}: {model['parameters']:,} parameters, {config['encoder_layers']} encoder and "
        f"{config['decoder_layers']} decoder layers, D {config['d_model']}, {config['heads']} heads; "
        f"{run['dtype']}, dropout {run['dropout']}"
    )
    yield from (terminal.dim(line) for line in wrap_items(about.split(), terminal.width, gap=" "))
    for note in manifest["notes"]:
        yield from wrap_items(f"Note: {escape_controls(note)}".split(), terminal.width, gap=" ")


def piece_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield pieces, ids and word numbers of both texts; ▁ stands for a space."""
    for name, side in (("source", manifest["source"]), ("translation", manifest["target"])):
        if side["normalised"] != side["text"]:
            yield from wrap_items(
                f"{name} normalised: {escape_controls(side['normalised'])}".split(), terminal.width, "  ", gap=" "
            )
        ids = [f"{token}{UNKNOWN * unknown}" for token, unknown in zip(side["ids"], side["unknown"], strict=True)]
        words = ["-" if word is None else str(word + 1) for word in side["words"]]
        cells = zip(map(escape_controls, side["pieces"]), ids, words, strict=True)
        yield from format_blocks([tuple(column) for column in cells], [name, "id", "word"], terminal.width, indent="  ")
        for remark in piece_remarks(side):
            yield from wrap_items(remark.split(), terminal.width, "  ", gap=" ")


def piece_remarks(side: Mapping[str, Any]) -> Iterator[str]:
    """Yield remarks on words of many pieces and on characters that no piece covers."""
    texts = side["text"].split()
    for word, together in groupby(side["words"]):
        count = len(list(together))
        if word is not None and count > 3 and word < len(texts):  # special tokens have no word
            yield f"{escape_controls(texts[word])!r} became {count} pieces, as rare words do"
    if any(side["unknown"]):
        yield f"{UNKNOWN}: a byte of a character that no piece covers, or the mark for what is unknown"


def shape_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield the shapes of the tensors in the first layer of each stack; later layers have the same."""
    used = {letter for row in manifest["tensors"] for letter in row["dims"]} - {"1"}  # a dimension of size 1
    axes = [(letter, axis) for letter, axis in manifest["axes"].items() if letter in used]
    legend = [f"{letter} = {axis['size']:,} {axis['means'].partition(';')[0]}" for letter, axis in axes]
    yield from wrap_items((f"{entry};" for entry in legend), terminal.width, "  ", gap=" ")
    deep = count_layers(manifest)  # of all layers, while the table shows the first of each stack
    first = [row for row in manifest["tensors"] if not re.search(r"\.[1-9]\d*\.", row["name"])]
    rows = []
    for (owner, dims, shape), group in groupby(first, key=lambda r: (tensor_owner(r["name"]), r["dims"], r["shape"])):
        names = [row["name"].rpartition(".")[2] for row in group]
        size = " x ".join(f"{n:,}" for n in shape)
        rows.append((owner or names[0], " ".join(dims), size, ", ".join(names) if owner else ""))
    # The name of a module stands only in the first of its rows.
    table = [(owner if n == 0 or rows[n - 1][0] != owner else "", *cells) for n, (owner, *cells) in enumerate(rows)]
    yield from (f"  {shorten_text(line, terminal.width - 2)}" for line in format_table(table, "llll"))
    for stack, count in deep.items():
        if count > 1:
            yield terminal.dim(
                f"  {stack}.1 {f'to {stack}.{count - 1} have' if count > 2 else 'has'} the same as {stack}.0"
            )


def tensor_owner(name: str) -> str:
    """Return the module of a tensor: "decoder.0.cross" of "decoder.0.cross.pattern"."""
    return name.rpartition(".")[0]


def count_layers(manifest: Manifest) -> dict[str, int]:
    """Return the number of layers of each stack."""
    counts: dict[str, int] = {}
    for row in manifest["tensors"]:
        match = re.match(r"(.+?)\.(\d+)\.", row["name"])
        if match:
            counts[match[1]] = max(counts.get(match[1], 0), int(match[2]) + 1)
    return counts


def step_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield for each step the input, the piece written, and other pieces that were likely."""
    rows = []
    for step in manifest["steps"]:
        chosen = step["chosen"]
        others = [candidate for candidate in step["top"] if candidate["id"] != chosen["id"]][:3]
        alternatives = [f"{escape_controls(other['piece'])} {format_probability(other['prob'])}" for other in others]
        # A beam may prefer a piece that was not the likeliest of its step.
        rank = [] if step["rank"] == 1 else [f"(it is number {step['rank']:,})"]
        reads, writes = escape_controls(step["input"]), escape_controls(chosen["piece"])
        bars = [draw_bar(chosen["prob"])] if terminal.width >= ROOM_FOR_BARS else []
        rows.append(
            [
                str(step["step"] + 1),
                reads,
                writes,
                *bars,
                format_probability(chosen["prob"]),
                "  ".join([*rank, *alternatives]),
            ]
        )
    heads = ["step", "reads", "writes", *[""] * (len(rows[0]) - 5), "p", "instead of"]
    lines = [
        f"  {shorten_text(line, terminal.width - 2)}"
        for line in format_table([heads, *rows], "rll" + "l" * (len(heads) - 3))
    ]
    yield from (terminal.dim(lines[0]), *lines[1:])
    yield from wrap_items(describe_stop(manifest).split(), terminal.width, "  ", gap=" ")


def describe_stop(manifest: Manifest) -> str:
    """Return the sentence on why there is no further step."""
    last = manifest["steps"][-1]
    if manifest["forced"]:
        return "Then the translation that was given ends."
    if manifest["stop"] == "eos":
        return (
            "It stops here: the model wrote its end mark, with probability "
            f"{format_probability(last['chosen']['prob'])}."
        )
    return "It stops here: a translation as long as the search allows has no end mark."


def account_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield the logit of each piece written as a sum, its terms added up by kind."""
    accounts = manifest.get("accounts")
    if not accounts:
        return
    kinds = list(dict.fromkeys(part["group"] for account in accounts["chosen"] for part in account["parts"]))
    rows = [["writes", "logit", *kinds]]
    for account in accounts["chosen"]:
        sums = [sum(part["value"] for part in account["parts"] if part["group"] == kind) for kind in kinds]
        rows.append(
            [escape_controls(account["piece"]), f"{account['logit']:.2f} =", *(f"{total:+.2f}" for total in sums)]
        )
    lines = format_table(rows, "l" + "r" * (len(kinds) + 1))
    if max(map(len, lines)) + 2 <= terminal.width:
        yield from (terminal.dim(f"  {lines[0]}"), *(f"  {line}" for line in lines[1:]))
        return
    for piece, logit, *sums in rows[1:]:  # too wide for a table: each sum as a running line
        terms = [f"{value} {kind}" for value, kind in zip(sums, kinds, strict=True)]
        yield from wrap_items([f"{piece} {logit}", *terms], terminal.width, "  ", hanging="    ")


def finding_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield the findings that speak against the translation, each with its numbers."""
    for finding in (manifest.get("verdict") or {"findings": []})["findings"]:
        yield from wrap_items(escape_controls(finding["says"]).split(), terminal.width, "  ", gap=" ")


def check_lines(manifest: Manifest, terminal: Terminal) -> Iterator[str]:
    """Yield each check with its measured value, and its meaning where it did not pass."""
    wide = max((text_width(escape_controls(check["name"])) for check in manifest["checks"]), default=0)
    for check in manifest["checks"]:
        value, limit = check["value"], check["limit"]
        numbers = "" if value is None or limit is None else f"{value:.2g}, limit {limit:.2g}"
        was_made = value is not None or not check["passed"]
        mark = terminal.red("FAILED") if not check["passed"] else terminal.green("passed") if was_made else "not made"
        name = pad_right(
            shorten_text(escape_controls(check["name"]), terminal.width - 12),
            wide if wide + 40 <= terminal.width else 0,
        )
        items = [f"{pad_right(mark, 8)}  {name if numbers else name.rstrip()}", terminal.dim(numbers)]
        yield from wrap_items(items if numbers else items[:1], terminal.width, "  ", hanging=" " * 12)
        if not was_made or not check["passed"]:
            yield from wrap_items(escape_controls(check["means"]).split(), terminal.width, " " * 12, gap=" ")


def format_probability(probability: float) -> str:
    """Return a probability with three digits.

    >>> format_probability(0.98765), format_probability(0.00012)
    ('0.988', '<0.001')
    """
    return f"{probability:.3f}" if probability >= 0.0005 else "<0.001"


def draw_bar(share: float, width: int = 8) -> str:
    """Return a bar whose length is a share of `width` columns.

    >>> draw_bar(1.0), draw_bar(0.3)
    ('████████', '██▍')
    """
    eighths = round(share * width * 8)  # there are block characters for each eighth of a column
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip()
