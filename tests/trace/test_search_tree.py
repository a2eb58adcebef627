"""Observing a search changes nothing, and the tree shows exactly that search."""

from math import fsum
from typing import Literal

import pytest
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import SearchConfig
from pellucid.decode.search import Hypothesis, SearchStep, rank_hypotheses
from pellucid.decode.torch_engine import SearchRequest
from pellucid.interpret.trace.facts import SearchTree, TreeNode
from pellucid.interpret.trace.search_tree import ObservedSearch, build_search_tree
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.trace.traced import small_traced, tree_of_ball

VOCABULARY = 11

Stop = Literal["eos", "length"]


def search(seed: int, width: int, longest: int, n_best: int = 1, alpha: float = 0.6) -> ObservedSearch:
    """Search for one sentence on a table of random logits, and observe it."""
    steps: list[SearchStep] = []
    step, state = step_from(random_logits(seed, VOCABULARY)), Prefixes([0])
    if width == 1:
        [hypotheses] = greedy_search(step, state, limit(longest), length_penalty=alpha, observe=steps.append)
    else:
        settings = {"width": width, "n_best": n_best, "length_penalty": alpha}
        [hypotheses] = beam_search(step, state, limit(longest), **settings, observe=steps.append)
    return ObservedSearch(SearchRequest([EOS], 1), steps, hypotheses)


def make_tree(observed: ObservedSearch, width: int, alpha: float = 0.6) -> SearchTree:
    search_tree = build_search_tree(observed, SearchConfig(beam=width, length_penalty=alpha), str)
    assert search_tree is not None
    return search_tree


def tokens_to(node: TreeNode, nodes: list[TreeNode]) -> list[int]:
    """The pieces from the root to a node."""
    return [*([] if node.parent is None else tokens_to(nodes[node.parent], nodes)), node.piece_id]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_observing_changes_nothing(width):
    """In a batch, every hypothesis, number and margin stays the same."""
    for seed in range(5):
        observed_steps = []
        results = []
        for observe in (None, observed_steps.append):
            step, state = step_from(random_logits(seed, VOCABULARY)), Prefixes([0, 1, 2])
            settings = {"length_penalty": 0.6, "observe": observe}
            if width == 1:
                results.append(greedy_search(step, state, limit(13, 7, 1), **settings))
            else:
                results.append(beam_search(step, state, limit(13, 7, 1), width=width, n_best=2, **settings))
        assert results[0] == results[1]
        assert [[hypothesis.margin for hypothesis in hypotheses] for hypotheses in results[0]] == [
            [hypothesis.margin for hypothesis in hypotheses] for hypotheses in results[1]
        ]
        assert observed_steps


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_the_nodes_of_the_tree_give_back_the_hypotheses(width, alpha):
    """The hypotheses are the nodes that ended and, at the limit, those that were kept, best first."""
    for seed in range(7):
        for longest in (1, 4, 9):
            observed = search(seed, width, longest, n_best=width, alpha=alpha)
            nodes = make_tree(observed, width, alpha).nodes
            ends: list[tuple[TreeNode, Stop]] = []
            for node in nodes:
                if node.fate == "finished":
                    ends.append((node, "eos"))
                elif node.fate == "kept" and node.step == longest - 1:
                    ends.append((node, "length"))
            outcomes = [
                Hypothesis(
                    tokens_to(node, nodes)[:-1] if stop == "eos" else tokens_to(node, nodes),
                    node.score,
                    node.total,
                    stop,
                    [nodes[i].log_prob for i in path_to(node, nodes)],
                )
                for node, stop in ends
            ]
            assert rank_hypotheses(outcomes)[: len(observed.hypotheses)] == observed.hypotheses


def path_to(node: TreeNode, nodes: list[TreeNode]) -> list[int]:
    return [*([] if node.parent is None else path_to(nodes[node.parent], nodes)), node.id]


@pytest.mark.parametrize("width", [2, 3, 5])
def test_the_nodes_are_the_candidates_of_a_plain_beam_search(width):
    """The expected nodes come from a plain beam search on lists of whole texts, with their ranks and fates."""
    for seed in range(7):
        observed = search(seed, width, longest=8, n_best=width, alpha=0.6)
        nodes = make_tree(observed, width).nodes
        logits = random_logits(seed, VOCABULARY)
        live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for step in range(max(node.step for node in nodes) + 1):
            candidates = []
            for total, text in live:
                log_probs = logits(0, text).log_softmax(0)
                candidates += [
                    (total + log_probs[i].item(), (*text, i)) for i in range(VOCABULARY) if i not in (0, 1, 2)
                ]
            candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * width]
            live = [candidate for candidate in candidates if candidate[1][-1] != EOS][:width]
            step_nodes = [node for node in nodes if node.step == step]
            assert [node.rank for node in step_nodes] == list(range(1, len(candidates) + 1))
            for node, (total, text) in zip(step_nodes, candidates, strict=True):
                assert tuple(tokens_to(node, nodes)) == text
                assert node.total == pytest.approx(total, abs=1e-9)
                assert node.score == pytest.approx(total / ((5 + len(text)) / 6) ** 0.6, abs=1e-9)
                among_the_first = node.rank <= width
                ended = text[-1] == EOS
                fate = "finished" if ended and among_the_first else "kept" if (total, text) in live else "pruned"
                assert node.fate == fate


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_best_nodes_lead_to_the_first_hypothesis(width):
    for seed in range(7):
        observed = search(seed, width, longest=8)
        nodes = make_tree(observed, width).nodes
        best = [node for node in nodes if node.best]
        first = observed.hypotheses[0]
        assert [node.piece_id for node in best] == [*first.tokens, *[EOS] * (first.stop == "eos")]
        assert [node.parent for node in best] == [None, *(node.id for node in best[:-1])]
        assert [node.log_prob for node in best] == first.log_probs
        assert best[-1].total == first.log_prob == fsum(first.log_probs)
        assert best[-1].score == first.score


