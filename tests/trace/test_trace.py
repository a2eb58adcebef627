"""A trace shows the translation that a user gets, every tensor on the way, and what each step could have written."""

import json
import re
from dataclasses import replace
from math import fsum
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.line_segments import LengthLimits
from pellucid.decode.request import SearchConfig
from pellucid.decode.translator import Translator
from pellucid.interpret.trace import Record
from pellucid.interpret.trace import capture as capture_module
from pellucid.interpret.trace.facts import make_side
from pellucid.interpret.trace.session import TraceOrigin, trace_sentence
from pellucid.model.glossary import glossary
from tests.model.models import every_option
from tests.tolerances import approx_log_prob
from tests.trace.traced import SENTENCES, ball, make_model, small_traced, tree_of_ball

TYPES = Path(__file__).parents[2] / "web" / "src" / "types.ts"


@pytest.mark.parametrize(("seed", "beam"), [(1, 1), (1, 3), (4, 1)])
def test_a_trace_shows_the_translation_that_a_user_gets(seed, beam):
    """Text, pieces, every log-probability, score, reason for stopping and notes are equal to the bit."""
    model = small_traced(seed, max_positions=37)
    for sentence in SENTENCES if seed == 1 else SENTENCES[:2]:  # the other model writes as much as it may
        [expected] = model.translate([sentence], beam=beam)
        trace = model.trace(sentence, beam=beam, keep="*.pattern")
        assert trace.translation == expected
        assert (trace.stop, trace.score, trace.log_prob) == (expected.stop, expected.score, expected.log_prob)
        assert trace.target.pieces == expected.pieces
        assert not trace.forced


@every_option
def test_every_formula_gives_the_translation_that_a_user_gets(options):
    model = small_traced(max_positions=17, **options)
    sentence = "The ball is blue."
    trace = model.trace(sentence, beam=2)
    assert trace.translation == model.translate([sentence], beam=2)[0]
    sizes = {"S": len(trace.source.ids), "T": len(trace.inputs.ids), "D": 12, "H": 3, "E": 4, "F": 11, "2F": 22}
    sizes |= {"V": model.bundle.tokenizer.target_vocabulary, "1": 1}
    rows = [row for row in glossary(trace.config) if row.name in trace]
    assert trace.names == [row.name for row in rows]
    assert len(rows) == len(glossary(trace.config))
    for row in rows:
        dims = row.dims.split() if row.name.endswith(".positions") else row.dims.split()[1:]
        assert trace[row.name].dims == tuple(dims)
        assert trace[row.name].shape == tuple(sizes[letter] for letter in dims)


def test_a_trace_holds_what_the_model_computes():
    """The tensors are those of one visible pass over the source and the translation."""
    model = small_traced()
    trace = model.trace("The ball is blue.", beam=3)
    record = Record()
    with torch.no_grad():
        model.bundle.model(torch.tensor([trace.source.ids]), torch.tensor([[BOS, *trace.target.ids[:-1]]]), record)
    assert trace.names == list(record)
    for name, value in record.items():
        array = value.numpy()
        assert np.array_equal(trace[name].values, array if name.endswith(".positions") else array[0]), name
        assert trace.tensor(name).dtype == np.float32
        assert trace.tensor(name).flags.c_contiguous


def test_a_model_in_float64_is_captured_in_float64():
    model = small_traced(double=True)
    trace = model.trace("The ball is blue.", beam=2)
    assert trace.translation == model.translate(["The ball is blue."], beam=2)[0]
    for name in trace:
        expected = np.bool_ if name.endswith(".allowed") else np.float64
        assert trace[name].values.dtype == expected
        assert trace.tensor(name).dtype == np.float32
    assert trace.manifest()["run"]["dtype"] == "float64"


