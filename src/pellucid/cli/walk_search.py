"""The beam search as lines for a terminal: what was kept, dropped and finished at each step."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid.cli.terminal import Terminal, escape_controls, wrap_items

Node = Mapping[str, Any]

PIECES_SHOWN = 2
"""Pieces at the end of an unfinished hypothesis that are shown."""

DROPPED_SHOWN = 2
"""Dropped candidates of each step that are shown."""


def search_lines(manifest: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """Yield finished hypotheses, best first, then each step; nothing where the translation was given."""
    tree = manifest["tree"]
    if not tree:
        return
    nodes = {node["id"]: node for node in tree["nodes"]}
    yield f"  Beam of {tree['width']}; score = {escape_controls(tree['formula'])}"
    finished = sorted((node for node in nodes.values() if node["fate"] == "finished"), key=lambda node: -node["score"])
    if finished:
        yield terminal.dim("     score   log p  finished, best first")
    for node in finished:
        head = f"{'*' if node['best'] else ' '}{node['score']:>9.4f} {node['total']:>7.2f}"
        # The last piece of a finished hypothesis is EOS; without it, an empty translation has no pieces.
        first, *more = wrap_items(
            readable_pieces(pieces_of_node(node, nodes)[:-1]).split() or ["nothing"], terminal.width - 21, gap=" "
        )
        yield from (f"{head}  {first}", *(" " * 20 + line for line in more))
    yield terminal.dim("  step  kept, with log p so far; * leads to the translation")
    for step in sorted({node["step"] for node in nodes.values()}):
        yield from search_step_lines(step, nodes, terminal)


def search_step_lines(step: int, nodes: Mapping[int, Node], terminal: Terminal) -> Iterator[str]:
    """Yield the candidates of one step: those kept, then on their own line the best of those dropped."""
    candidates = sorted((node for node in nodes.values() if node["step"] == step), key=lambda node: node["rank"])
    survivors = [describe_node(node, nodes) for node in candidates if node["fate"] != "pruned"]
    pruned = [describe_node(node, nodes) for node in candidates if node["fate"] == "pruned"][:DROPPED_SHOWN]
    first, *more = wrap_items(survivors, terminal.width - 8, gap="   ")
    yield from (f"  {step + 1:>4}  {first}", *(f"        {line}" for line in more))
    dropped = wrap_items(["dropped:", *pruned] if pruned else [], terminal.width - 8, gap="   ")
    yield from (terminal.dim(f"        {line}") for line in dropped)


def describe_node(node: Node, nodes: Mapping[int, Node]) -> str:
    """Return the last pieces of a hypothesis and its log-probability."""
    path = pieces_of_node(node, nodes)
    # EOS has no place in the text, so it stands behind it as a word of its own.
    end = path[-1:] if node["fate"] == "finished" else []
    path = path[: len(path) - len(end)]
    marks = "*" * node["best"] + "…" * (len(path) > PIECES_SHOWN)
    return " ".join(
        [f"{marks}{readable_pieces(path[-PIECES_SHOWN:])}", *map(escape_controls, end), f"{node['total']:.2f}"]
    )


def readable_pieces(path: Sequence[str]) -> str:
    """Return pieces joined to readable text.

    >>> readable_pieces(["▁La", "▁bo", "la"])
    'La bola'
    """
    return escape_controls("".join(path).replace("▁", " ").strip())


def pieces_of_node(node: Node | None, nodes: Mapping[int, Node]) -> list[str]:
    """Return the pieces of a hypothesis, first to last."""
    pieces = []
    while node is not None:
        pieces.append(node["piece"])
        node = None if node["parent"] is None else nodes[node["parent"]]
    return pieces[::-1]  # nodes know their parents only, so the last piece was found first
