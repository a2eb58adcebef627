from dataclasses import replace

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS
from pellucid.interpret.studies.model_queries import compare_masking, cross_attention_diagonals, mean_diagonal
from pellucid.interpret.trace.session import perform_act
from tests.trace.traced import small_traced

MODEL = small_traced(ends=12.0, double=True)
TRACE = MODEL.trace("The ball is blue.", target="La bola es azul.")


@pytest.mark.article("A33", "B29", "B31", "X13", "X22")
def test_cached_steps_equal_the_masked_run_and_not_the_unmasked():
    comparison = compare_masking(TRACE)
    assert len(comparison["kept"]) == len(TRACE.inputs.ids)
    assert max(comparison["kept"]) < 1e-11 * comparison["size"]
    assert max(comparison["unmasked"]) > 0.01
    assert comparison["size"] == pytest.approx(np.abs(TRACE["logits"].values).max(), rel=1e-12)


def test_without_a_mask_the_first_row_sees_the_last_piece():
    """Another last piece changes the first row of the run without a mask, and not that of the masked one."""
    model, other_ids = MODEL.bundle.model, list(TRACE.inputs.ids)
    other_ids[-1] = (other_ids[-1] + 1) % 100 + 4
    changed = replace(TRACE.facts, inputs=replace(TRACE.inputs, ids=other_ids))
    other_trace = type(TRACE)(changed, TRACE.config, {}, TRACE.origin)
    first, second = compare_masking(TRACE), compare_masking(other_trace)
    assert first["unmasked"][0] != second["unmasked"][0]
    with torch.inference_mode():
        source = torch.tensor([TRACE.source.ids])
        rows = [model(source, torch.tensor([ids]))[0, 0] for ids in (TRACE.inputs.ids, other_ids)]
    torch.testing.assert_close(rows[0], rows[1], rtol=0, atol=1e-12)


def test_a_translation_of_one_piece_has_nothing_to_mask():
    comparison = compare_masking(MODEL.trace("Yes.", target=""))
    assert TRACE.inputs.ids[0] == BOS
    assert comparison["unmasked"] == pytest.approx([0.0], abs=1e-12)
    assert comparison["parted"] == 0


@pytest.mark.article("C26")
def test_products_give_the_pattern_masked_before_or_after_scaling():
    first_head = compare_masking(TRACE)["products"]
    products = np.array(first_head["rows"])
    np.testing.assert_allclose(products, TRACE["decoder.0.self.products"].values[0], rtol=1e-6)
    future = np.triu(np.full(products.shape, -np.inf), 1)
    before, after = (products + future) / first_head["width"] ** 0.5, products / first_head["width"] ** 0.5 + future
    for scores in (before, after):
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(weights, TRACE["decoder.0.self.pattern"].values[0], atol=1e-6)


@pytest.mark.article("A35", "X14")
def test_the_diagonal_of_the_identity_is_one():
    identity = torch.eye(5, dtype=torch.float64)[None]
    assert mean_diagonal(identity, 0).tolist() == [1.0]
    assert mean_diagonal(identity, -1).tolist() == [0.0]
    assert mean_diagonal(identity.flip(-1), 0).tolist() == [0.2]  # the middle one
    assert mean_diagonal(torch.eye(3, 7)[None], 0).tolist() == [1.0]
    assert mean_diagonal(torch.ones(2, 1, 4) / 4, -1).tolist() == [0.0, 0.0]


@pytest.mark.article("A35", "X14")
def test_diagonals_are_those_of_the_patterns_captured():
    answer = perform_act(TRACE, "identity", {"sentence": "blue is The ball", "target": "azul"})
    assert isinstance(answer, dict)
    other = MODEL.trace("blue is The ball", target="azul")
    assert (answer["source"], answer["target"]) == (other.source.text, other.target.text)
    for attention in answer["attentions"]:
        pattern = other[f"{attention['section']}.pattern"].values
        rows = min(pattern.shape[1:])
        expected = [np.mean([head[t, t] for t in range(rows)]) for head in pattern]
        assert attention["written"] == pytest.approx(expected, rel=1e-9)
        shifted = [
            np.mean([head[t, t - 1] for t in range(1, pattern.shape[1]) if t - 1 < pattern.shape[2]])
            for head in pattern
        ]
        assert attention["read"] == pytest.approx(shifted, rel=1e-9)
    assert cross_attention_diagonals(other) == answer
