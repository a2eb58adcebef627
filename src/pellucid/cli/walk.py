"""A walk through the trace of one translation, as lines for a terminal: from the text to the last check."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.bar import Bar
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.cli.inspecting.words import UNKNOWN_LEGEND, piece_lines
from pellucid.cli.terminal import Terminal, escape_controls, pad_right, shorten_text, text_width

if TYPE_CHECKING:
    import numpy as np

Manifest = Mapping[str, Any]
Node = Mapping[str, Any]

_ROOM_FOR_BARS = 80  # columns a terminal needs if bars are drawn beside probabilities
_WIDEST_WORD = 14  # columns that a word may take in the table of attention; a longer one is cut
# Pieces at the end of an unfinished hypothesis, and dropped candidates of a step, that are shown.
PIECES_SHOWN, DROPPED_SHOWN = 2, 2

_TABLE_LEGEND = (
    "Hundredths; each row sums to 100. The mean of all heads in {layers} layers: a source word's pieces are added up, "
    "a written word's averaged. Much weight on </s> usually means that there was nothing to fetch."
)


def walk_trace(
    manifest: Manifest,
    tensor: "Callable[[str], np.ndarray]",
    links: Sequence[tuple[int, int]],
    terminal: Terminal,
) -> Iterator[str]:
    """Yield the lines of the walk; `links` pair words of the source and of the translation."""
    text, colours = StringIO(), terminal.colour
    console = Console(
        file=text,
        width=terminal.width,
        color_system="standard" if colours else None,
        force_terminal=colours,
        no_color=not colours,
    )
    width = terminal.width - 2  # every section is indented
    findings = (manifest.get("verdict") or {"findings": []})["findings"]
    reasons = [Text(escape_controls(finding["says"])) for finding in findings]
    stops: list[tuple[str, Iterable[RenderableType]]] = [
        ("From text to pieces", _show_pieces(manifest, width)),
        ("What is computed", _show_shapes(manifest)),
        ("Writing, step by step", _show_steps(manifest, terminal.width >= _ROOM_FOR_BARS)),
        ("What each word attends to", _show_attention(manifest, tensor, links, console)),
        ("The search", _show_search(manifest)),
        ("Where its words come from", _show_origins(manifest)),
        ("What adds to the logit of each piece written", _show_accounts(manifest, console)),
        ("What may be wrong with this translation", reasons),
        ("Checks of these numbers", _show_checks(manifest, width)),
    ]

    _print_heading(manifest, console)
    number = 0
    for title, stop in stops:
        shown = list(stop)
        # A section that shows nothing, such as the search where the translation was given, is left
        # out and not numbered.
        if not shown:
            continue
        number += 1
        console.print("", Text(f"{number}  {title}", "bold"), sep="\n")
        for renderable in shown:
            console.print(Padding(renderable, (0, 0, 0, 2)))

    console.print(
        "",
        Text("With --html FILE: the same as a page, with every number.", "dim"),
        sep="\n",
    )
    for line in text.getvalue().split("\n")[:-1]:
        yield re.sub(r" +((\x1b\[[0-9;]*m)*)$", r"\1", line)  # rich fills every line with blanks


def _print_heading(manifest: Manifest, console: Console) -> None:
    """Print source, translation, and a description of the model."""
    model, run, config = manifest["model"], manifest["run"], manifest["model"]["config"]
    source, target = (escape_controls(manifest[side]["text"]) for side in ("source", "target"))
    console.print(
        Text(source, "bold"),
        Text.assemble("→ ", (target, "bold")),
        sep="\n",
        soft_wrap=True,
    )
    about = (
        f"{escape_controls(model['name'])}: {model['parameters']:,} parameters, {config['encoder_layers']} encoder and "
        f"{config['decoder_layers']} decoder layers, D {config['d_model']}, {config['heads']} heads; "
        f"{run['dtype']}, dropout {run['dropout']}"
    )
    console.print(Text(about, "dim"))
    for note in manifest["notes"]:
        console.print(Text(f"Note: {escape_controls(note)}"))


def _make_table(*columns: str, head: Sequence[str] | None = None) -> Table:
    """Return an empty table; each column is aligned "left", "right" or, if it gives way to the others, "rest"."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=head is not None,
        header_style="dim",
    )
    for n, column in enumerate(columns):
        justify = "right" if column == "right" else "left"
        table.add_column(Text(head[n] if head else ""), justify=justify, no_wrap=column != "rest")
    return table


