"""The tree of a search: observing changes nothing, and what it shows is the search itself."""

from math import fsum
from typing import Literal

import pytest
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.beam import beam_search
from pellucid.decode.config import SearchConfig
from pellucid.decode.greedy import greedy_search
from pellucid.decode.search import Hypothesis, rank_hypotheses
from pellucid.decode.search_steps import SearchStep
from pellucid.decode.torch_engine import SearchRequest
from pellucid.trace.facts import SearchTree, TreeNode
from pellucid.trace.search_tree import ObservedSearch, build_search_tree
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.trace.traced import small_traced, tree_of_ball

VOCABULARY = 11

Stop = Literal["eos", "length"]


def search(seed: int, width: int, longest: int, n_best: int = 1, alpha: float = 0.6) -> ObservedSearch:
    """One sentence's search on a table of random logits, observed."""
    looked: list[SearchStep] = []
    step, state = step_from(random_logits(seed, VOCABULARY)), Prefixes([0])
    if width == 1:
        [found] = greedy_search(step, state, limit(longest), length_penalty=alpha, observe=looked.append)
    else:
        given = {"width": width, "n_best": n_best, "length_penalty": alpha}
        [found] = beam_search(step, state, limit(longest), **given, observe=looked.append)
    return ObservedSearch(SearchRequest([EOS], 1), looked, found)


def tree(made: ObservedSearch, width: int, alpha: float = 0.6) -> SearchTree:
    found = build_search_tree(made, SearchConfig(beam=width, length_penalty=alpha), str)
    assert found is not None
    return found


def written(node: TreeNode, nodes: list[TreeNode]) -> list[int]:
    """The pieces from the root to a node."""
    return [*([] if node.parent is None else written(nodes[node.parent], nodes)), node.piece_id]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_observing_changes_nothing(width):
    """In a batch: every hypothesis, number and margin is the same."""
    for seed in range(5):
        heard = []
        found = []
        for observe in (None, heard.append):
            step, state = step_from(random_logits(seed, VOCABULARY)), Prefixes([0, 1, 2])
            given = {"length_penalty": 0.6, "observe": observe}
            if width == 1:
                found.append(greedy_search(step, state, limit(13, 7, 1), **given))
            else:
                found.append(beam_search(step, state, limit(13, 7, 1), width=width, n_best=2, **given))
        assert found[0] == found[1]
        assert [[h.margin for h in some] for some in found[0]] == [[h.margin for h in some] for some in found[1]]
        assert heard


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_the_tree_gives_back_what_the_search_found(width, alpha):
    """From its nodes alone: those that ended, and at the limit those that were kept, best first."""
    for seed in range(7):
        for longest in (1, 4, 9):
            made = search(seed, width, longest, n_best=width, alpha=alpha)
            nodes = tree(made, width, alpha).nodes
            done: list[tuple[TreeNode, Stop]] = []
            for node in nodes:
                if node.fate == "finished":
                    done.append((node, "eos"))
                elif node.fate == "kept" and node.step == longest - 1:
                    done.append((node, "length"))
            outcomes = [
                Hypothesis(
                    written(node, nodes)[:-1] if stop == "eos" else written(node, nodes),
                    node.score,
                    node.total,
                    stop,
                    [nodes[i].log_prob for i in path(node, nodes)],
                )
                for node, stop in done
            ]
            assert rank_hypotheses(outcomes)[: len(made.hypotheses)] == made.hypotheses


def path(node: TreeNode, nodes: list[TreeNode]) -> list[int]:
    return [*([] if node.parent is None else path(nodes[node.parent], nodes)), node.id]


@pytest.mark.parametrize("width", [2, 3, 5])
def test_every_node_is_what_a_search_written_down_plainly_looks_at(width):
    """Beam search once more, on lists of whole texts: the candidates of each step, their ranks and their fates."""
    for seed in range(7):
        made = search(seed, width, longest=8, n_best=width, alpha=0.6)
        nodes = tree(made, width).nodes
        logits = random_logits(seed, VOCABULARY)
        live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for step in range(max(node.step for node in nodes) + 1):
            offers = []
            for total, text in live:
                log_probs = logits(0, text).log_softmax(0)
                offers += [(total + log_probs[i].item(), (*text, i)) for i in range(VOCABULARY) if i not in (0, 1, 2)]
            offers = sorted(offers, key=lambda each: -each[0])[: 2 * width]
            live = [each for each in offers if each[1][-1] != EOS][:width]
            shown = [node for node in nodes if node.step == step]
            assert [node.rank for node in shown] == list(range(1, len(offers) + 1))
            for node, (total, text) in zip(shown, offers, strict=True):
                assert tuple(written(node, nodes)) == text
                assert node.total == pytest.approx(total, abs=1e-9)
                assert node.score == pytest.approx(total / ((5 + len(text)) / 6) ** 0.6, abs=1e-9)
                among_the_first = node.rank <= width
                ended = text[-1] == EOS
                fate = "finished" if ended and among_the_first else "kept" if (total, text) in live else "pruned"
                assert node.fate == fate


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_best_are_the_way_to_the_first_hypothesis(width):
    for seed in range(7):
        made = search(seed, width, longest=8)
        nodes = tree(made, width).nodes
        best = [node for node in nodes if node.best]
        first = made.hypotheses[0]
        assert [node.piece_id for node in best] == [*first.tokens, *[EOS] * (first.stop == "eos")]
        assert [node.parent for node in best] == [None, *(node.id for node in best[:-1])]
        assert [node.log_prob for node in best] == first.log_probs
        assert best[-1].total == first.log_prob == fsum(first.log_probs)
        assert best[-1].score == first.score


