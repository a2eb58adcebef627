"""The cache by hand: keys and values come out as they went in, behind those that were there."""

import pytest
import torch

from pellucid.model.cache import ROOM, Cache, LayerCache


@pytest.mark.parametrize("steps", [1, 5])
def test_keys_of_new_tokens_stand_behind_the_old_ones(steps):
    cache = LayerCache()
    tokens = torch.randn(2, 3, 5, 4 * ROOM, 7)  # keys and values of 3 sentences, 5 heads, 64 tokens
    for first in range(0, tokens.shape[3] - steps, steps):
        k, v = cache.append(*tokens[:, :, :, first : first + steps])
        assert torch.equal(k, tokens[0, :, :, : first + steps])
        assert torch.equal(v, tokens[1, :, :, : first + steps])


def test_most_steps_copy_nothing():
    cache, places = LayerCache(), set()
    for _ in range(ROOM + 1):
        k, _ = cache.append(*torch.randn(2, 3, 5, 1, 7))
        places.add(k.data_ptr())
    assert len(places) == 1


def test_sentences_leave_with_their_keys():
    cache = Cache()
    cache.grow(3, 3, torch.arange(1))
    k, v = torch.randn(2, 3, 5, 1, 7)
    cache.layer(0).append(k, v)
    cache.layer(0).keep_source(k, v)
    cache.layer(1)  # made, but nothing in it yet
    cache.select(torch.tensor([0, 2]), torch.tensor([0, 2]))
    new = torch.randn(2, 2, 5, 1, 7)
    keys, values = cache.layer(0).append(*new)
    assert torch.equal(keys, torch.cat([k[[0, 2]], new[0]], dim=2))
    assert torch.equal(values, torch.cat([v[[0, 2]], new[1]], dim=2))
    source = cache.layer(0).source
    assert source is not None
    assert torch.equal(source[1], v[[0, 2]])


def test_two_hypotheses_of_one_beginning_read_that_and_not_each_other():
    cache = Cache()
    _, allowed = cache.grow(1, 1, torch.arange(1))
    assert allowed is None  # there is nothing but the token itself
    cache.select(torch.tensor([0, 0]), torch.tensor([0]))
    ids, allowed = cache.grow(1, 2, torch.arange(1, 2))
    assert ids.tolist() == [1, 1]
    assert cache.layer(0).key_ids.tolist() == [0, 1, 1]
    assert allowed is not None
    assert allowed.tolist() == [[[[True, True, False], [True, False, True]]]]
    cache.select(torch.tensor([1, 1]), torch.tensor([0]))  # the second is continued twice, the first is dropped
    _, allowed = cache.grow(1, 2, torch.arange(2, 3))
    assert allowed is not None
    assert allowed.tolist() == [[[[True, False, True, True, False], [True, False, True, False, True]]]]
