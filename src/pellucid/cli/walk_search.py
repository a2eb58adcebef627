"""The beam, for a terminal: what was kept at each step, what was dropped, and what was finished."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid.cli.terminal import Terminal, escape_controls, flow_parts

Node = Mapping[str, Any]

PIECES_SHOWN = 2
"""Pieces of a hypothesis that are shown while it grows."""

DROPPED_SHOWN = 2
"""Candidates of each step that are shown though they were not kept."""


def search_lines(manifest: Mapping[str, Any], at: Terminal) -> Iterator[str]:
    """Finished hypotheses, best first, then each step; nothing where the translation was given."""
    tree = manifest["tree"]
    if not tree:
        return
    nodes = {node["id"]: node for node in tree["nodes"]}
    yield f"  Beam of {tree['width']}; score = {escape_controls(tree['formula'])}"
    finished = sorted((node for node in nodes.values() if node["fate"] == "finished"), key=lambda node: -node["score"])
    if finished:
        yield at.dim("     score   log p  finished, best first")
    for node in finished:
        head = f"{'*' if node['best'] else ' '}{node['score']:>9.4f} {node['total']:>7.2f}"
        first, *more = flow_parts(
            readable_pieces(pieces_of_node(node, nodes)[:-1]).split() or ["nothing"], at.width - 21, gap=" "
        )
        yield from (f"{head}  {first}", *(" " * 20 + line for line in more))
    yield at.dim("  step  kept, with log p so far; * leads to the translation")
    for step in sorted({node["step"] for node in nodes.values()}):
        yield from search_step_lines(step, nodes, at)


def search_step_lines(step: int, nodes: Mapping[int, Node], at: Terminal) -> Iterator[str]:
    """The candidates of one step: those kept, and on a line of their own the best of those dropped."""
    here = sorted((node for node in nodes.values() if node["step"] == step), key=lambda node: node["rank"])
    kept = [describe_node(node, nodes) for node in here if node["fate"] != "pruned"]
    pruned = [describe_node(node, nodes) for node in here if node["fate"] == "pruned"][:DROPPED_SHOWN]
    first, *more = flow_parts(kept, at.width - 8, gap="   ")
    yield from (f"  {step + 1:>4}  {first}", *(f"        {line}" for line in more))
    dropped = flow_parts(["dropped:", *pruned] if pruned else [], at.width - 8, gap="   ")
    yield from (at.dim(f"        {line}") for line in dropped)


def describe_node(node: Node, nodes: Mapping[int, Node]) -> str:
    """The end of a hypothesis and its log-probability."""
    path = pieces_of_node(node, nodes)
    end = path[-1:] if node["fate"] == "finished" else []
    path = path[: len(path) - len(end)]
    marks = "*" * node["best"] + "…" * (len(path) > PIECES_SHOWN)
    return " ".join(
        [f"{marks}{readable_pieces(path[-PIECES_SHOWN:])}", *map(escape_controls, end), f"{node['total']:.2f}"]
    )


def readable_pieces(path: Sequence[str]) -> str:
    """Pieces as they would be read.

    >>> readable_pieces(["▁La", "▁bo", "la"])
    'La bola'
    """
    return escape_controls("".join(path).replace("▁", " ").strip())


def pieces_of_node(node: Node | None, nodes: Mapping[int, Node]) -> list[str]:
    """The pieces of a hypothesis, first to last."""
    found = []
    while node is not None:
        found.append(node["piece"])
        node = None if node["parent"] is None else nodes[node["parent"]]
    return found[::-1]
