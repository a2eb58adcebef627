"""A trace shows the translation that a user gets, every tensor on the way, and what each step could have written."""

import json
import re
from dataclasses import replace
from math import fsum
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.model.glossary import glossary
from pellucid.trace import Record
from pellucid.trace import capture as capture_module
from pellucid.trace.provenance import make_side
from pellucid.trace.tracing import trace_sentence
from tests.model.models import every_option
from tests.trace.traced import SENTENCES, ball, model_of, small_traced, tree_of_ball

TYPES = Path(__file__).parents[2] / "web" / "src" / "types.ts"


@pytest.mark.parametrize(("seed", "beam"), [(1, 1), (1, 3), (4, 1)])
def test_a_trace_is_of_the_translation_that_a_user_gets(seed, beam):
    """To the bit: text, pieces, every log-probability, score, reason for stopping, notes."""
    model = small_traced(seed, max_positions=37)
    for sentence in SENTENCES:
        [expected] = model.translate([sentence], beam=beam)
        found = model.trace(sentence, beam=beam, keep="*.pattern")
        assert found.translation == expected
        assert (found.stop, found.score, found.log_prob) == (expected.stop, expected.score, expected.log_prob)
        assert found.target.pieces == expected.pieces
        assert not found.forced


@every_option
def test_every_formula_gives_the_translation_that_a_user_gets(options):
    model = small_traced(max_positions=17, **options)
    sentence = "The ball is blue."
    found = model.trace(sentence, beam=2)
    assert found.translation == model.translate([sentence], beam=2)[0]
    sizes = {"S": len(found.source.ids), "T": len(found.inputs.ids), "D": 12, "H": 3, "E": 4, "F": 11, "2F": 22}
    sizes |= {"V": model.bundle.tokenizer.target_vocabulary, "1": 1}
    rows = [row for row in glossary(found.config) if row.name in found]
    assert found.names == [row.name for row in rows]
    assert len(rows) == len(glossary(found.config))
    for row in rows:
        dims = row.dims.split() if row.name.endswith(".positions") else row.dims.split()[1:]
        assert found[row.name].dims == tuple(dims)
        assert found[row.name].shape == tuple(sizes[letter] for letter in dims)


def test_a_trace_holds_what_the_model_computes():
    """The tensors of one visible pass over the source and what was written."""
    model = small_traced()
    found = model.trace("The ball is blue.", beam=3)
    record = Record()
    with torch.no_grad():
        model.bundle.model(torch.tensor([found.source.ids]), torch.tensor([[BOS, *found.target.ids[:-1]]]), record)
    assert found.names == list(record)
    for name, value in record.items():
        array = value.numpy()
        assert np.array_equal(found[name].values, array if name.endswith(".positions") else array[0]), name
        assert found.tensor(name).dtype == np.float32
        assert found.tensor(name).flags.c_contiguous


def test_a_model_in_float64_is_captured_in_float64():
    model = small_traced(double=True)
    found = model.trace("The ball is blue.", beam=2)
    assert found.translation == model.translate(["The ball is blue."], beam=2)[0]
    for name in found:
        expected = np.bool_ if name.endswith(".allowed") else np.float64
        assert found[name].values.dtype == expected
        assert found.tensor(name).dtype == np.float32
    assert found.manifest()["run"]["dtype"] == "float64"


def test_each_step_says_what_its_logits_say():
    found = ball()
    logits = found["logits"].values.astype(np.float64)
    assert [step.step for step in found.steps] == list(range(len(found.target.ids)))
    for row, step, wrote in zip(logits, found.steps, found.target.ids, strict=True):
        probs = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        order = np.argsort(-row, kind="stable")
        assert [each.id for each in step.top] == order[:20].tolist()
        assert step.chosen.id == wrote
        assert order[step.rank - 1] == wrote
        for each in [*step.top, step.chosen]:
            assert each.logit == row[each.id]
            assert each.prob == pytest.approx(probs[each.id], rel=1e-9)
            assert each.log_prob == pytest.approx(np.log(probs[each.id]), rel=1e-9)
            assert each.piece == small_traced().bundle.tokenizer.target_pieces([each.id])[0]
        assert step.others == pytest.approx(probs[order[20:]].sum(), rel=1e-9)
        assert step.others_count == len(row) - 20
        assert step.entropy == pytest.approx(-(probs * np.log(probs)).sum(), rel=1e-9)
    assert [step.input for step in found.steps] == found.inputs.pieces == ["<s>", *found.target.pieces[:-1]]


