"""A trace as a walk through one translation, for a terminal: from the text to the last check."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pellucid.cli.terminal import (
    Terminal,
    escape_controls,
    flow_parts,
    format_blocks,
    format_table,
    pad_right,
    shorten_text,
    text_width,
)
from pellucid.cli.walk_search import search_lines
from pellucid.cli.walk_words import attention_lines

if TYPE_CHECKING:
    import numpy as np

Manifest = Mapping[str, Any]

ROOM_FOR_BARS = 80
"""Columns a terminal needs for probabilities to be drawn too."""

UNKNOWN = "?"
"""Stands behind the id of a piece that is the unknown mark, or a byte of a character that no piece covers."""


def walk_trace(
    manifest: Manifest, tensor: "Callable[[str], np.ndarray]", links: Sequence[tuple[int, int]], at: Terminal
) -> Iterator[str]:
    """The lines of the walk; `links` pair words of the source and of the translation."""
    yield from heading_lines(manifest, at)
    stops: list[tuple[str, Iterator[str]]] = [
        ("From text to pieces", piece_lines(manifest, at)),
        ("What is computed", shape_lines(manifest, at)),
        ("Writing, step by step", step_lines(manifest, at)),
        ("What each word attends to", attention_lines(manifest, tensor, links, at)),
        ("The search", search_lines(manifest, at)),
        ("What adds to the logit of each piece written", account_lines(manifest, at)),
        ("What may be wrong with this translation", finding_lines(manifest, at)),
        ("Checks of these numbers", check_lines(manifest, at)),
    ]
    there = [(title, lines) for title, lines in ((title, list(made)) for title, made in stops) if lines]
    for number, (title, lines) in enumerate(there, start=1):
        yield from ("", at.bold(f"{number}  {title}"), *lines)
    yield ""
    last = "With --html FILE: the same as a page, with every number."
    yield from (at.dim(line) for line in flow_parts(last.split(" "), at.width, gap=" "))


def heading_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """What was translated into what, by what."""
    model, run = manifest["model"], manifest["run"]
    yield at.bold(escape_controls(manifest["source"]["text"]))
    yield f"→ {at.bold(escape_controls(manifest['target']['text']))}"
    config = model["config"]
    most = "up to " if config["fewer_heads"] else ""
    about = (
        f"{escape_controls(model['name'])}: {model['parameters']:,} parameters, {config['encoder_layers']} encoder and "
        f"{config['decoder_layers']} decoder layers, D {config['d_model']}, {most}{config['heads']} heads; "
        f"{run['dtype']}, dropout {run['dropout']}"
    )
    yield from (at.dim(line) for line in flow_parts(about.split(), at.width, gap=" "))
    for note in manifest["notes"]:
        yield from flow_parts(f"Note: {escape_controls(note)}".split(), at.width, gap=" ")


def piece_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """Both texts, cut; ▁ stands where a space was."""
    for name, side in (("source", manifest["source"]), ("translation", manifest["target"])):
        if side["normalised"] != side["text"]:
            yield from flow_parts(
                f"{name} normalised: {escape_controls(side['normalised'])}".split(), at.width, "  ", gap=" "
            )
        ids = [f"{each}{UNKNOWN * odd}" for each, odd in zip(side["ids"], side["unknown"], strict=True)]
        words = ["-" if word is None else str(word + 1) for word in side["words"]]
        cells = zip(map(escape_controls, side["pieces"]), ids, words, strict=True)
        yield from format_blocks([tuple(each) for each in cells], [name, "id", "word"], at.width, indent="  ")
        for remark in piece_remarks(side):
            yield from flow_parts(remark.split(), at.width, "  ", gap=" ")


def piece_remarks(side: Mapping[str, Any]) -> Iterator[str]:
    """Words that were cut small, and characters that no piece covers."""
    texts = side["text"].split()
    for word, together in groupby(side["words"]):
        count = len(list(together))
        if word is not None and count > 3 and word < len(texts):
            yield f"{escape_controls(texts[word])!r} became {count} pieces, as rare words do"
    if any(side["unknown"]):
        yield f"{UNKNOWN}: a byte of a character that no piece covers, or the mark for what is unknown"


def shape_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """Every tensor of the first layer of each kind with its shape; later layers have the same."""
    used = {letter for row in manifest["tensors"] for letter in row["dims"]} - {"1"}
    axes = [(letter, axis) for letter, axis in manifest["axes"].items() if letter in used]
    legend = [f"{letter} = {axis['size']:,} {axis['means'].partition(';')[0]}" for letter, axis in axes]
    yield from flow_parts((f"{each};" for each in legend), at.width, "  ", gap=" ")
    deep = count_layers(manifest)
    first = [row for row in manifest["tensors"] if not re.search(r"\.[1-9]\d*\.", row["name"])]
    rows = []
    for (part, dims, shape), group in groupby(first, key=lambda r: (tensor_owner(r["name"]), r["dims"], r["shape"])):
        names = [row["name"].rpartition(".")[2] for row in group]
        size = " x ".join(f"{n:,}" for n in shape)
        rows.append((part or names[0], " ".join(dims), size, ", ".join(names) if part else ""))
    shown = [(part if n == 0 or rows[n - 1][0] != part else "", *rest) for n, (part, *rest) in enumerate(rows)]
    yield from (f"  {shorten_text(line, at.width - 2)}" for line in format_table(shown, "llll"))
    for stack, count in deep.items():
        if count > 1:
            yield at.dim(f"  {stack}.1 {f'to {stack}.{count - 1} have' if count > 2 else 'has'} the same as {stack}.0")


def tensor_owner(name: str) -> str:
    """What a tensor stands in: "decoder.0.cross" of "decoder.0.cross.pattern"."""
    return name.rpartition(".")[0]


def count_layers(manifest: Manifest) -> dict[str, int]:
    """How many layers each stack has."""
    found: dict[str, int] = {}
    for row in manifest["tensors"]:
        match = re.match(r"(.+?)\.(\d+)\.", row["name"])
        if match:
            found[match[1]] = max(found.get(match[1], 0), int(match[2]) + 1)
    return found


def step_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """For each step what it read, what was written, and what else could have been."""
    rows = []
    for step in manifest["steps"]:
        chosen = step["chosen"]
        others = [each for each in step["top"] if each["id"] != chosen["id"]][:3]
        rest = [f"{escape_controls(each['piece'])} {format_probability(each['prob'])}" for each in others]
        rank = [] if step["rank"] == 1 else [f"(it is number {step['rank']:,})"]
        reads, writes = escape_controls(step["input"]), escape_controls(chosen["piece"])
        bars = [draw_bar(chosen["prob"])] if at.width >= ROOM_FOR_BARS else []
        rows.append(
            [str(step["step"] + 1), reads, writes, *bars, format_probability(chosen["prob"]), "  ".join([*rank, *rest])]
        )
    heads = ["step", "reads", "writes", *[""] * (len(rows[0]) - 5), "p", "instead of"]
    lines = [
        f"  {shorten_text(line, at.width - 2)}" for line in format_table([heads, *rows], "rll" + "l" * (len(heads) - 3))
    ]
    yield from (at.dim(lines[0]), *lines[1:])
    yield from flow_parts(describe_stop(manifest).split(), at.width, "  ", gap=" ")


def describe_stop(manifest: Manifest) -> str:
    """Why there is no further step."""
    last = manifest["steps"][-1]
    if manifest["forced"]:
        return "Then the translation that was given ends."
    if manifest["stop"] == "eos":
        return (
            "It stops here: the model wrote its end mark, with probability "
            f"{format_probability(last['chosen']['prob'])}."
        )
    return "It stops here: a translation as long as the search allows has no end mark."


def account_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """The logit of each piece written as a sum, its parts added up by kind."""
    found = manifest.get("accounts")
    if not found:
        return
    kinds = list(dict.fromkeys(part["group"] for account in found["chosen"] for part in account["parts"]))
    rows = [["writes", "logit", *kinds]]
    for account in found["chosen"]:
        sums = [sum(part["value"] for part in account["parts"] if part["group"] == kind) for kind in kinds]
        rows.append(
            [escape_controls(account["piece"]), f"{account['logit']:.2f} =", *(f"{each:+.2f}" for each in sums)]
        )
    lines = format_table(rows, "l" + "r" * (len(kinds) + 1))
    if max(map(len, lines)) + 2 <= at.width:
        yield from (at.dim(f"  {lines[0]}"), *(f"  {line}" for line in lines[1:]))
        return
    for piece, logit, *sums in rows[1:]:
        terms = [f"{value} {kind}" for value, kind in zip(sums, kinds, strict=True)]
        yield from flow_parts([f"{piece} {logit}", *terms], at.width, "  ", hanging="    ")


def finding_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """What speaks against the translation, each with its numbers."""
    for finding in (manifest.get("verdict") or {"findings": []})["findings"]:
        yield from flow_parts(escape_controls(finding["says"]).split(), at.width, "  ", gap=" ")


def check_lines(manifest: Manifest, at: Terminal) -> Iterator[str]:
    """Each check with what was measured, and its meaning where it did not pass."""
    wide = max((text_width(escape_controls(check["name"])) for check in manifest["checks"]), default=0)
    for check in manifest["checks"]:
        value, limit = check["value"], check["limit"]
        numbers = "" if value is None or limit is None else f"{value:.2g}, limit {limit:.2g}"
        made = value is not None or not check["passed"]
        mark = at.red("FAILED") if not check["passed"] else at.green("passed") if made else "not made"
        name = pad_right(
            shorten_text(escape_controls(check["name"]), at.width - 12), wide if wide + 40 <= at.width else 0
        )
        parts = [f"{pad_right(mark, 8)}  {name if numbers else name.rstrip()}", at.dim(numbers)]
        yield from flow_parts(parts if numbers else parts[:1], at.width, "  ", hanging=" " * 12)
        if not made or not check["passed"]:
            yield from flow_parts(escape_controls(check["means"]).split(), at.width, " " * 12, gap=" ")


def format_probability(share: float) -> str:
    """A probability, three digits.

    >>> format_probability(0.98765), format_probability(0.00012)
    ('0.988', '<0.001')
    """
    return f"{share:.3f}" if share >= 0.0005 else "<0.001"


def draw_bar(share: float, width: int = 8) -> str:
    """A share as a bar.

    >>> draw_bar(1.0), draw_bar(0.3)
    ('████████', '██▍')
    """
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip()
