"""Tests of edits: which tensors an edit changes, which it leaves alone, and which edits are refused."""

import re

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.request import SearchConfig
from pellucid.decode.search import length_divisor
from pellucid.interpret.trace import Drawing, Edit, Hide, Pattern, Prefix, Silence, Without
from pellucid.interpret.trace.capture import capture_tensors
from pellucid.interpret.trace.edits import check_edits, edit_watcher, hide_keys
from pellucid.model.glossary import glossary
from tests.tolerances import approx_log_prob, assert_same_sums
from tests.trace.traced import ball, small_traced

ATTENTIONS = ("encoder.1.self", "decoder.0.self", "decoder.2.cross")


def numbers(trace) -> dict[str, np.ndarray]:
    return {name: trace[name].values for name in trace}


def have_same_tensors(trace, other_trace) -> bool:
    return all(np.array_equal(trace[name].values, other_trace[name].values) for name in trace)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_silenced_head_adds_nothing(attention):
    """A silenced head equals a model whose output projection has zeros in the columns of that head."""
    edited = ball().edited(Silence(attention, 1))
    assert not edited[f"{attention}.head_output"].values[1].any()
    assert edited[f"{attention}.head_output"].values[0].any()
    assert np.array_equal(edited[f"{attention}.pattern"].values, ball()[f"{attention}.pattern"].values)
    pruned_model = small_traced().bundle.model
    with torch.no_grad():
        pruned_model.get_parameter(f"{attention}.output.weight")[:, 4:8] = 0.0
    inputs = [BOS, *ball().target.ids[:-1]]
    tensors, _ = capture_tensors(pruned_model, ball().source.ids, inputs, glossary(ball().config), None)
    assert_same_sums(edited["logits"].values, tensors["logits"])
    assert not np.allclose(edited["logits"].values, ball()["logits"].values, atol=1e-3)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_silencing_a_head_whose_output_is_not_used_changes_nothing(attention):
    """The columns of this head in the output projection are zero."""
    model = small_traced()
    with torch.no_grad():
        model.bundle.model.get_parameter(f"{attention}.output.weight")[:, 4:8] = 0.0
    plain = model.trace("The ball is blue.", beam=2)
    edited = plain.edited(Silence(attention, 1))
    assert np.array_equal(edited["logits"].values, plain["logits"].values)
    assert plain.edited(Silence(attention, 1), keep_target=False).target == plain.target
    assert not np.array_equal(plain.edited(Silence(attention, 0))["logits"].values, plain["logits"].values)


def test_hiding_no_piece_changes_nothing():
    edit = Edit({"encoder.*.self.allowed": hide_keys([]), "decoder.*.cross.allowed": hide_keys([])})
    inputs = [BOS, *ball().target.ids[:-1]]
    model = ball().model
    assert model is not None
    tensors, _ = capture_tensors(model, ball().source.ids, inputs, glossary(ball().config), edit)
    assert all(np.array_equal(values, ball()[name].values) for name, values in tensors.items())


def test_a_run_without_edits_is_the_plain_run():
    again = ball().edited(keep_target=False)
    assert (again.id, again.translation, again.tree) == (ball().id, ball().translation, ball().tree)
    assert have_same_tensors(again, ball())
    forced = ball().edited()
    assert have_same_tensors(forced, ball())
    assert forced.forced


@pytest.mark.parametrize("word", range(4))
def test_no_position_attends_to_a_hidden_word(word):
    edited = ball().edited(Hide(word))
    hidden = [i for i, piece_word in enumerate(edited.source.words) if piece_word == word]
    visible = [i for i, piece_word in enumerate(edited.source.words) if piece_word != word]
    assert hidden
    for name in edited:
        if name.endswith((".pattern", ".allowed")) and edited[name].dims[-1] == "S":
            assert not edited[name].values[..., hidden].any(), name
            assert edited[name].values[..., visible].all(), name
        if name.endswith(".pattern"):
            np.testing.assert_allclose(edited[name].values.sum(-1), 1.0, rtol=0, atol=1e-6)
    assert edited.log_prob != ball().log_prob


