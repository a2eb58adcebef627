"""Finds which of many terms stand in a text, in one pass over the words of the text (Aho and Corasick, 1975)."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush


class TermTrie:
    """Terms as a trie over their words, each term read from its last word to its first.

    A node stands for the words on the way to it. Going through a text from its end, the trie knows at each word all
    terms that begin there: one node has the longest, and `shorter` leads from a node to the next shorter one.
    """

    def __init__(self, terms: Iterable[Sequence[str]]):
        self.children: list[dict[str, int]] = [{}]
        self.sizes = [0]
        """Number of words of the term that a node stands for; 0 where it stands for none."""
        for words in terms:
            node = 0
            for word in reversed(words):
                child = self.children[node].setdefault(word, len(self.children))
                if child == len(self.children):
                    self.children.append({})
                    self.sizes.append(0)
                node = child
            self.sizes[node] = len(words)
        # The node of the longest other way that has the same last words, which here are the first of the text.
        self.fallbacks = [0] * len(self.children)
        self.shorter = [0] * len(self.children)
        # Breadth first, since the fallback of a node is nearer to the root than the node itself.
        pending = deque(self.children[0].values())
        while pending:
            node = pending.popleft()
            fallback = self.fallbacks[node]
            self.shorter[node] = fallback if self.sizes[fallback] else self.shorter[fallback]
            for word, child in self.children[node].items():
                self.fallbacks[child] = self.follow(fallback, word)
                pending.append(child)

    def follow(self, node: int, word: str) -> int:
        """Return the node after one more word, which stands for the longest way that ends with it."""
        while node and word not in self.children[node]:
            node = self.fallbacks[node]
        return self.children[node].get(word, 0)

    def longest_terms(self, words: Sequence[str]) -> list[int]:
        """Return for each word of a text the node of the longest term that begins with it, or 0.

        >>> trie = TermTrie([("new", "york"), ("york",), ("new", "york", "times")])
        >>> nodes = trie.longest_terms(["new", "york", "times", "in", "new", "york"])
        >>> [trie.sizes[node] for node in nodes]
        [3, 1, 0, 0, 2, 1]
        """
        nodes, node = [0] * len(words), 0
        for i in reversed(range(len(words))):
            node = self.follow(node, words[i])
            nodes[i] = node if self.sizes[node] else self.shorter[node]
        return nodes

    def choose_terms(
        self, words: Sequence[str], edges: Sequence[int], is_term: Callable[[int, int], bool]
    ) -> list[tuple[int, int]]:
        """Return the spans of the terms in a text, in order and without overlap: the longest first, then the first.

        `edges` has the characters where the words begin, and the end of the last; `is_term` may refuse a span of them.
        """
        starts: list[int] = []
        ends: list[int] = []

        def fit_term(i: int, node: int, room: int) -> int:
            # The longest term at a word that has no more words than there is room for.
            while node and not (self.sizes[node] <= room and is_term(edges[i], edges[i + self.sizes[node]])):
                node = self.shorter[node]
            return node

        fitting = [(i, fit_term(i, node, len(words) - i)) for i, node in enumerate(self.longest_terms(words)) if node]
        queue = [(edges[i] - edges[i + self.sizes[node]], i, node) for i, node in fitting if node]
        heapify(queue)
        while queue:
            _, i, node = heappop(queue)
            place = bisect_right(starts, i)
            if place and ends[place - 1] > i:
                continue
            room = starts[place] - i if place < len(starts) else len(words) - i
            shorter = fit_term(i, node, room)
            if shorter == node:
                starts.insert(place, i)
                ends.insert(place, i + self.sizes[node])
            elif shorter:
                heappush(queue, (edges[i] - edges[i + self.sizes[shorter]], i, shorter))
        return [(edges[start], edges[end]) for start, end in zip(starts, ends, strict=True)]