def test_the_steps_are_the_search_seen_again():
    """The chosen pieces' log-probabilities, from one pass with visible attention, are those of the search."""
    found = ball()
    assert [step.chosen.log_prob for step in found.steps] == pytest.approx(found.translation.piece_log_probs, abs=1e-5)


def test_a_given_target_is_read_and_scored():
    model = small_traced()
    found = model.trace("The ball is blue.", target="La bola es azul.")
    [score] = model.score(["The ball is blue."], ["La bola es azul."])
    assert (found.forced, found.tree, found.stop) == (True, None, "eos")
    assert found.target.text == found.translation.text == "La bola es azul."
    assert found.target.pieces == score.pieces
    assert found.log_prob == score.log_prob
    assert found.translation.piece_log_probs == score.per_piece
    assert found.score == pytest.approx(score.log_prob / ((5 + len(score.pieces)) / 6) ** 0.6)
    assert model.trace("The ball is blue.", target="").target.ids == [EOS]


def test_the_words_of_the_pieces():
    found = ball()
    assert found.source.text == "The ball is blue."
    words = ["", "", "", ""]
    for piece, word in zip(found.source.pieces, found.source.words, strict=True):
        if word is not None:
            words[word] += piece
    assert words == ["▁The", "▁ball", "▁is", "▁blue."]
    assert (found.source.pieces[-1], found.source.words[-1]) == ("</s>", None)
    bytes_of_it = small_traced().trace("a 犬").source
    assert [piece for piece, unknown in zip(bytes_of_it.pieces, bytes_of_it.unknown, strict=True) if unknown] == [
        "<0xE7>",
        "<0x8A>",
        "<0xAC>",
    ]


def test_a_piece_that_spells_two_words_is_of_the_first():
    side = make_side(["▁x", "▁a\u3000b", "c", "</s>"], [4, 5, 6, EOS], "x a\u3000bc", "x a\u3000bc")
    assert side.words == [0, 1, 2, None]


def test_a_sentence_in_tags_and_white_space_is_shown_as_the_model_reads_it():
    found = small_traced().trace(" The <b>ball</b> is blue. 😀", beam=2)
    assert found.source.ids == ball().source.ids
    assert found.source.text == "The ball is blue."
    assert any("tags" in note for note in found.notes)
    assert found.translation.text.endswith(" 😀")


def test_a_prefix_of_pieces_begins_the_translation():
    model = small_traced()
    nodes = tree_of_ball().nodes
    for node in [each for each in nodes if each.step == 1][:4]:  # any node of the tree can be gone on from
        assert node.parent is not None
        prefix = [nodes[node.parent].piece_id, node.piece_id]
        if EOS not in prefix:
            found = model.trace("The ball is blue.", beam=3, prefix_ids=prefix)
            assert found.target.ids[:2] == prefix
            assert found.id != ball().id


@pytest.mark.parametrize("sentence", ["The ball is blue.", "Yes {name}.", "zebra Ü 犬"])
def test_the_trace_of_every_hypothesis_of_a_beam_has_its_pieces_and_its_log_probability(sentence: str):
    found = small_traced().trace(sentence, beam=3)
    assert found.tree is not None
    nodes = found.tree.nodes
    assert {node.fate for node in nodes} == {"kept", "pruned", "finished"}
    for node in nodes:
        way = [node]
        while way[0].parent is not None:
            way.insert(0, nodes[way[0].parent])
        ids = [each.piece_id for each in way]
        opened = found.again(sentence, target=ids)
        assert opened.target.ids == ids
        assert opened.target.pieces == [each.piece for each in way]
        assert opened.stop == ("eos" if ids[-1] == EOS else "length")
        assert opened.log_prob == pytest.approx(node.total, abs=1e-4)
        assert opened.score == pytest.approx(node.score, abs=1e-4)
        assert [step.chosen.log_prob for step in opened.steps] == pytest.approx([e.log_prob for e in way], abs=1e-4)
    [winner] = [node for node in nodes if node.best and node.piece_id == EOS]
    assert winner.total == pytest.approx(found.log_prob)


