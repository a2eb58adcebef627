import pytest
import torch

from pellucid.interpret.studies.roles import FollowedRelation, RelationCounts, relation_badges


def test_hits_are_counted_instance_by_instance():
    """Two heads: one reads the right word of the first two instances, the other always the word before."""
    count = RelationCounts()
    count.add("obj", torch.tensor([[2, 0, 1], [0, 0, 1]]), {0: [2], 2: [1]})
    count.add("obj", torch.tensor([[0, 1, 0, 0], [0, 0, 1, 2]]), {3: [2]})
    followed = count.as_followed("obj", "encoder.0.self")
    assert followed is not None
    assert followed.shares == pytest.approx([2 / 3, 2 / 3])
    # two of three are one place before
    assert (followed.baseline, followed.offset, followed.instances) == (pytest.approx(2 / 3), -1, 3)
    assert count.as_followed("nsubj", "encoder.0.self") is None


def test_a_badge_takes_ten_points_more_than_a_fixed_place():
    def marks(share: float, instances: int) -> list[str]:
        followed = FollowedRelation("word it reads", "decoder.0.cross", [0.0, share], 0.6, 1, instances)
        return [badge.mark for badge in relation_badges(followed, 1)]

    assert marks(0.71, 50) == ["A"]
    assert marks(0.69, 50) == []
    assert marks(1.0, 29) == []
