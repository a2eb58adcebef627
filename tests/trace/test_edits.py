"""What an edit changes, what it leaves alone, and what is refused."""

import re

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.search import length_divisor
from pellucid.model.glossary import glossary
from pellucid.trace import Edit, Hide, Pattern, Prefix, Silence
from pellucid.trace.capture import capture_tensors
from pellucid.trace.edits import check_edits, edit_watcher, hide_keys, set_pattern_row, silence_head
from tests.trace.traced import ball, small_traced

ATTENTIONS = ("encoder.1.self", "decoder.0.self", "decoder.2.cross")


def numbers(found) -> dict[str, np.ndarray]:
    return {name: found[name].values for name in found}


def same(one, other) -> bool:
    return all(np.array_equal(one[name].values, other[name].values) for name in one)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_silenced_head_adds_nothing(attention):
    """As in a model whose output projection has no columns for it."""
    found = ball().edited(Silence(attention, 1))
    assert not found[f"{attention}.head_output"].values[1].any()
    assert found[f"{attention}.head_output"].values[0].any()
    assert np.array_equal(found[f"{attention}.pattern"].values, ball()[f"{attention}.pattern"].values)
    without = small_traced().bundle.model
    with torch.no_grad():
        without.get_parameter(f"{attention}.output.weight")[:, 4:8] = 0.0
    inputs = [BOS, *ball().target.ids[:-1]]
    tensors, _ = capture_tensors(without, ball().source.ids, inputs, glossary(ball().config), None)
    np.testing.assert_allclose(found["logits"].values, tensors["logits"], rtol=0, atol=2e-5)
    assert not np.allclose(found["logits"].values, ball()["logits"].values, atol=1e-3)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_silencing_a_head_that_no_one_listens_to_changes_nothing(attention):
    """Its columns of the output projection are zero."""
    model = small_traced()
    with torch.no_grad():
        model.bundle.model.get_parameter(f"{attention}.output.weight")[:, 4:8] = 0.0
    plain = model.trace("The ball is blue.", beam=2)
    found = plain.edited(Silence(attention, 1))
    assert np.array_equal(found["logits"].values, plain["logits"].values)
    assert plain.edited(Silence(attention, 1), keep_target=False).target == plain.target
    assert not np.array_equal(plain.edited(Silence(attention, 0))["logits"].values, plain["logits"].values)


def test_hiding_no_piece_changes_nothing():
    edit = Edit({"encoder.*.self.allowed": hide_keys([]), "decoder.*.cross.allowed": hide_keys([])})
    inputs = [BOS, *ball().target.ids[:-1]]
    model = ball().model
    assert model is not None
    tensors, _ = capture_tensors(model, ball().source.ids, inputs, glossary(ball().config), edit)
    assert all(np.array_equal(values, ball()[name].values) for name, values in tensors.items())


def test_no_edits_are_the_plain_run():
    again = ball().edited(keep_target=False)
    assert (again.id, again.translation, again.tree) == (ball().id, ball().translation, ball().tree)
    assert same(again, ball())
    kept = ball().edited()
    assert same(kept, ball())
    assert kept.forced


@pytest.mark.parametrize("word", range(4))
def test_a_hidden_word_is_read_by_no_one(word):
    found = ball().edited(Hide(word))
    hidden = [i for i, each in enumerate(found.source.words) if each == word]
    others = [i for i, each in enumerate(found.source.words) if each != word]
    assert hidden
    for name in found:
        if name.endswith((".pattern", ".allowed")) and found[name].dims[-1] == "S":
            assert not found[name].values[..., hidden].any(), name
            assert found[name].values[..., others].all(), name
        if name.endswith(".pattern"):
            np.testing.assert_allclose(found[name].values.sum(-1), 1.0, rtol=0, atol=1e-6)
    assert found.log_prob != ball().log_prob