def test_hiding_the_last_word_equals_a_shorter_sentence():
    """Without positions, a word before the end token can be hidden as if it were not there."""
    model = small_traced(positions="none", max_positions=37)
    longer, shorter = (model.trace(text, target="La bola.") for text in ("Yes. The ball is blue.", "Yes. The ball is"))
    hidden = longer.edited(Hide(4))
    remaining = [i for i, word in enumerate(longer.source.words) if word != 4]
    assert [longer.source.ids[i] for i in remaining] == shorter.source.ids
    assert_same_sums(hidden["memory"].values[remaining], shorter["memory"].values)
    assert_same_sums(hidden["logits"].values, shorter["logits"].values)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_row_of_a_pattern_has_the_values_it_was_given(attention):
    keys = ball()[f"{attention}.pattern"].shape[-1] if "decoder.0" not in attention else 3
    values = [0.0] * keys
    values[1] = 1.0
    edited = ball().edited(Pattern(attention, 2, 2, values))
    before, after = (x[f"{attention}.pattern"].values for x in (ball(), edited))
    assert after[2, 2, :keys].tolist() == values
    assert not after[2, 2, keys:].any()
    changed = np.argwhere((before != after).any(-1)).tolist()
    assert changed == [[2, 2]]
    head_row = edited[f"{attention}.head_output"].values[2, 2]
    assert_same_sums(head_row, edited[f"{attention}.v"].values[2, 1], terms=keys)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_setting_a_row_to_its_own_values_changes_nothing(attention):
    for row in (0, 3):
        values = ball()[f"{attention}.pattern"].values[1, row].tolist()
        edited = ball().edited(Pattern(attention, 1, row, values))
        assert have_same_tensors(edited, ball())
        assert ball().edited(Pattern(attention, 1, row, values), keep_target=False).target == ball().target


def test_several_edits_are_made_together():
    edits = (Silence("decoder.1.cross", 0), Silence("decoder.1.cross", 2), Hide(0), Hide(2))
    edited = ball().edited(*edits)
    assert edited.edits == list(edits)
    heads = edited["decoder.1.cross.head_output"].values
    assert not heads[0].any()
    assert not heads[2].any()
    assert heads[1].any()
    hidden = [i for i, word in enumerate(edited.source.words) if word in (0, 2)]
    assert not edited["decoder.2.cross.pattern"].values[..., hidden].any()
    pattern = Pattern("decoder.1.cross", 1, 0, edited["decoder.1.cross.pattern"].values[1, 0].tolist())
    assert have_same_tensors(ball().edited(*edits, pattern), edited)


def test_new_edits_replace_the_earlier_ones():
    first = ball().edited(Silence("decoder.0.self", 1))
    second = first.edited(Hide(1))
    assert second.edits == [Hide(1)]
    assert second.id == ball().edited(Hide(1)).id != first.id
    assert have_same_tensors(second, ball().edited(Hide(1)))
    assert first.edited(keep_target=False).translation == ball().translation


def test_replaced_tensors_are_named():
    edited = ball().edited(Hide(1), Silence("decoder.1.cross", 0))
    allowed = {f"encoder.{n}.self.allowed" for n in range(2)} | {f"decoder.{n}.cross.allowed" for n in range(3)}
    assert edited.replaced == allowed | {"decoder.1.cross.head_output"}
    assert {row["name"] for row in edited.manifest()["tensors"] if row.get("edited")} == edited.replaced
    assert not ball().replaced


def test_a_kept_target_is_scored_under_the_edit():
    edited = ball().edited(Hide(1))
    logits = edited["logits"].values.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    piece_log_probs = [row[i] for row, i in zip(log_probs, edited.target.ids, strict=True)]
    assert edited.forced
    assert edited.target == ball().target
    assert edited.translation.piece_log_probs == approx_log_prob(piece_log_probs)
    assert edited.log_prob == approx_log_prob(sum(piece_log_probs))
    assert edited.score == pytest.approx(
        edited.log_prob / length_divisor(len(piece_log_probs), SearchConfig.length_penalty)
    )


@pytest.mark.parametrize(
    "edits",
    [
        [Hide(1)],
        [Silence("decoder.2.cross", 1), Silence("encoder.0.self", 0)],
        [Pattern("decoder.1.self", 0, 1, [1.0, 0.0])],
    ],
    ids=["hide", "silence", "pattern"],
)
def test_a_new_translation_is_the_one_a_plain_search_finds_under_the_edit(edits):
    """The plain search takes the likeliest piece of each step, from a whole pass over all that is written."""
    model = small_traced(seed=1, max_positions=29)
    before = model.trace("?" if isinstance(edits[0], Silence) else "The ball is blue.", beam=1)
    edited = before.edited(*edits, keep_target=False)
    watch = edit_watcher(edits, before.config, before.source.words)
    tokens = [BOS]
    forbidden = list(model.translator.torch.forbidden)
    while tokens[-1] != EOS and len(tokens) <= len(edited.target.ids):
        with torch.no_grad():
            logits = model.bundle.model(torch.tensor([before.source.ids]), torch.tensor([tokens]), watch)[0, -1]
        logits[forbidden] = -torch.inf
        tokens.append(int(logits.argmax()))
    if not any("searched again" in note for note in edited.notes):
        assert tokens[1:] == edited.target.ids
    assert edited.tree is not None
    assert [node.piece_id for node in edited.tree.nodes if node.best] == edited.target.ids
    log_probs = [step.chosen.log_prob for step in edited.steps]
    assert edited.translation.piece_log_probs == approx_log_prob(log_probs)


