"""The beam, for a terminal: what was kept at each step, what was dropped, and what was finished."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid.cli.terminal import Terminal, flowing, visible

Node = Mapping[str, Any]

TAIL = 2
"""Pieces of a hypothesis that are shown while it grows."""

DROPPED = 2
"""Candidates of each step that are shown though they were not kept."""


def search(manifest: Mapping[str, Any], at: Terminal) -> Iterator[str]:
    """Finished hypotheses, best first, then each step; nothing where the translation was given."""
    tree = manifest["tree"]
    if not tree:
        return
    nodes = {node["id"]: node for node in tree["nodes"]}
    yield f"  Beam of {tree['width']}; score = {visible(tree['formula'])}"
    finished = sorted((node for node in nodes.values() if node["fate"] == "finished"), key=lambda node: -node["score"])
    if finished:
        yield at.dim("     score   log p  finished, best first")
    for node in finished:
        head = f"{'*' if node['best'] else ' '}{node['score']:>9.4f} {node['total']:>7.2f}"
        first, *more = flowing(readable(pieces(node, nodes)[:-1]).split() or ["nothing"], at.width - 21, gap=" ")
        yield from (f"{head}  {first}", *(" " * 20 + line for line in more))
    yield at.dim("  step  kept, with log p so far; * leads to the translation")
    for step in sorted({node["step"] for node in nodes.values()}):
        yield from one_step(step, nodes, at)


def one_step(step: int, nodes: Mapping[int, Node], at: Terminal) -> Iterator[str]:
    """The candidates of one step: those kept, and on a line of their own the best of those dropped."""
    here = sorted((node for node in nodes.values() if node["step"] == step), key=lambda node: node["rank"])
    kept = [shown(node, nodes) for node in here if node["fate"] != "pruned"]
    pruned = [shown(node, nodes) for node in here if node["fate"] == "pruned"][:DROPPED]
    first, *more = flowing(kept, at.width - 8, gap="   ")
    yield from (f"  {step + 1:>4}  {first}", *(f"        {line}" for line in more))
    dropped = flowing(["dropped:", *pruned] if pruned else [], at.width - 8, gap="   ")
    yield from (at.dim(f"        {line}") for line in dropped)


def shown(node: Node, nodes: Mapping[int, Node]) -> str:
    """The end of a hypothesis and its log-probability."""
    path = pieces(node, nodes)
    end = path[-1:] if node["fate"] == "finished" else []
    path = path[: len(path) - len(end)]
    marks = "*" * node["best"] + "…" * (len(path) > TAIL)
    return " ".join([f"{marks}{readable(path[-TAIL:])}", *map(visible, end), f"{node['total']:.2f}"])


def readable(path: Sequence[str]) -> str:
    """Pieces as they would be read.

    >>> readable(["▁La", "▁bo", "la"])
    'La bola'
    """
    return visible("".join(path).replace("▁", " ").strip())


def pieces(node: Node | None, nodes: Mapping[int, Node]) -> list[str]:
    """The pieces of a hypothesis, first to last."""
    found = []
    while node is not None:
        found.append(node["piece"])
        node = None if node["parent"] is None else nodes[node["parent"]]
    return found[::-1]
