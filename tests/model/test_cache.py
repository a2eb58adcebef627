"""The cache by hand: what is put in comes out, behind what was there."""

import torch

from pellucid.model.cache import Cache, LayerCache


def test_what_is_kept_grows_at_the_end_and_follows_its_rows():
    kept = LayerCache()
    assert not kept.filled
    first, second = torch.randn(2, 3, 5, 2, 7), torch.randn(2, 3, 5, 1, 7)
    kept.append(*first)
    k, v = kept.append(*second)
    assert torch.equal(k, torch.cat([first[0], second[0]], dim=2))
    assert torch.equal(v, torch.cat([first[1], second[1]], dim=2))
    kept.select(torch.tensor([2, 2, 0, 1]))
    assert torch.equal(kept.keys_and_values()[0], k[[2, 2, 0, 1]])
    assert torch.equal(kept.keys_and_values()[1], v[[2, 2, 0, 1]])


def test_rows_move_within_a_sentence_and_leave_with_it():
    cache = Cache()
    cache.self_attention("decoder.0").append(*torch.randn(2, 6, 5, 1, 7))
    cache.cross_attention("decoder.0").append(*torch.randn(2, 3, 5, 11, 7))
    cache.self_attention("decoder.1")  # made, but nothing in it yet
    own, read = (
        cache.self_attention("decoder.0").keys_and_values()[0],
        cache.cross_attention("decoder.0").keys_and_values()[0],
    )
    cache.select(torch.tensor([1, 1, 2, 3, 5, 4]))
    assert torch.equal(cache.self_attention("decoder.0").keys_and_values()[0], own[[1, 1, 2, 3, 5, 4]])
    assert torch.equal(cache.cross_attention("decoder.0").keys_and_values()[0], read)
    cache.select(torch.tensor([0, 1, 4, 5]), torch.tensor([0, 2]))
    assert torch.equal(cache.self_attention("decoder.0").keys_and_values()[0], own[[1, 1, 5, 4]])
    assert torch.equal(cache.cross_attention("decoder.0").keys_and_values()[0], read[[0, 2]])
