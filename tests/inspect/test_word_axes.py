import numpy as np
import pytest

from pellucid.data.text.word_pieces import strip_word
from pellucid.interpret.studies.word_axes import PieceGroup, WordAxis, attention_axes, axis_of_side, merge_words
from tests.trace.traced import SENTENCES, ball, small_traced


def axis(*words: str) -> WordAxis:
    groups = [PieceGroup(word, (n,), (word,), "word", unknown=False) for n, word in enumerate(words)]
    return WordAxis(list(words), groups)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_piece_is_in_one_group(sentence: str):
    trace = small_traced().trace(sentence, target="", keep="encoder.0.self.pattern")
    source_axis = axis_of_side(trace.source)
    assert [position for group in source_axis.groups for position in group.positions] == list(
        range(len(trace.source.ids))
    )
    assert source_axis.pieces == trace.source.pieces
    assert [group.kind for group in source_axis.groups].count("mark") == 1
    assert source_axis.groups[-1].label == "</s>"
    words = [group.label for group in source_axis.groups if group.kind == "word"]
    assert words == [strip_word(word) for word in trace.source.text.split() if any(map(str.isalnum, word))]


def test_punctuation_stands_beside_its_word():
    trace = small_traced().trace("‽the, ball‽?! (Yes)", target="", keep="encoder.0.self.pattern")
    groups = axis_of_side(trace.source).groups
    assert [group.label for group in groups] == ["‽", "the", ",", "ball", "‽?!", "(", "Yes", ")", "</s>"]
    assert [group.kind for group in groups if not group.label.isalpha()] == ["punctuation"] * 5 + ["mark"]
    assert groups[0].unknown  # no piece covers ‽, which is spelled in bytes
    assert not groups[1].unknown


def test_the_decoder_reads_what_it_wrote_one_position_on():
    trace = small_traced().trace("Yes.", target="La bola es azul.", keep="*.pattern")
    target_axis, input_axis = axis_of_side(trace.target), attention_axes(trace, "decoder.1.self")[0]
    assert [group.label for group in input_axis.groups] == ["<s>", "La", "bola", "es", "azul", "."]
    for a, b in zip(target_axis.groups, input_axis.groups[1:], strict=False):
        assert (a.label, [position + 1 for position in a.positions]) == (b.label, list(b.positions))
    assert attention_axes(trace, "decoder.1.cross")[0] == target_axis
    assert attention_axes(trace, "decoder.1.cross", "input")[0] == input_axis
    assert (
        attention_axes(trace, "decoder.1.cross")[1]
        == attention_axes(trace, "encoder.0.self")[1]
        == axis_of_side(trace.source)
    )


def test_an_unfinished_translation_is_read_without_its_last_piece():
    trace = small_traced().trace("Yes.", keep="*.pattern", beam=1)
    cut = trace.again("Yes.", prefix_ids=trace.target.ids[:1])
    input_axis = attention_axes(cut, "decoder.0.self")[0]
    assert [position for group in input_axis.groups for position in group.positions] == list(range(len(cut.inputs.ids)))


def test_merging_keeps_the_mass_of_every_row():
    trace = small_traced().trace("zebra Ü 犬, the ball!", target="La bola es azul.")
    for name in ("encoder.1.self", "decoder.2.self", "decoder.0.cross"):
        pattern = trace.values_of(f"{name}.pattern").astype(np.float64)
        queries, keys = attention_axes(trace, name)
        merged = merge_words(pattern, queries, keys)
        assert merged.shape == (3, len(queries.groups), len(keys.groups))
        assert merged.sum(axis=-1) == pytest.approx(np.ones(merged.shape[:2]), abs=1e-6)
        for h, q, k in np.ndindex(merged.shape):  # the same in other words
            block = pattern[h][np.ix_(queries.groups[q].positions, keys.groups[k].positions)]
            assert merged[h, q, k] == pytest.approx(block.sum() / len(queries.groups[q].positions))


def test_one_word_of_several_is_found_by_its_number():
    word_axis = axis("the", "The", "cat", "the", "10:30", "a:2")
    assert [word_axis.find(name) for name in ("the:1", "the:2", "The", "cat", "CAT", "10:30", "a:2")] == [
        0,
        3,
        1,
        2,
        2,
        4,
        5,
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("the", "'the' stands here 2 times: say which one, the:1 to the:2"),
        ("the:3", "'the' stands here 2 times"),
        ("the:0", "'the' stands here 2 times"),
        ("cats", "'cats' is not here; did you mean 'cat'? (here are the, cat, the)"),
        ("cat:2", "'cat:2' is not here"),
        ("", "'' is not here"),
    ],
)
def test_an_unknown_word_is_refused(name: str, message: str):
    with pytest.raises(ValueError, match=r".") as raised:
        axis("the", "cat", "the").find(name)
    assert message in str(raised.value)


def test_another_side_is_refused():
    with pytest.raises(ValueError, match="the side is 'left', it must be output"):
        attention_axes(ball(), "decoder.0.cross", "left")