def test_a_run_that_was_changed_from_the_start_is_the_one_that_is_changed_later():
    silence = {"kind": "silence", "attention": "decoder.0.cross", "head": 1}
    later = [ball().edited(silence, keep_target=keep) for keep in (True, False)]
    at_once = [ball().again(ball().sentence, target=ids, edits=[silence]) for ids in (ball().target.ids, None)]
    assert [each.id for each in at_once] == [each.id for each in later]
    assert [each.target for each in at_once] == [each.target for each in later]


def test_the_same_trace_has_the_same_name():
    model = small_traced()
    again = model.trace("The ball is blue.", beam=3)
    assert again.id == ball().id == ball().again("The ball is blue.").id
    others = [
        model.trace("The ball is blue.", beam=2),
        model.trace("The ball is blue.", beam=3, keep="logits"),
        model.trace("The ball is blue.", target=ball().target.text),
        model.trace("The ball is new.", beam=3),
    ]
    assert len({ball().id, *(each.id for each in others)}) == 5


def test_tracing_changes_nothing_of_the_model():
    model = small_traced()
    before = {name: each.clone() for name, each in model.bundle.model.state_dict().items()}
    model.bundle.model.train()
    model.trace("Yes.", beam=2)
    assert model.bundle.model.training
    assert all(torch.equal(each, before[name]) for name, each in model.bundle.model.state_dict().items())
    with pytest.raises(ValueError, match="read-only"):
        ball()["logits"].values[0] = 0


def test_named_axes_are_taken_by_number_and_by_piece():
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


def test_a_name_there_is_not_is_met_with_the_nearest():
    with pytest.raises(KeyError, match=r"did you mean 'decoder.1.cross.pattern'"):
        ball()["decoder.1.cros.patern"]
    with pytest.raises(KeyError, match=r"did you mean 'decoder.1.cross.output.weight'"):
        ball().parameter("decoder.1.cross.output.wait")
    some = small_traced().trace("Yes.", keep="*.cross.pattern")
    assert some.names == [f"decoder.{n}.cross.pattern" for n in range(3)]
    assert "logits" not in some
    with pytest.raises(ValueError, match="'logits' was not captured; trace the sentence again with keep='logits'"):
        some["logits"]
    assert len(some.steps[0].top) == 20  # what a step could have written is known all the same


def test_long_sentences_keep_their_patterns_and_longer_ones_are_refused():
    model = small_traced(ends=-9.0, max_positions=400)
    found = model.trace("The ball is blue and the cat is black. " * 2, beam=1)
    assert len(found.inputs.ids) > 64
    assert set(found.names) == {
        row.name for row in glossary(found.config) if row.name.endswith((".pattern", ".allowed"))
    }
    assert any("only the patterns" in note for note in found.notes)
    everything = model.trace("The ball is blue and the cat is black. " * 2, beam=1, keep="*")
    assert "logits" in everything
    with pytest.raises(ValueError, match=r"have 3\d\d and 1 pieces; a trace takes 256 a side"):
        model.trace("The ball is blue and the cat is black. " * 15)
    with pytest.raises(ValueError, match=r"have 3 and 26\d pieces; a trace takes 256 a side"):
        model.trace("?", target="?" * 260)


def test_what_takes_too_much_memory_is_refused_with_the_numbers(monkeypatch):
    found = ball()
    estimate = capture_module.tensor_bytes(
        found.config, glossary(found.config), len(found.source.ids), len(found.inputs.ids), 4
    )
    assert estimate == found.nbytes == found.manifest()["run"]["bytes"]
    monkeypatch.setattr(capture_module, "LARGEST_TRACE", 2**12)
    with pytest.raises(ValueError, match=r"of 14 and 1 pieces would hold 0.0 MiB, the most is 0.0; keep fewer"):
        small_traced().trace("The ball is blue.", target="¿Dónde?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentence": "  \t "}, "there is nothing to trace"),
        ({"sentence": "😀"}, "there is nothing to trace"),
        ({"sentence": "The ball.\tThe cat."}, "translated in 2 parts, and a trace shows one"),
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
def test_what_cannot_be_traced_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        small_traced().trace(**arguments)