def test_each_step_agrees_with_its_logits():
    trace = ball()
    logits = trace["logits"].values.astype(np.float64)
    assert [step.step for step in trace.steps] == list(range(len(trace.target.ids)))
    for row, step, token in zip(logits, trace.steps, trace.target.ids, strict=True):
        probs = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        order = np.argsort(-row, kind="stable")
        assert [candidate.id for candidate in step.top] == order[:20].tolist()
        assert step.chosen.id == token
        assert order[step.rank - 1] == token
        for candidate in [*step.top, step.chosen]:
            assert candidate.logit == row[candidate.id]
            assert candidate.prob == pytest.approx(probs[candidate.id], rel=1e-9)
            assert candidate.log_prob == pytest.approx(np.log(probs[candidate.id]), rel=1e-9)
            assert candidate.piece == small_traced().bundle.tokenizer.target_pieces([candidate.id])[0]
        assert step.others == pytest.approx(probs[order[20:]].sum(), rel=1e-9)
        assert step.others_count == len(row) - 20
        assert step.entropy == pytest.approx(-(probs * np.log(probs)).sum(), rel=1e-9)
    assert [step.input for step in trace.steps] == trace.inputs.pieces == ["<s>", *trace.target.pieces[:-1]]


def test_the_steps_have_the_log_probabilities_of_the_search():
    """The log-probabilities of one pass with visible attention are those of the search."""
    trace = ball()
    assert [step.chosen.log_prob for step in trace.steps] == approx_log_prob(trace.translation.piece_log_probs)


def test_a_given_target_is_read_and_scored():
    model = small_traced()
    trace = model.trace("The ball is blue.", target="La bola es azul.")
    [score] = model.score(["The ball is blue."], ["La bola es azul."])
    assert (trace.forced, trace.tree, trace.stop) == (True, None, "eos")
    assert trace.target.text == trace.translation.text == "La bola es azul."
    assert trace.target.pieces == score.pieces
    assert trace.log_prob == score.log_prob
    assert trace.translation.piece_log_probs == score.per_piece
    assert trace.score == pytest.approx(score.log_prob / ((5 + len(score.pieces)) / 6) ** SearchConfig().length_penalty)
    assert model.trace("The ball is blue.", target="").target.ids == [EOS]


def test_every_piece_belongs_to_its_word():
    trace = ball()
    assert trace.source.text == "The ball is blue."
    words = ["", "", "", ""]
    for piece, word in zip(trace.source.pieces, trace.source.words, strict=True):
        if word is not None:
            words[word] += piece
    assert words == ["▁The", "▁ball", "▁is", "▁blue."]
    assert (trace.source.pieces[-1], trace.source.words[-1]) == ("</s>", None)
    spelled = small_traced().trace("a 犬").source
    assert [piece for piece, unknown in zip(spelled.pieces, spelled.unknown, strict=True) if unknown] == [
        "<0xE7>",
        "<0x8A>",
        "<0xAC>",
    ]


def test_a_piece_that_spells_two_words_belongs_to_the_first():
    side = make_side(["▁x", "▁a\u3000b", "c", "</s>"], [4, 5, 6, EOS], "x a\u3000bc", "x a\u3000bc")
    assert side.words == [0, 1, 2, None]


def test_a_sentence_in_tags_and_white_space_is_shown_as_the_model_reads_it():
    trace = small_traced().trace(" The <b>ball</b> is blue. 😀", beam=2)
    assert trace.source.ids == ball().source.ids
    assert trace.source.text == "The ball is blue."
    assert any("tags" in note for note in trace.notes)
    assert trace.translation.text.endswith(" 😀")


def test_a_prefix_of_pieces_begins_the_translation():
    model = small_traced()
    nodes = tree_of_ball().nodes
    # the search can continue from any node of the tree
    for node in [node for node in nodes if node.step == 1][:4]:
        assert node.parent is not None
        prefix = [nodes[node.parent].piece_id, node.piece_id]
        if EOS not in prefix:
            trace = model.trace("The ball is blue.", beam=3, prefix_ids=prefix)
            assert trace.target.ids[:2] == prefix
            assert trace.id != ball().id


@pytest.mark.parametrize("sentence", ["The ball is blue.", "Yes {name}.", "zebra Ü 犬"])
def test_every_hypothesis_of_a_beam_can_be_traced_with_its_pieces_and_log_probability(sentence: str):
    trace = small_traced().trace(sentence, beam=2)
    assert trace.tree is not None
    nodes = trace.tree.nodes
    assert {node.fate for node in nodes} == {"kept", "pruned", "finished"}
    for node in nodes:
        path = [node]
        while path[0].parent is not None:
            path.insert(0, nodes[path[0].parent])
        ids = [ancestor.piece_id for ancestor in path]
        opened = trace.again(sentence, target=ids)
        assert opened.target.ids == ids
        assert opened.target.pieces == [ancestor.piece for ancestor in path]
        assert opened.stop == ("eos" if ids[-1] == EOS else "length")
        assert opened.log_prob == approx_log_prob(node.total)
        assert opened.score == approx_log_prob(node.score)
        assert [step.chosen.log_prob for step in opened.steps] == approx_log_prob(
            [ancestor.log_prob for ancestor in path]
        )
    [winner] = [node for node in nodes if node.best and node.piece_id == EOS]
    assert winner.total == approx_log_prob(trace.log_prob)