def test_greedy_search_looks_at_what_a_beam_of_one_does():
    for seed in range(7):
        greedy = search(seed, 1, longest=9)
        looked: list[SearchStep] = []
        step = step_from(random_logits(seed, VOCABULARY))
        beam_search(step, Prefixes([0]), limit(9), width=1, n_best=1, length_penalty=0.6, observe=looked.append)
        assert len(looked) == len(greedy.steps)
        for one, other in zip(looked, greedy.steps, strict=True):
            assert torch.equal(one.tokens, other.tokens)
            assert torch.equal(one.log_probs, other.log_probs)
            assert torch.equal(one.finished, other.finished)
            torch.testing.assert_close(one.totals, other.totals)


def test_candidates_that_cannot_be_are_not_shown():
    """Of a vocabulary of seven a search of width 5 cannot see ten candidates at once: one hypothesis has four."""
    looked: list[SearchStep] = []
    step = step_from(random_logits(1, 7))
    [found] = beam_search(step, Prefixes([0]), limit(3), width=5, n_best=1, length_penalty=0.6, observe=looked.append)
    nodes = tree(ObservedSearch(SearchRequest([EOS], 1), looked, found), 5).nodes
    assert sum(node.step == 0 for node in nodes) == 4
    assert all(node.total > -100 for node in nodes)


def test_the_tree_of_a_trace_leads_to_its_translation():
    for beam in (1, 2, 4):
        found = small_traced().trace("The ball is blue.", beam=beam)
        assert found.tree is not None
        assert (found.tree.width, found.tree.candidates) == (beam, 2 * beam)
        best = [node for node in found.tree.nodes if node.best]
        assert [node.piece_id for node in best] == found.target.ids
        assert [node.piece for node in best] == found.target.pieces
        assert [node.log_prob for node in best] == found.translation.piece_log_probs
        assert (best[-1].total, best[-1].score) == (found.log_prob, found.score)
        assert best[-1].fate == "finished"


def test_a_translation_cut_off_at_the_limit_has_no_finished_node():
    found = small_traced(ends=-9.0, max_positions=19).trace("?", beam=2)
    assert found.tree is not None
    assert found.stop == "length"
    assert len(found.target.ids) == 19
    assert not [node for node in found.tree.nodes if node.fate == "finished"]
    assert [node.piece_id for node in found.tree.nodes if node.best] == found.target.ids


def test_the_tree_is_that_of_the_search_that_decided():
    """A translation that went round in circles is searched for again: the tree is the second search's."""
    found = small_traced(9).trace("The ball is blue.", beam=3)
    assert any("searched again with no 4 pieces twice" in note for note in found.notes)
    assert found.tree is not None
    assert [node.piece_id for node in found.tree.nodes if node.best] == found.target.ids
    for node in found.tree.nodes:  # no four pieces stand twice
        text = written(node, found.tree.nodes)
        fours = [tuple(text[i : i + 4]) for i in range(len(text) - 3)]
        assert len(fours) == len(set(fours))


def test_the_tree_of_a_line_with_something_to_keep_leads_to_its_translation_if_there_is_one():
    """Such a line is searched for in several ways, and the one that keeps terms in a beam tells nobody what it sees."""
    model = small_traced(max_positions=37)
    for sentence in ("Yes {name}.", "The {0} is {1}, {0}.", "{a} {b} {c}"):
        found = model.trace(sentence, beam=2)
        assert not found.forced
        assert found.translation == model.translate([sentence], beam=2)[0]
        if found.tree is not None:
            assert [node.piece_id for node in found.tree.nodes if node.best] == found.target.ids
    made = search(1, 2, longest=3)
    assert build_search_tree(ObservedSearch(made.request, [], made.hypotheses), SearchConfig(), str) is None


def test_ids_and_parents_are_places():
    nodes = tree_of_ball().nodes
    assert [node.id for node in nodes] == list(range(len(nodes)))
    for node in nodes:
        assert (node.parent is None) == (node.step == 0)
        if node.parent is not None:
            assert nodes[node.parent].step == node.step - 1
            assert nodes[node.parent].fate == "kept"