def test_greedy_search_observes_the_steps_of_a_beam_of_one():
    for seed in range(7):
        greedy = search(seed, 1, longest=9)
        beam_steps: list[SearchStep] = []
        step = step_from(random_logits(seed, VOCABULARY))
        beam_search(step, Prefixes([0]), limit(9), width=1, n_best=1, length_penalty=0.6, observe=beam_steps.append)
        assert len(beam_steps) == len(greedy.steps)
        for beam_step, greedy_step in zip(beam_steps, greedy.steps, strict=True):
            assert torch.equal(beam_step.tokens, greedy_step.tokens)
            assert torch.equal(beam_step.log_probs, greedy_step.log_probs)
            assert torch.equal(beam_step.finished, greedy_step.finished)
            torch.testing.assert_close(beam_step.totals, greedy_step.totals)


def test_impossible_candidates_are_not_shown():
    """With seven pieces, four of which may follow, a search of width 5 cannot see ten candidates in its first step."""
    steps: list[SearchStep] = []
    step = step_from(random_logits(1, 7))
    [hypotheses] = beam_search(
        step, Prefixes([0]), limit(3), width=5, n_best=1, length_penalty=0.6, observe=steps.append
    )
    nodes = make_tree(ObservedSearch(SearchRequest([EOS], 1), steps, hypotheses), 5).nodes
    assert sum(node.step == 0 for node in nodes) == 4
    assert all(node.total > -100 for node in nodes)


def test_the_tree_of_a_trace_leads_to_its_translation():
    for beam in (1, 2, 4):
        trace = small_traced().trace("The ball is blue.", beam=beam)
        assert trace.tree is not None
        assert (trace.tree.width, trace.tree.candidates) == (beam, 2 * beam)
        best = [node for node in trace.tree.nodes if node.best]
        assert [node.piece_id for node in best] == trace.target.ids
        assert [node.piece for node in best] == trace.target.pieces
        assert [node.log_prob for node in best] == trace.translation.piece_log_probs
        assert (best[-1].total, best[-1].score) == (trace.log_prob, trace.score)
        assert best[-1].fate == "finished"


def test_a_translation_cut_off_at_the_limit_has_no_finished_node():
    trace = small_traced(ends=-9.0, max_positions=19).trace("?", beam=2)
    assert trace.tree is not None
    assert trace.stop == "length"
    assert len(trace.target.ids) == 19
    assert not [node for node in trace.tree.nodes if node.fate == "finished"]
    assert [node.piece_id for node in trace.tree.nodes if node.best] == trace.target.ids


def test_the_tree_is_that_of_the_last_search():
    """A translation that repeats itself is searched for again, and the tree is that of the second search."""
    trace = small_traced(9).trace("The ball is blue.", beam=3)
    assert any("searched again with no 4 pieces twice" in note for note in trace.notes)
    assert trace.tree is not None
    assert [node.piece_id for node in trace.tree.nodes if node.best] == trace.target.ids
    for node in trace.tree.nodes:  # no four pieces stand twice
        text = tokens_to(node, trace.tree.nodes)
        fours = [tuple(text[i : i + 4]) for i in range(len(text) - 3)]
        assert len(fours) == len(set(fours))


def test_a_line_with_protected_text_has_the_tree_of_its_translation_or_none():
    """Such a line is searched for in several ways, and the search that keeps terms in a beam is not observed."""
    model = small_traced(max_positions=37)
    for sentence in ("Yes {name}.", "The {0} is {1}, {0}.", "{a} {b} {c}"):
        trace = model.trace(sentence, beam=2)
        assert not trace.forced
        assert trace.translation == model.translate([sentence], beam=2)[0]
        if trace.tree is not None:
            assert [node.piece_id for node in trace.tree.nodes if node.best] == trace.target.ids
    observed = search(1, 2, longest=3)
    assert build_search_tree(ObservedSearch(observed.request, [], observed.hypotheses), SearchConfig(), str) is None


def test_ids_and_parents_are_indices_of_nodes():
    nodes = tree_of_ball().nodes
    assert [node.id for node in nodes] == list(range(len(nodes)))
    for node in nodes:
        assert (node.parent is None) == (node.step == 0)
        if node.parent is not None:
            assert nodes[node.parent].step == node.step - 1
            assert nodes[node.parent].fate == "kept"