def _one_line(text: str) -> Text:
    """Return text that is cut where it is too long for its column."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _fits(table: Table, console: Console) -> bool:
    """Whether a table fits between the indentation and the end of the line."""
    return Measurement.get(console, console.options.update(width=10_000), table).maximum + 2 <= console.width


def _show_pieces(manifest: Manifest, width: int) -> Iterator[RenderableType]:
    """Yield pieces, ids and word numbers of both texts; ▁ stands for a space."""
    for name, side in (("source", manifest["source"]), ("translation", manifest["target"])):
        if side["normalised"] != side["text"]:
            yield Text(f"{name} normalised: {escape_controls(side['normalised'])}")
        yield from map(_one_line, piece_lines(side, name, width))
        texts = side["text"].split()
        for word, together in groupby(side["words"]):
            count = len(list(together))
            if word is not None and count > 3 and word < len(texts):  # special tokens have no word
                yield Text(f"{escape_controls(texts[word])!r} became {count} pieces, as rare words do")
        if any(side["unknown"]):
            yield Text(UNKNOWN_LEGEND)


def _show_shapes(manifest: Manifest) -> Iterator[RenderableType]:
    """Yield the shapes of the tensors in the first layer of each stack.

    Later layers have the same.
    """
    used = {letter for row in manifest["tensors"] for letter in row["dims"]} - {"1"}  # a dimension of size 1
    axes = [(letter, axis) for letter, axis in manifest["axes"].items() if letter in used]
    legend = (f"{letter} = {axis['size']:,} {axis['means'].partition(';')[0]};" for letter, axis in axes)
    yield Text(" ".join(legend))
    first = [row for row in manifest["tensors"] if not re.search(r"\.[1-9]\d*\.", row["name"])]
    table, last_owner = _make_table("left", "left", "left", "rest"), None

    def owner_and_shape(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return row["name"].rpartition(".")[0], row["dims"], row["shape"]

    for (owner, dims, shape), group in groupby(first, key=owner_and_shape):
        names = [row["name"].rpartition(".")[2] for row in group]
        # The name of a module stands only in the first of its rows.
        title = "" if owner and owner == last_owner else owner or names[0]
        shown_names = _one_line(", ".join(names) if owner else "")
        table.add_row(title, " ".join(dims), " x ".join(f"{n:,}" for n in shape), shown_names)
        last_owner = owner

    yield table
    for stack in ("encoder", "decoder"):
        layers = manifest["model"]["config"][f"{stack}_layers"]
        if layers > 1:
            others = f"to {stack}.{layers - 1} have" if layers > 2 else "has"
            yield Text(f"{stack}.1 {others} the same as {stack}.0", "dim")


def _show_steps(manifest: Manifest, with_bars: bool) -> Iterator[RenderableType]:
    """Yield for each step the input, the piece written, and other pieces that were likely."""
    bars, bar_heads = (["left"], [""]) if with_bars else ([], [])
    heads = ["step", "reads", "writes", *bar_heads, "p", "instead of"]
    table = _make_table("right", "left", "left", *bars, "left", "rest", head=heads)
    for step in manifest["steps"]:
        chosen = step["chosen"]
        others = [candidate for candidate in step["top"] if candidate["id"] != chosen["id"]]
        alternatives = []
        if step["rank"] != 1:  # a beam may prefer a piece that was not the likeliest of its step
            alternatives.append(f"(it is number {step['rank']:,})")
        for other in others[:3]:
            piece, probability = escape_controls(other["piece"]), _format_probability(other["prob"])
            alternatives.append(f"{piece} {probability}")
        table.add_row(
            str(step["step"] + 1),
            Text(escape_controls(step["input"])),
            Text(escape_controls(chosen["piece"])),
            *([Bar(1.0, 0.0, chosen["prob"], width=8)] if with_bars else []),
            _format_probability(chosen["prob"]),
            _one_line("  ".join(alternatives)),
        )

    yield table
    if manifest["forced"]:
        yield Text("Then the translation that was given ends.")
    elif manifest["stop"] == "eos":
        last = _format_probability(manifest["steps"][-1]["chosen"]["prob"])
        yield Text(f"It stops here: the model wrote EOS, the end token, with probability {last}.")
    else:
        yield Text(
            "It stops here: the translation is as long as the search allows, and the model has not written EOS, the "
            "end token."
        )


def _format_probability(probability: float) -> str:
    """Return a probability with three digits.

    >>> _format_probability(0.98765), _format_probability(0.00012)
    ('0.988', '<0.001')
    """
    return f"{probability:.3f}" if probability >= 0.0005 else "<0.001"


def _show_attention(
    manifest: Manifest,
    tensor: "Callable[[str], np.ndarray]",
    links: Sequence[tuple[int, int]],
    console: Console,
) -> Iterator[RenderableType]:
    """Yield how much each target word reads from each source word, and which words are aligned.

    The table is the mean over all layers and heads; where it is too wide, each word has a line with
    its largest shares.
    """
    import numpy as np

    # Cross-attention is what has heads, target and source as dimensions; a trace may have kept
    # other tensors only.
    names = [row["name"] for row in manifest["tensors"] if row["dims"] == ["H", "T", "S"] and row["captured"]]
    patterns = [name for name in names if name.endswith(".pattern")]
    if patterns:
        mean = np.mean([np.asarray(tensor(name), dtype=np.float64).mean(axis=0) for name in patterns], axis=0)
        source, target = _group_pieces(manifest["source"]), _group_pieces(manifest["target"])
        shares = _merge_pieces_to_words(
            mean,
            [pieces for _, pieces in source],
            [pieces for _, pieces in target],
        )
        words = [shorten_text(word, _WIDEST_WORD) for word, _ in source]
        table = _make_table("left", *("right" for _ in source), head=["", *words])
        for (word, _), row in zip(target, shares, strict=True):
            cells = [Text(f"{100 * share:.0f}", "bold" if n == row.argmax() else "") for n, share in enumerate(row)]
            table.add_row(Text(shorten_text(word, _WIDEST_WORD)), *cells)
        if _fits(table, console):
            yield table
        else:
            for (word, _), row in zip(target, shares, strict=True):
                largest = [f"{source[n][0]} {100 * row[n]:.0f}" for n in np.argsort(-row, kind="stable")[:4]]
                yield Text("  ".join([f"{word}:", *largest]))
        yield Text(_TABLE_LEGEND.format(layers=len(patterns)))

    source_words, target_words = (manifest[side]["text"].split() for side in ("source", "target"))
    pairs = []
    for i, j in links:
        if i < len(source_words) and j < len(target_words):
            pairs.append(f"{escape_controls(source_words[i])}–{escape_controls(target_words[j])}")

    if pairs:
        yield Text("  ".join(["Aligned, by how far each word moves the decoder:", *pairs]))


def _group_pieces(side: Mapping[str, Any]) -> list[tuple[str, list[int]]]:
    """Return words, and special tokens by themselves, each with the positions of its pieces."""
    texts = side["text"].split()
    groups: dict[Any, list[int]] = {}
    for position, word in enumerate(side["words"]):
        groups.setdefault(f"mark {position}" if word is None else word, []).append(position)
    words = []
    for key, positions in groups.items():
        is_word = isinstance(key, int) and key < len(texts)
        text = texts[key] if is_word else side["pieces"][positions[0]]
        words.append((escape_controls(text), positions))
    return words


def _merge_pieces_to_words(
    mean: "np.ndarray", source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
) -> "np.ndarray":
    """Merge rows and columns of pieces to rows and columns of words: means of rows, sums of columns.

    >>> import numpy as np
    >>> _merge_pieces_to_words(np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]), [[0], [1, 2]], [[0, 1]]).tolist()
    [[0.25, 0.75]]
    """
    import numpy as np

    # A word is read with all of its pieces, and reads
    # on average over them: so each row still sums to 1.
    summed = np.stack([mean[:, list(positions)].sum(axis=1) for positions in source], axis=1)
    return np.stack([summed[list(positions)].mean(axis=0) for positions in target])


def _show_search(manifest: Manifest) -> Iterator[RenderableType]:
    """Yield finished hypotheses, best first, then each step.

    Nothing where the translation was given.
    """
    tree = manifest["tree"]
    if not tree:
        return
    nodes = {node["id"]: node for node in tree["nodes"]}
    yield Text(f"Beam of {tree['width']}; score = {escape_controls(tree['formula'])}")
    finished = sorted(
        (node for node in nodes.values() if node["fate"] == "finished"),
        key=lambda node: -node["score"],
    )
    if finished:
        table = _make_table(
            "left",
            "right",
            "right",
            "rest",
            head=["", "score", "log p", "finished, best first"],
        )
        for node in finished:
            # The last piece of a finished hypothesis is EOS;
            # without it, an empty translation has no pieces.
            text = _readable_pieces(_pieces_of_node(node, nodes)[:-1]) or "nothing"
            table.add_row(
                "*" if node["best"] else "",
                f"{node['score']:.4f}",
                f"{node['total']:.2f}",
                Text(text),
            )
        yield table

    table = _make_table(
        "right",
        "rest",
        head=["step", "kept, with log p so far; * leads to the translation"],
    )

    for step in sorted({node["step"] for node in nodes.values()}):
        candidates = sorted((node for node in nodes.values() if node["step"] == step), key=lambda node: node["rank"])
        kept = [Text(_describe_node(node, nodes)) for node in candidates if node["fate"] != "pruned"]
        table.add_row(str(step + 1), Columns(kept, padding=(0, 3, 0, 0)))
        dropped = [_describe_node(node, nodes) for node in candidates if node["fate"] == "pruned"][:DROPPED_SHOWN]
        if dropped:
            table.add_row("", Text("   ".join(["dropped:", *dropped]), "dim"))

    yield table


def _describe_node(node: Node, nodes: Mapping[int, Node]) -> str:
    """Return the last pieces of a hypothesis and its log-probability."""
    path = _pieces_of_node(node, nodes)
    # EOS has no place in the text, so it stands behind it as a word of its own.
    end = path[-1:] if node["fate"] == "finished" else []
    path = path[: len(path) - len(end)]
    marks = "*" * node["best"] + "…" * (len(path) > PIECES_SHOWN)
    shown = f"{marks}{_readable_pieces(path[-PIECES_SHOWN:])}"
    return " ".join([shown, *map(escape_controls, end), f"{node['total']:.2f}"])


def _readable_pieces(path: Sequence[str]) -> str:
    """Return pieces joined to readable text.

    >>> _readable_pieces(["▁La", "▁bo", "la"])
    'La bola'
    """
    return escape_controls("".join(path).replace("▁", " ").strip())


def _pieces_of_node(node: Node | None, nodes: Mapping[int, Node]) -> list[str]:
    """Return the pieces of a hypothesis, first to last."""
    pieces = []
    while node is not None:
        pieces.append(node["piece"])
        node = None if node["parent"] is None else nodes[node["parent"]]
    return pieces[::-1]  # nodes know their parents only, so the last piece was found first


def _show_origins(manifest: Manifest) -> Iterator[RenderableType]:
    """Show the words that a term or a unit of a memory brought."""
    origins = manifest.get("provenance")
    if origins is None:
        return

    rows = _make_table("left", "left", "rest")
    for origin in origins:
        if origin["origin"] == "model":
            continue
        sides = f"{origin['source']} → {origin['target']}".strip(" →")
        cells = (origin["word"], origin["origin"], f"{origin['place']} {sides}".strip())
        rows.add_row(*map(escape_controls, cells))
    yield rows if rows.row_count else Text("All of them are the model's own.")


def _show_accounts(manifest: Manifest, console: Console) -> Iterator[RenderableType]:
    """Yield the logit of each piece written as a sum, its terms added up by kind."""
    accounts = manifest.get("accounts")
    if not accounts:
        return
    kinds = _kinds_of_parts(accounts["chosen"])
    heads = ["logit", *kinds]
    table = _make_table("left", *("right" for _ in heads), head=["writes", *heads])

    lines = []
    for account in accounts["chosen"]:
        sums = dict.fromkeys(kinds, 0.0)
        for part in account["parts"]:
            sums[part["group"]] += part["value"]
        values = [f"{sums[kind]:+.2f}" for kind in kinds]
        piece, logit = escape_controls(account["piece"]), f"{account['logit']:.2f} ="
        table.add_row(Text(piece), logit, *values)
        terms = [f"{value} {kind}" for value, kind in zip(values, kinds, strict=True)]
        lines.append(Text("  ".join([f"{piece} {logit}", *terms])))

    yield from [table] if _fits(table, console) else lines


def _kinds_of_parts(accounts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the kinds of parts that logits are made of, in the order in which they come first."""
    kinds: dict[str, None] = {}
    for account in accounts:
        for part in account["parts"]:
            kinds[part["group"]] = None
    return list(kinds)


def _show_checks(manifest: Manifest, width: int) -> Iterator[RenderableType]:
    """Yield each check with its measured value, and its meaning where it did not pass."""
    names = [escape_controls(check["name"]) for check in manifest["checks"]]
    wide = max(map(text_width, names), default=0)
    table = _make_table("left", "rest")
    for check, name in zip(manifest["checks"], names, strict=True):
        value, limit = check["value"], check["limit"]
        numbers = "" if value is None or limit is None else f"  {value:.2g}, limit {limit:.2g}"
        was_made = value is not None or not check["passed"]
        mark = ("FAILED", "bold red") if not check["passed"] else ("passed", "green") if was_made else ("not run", "")
        # Where there is room, the numbers of all checks begin in one column.
        shown_name = pad_right(name, wide if wide + 40 <= width else 0)
        table.add_row(Text(pad_right(mark[0], 8), mark[1]), Text.assemble(shown_name, (numbers, "dim")))
        if not was_made or not check["passed"]:
            table.add_row("", Text(escape_controls(check["means"])))

    yield table
