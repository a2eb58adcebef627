"""A model whose heads were removed is the model whose heads are silent, everywhere and at every step."""

import numpy as np
import pytest
import torch

from pellucid import bundle
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.inspect import alignment, heads
from pellucid.inspect.importance import Head, list_heads, silence_in_weights, silence_watcher
from pellucid.inspect.pruning import config_without_heads, count_head_parameters, remove_heads
from pellucid.model import Transformer
from pellucid.model.glossary import glossary
from pellucid.trace import Trace
from pellucid.trace.edits import Silence, attention_names
from tests.decode.models import small_tokenizer
from tests.inspect.studied import SOURCES, TARGETS, small_pairs
from tests.model.models import EVERY_OPTION, every_option, sentences, small_model
from tests.trace.traced import make_model, small_traced

SOME = [
    Head("encoder.0.self", 1),
    *(Head("decoder.0.self", number) for number in range(3)),  # none left
    Head("decoder.0.cross", 0),
    Head("decoder.0.cross", 2),
    Head("decoder.1.self", 2),
    *(Head("decoder.1.cross", number) for number in range(3)),  # the last layer no longer reads the source
]


def logits(model: Transformer, watch=None):
    source, target = sentences([5, 8, 3]), sentences([7, 4, 6], seed=2)
    with torch.inference_mode():
        return model(source, target) if watch is None else model(source, target, watch)


@pytest.mark.article("B25")
@every_option
def test_removing_heads_is_silencing_them(options):
    model = small_model(**options)
    smaller = remove_heads(model, SOME)
    expected = logits(model, silence_watcher(SOME))
    assert (expected - logits(model)).abs().max() > 1e-3  # they did something
    for found in (logits(smaller), logits(smaller, silence_watcher([])), logits(silence_in_weights(model, SOME))):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        logits(remove_heads(model.float(), SOME)),
        logits(model, silence_watcher(SOME)),
        rtol=0,
        atol=1e-5 * float(expected.abs().max()),
    )


@pytest.mark.parametrize("options", EVERY_OPTION[::4])
def test_removing_none_changes_no_bit(options):
    model = small_model(**options)
    same = remove_heads(model, [])
    assert same.config == model.config
    assert same is not model
    own, copied = dict(model.named_parameters()), dict(same.named_parameters())
    assert own.keys() == copied.keys()
    assert all(torch.equal(own[name], copied[name]) and own[name] is not copied[name] for name in own)
    assert torch.equal(logits(same), logits(model))


def test_each_head_is_the_one_that_goes():
    model = small_model()
    found = [logits(remove_heads(model, [head])) for head in list_heads(model.config)]
    for head, each in zip(list_heads(model.config), found, strict=True):
        torch.testing.assert_close(each, logits(model, silence_watcher([head])), rtol=0, atol=1e-12)
    assert len({float(each.sum()) for each in found}) == len(found)


def test_heads_may_go_one_after_the_other():
    model = small_model(positions="rotary")
    smaller = remove_heads(model, SOME)
    after = remove_heads(remove_heads(model, SOME[1:]), SOME[:1])
    assert after.config == smaller.config
    assert torch.equal(logits(after), logits(smaller))


@pytest.mark.parametrize("bias", [False, True])
def test_the_parameters_that_go_are_counted(bias: bool):
    model = small_model(output_bias=bias)
    before, after = (sum(each.numel() for each in some.parameters()) for some in (model, remove_heads(model, SOME)))
    # By hand: a head of 10 in a model of 30 has 3 times 10 rows of 30 and 10 biases, and 10 columns of 30.
    assert count_head_parameters(model.config) == 3 * (10 * 30 + 10) + 10 * 30
    assert before - after == len(SOME) * count_head_parameters(model.config)


def test_an_attention_without_heads_adds_its_bias():
    model = remove_heads(small_model(), [Head("encoder.0.self", number) for number in range(3)])
    attention = model.get_submodule("encoder.0.self")
    x = torch.randn(2, 5, 30, dtype=torch.float64)
    allowed = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    found = attention(x, allowed, torch.arange(5), model.source_positions)
    assert torch.equal(found, model.get_parameter("encoder.0.self.output.bias").expand(2, 5, 30))


def test_the_two_share_nothing_and_agree_in_mode_and_type():
    model = small_model().train()
    first = next(model.parameters()).requires_grad_(False)
    smaller = remove_heads(model, SOME)
    assert smaller.training
    assert next(smaller.parameters()).dtype == first.dtype
    assert [each.requires_grad for each in smaller.parameters()] == [each is not first for each in model.parameters()]
    places = {each.data_ptr() for each in model.parameters()}
    assert not places & {each.data_ptr() for each in smaller.parameters() if each.numel()}
    assert smaller.target_embedding is smaller.source_embedding


def test_a_head_that_is_not_there_is_refused():
    model = small_model()
    with pytest.raises(ValueError, match=r"the model has no head decoder\.0\.self\.3, encoder\.9\.self\.0$"):
        remove_heads(model, [Head("encoder.9.self", 0), Head("decoder.0.self", 3)])
    with pytest.raises(ValueError, match=r"no head encoder\.0\.self\.2$"):
        remove_heads(remove_heads(model, SOME[:1]), [Head("encoder.0.self", 2)])