def test_hiding_the_last_word_leaves_the_rest_as_if_it_were_shorter():
    """A word before the end mark moves nothing where positions are none."""
    model = small_traced(positions="none", max_positions=37)
    longer, shorter = (model.trace(text, target="La bola.") for text in ("Yes. The ball is blue.", "Yes. The ball is"))
    without = longer.edited(Hide(4))
    kept = [i for i, word in enumerate(longer.source.words) if word != 4]
    assert [longer.source.ids[i] for i in kept] == shorter.source.ids
    np.testing.assert_allclose(without["memory"].values[kept], shorter["memory"].values, rtol=0, atol=1e-5)
    np.testing.assert_allclose(without["logits"].values, shorter["logits"].values, rtol=0, atol=3e-5)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_row_of_a_pattern_is_what_it_is_told(attention):
    keys = ball()[f"{attention}.pattern"].shape[-1] if "decoder.0" not in attention else 3
    values = [0.0] * keys
    values[1] = 1.0
    found = ball().edited(Pattern(attention, 2, 2, values))
    before, after = (x[f"{attention}.pattern"].values for x in (ball(), found))
    assert after[2, 2, :keys].tolist() == values
    assert not after[2, 2, keys:].any()
    changed = np.argwhere((before != after).any(-1)).tolist()
    assert changed == [[2, 2]]
    read = found[f"{attention}.head_output"].values[2, 2]
    np.testing.assert_allclose(read, found[f"{attention}.v"].values[2, 1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_row_that_is_told_what_it_was_changes_nothing(attention):
    for row in (0, 3):
        values = ball()[f"{attention}.pattern"].values[1, row].tolist()
        found = ball().edited(Pattern(attention, 1, row, values))
        assert same(found, ball())
        assert ball().edited(Pattern(attention, 1, row, values), keep_target=False).target == ball().target


def test_edits_are_made_together():
    edits = (Silence("decoder.1.cross", 0), Silence("decoder.1.cross", 2), Hide(0), Hide(2))
    found = ball().edited(*edits)
    assert found.edits == list(edits)
    heads = found["decoder.1.cross.head_output"].values
    assert not heads[0].any()
    assert not heads[2].any()
    assert heads[1].any()
    hidden = [i for i, word in enumerate(found.source.words) if word in (0, 2)]
    assert not found["decoder.2.cross.pattern"].values[..., hidden].any()
    pattern = Pattern("decoder.1.cross", 1, 0, found["decoder.1.cross.pattern"].values[1, 0].tolist())
    assert same(ball().edited(*edits, pattern), found)


def test_edits_take_the_place_of_those_before():
    first = ball().edited(Silence("decoder.0.self", 1))
    second = first.edited(Hide(1))
    assert second.edits == [Hide(1)]
    assert second.id == ball().edited(Hide(1)).id != first.id
    assert same(second, ball().edited(Hide(1)))
    assert first.edited(keep_target=False).translation == ball().translation


def test_what_was_replaced_is_named():
    found = ball().edited(Hide(1), Silence("decoder.1.cross", 0))
    allowed = {f"encoder.{n}.self.allowed" for n in range(2)} | {f"decoder.{n}.cross.allowed" for n in range(3)}
    assert found.replaced == allowed | {"decoder.1.cross.head_output"}
    assert {row["name"] for row in found.manifest()["tensors"] if row.get("edited")} == found.replaced
    assert not ball().replaced


def test_a_kept_target_is_scored_under_the_edit():
    found = ball().edited(Hide(1))
    logits = found["logits"].values.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = [row[i] for row, i in zip(log_probs, found.target.ids, strict=True)]
    assert found.forced
    assert found.target == ball().target
    assert found.translation.piece_log_probs == pytest.approx(each, abs=1e-5)
    assert found.log_prob == pytest.approx(sum(each), abs=1e-4)
    assert found.score == pytest.approx(found.log_prob / length_divisor(len(each), 0.6))


@pytest.mark.parametrize(
    "edits",
    [
        [Hide(1)],
        [Silence("decoder.2.cross", 1), Silence("encoder.0.self", 0)],
        [Pattern("decoder.1.self", 0, 1, [1.0, 0.0])],
    ],
    ids=["hide", "silence", "pattern"],
)
def test_a_translation_anew_is_the_one_a_plain_search_finds_under_the_edit(edits):
    """Piece by piece the likeliest, from a whole pass over all that is written."""
    model = small_traced(seed=1, max_positions=29)
    before = model.trace("?" if isinstance(edits[0], Silence) else "The ball is blue.", beam=1)
    found = before.edited(*edits, keep_target=False)
    watch = edit_watcher(edits, before.config, before.source.words)
    written = [BOS]
    forbidden = list(model.translator.torch.forbidden)
    while written[-1] != EOS and len(written) <= len(found.target.ids):
        with torch.no_grad():
            logits = model.bundle.model(torch.tensor([before.source.ids]), torch.tensor([written]), watch)[0, -1]
        logits[forbidden] = -torch.inf
        written.append(int(logits.argmax()))
    if not any("searched again" in note for note in found.notes):
        assert written[1:] == found.target.ids
    assert found.tree is not None
    assert [node.piece_id for node in found.tree.nodes if node.best] == found.target.ids
    log_probs = [step.chosen.log_prob for step in found.steps]
    assert found.translation.piece_log_probs == pytest.approx(log_probs, abs=1e-5)


@pytest.mark.parametrize("attention", ["decoder.0.self", "decoder.0.cross"])
def test_a_row_of_a_pattern_is_that_row_for_every_hypothesis_of_a_beam(attention):
    """What the search thought of every one of them is what one pass under the edit says of it."""
    model = small_traced(9, max_positions=23)
    before = model.trace("?", beam=4)
    for row in (1, 2):
        values = [0.0] * (len(before.source.ids) if "cross" in attention else row + 1)
        values[row] = 1.0
        edit = Pattern(attention, 1, row, values)
        found = before.edited(edit, keep_target=False)
        assert found.tree is not None
        nodes = found.tree.nodes
        watch = edit_watcher([edit], found.config, found.source.words)
        for leaf in [node for node in nodes if node.id not in {each.parent for each in nodes}][:50]:
            way = [leaf]
            while way[0].parent is not None:
                way.insert(0, nodes[way[0].parent])
            inputs = torch.tensor([[BOS, *(node.piece_id for node in way[:-1])]])
            with torch.no_grad():
                log_probs = model.bundle.model(torch.tensor([found.source.ids]), inputs, watch)[0].log_softmax(-1)
            expected = [log_probs[t, node.piece_id].item() for t, node in enumerate(way)]
            assert [node.log_prob for node in way] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_under_an_edit_that_changes_nothing_is_the_plain_search(beam):
    """The search that reads everything again in each step finds what the quick one does, with the same tree."""
    model = small_traced(1, max_positions=23)
    for sentence in ("The ball is blue.", "?"):
        plain = model.trace(sentence, beam=beam)
        row = plain["decoder.1.cross.pattern"].values[0, 0].tolist()
        found = plain.edited(Pattern("decoder.1.cross", 0, 0, row), keep_target=False)
        assert found.target == plain.target
        assert found.score == pytest.approx(plain.score, abs=1e-5)
        assert plain.tree is not None
        assert found.tree is not None
        a, b = ([(n.parent, n.piece_id, n.fate, n.rank, n.best) for n in x.nodes] for x in (plain.tree, found.tree))
        assert a == b


def test_a_prefix_is_that_of_a_translation():
    model = small_traced(max_positions=37)
    for prefix in ("La", "El gato ", "¿"):
        for sentence in ("The ball is blue.", "Yes."):
            found = model.trace(sentence, beam=3).edited(Prefix(prefix))
            [expected] = model.translate([sentence], beam=3, prefixes=[prefix])
            assert found.translation == expected
            assert found.target.text.startswith(prefix.strip())
            assert not found.replaced
    both = model.trace("The ball is blue.", beam=2).edited(Prefix("La"), Hide(1))
    assert both.target.text.startswith("La")
    assert both.edits == [Prefix("La"), Hide(1)]


def test_edits_come_as_tables_too():
    told = [
        {"kind": "silence", "attention": "decoder.1.cross", "head": 1},
        {"kind": "hide", "word": 2},
        {"kind": "prefix", "text": "La"},
        {"kind": "pattern", "attention": "decoder.0.cross", "head": 0, "row": 1, "values": [1, 0.5]},
    ]
    meant = [Silence("decoder.1.cross", 1), Hide(2), Prefix("La"), Pattern("decoder.0.cross", 0, 1, [1.0, 0.5])]
    assert check_edits(told) == meant
    assert check_edits(meant) == meant
    found = ball().edited(told[0])
    assert found.manifest()["edits"] == [{"attention": "decoder.1.cross", "head": 1, "kind": "silence"}]


REFUSED = [
    (
        Silence("decoder.7.cross", 0),
        "'decoder.7.cross' is no attention of this model; it has: encoder.0.self to decoder",
    ),
    (Silence("decoder.1.ffn", 0), "'decoder.1.ffn' is no attention"),
    (Silence("decoder.1.cross", 3), "decoder.1.cross has heads 0 to 2; head 3 is none"),
    (Silence("decoder.1.cross", -1), "head -1 is none"),
    (Hide(4), "word 4 is not in the sentence; its words: 0 to 3"),
    (Hide(-1), "word -1 is not in the sentence"),
    (Pattern("decoder.1.cross", 0, 99, [1.0] + [0.0] * 13), "row 99 of decoder.1.cross is never reached"),
    (Pattern("encoder.1.self", 0, 99, [1.0] + [0.0] * 13), "row 99 of encoder.1.self is none"),
    (Pattern("decoder.1.cross", 0, -1, [1.0] + [0.0] * 13), "row -1 of decoder.1.cross is none"),
    (Pattern("decoder.1.cross", 0, 1, [1.0]), "has 14 weights, one for each source piece; 1 were given"),
    (Pattern("decoder.1.self", 0, 2, [1.0, 0.0]), "has 3 weights, for itself and the pieces before it"),
    (Pattern("decoder.1.self", 0, 1, [0.0, 0.5, 0.5]), "later ones must be 0"),
    (Pattern("decoder.1.cross", 0, 1, [float("nan")] * 14), "weights must be numbers of at least 0"),
    (Pattern("decoder.1.cross", 0, 1, [-1.0] * 14), "weights must be numbers of at least 0"),
    (Prefix("  "), "the prefix is blank"),
    ({"kind": "shuffle"}, "kind is 'shuffle', it must be one of silence, pattern, hide, prefix"),
    ({"word": 1}, "kind is None"),
    ({"kind": "hide", "word": "1"}, "edit.word is '1', which it cannot be"),
    ({"kind": "hide", "word": True}, "edit.word is True, which it cannot be"),
    ({"kind": "hide"}, "edit: word is missing"),
    ({"kind": "hide", "word": 1, "also": 2}, "'also' is unknown"),
    ({"kind": "pattern", "attention": "decoder.1.cross", "head": 0, "row": 0, "values": "1"}, "edit.values is '1'"),
]


@pytest.mark.parametrize(("edit", "message"), REFUSED)
def test_an_edit_that_has_no_place_is_refused(edit, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ball().edited(edit)


def test_prefixes_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match="keep_target must be false"):
        ball().edited(Prefix("La"), keep_target=True)
    with pytest.raises(ValueError, match="one beginning"):
        ball().edited(Prefix("La"), Prefix("El"))


def test_all_problems_are_named_at_once():
    with pytest.raises(ValueError, match=r"word 9 is not in .*; decoder.1.cross has heads 0 to 2; head 5 is none"):
        ball().edited(Hide(9), Silence("decoder.1.cross", 5))


def test_the_functions_of_an_edit_leave_their_argument_alone():
    pattern = torch.rand(2, 3, 4, 5)
    before = pattern.clone()
    for change in (silence_head(1), set_pattern_row(1, 2, [1.0] * 5)):
        assert not torch.equal(change(pattern), pattern)
    assert torch.equal(set_pattern_row(1, 9, [1.0])(pattern), pattern)  # a row that is not written yet
    assert torch.equal(pattern, before)
    allowed = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    assert hide_keys([0, 3])(allowed).flatten().tolist() == [False, True, True, False, True]
    assert allowed.all()