@pytest.mark.parametrize("attention", ["decoder.0.self", "decoder.0.cross"])
def test_a_given_row_of_a_pattern_holds_for_every_hypothesis_of_a_beam(attention):
    """The log-probabilities of the search are those of one pass under the edit, for every hypothesis."""
    model = small_traced(9, max_positions=23)
    before = model.trace("?", beam=4)
    for row in (1, 2):
        values = [0.0] * (len(before.source.ids) if "cross" in attention else row + 1)
        values[row] = 1.0
        edit = Pattern(attention, 1, row, values)
        edited = before.edited(edit, keep_target=False)
        assert edited.tree is not None
        nodes = edited.tree.nodes
        watch = edit_watcher([edit], edited.config, edited.source.words)
        for leaf in [node for node in nodes if node.id not in {child.parent for child in nodes}][:20]:
            path = [leaf]
            while path[0].parent is not None:
                path.insert(0, nodes[path[0].parent])
            inputs = torch.tensor([[BOS, *(node.piece_id for node in path[:-1])]])
            with torch.no_grad():
                log_probs = model.bundle.model(torch.tensor([edited.source.ids]), inputs, watch)[0].log_softmax(-1)
            expected = [log_probs[t, node.piece_id].item() for t, node in enumerate(path)]
            assert [node.log_prob for node in path] == approx_log_prob(expected)


@pytest.mark.parametrize("beam", [1, 3])
def test_searching_under_an_edit_that_changes_nothing_is_the_plain_search(beam):
    """The search that reads the whole prefix again in each step has the result and the tree of the cached search."""
    model = small_traced(1, max_positions=23)
    for sentence in ("The ball is blue.", "?"):
        plain = model.trace(sentence, beam=beam)
        row = plain["decoder.1.cross.pattern"].values[0, 0].tolist()
        edited = plain.edited(Pattern("decoder.1.cross", 0, 0, row), keep_target=False)
        assert edited.target == plain.target
        assert edited.score == approx_log_prob(plain.score)
        assert plain.tree is not None
        assert edited.tree is not None
        a, b = ([(n.parent, n.piece_id, n.fate, n.rank, n.best) for n in x.nodes] for x in (plain.tree, edited.tree))
        assert a == b


def test_a_prefix_edit_equals_a_translation_with_that_prefix():
    model = small_traced(max_positions=23)
    for prefix in ("La", "El gato ", "¿"):
        for sentence in ("The ball is blue.", "Yes."):
            edited = model.trace(sentence, beam=3).edited(Prefix(prefix))
            [expected] = model.translate([sentence], beam=3, prefixes=[prefix])
            assert edited.translation == expected
            assert edited.target.text.startswith(prefix.strip())
            assert not edited.replaced
    combined = model.trace("The ball is blue.", beam=2).edited(Prefix("La"), Hide(1))
    assert combined.target.text.startswith("La")
    assert combined.edits == [Prefix("La"), Hide(1)]


def test_edits_may_be_given_as_tables():
    tables = [
        {"kind": "silence", "attention": "decoder.1.cross", "head": 1},
        {"kind": "hide", "word": 2},
        {"kind": "prefix", "text": "La"},
        {"kind": "pattern", "attention": "decoder.0.cross", "head": 0, "row": 1, "values": [1, 0.5]},
    ]
    edits = [Silence("decoder.1.cross", 1), Hide(2), Prefix("La"), Pattern("decoder.0.cross", 0, 1, [1.0, 0.5])]
    assert check_edits(tables) == edits
    assert check_edits(edits) == edits
    edited = ball().edited(tables[0])
    assert edited.manifest()["edits"] == [{"attention": "decoder.1.cross", "head": 1, "kind": "silence"}]


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
    (
        {"kind": "shuffle"},
        "tag 'shuffle' found using 'kind' does not match any of the expected tags",
    ),
    ({"word": 1}, "unable to extract tag using discriminator 'kind'"),
    ({"kind": "hide", "word": "1"}, "edit.hide.word is '1'; it should be a valid integer"),
    ({"kind": "pattern", "attention": "", "head": 0, "row": 0, "values": "1"}, "edit.pattern.values is '1'"),
    ({"kind": "hide"}, "edit.hide.word is missing"),
    ({"kind": "hide", "word": 1, "also": 2}, "edit.hide.also is unknown"),
    (
        {"kind": "pattern", "attention": "decoder.1.cross", "head": 0, "row": 0, "values": "1"},
        "edit.pattern.values is '1'",
    ),
]