def test_models_that_are_not_shown_are_refused():
    model = small_traced()
    half = model_of(small_traced().bundle.model.bfloat16())
    with pytest.raises(ValueError, match="precision='float32'"):
        half.trace("Yes.")
    both = Translator(model.bundle.model, model.bundle.tokenizer, small_traced(2).bundle.model)
    with pytest.raises(ValueError, match="2 models translate together"):
        replace(model, translator=both).trace("Yes.")


def test_another_engine_is_named_and_not_asked():
    model = small_traced()

    class Other:
        batch_size = 1

        def search(self, requests, config):
            raise AssertionError

        def search_all(self, batches, config):
            raise AssertionError

    model.translator.engine = Other()
    found = model.trace("The ball is blue.", beam=3)
    assert any("run by torch" in note for note in found.notes)
    assert found.translation == ball().translation


def test_the_manifest_says_what_the_page_was_promised():
    """The fields of every interface in web/src/types.ts, none more and none less but for those it may lack."""
    manifest = ball().manifest()
    json.dumps(manifest, allow_nan=False)
    fields = interfaces(TYPES.read_text(encoding="utf-8"))
    agree(manifest, fields["Manifest"])
    agree(manifest["source"], fields["Side"])
    agree(manifest["steps"][0], fields["Step"])
    agree(manifest["steps"][0]["chosen"], fields["Candidate"])
    agree(manifest["tree"], fields["Tree"])
    agree(manifest["checks"][0], fields["Check"])
    for row in manifest["tensors"]:
        agree(row, fields["TensorRow"])
        assert row["captured"]
        assert row["least"] <= row["largest"]
    for node in manifest["tree"]["nodes"]:
        agree(node, fields["TreeNode"])
    for row in manifest["parameters"]:
        agree(row, fields["ParameterRow"])
        assert list(ball().parameter(row["name"]).shape) == row["shape"]
    assert manifest["model"]["parameters"] == sum(np.prod(row["shape"]) for row in manifest["parameters"])
    assert set(manifest["axes"]) == {"S", "T", "D", "H", "E", "F", "2F", "V", "1"}
    assert manifest["axes"]["T"]["labels"] == ball().inputs.pieces
    for name, axis in manifest["axes"].items():
        agree(axis, fields["Axis"])
        assert {row["shape"][row["dims"].index(name)] for row in manifest["tensors"] if name in row["dims"]} <= {
            axis["size"]
        }


def test_the_range_of_scores_is_that_of_the_keys_that_may_be_read():
    [row] = [row for row in ball().manifest()["tensors"] if row["name"] == "decoder.1.self.scores"]
    below = np.tril(np.ones(row["shape"][1:], dtype=bool))
    readable = ball()["decoder.1.self.scores"].values[:, below]
    assert (row["least"], row["largest"]) == (float(readable.min()), float(readable.max()))
    assert float(ball()["decoder.1.self.scores"].values.max()) != row["largest"] or readable.size == 0


def test_numbers_that_are_none_have_no_range():
    """A page cannot read NaN from JSON."""
    model = small_traced()
    with torch.no_grad():
        model.bundle.model.get_parameter("encoder.0.ffn.inner.bias")[0] = 1e38
        model.bundle.model.get_parameter("encoder.0.ffn.outer.weight")[:, 0] = 0.0
        model.bundle.model.get_parameter("decoder.2.cross.qkv.weight")[:12] *= 1e19
    found = trace_sentence(model.translator, model.bundle, "Yes.", target="Sí.")
    json.dumps(found.manifest(), allow_nan=False)


def test_a_sum_of_log_probabilities_is_the_score_before_the_penalty():
    found = ball()
    total = fsum(found.translation.piece_log_probs)
    assert found.log_prob == total
    assert found.score == total / ((5 + len(found.target.ids)) / 6) ** SearchConfig().length_penalty


def interfaces(source: str) -> dict[str, dict[str, bool]]:
    """The fields of every `export interface`, with whether they must be there."""
    found = {}
    for name, body in re.findall(r"^export interface (\w+) \{\n(.*?)^\}", source, re.MULTILINE | re.DOTALL):
        found[name] = {field: not optional for field, optional in re.findall(r"^  (\w+)(\??):", body, re.MULTILINE)}
    return found


def agree(said: dict, fields: dict[str, bool]) -> None:
    assert said.keys() <= fields.keys()
    assert {field for field, needed in fields.items() if needed} <= said.keys()