def test_editing_from_the_start_equals_editing_a_trace():
    silence = {"kind": "silence", "attention": "decoder.0.cross", "head": 1}
    later = [ball().edited(silence, keep_target=keep) for keep in (True, False)]
    at_once = [ball().again(ball().sentence, target=ids, edits=[silence]) for ids in (ball().target.ids, None)]
    assert [trace.id for trace in at_once] == [trace.id for trace in later]
    assert [trace.target for trace in at_once] == [trace.target for trace in later]


def test_equal_traces_have_equal_ids_and_other_traces_other_ids():
    model = small_traced()
    again = model.trace("The ball is blue.", beam=3)
    assert again.id == ball().id == ball().again("The ball is blue.").id
    others = [
        model.trace("The ball is blue.", beam=2),
        model.trace("The ball is blue.", beam=3, keep="logits"),
        model.trace("The ball is blue.", target=ball().target.text),
        model.trace("The ball is new.", beam=3),
    ]
    assert len({ball().id, *(trace.id for trace in others)}) == 5


def test_tracing_changes_nothing_of_the_model():
    model = small_traced()
    before = {name: tensor.clone() for name, tensor in model.bundle.model.state_dict().items()}
    model.bundle.model.train()
    model.trace("Yes.", beam=2)
    assert model.bundle.model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.bundle.model.state_dict().items())
    with pytest.raises(ValueError, match="read-only"):
        ball()["logits"].values[0] = 0


def test_named_axes_are_indexed_by_number_and_by_piece():
    pattern = ball()["decoder.1.cross.pattern"]
    assert pattern.dims == ("H", "T", "S")
    assert np.array_equal(pattern.at(H=2).at(T=1), ball()["decoder.1.cross.pattern"].values[2, 1])
    assert pattern.at(S="</s>", H=1).values.tolist() == pattern.values[1, :, -1].tolist()
    assert pattern.at(T="<s>", H=0).dims == ("S",)
    assert np.asarray(pattern, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="no axis 'Z'; its axes are H, T, S"):
        pattern.at(Z=1)
    with pytest.raises(IndexError, match=r"axis H of decoder.1.cross.pattern has 3 positions"):
        pattern.at(H=3)
    with pytest.raises(KeyError, match="'qqq' is not on axis S"):
        pattern.at(S="qqq")
    with pytest.raises(KeyError, match="numbers only"):
        pattern.at(H="qqq")
    twice = small_traced().trace("the the", target="the")["memory"]
    with pytest.raises(KeyError, match="stands"):
        twice.at(S=next(piece for piece in twice.labels["S"] if list(twice.labels["S"]).count(piece) > 1))


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(KeyError, match=r"did you mean 'decoder.1.cross.pattern'"):
        ball()["decoder.1.cros.patern"]
    with pytest.raises(KeyError, match=r"did you mean 'decoder.1.cross.output.weight'"):
        ball().parameter("decoder.1.cross.output.wait")
    partial_trace = small_traced().trace("Yes.", keep="*.cross.pattern")
    assert partial_trace.names == [f"decoder.{n}.cross.pattern" for n in range(3)]
    assert "logits" not in partial_trace
    with pytest.raises(ValueError, match="'logits' was not captured; trace the sentence again with keep='logits'"):
        partial_trace["logits"]
    assert len(partial_trace.steps[0].top) == 20  # what a step could have written is known all the same