@pytest.mark.parametrize(("edit", "message"), REFUSED)
def test_an_edit_that_does_not_fit_the_trace_is_refused(edit, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ball().edited(edit)


def test_contradictory_prefixes_are_refused():
    with pytest.raises(ValueError, match="keep_target must be false"):
        ball().edited(Prefix("La"), keep_target=True)
    with pytest.raises(ValueError, match="one beginning"):
        ball().edited(Prefix("La"), Prefix("El"))


def test_all_problems_are_named_at_once():
    with pytest.raises(ValueError, match=r"word 9 is not in .*; decoder.1.cross has heads 0 to 2; head 5 is none"):
        ball().edited(Hide(9), Silence("decoder.1.cross", 5))


def test_without_scaling_the_scores_are_the_products():
    edited = ball().edited(Without("scaling"))
    for attention in ATTENTIONS:
        np.testing.assert_allclose(
            edited[f"{attention}.scores"].values, edited[f"{attention}.products"].values, rtol=1e-5
        )
    assert {name.split(".")[-1] for name in edited.replaced} == {"scores"}
    assert all(check.passed for check in edited.checks())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_without_positions_the_encoder_sees_a_bag_of_pieces(positions):
    model = small_traced(positions=positions)
    [trace, reversed_trace] = [model.trace(text, target="Sí.") for text in ("a b c d", "d c b a")]
    assert sorted(trace.source.ids) == sorted(reversed_trace.source.ids)
    order = [reversed_trace.source.ids.index(i) for i in trace.source.ids]
    assert len(set(order)) == len(order)
    [memory, reversed_memory] = [each.edited(Without("positions"))["memory"].values for each in (trace, reversed_trace)]
    assert_same_sums(memory, reversed_memory[order])
    assert not np.allclose(trace["memory"].values, reversed_trace["memory"].values[order], atol=1e-2)


def test_without_the_mask_the_first_step_depends_on_what_comes_later():
    other_end = [*ball().target.ids[:-2], 9, EOS]
    first_logits = [
        ball().again(ball().sentence, target=target, edits=[Without("mask")])["logits"].values[0]
        for target in (ball().target.ids, other_end)
    ]
    assert ball().target.ids != other_end
    assert not np.allclose(*first_logits, atol=1e-3)
    with pytest.raises(ValueError, match="a search has no later pieces"):
        ball().edited(Without("mask"), keep_target=False)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_residual_connections_a_sum_is_the_output_of_its_sublayer(norm):
    edited = small_traced(norm=norm).trace("The ball is blue.", beam=2).edited(Without("residual"), keep_target=False)
    sums = [name for name in edited if name.endswith("_residual.sum")]
    assert len(sums) == 2 * 2 + 3 * 3
    for name in sums:
        output = edited[name.replace("_residual.sum", ".output")].values
        assert np.array_equal(edited[name].values, output)
    assert edited.replaced == set(sums)


def test_a_part_that_a_model_does_not_have_cannot_be_left_out():
    with pytest.raises(ValueError, match="no position vectors that could be left out; its positions are 'none'"):
        small_traced(positions="none").trace("?").edited(Without("positions"))
    with pytest.raises(ValueError, match=r"edit\.without\.part is 'norm'"):
        ball().edited({"kind": "without", "part": "norm"})


def test_a_drawing_writes_what_sampling_with_its_settings_writes():
    model, drawing = small_traced(ends=2.0), Drawing(temperature=1.3, top_k=7, top_p=0.9, seed=5)
    trace = model.trace("The ball is blue.", drawing=drawing)
    settings = {"temperature": 1.3, "top_k": 7, "top_p": 0.9, "seed": 5}
    assert trace.translation.text == model.translate(["The ball is blue."], method="sample", **settings)[0].text
    assert trace.tree is None
    assert {name: trace.manifest()["run"]["search"][name] for name in ("method", *settings)} == {
        "method": "sample",
        **settings,
    }
    assert trace.id != model.trace("The ball is blue.", drawing=Drawing(1.3, 7, 0.9, 6)).id
    assert all(check.passed for check in trace.checks())
    with pytest.raises(ValueError, match="temperature is 0"):
        model.trace("?", drawing=Drawing(temperature=0.0))


def test_edit_functions_do_not_change_their_argument():
    config, words = ball().config, [0, 1, 2, 3, None]
    values = torch.rand(2, config.heads, 4, 5)
    before = values.clone()
    silence, pattern, later = (
        edit_watcher([edit], config, words)
        for edit in (
            Silence("encoder.0.self", 1),
            Pattern("encoder.0.self", 1, 2, [1.0] * 5),
            Pattern("decoder.0.cross", 1, 9, [1.0] * 5),  # a row that is not written yet
        )
    )
    assert not torch.equal(silence("encoder.0.self.head_output", values), values)
    assert not torch.equal(pattern("encoder.0.self.pattern", values), values)
    assert torch.equal(later("decoder.0.cross.pattern", values), values)
    assert torch.equal(values, before)
    allowed = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    assert hide_keys([0, 3])(allowed).flatten().tolist() == [False, True, True, False, True]
    assert allowed.all()