def test_the_config_says_how_many_are_left():
    config = config_without_heads(small_model().config, SOME)
    assert (
        config.fewer_heads == "encoder.0.self:2 decoder.0.self:0 decoder.0.cross:1 decoder.1.self:2 decoder.1.cross:0"
    )
    assert [config.heads_in(name) for name in attention_names(config)] == [2, 0, 1, 2, 0]
    assert list_heads(config) == [
        Head("encoder.0.self", 0),
        Head("encoder.0.self", 1),
        Head("decoder.0.cross", 0),
        Head("decoder.1.self", 0),
        Head("decoder.1.self", 1),
    ]


@pytest.mark.parametrize(
    ("norm", "positions"), [("pre", "sinusoidal"), ("post", "learned"), ("pre", "rotary"), ("post", "none")]
)
def test_every_step_of_a_search_is_that_of_the_whole_model(norm, positions):
    """The cache has keys of its own for each layer, so that layers may differ in their heads."""
    model = small_traced(double=True, norm=norm, positions=positions).bundle.model
    out = [Head("encoder.1.self", 0), *(Head("decoder.1.cross", n) for n in range(3)), Head("decoder.2.self", 1)]
    smaller, silent = remove_heads(model, out), silence_in_weights(model, out)
    found, expected = (
        Translator(each, small_tokenizer()).translate(SOURCES, SearchConfig(beam=3)) for each in (smaller, silent)
    )
    assert [each.text for each in found] == [each.text for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], rel=1e-9)


def test_a_trace_of_it_is_a_trace_and_its_checks_pass(tmp_path):
    whole = small_traced(double=True)
    out = [Head("decoder.0.self", n) for n in range(3)] + [Head("decoder.1.cross", 1), Head("encoder.0.self", 0)]
    smaller = make_model(remove_heads(whole.bundle.model, out))
    trace = smaller.trace("The ball is blue.", beam=3)
    assert all(check.passed for check in trace.checks()), [each for each in trace.checks() if not each.passed]
    edits = [Silence(head.attention, head.number) for head in out]
    silent = whole.trace("The ball is blue.", beam=3).edited(*edits, keep_target=False)
    assert trace.target.ids == silent.target.ids
    for row in glossary(smaller.bundle.model.config):
        found, expected = trace.values_of(row.name), silent.values_of(row.name)
        if row.dims.split()[1:2] == ["H"]:
            attention = row.name.rpartition(".")[0]
            left = [n for n in range(3) if Head(attention, n) not in out]
            assert found.shape[0] == len(left) == smaller.bundle.model.config.heads_in(attention)
            expected = expected[left]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    shapes = {row["name"]: row["shape"] for row in trace.manifest()["tensors"]}
    assert all(shapes[name] == list(trace.values_of(name).shape) for name in trace)
    trace.save(tmp_path / "ball.trace")
    again = Trace.load(tmp_path / "ball.trace")
    assert again.config == trace.config
    assert all(np.array_equal(again.values_of(name), trace.values_of(name)) for name in trace)


def test_it_can_be_studied_pruned_and_aligned_again():
    model = small_traced(double=True).bundle.model
    out = [Head("encoder.0.self", 2), *(Head("decoder.1.cross", n) for n in range(3)), Head("decoder.2.self", 0)]
    smaller, pairs = remove_heads(model, out), small_pairs(model.config)
    left = [head for head in list_heads(model.config) if head not in out]
    weighed, of_silent = (heads.measure_importance(each, pairs) for each in (smaller, silence_in_weights(model, out)))
    places = [list_heads(model.config).index(head) for head in left]
    assert len(weighed.ablation) == len(left)
    # Heads left stand in the same order, so what was measured of them is the same.
    assert [each.value for each in weighed.ablation] == pytest.approx([of_silent.ablation[n].value for n in places])
    assert weighed.gradient == pytest.approx([of_silent.gradient[n] for n in places])
    looked = heads.study_patterns(smaller, small_tokenizer(), pairs, None)
    assert [each.head for each in looked.heads] == list_heads(smaller.config)
    assert len(looked.similarity) == len(left)
    assert [len(each.shares) for each in looked.aligned if each.attention == "decoder.1.cross"] == [0, 0]
    read = alignment.encode_alignment_pairs(small_tokenizer(), SOURCES, TARGETS)
    found = {each.reading: each for each in alignment.measure_readings(smaller, read)}
    expected = {each.reading: each for each in alignment.measure_readings(silence_in_weights(model, out), read)}
    assert not any(name.layer == 1 and name.head is not None for name in found)
    for name, each in found.items():
        if name.kind == "norms":  # silent heads still have weights, and move nothing
            assert each.disagreement == pytest.approx(expected[name].disagreement)
            assert each.mutually_best == expected[name].mutually_best


def test_a_model_directory_keeps_it(tmp_path):
    model = small_traced(positions="rotary").bundle.model
    smaller = remove_heads(model, [Head("encoder.0.self", 1), *(Head("decoder.2.cross", n) for n in range(3))])
    bundle.save_bundle(tmp_path / "small", smaller, small_tokenizer(), step=0)
    loaded = bundle.load_bundle(tmp_path / "small").model
    assert loaded.config == smaller.config
    own = dict(smaller.named_parameters())
    assert all(torch.equal(each, own[name]) for name, each in loaded.named_parameters())


def test_it_can_be_trained_further():
    torch.manual_seed(1)
    model = remove_heads(small_model(dropout=0.1), SOME).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)
    source, target = sentences([5, 8, 3]), sentences([7, 4, 6], seed=2)
    losses = []
    for _ in range(30):
        found = model(source, target[:, :-1]).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(found, target[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        assert all(each.grad is not None for each in model.parameters())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