def test_long_sentences_keep_their_patterns_and_longer_ones_are_refused():
    model = small_traced(ends=-9.0, max_positions=400)
    trace = model.trace("The ball is blue and the cat is black, " * 2, beam=1)
    assert len(trace.inputs.ids) > 64
    assert set(trace.names) == {
        row.name for row in glossary(trace.config) if row.name.endswith((".pattern", ".allowed"))
    }
    assert any("only the patterns" in note for note in trace.notes)
    everything = model.trace("The ball is blue and the cat is black, " * 2, beam=1, keep="*")
    assert "logits" in everything
    with pytest.raises(ValueError, match=r"have 3\d\d and 1 pieces; a trace takes 256 a side"):
        model.trace("The ball is blue and the cat is black, " * 15)
    with pytest.raises(ValueError, match=r"have 3 and 26\d pieces; a trace takes 256 a side"):
        model.trace("?", target="?" * 260)


def test_a_pair_longer_than_those_of_training_is_read_whole():
    model = small_traced()
    model.translator.lengths = LengthLimits(20, 97)
    assert model.trace("The ball is blue. The cat is black.").source.text == "The ball is blue."
    trace = model.trace("The ball is blue. The cat is black.", target="Sí.")
    assert trace.source.text == "The ball is blue. The cat is black."
    pieces = len(trace.source.ids)
    assert f"the sentence has {pieces} pieces, the longest source of training had 20" in trace.notes


def test_a_trace_that_needs_too_much_memory_is_refused_with_the_numbers(monkeypatch):
    trace = ball()
    estimate = capture_module.tensor_bytes(
        trace.config, glossary(trace.config), len(trace.source.ids), len(trace.inputs.ids), 4
    )
    assert estimate == trace.nbytes == trace.manifest()["run"]["bytes"]
    monkeypatch.setattr(capture_module, "LARGEST_TRACE", 2**12)
    with pytest.raises(ValueError, match=r"of 14 and 1 pieces would hold 0.0 MiB, the most is 0.0; keep fewer"):
        small_traced().trace("The ball is blue.", target="¿Dónde?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentence": "  \t "}, "there is nothing to trace"),
        ({"sentence": "😀"}, "there is nothing to trace"),
        (
            {"sentence": "The ball.\tThe cat.", "target": "La bola."},
            "translated in 2 parts, and a target is that of one",
        ),
        (
            {"sentence": "The ball.\tThe cat.", "segment": 3},
            "segment is 3, and the line has no such part; they are 1 to 2",
        ),
        ({"sentence": "The ball.", "segment": 0}, "segment is 0, and the line has no such part; it is one"),
        ({"sentence": "Yes.", "beam": 0}, "beam is 0"),
        ({"sentence": "Yes.", "keep": "decoder.9.*"}, "'decoder.9.*' fits no tensor of this model"),
        ({"sentence": "Yes.", "prefix_ids": [EOS]}, "pass a finished translation as the target"),
        ({"sentence": "Yes.", "target": []}, "the target has no pieces"),
        ({"sentence": "Yes.", "target": [4, EOS, 5]}, "the target has the id 3"),
        ({"sentence": "Yes.", "target": [4, PAD]}, "the target has the id 0"),
        ({"sentence": "Yes.", "target": [10**9]}, "the target has the id 1000000000"),
        ({"sentence": "Yes.", "prefix_ids": [10**9]}, "prefix_ids has 1000000000"),
        ({"sentence": "?", "prefix_ids": [4] * 90}, "prefix_ids has 90 pieces, the translation has at most 52"),
        ({"sentence": "Yes.", "target": "Sí.", "prefix_ids": [4]}, "both given"),
        ({"sentence": "Yes.", "target": "Sí " * 99}, "target: this model takes 97 pieces"),
        ({"sentence": "Yes {name}.", "prefix_ids": [4]}, "give the prefix as text"),
        ({"sentence": "\ud800"}, "lone surrogate"),
    ],
)
def test_sentences_that_cannot_be_traced_are_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        small_traced().trace(**arguments)


def test_ensembles_and_models_in_half_precision_are_refused():
    model = small_traced()
    half_precision_model = make_model(small_traced().bundle.model.bfloat16())
    with pytest.raises(ValueError, match="precision='float32'"):
        half_precision_model.trace("Yes.")
    ensemble = Translator(model.bundle.model, model.bundle.tokenizer, small_traced(2).bundle.model)
    with pytest.raises(ValueError, match="2 models translate together"):
        replace(model, translator=ensemble).trace("Yes.")


