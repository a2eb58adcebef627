"""Masks, written out for small sentences."""

import jaxtyping
import pytest
import torch

from pellucid.model.masks import causal_mask, key_mask, token_mask


@pytest.mark.article("E11")
def test_padding_is_masked():
    assert token_mask(torch.tensor([[7, 3, 0], [5, 2, 3]])).tolist() == [[True, True, False], [True, True, True]]
    assert key_mask(torch.ones(2, 3).bool()).shape == (2, 1, 1, 3)


@pytest.mark.article("A33", "B31")
def test_a_query_reads_itself_and_the_past():
    drawing = [
        "".join("x" if allowed else "." for allowed in row)
        for row in causal_mask(torch.arange(3), torch.arange(3))[0, 0]
    ]
    assert drawing == ["x..", "xx.", "xxx"]


@pytest.mark.article("X22")
def test_the_last_query_alone_reads_everything():
    assert causal_mask(torch.tensor([4]), torch.arange(5)).tolist() == [[[[True] * 5]]]


def test_a_wrong_shape_is_refused_while_the_tests_of_the_model_run():
    with pytest.raises(jaxtyping.TypeCheckError):
        key_mask(torch.ones(2, 3, 4).bool())