def test_another_engine_is_not_used_and_a_note_says_so():
    model = small_traced()

    class OtherEngine:
        batch_size = 1

        def search(self, requests, config):
            raise AssertionError

        def search_all(self, batches, config):
            raise AssertionError

    model.translator.engine = OtherEngine()
    engine = ref(model.translator.engine)
    trace = model.trace("The ball is blue.", beam=3)
    for shown in (trace, trace.edited(), trace.again("Yes.")):
        assert any("PyTorch made this translation" in note for note in shown.notes)
    assert trace.translation == ball().translation
    # A server keeps traces of models that were replaced: what only translates is gone with its model.
    del model
    assert engine() is None


def test_the_manifest_has_the_fields_that_the_page_expects():
    """The fields are those of every interface in web/src/types.ts; only optional ones may be missing."""
    manifest = ball().manifest()
    json.dumps(manifest, allow_nan=False)
    fields = read_interfaces(TYPES.read_text(encoding="utf-8"))
    assert_fields(manifest, fields["Manifest"])
    assert_fields(manifest["source"], fields["Side"])
    assert_fields(manifest["steps"][0], fields["Step"])
    assert_fields(manifest["steps"][0]["chosen"], fields["Candidate"])
    assert_fields(manifest["tree"], fields["Tree"])
    assert_fields(manifest["checks"][0], fields["Check"])
    for row in manifest["tensors"]:
        assert_fields(row, fields["TensorRow"])
        assert row["captured"]
        assert row["least"] <= row["largest"]
    for node in manifest["tree"]["nodes"]:
        assert_fields(node, fields["TreeNode"])
    for row in manifest["parameters"]:
        assert_fields(row, fields["ParameterRow"])
        assert list(ball().parameter(row["name"]).shape) == row["shape"]
    assert manifest["model"]["parameters"] == sum(np.prod(row["shape"]) for row in manifest["parameters"])
    assert set(manifest["axes"]) == {"S", "T", "D", "H", "E", "F", "2F", "V", "1"}
    assert manifest["axes"]["T"]["labels"] == ball().inputs.pieces
    for name, axis in manifest["axes"].items():
        assert_fields(axis, fields["Axis"])
        assert {row["shape"][row["dims"].index(name)] for row in manifest["tensors"] if name in row["dims"]} <= {
            axis["size"]
        }


def test_the_range_of_scores_is_that_of_the_keys_that_may_be_read():
    [row] = [row for row in ball().manifest()["tensors"] if row["name"] == "decoder.1.self.scores"]
    below = np.tril(np.ones(row["shape"][1:], dtype=bool))
    readable = ball()["decoder.1.self.scores"].values[:, below]
    assert (row["least"], row["largest"]) == (float(readable.min()), float(readable.max()))
    assert float(ball()["decoder.1.self.scores"].values.max()) != row["largest"] or readable.size == 0


def test_a_tensor_with_nan_or_infinity_has_no_range():
    """The page cannot read NaN from JSON."""
    model = small_traced()
    with torch.no_grad():
        model.bundle.model.get_parameter("encoder.0.ffn.inner.bias")[0] = 1e38
        model.bundle.model.get_parameter("encoder.0.ffn.outer.weight")[:, 0] = 0.0
        model.bundle.model.get_parameter("decoder.2.cross.qkv.weight")[:12] *= 1e19
    trace = trace_sentence(TraceOrigin(model.translator, model.bundle), "Yes.", target="Sí.")
    json.dumps(trace.manifest(), allow_nan=False)


def test_a_sum_of_log_probabilities_is_the_score_before_the_penalty():
    trace = ball()
    total = fsum(trace.translation.piece_log_probs)
    assert trace.log_prob == total
    assert trace.score == total / ((5 + len(trace.target.ids)) / 6) ** SearchConfig().length_penalty


def read_interfaces(source: str) -> dict[str, dict[str, bool]]:
    """The fields of every `export interface`, and whether a field must be there."""
    fields = {}
    for name, body in re.findall(r"^export interface (\w+) \{\n(.*?)^\}", source, re.MULTILINE | re.DOTALL):
        fields[name] = {field: not optional for field, optional in re.findall(r"^  (\w+)(\??):", body, re.MULTILINE)}
    return fields


def assert_fields(table: dict, fields: dict[str, bool]) -> None:
    assert table.keys() <= fields.keys()
    assert {field for field, needed in fields.items() if needed} <= table.keys()
