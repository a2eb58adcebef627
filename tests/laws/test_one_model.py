"""There is one model: the code that is trained searches, scores, traces and is shown."""

from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.api import Model
from pellucid.decode import packed_model
from pellucid.decode.packed_model import LARGE, ModelPacker, PackedWeight, can_pack
from pellucid.decode.request import SearchConfig, SearchRequest
from pellucid.decode.torch_engine import ModelState, TorchEngine, model_step, pad_sentences
from pellucid.decode.translator import Translator
from pellucid.model import Transformer, attention
from pellucid.model.cache import Cache
from pellucid.model.dropout import Dropout
from pellucid.model.positions import Positions
from pellucid.store.directory import Bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.laws.calls import SOURCE, functions_entered
from tests.model.models import POSITIONS, every_option, sentences, small_model
from tests.tolerances import approx_log_prob, assert_same_sums
from tests.variants import mark_others_slow

SOURCES = [[5, 7, 9, 11, 6, 3], [8, 3], [4, 4, 10, 3]]

# Along one search: the last token of each hypothesis, then which hypotheses and which sentences stay.
BEAMS = [
    ([2, 2, 2], [0, 0, 1, 1, 2, 2], [0, 1, 2]),  # one hypothesis of each sentence becomes two
    ([4, 5, 6, 7, 8, 9], [1, 0, 3, 3, 4, 5], [0, 1, 2]),  # they change places; one is continued twice, one dropped
    ([9, 8, 7, 6, 5, 4], [1, 1, 5, 4], [0, 2]),  # the middle sentence is finished
    ([4, 5, 6, 7], [3, 2], [1]),
    ([10, 11], [0, 1], [0]),
    ([4, 4], [1, 0], [0]),
]
GREEDY = [([2, 2, 2], [0, 1, 2], [0, 1, 2]), ([5, 6, 7], [0, 2], [0, 2]), ([4, 4], [1], [1]), ([9], [0], [0])]
LONG = [([2, 2, 2], [0, 0, 1, 1, 2, 2], [0, 1, 2]), *[([4, 5, 6, 7, 8, 9], [0, 1, 3, 2, 5, 4], [0, 1, 2])] * 41]


class Slopes(Positions):
    """Each head prefers what is near."""

    def bias(self, q_positions, k_positions):
        return -0.5 * (q_positions[:, None] - k_positions[None, :]).abs().to(torch.float64).expand(1, 3, -1, -1)


def small_translator(**sizes) -> Translator:
    vocabulary = small_tokenizer().source_vocabulary
    return Translator(random_model(7, vocabulary, vocabulary, **sizes), small_tokenizer())


def model_around(translator: Translator) -> Model:
    [model] = translator.torch.models
    described = {"sha256": "", "files": {}}
    return Model(Bundle(model, small_tokenizer(), described, Path("best")), translator)


@pytest.mark.parametrize("choices", [BEAMS, GREEDY], ids=["beams", "greedy"])
@every_option
def test_a_step_gives_what_decoding_each_hypothesis_anew_gives(options, choices):
    walk(small_model(**options), choices)


@pytest.mark.parametrize("positions", mark_others_slow({name: name for name in POSITIONS}, "learned", "rotary"))
def test_so_does_a_step_for_which_there_was_no_room_at_first(positions):
    walk(small_model(positions=positions), LONG)


@pytest.mark.parametrize("choices", [BEAMS, GREEDY], ids=["beams", "greedy"])
def test_so_does_a_position_encoding_that_adds_to_the_scores(choices):
    model = small_model()
    model.target_positions = Slopes()
    walk(model, choices)


def walk(model: Transformer, choices) -> None:
    """Compare a step of the packed copy with the model itself, which reads each hypothesis from its first token."""
    copied = ModelPacker(model).copy_model()
    step, paths = model_step(copied), torch.empty(3, 0, dtype=torch.int64)
    with torch.inference_mode():
        source = pad_sentences(SOURCES, torch.device("cpu"))
        memory, state = model.encode(source), ModelState(copied.encode(source))
        for tokens, rows, kept in choices:
            paths = torch.cat([paths, torch.tensor(tokens)[:, None]], dim=1)
            by_row = memory.select(torch.arange(len(paths)) // (len(paths) // len(memory.states)))
            whole = model.logits(model.decode(paths, by_row))[:, -1]
            torch.testing.assert_close(step(torch.tensor(tokens), state), whole, rtol=0, atol=1e-11)
            state.select(torch.tensor(rows), torch.tensor(kept))
            paths = paths[rows]
            memory = memory if len(kept) == len(memory.states) else memory.select(torch.tensor(kept))


def test_a_hypothesis_may_attend_to_exactly_the_tokens_it_descends_from():
    """Against paths kept in Python lists: 3 sentences, beams that change places at random, two tokens at once."""
    torch.manual_seed(1)
    cache, written = Cache(), 0
    paths: list[list[list[int]]] = [[[]], [[]], [[]]]  # of each hypothesis of each sentence: the places of its tokens
    for step in range(11):
        width, steps, length = len(paths[0]), 1 + step % 2, cache.length
        ids, allowed = cache.grow(len(paths), width * len(paths), torch.arange(length, length + steps))
        everything = torch.ones(1, 1, width * steps, written + width * steps, dtype=torch.bool)
        readable = (everything if allowed is None else allowed).expand(len(paths), -1, -1, -1)[:, 0]
        for sentence, hypotheses in enumerate(paths):
            for n, path in enumerate(hypotheses):
                for t in range(steps):
                    query = n * steps + t
                    path.append(written + query)
                    assert readable[sentence, query].nonzero()[:, 0].tolist() == sorted(path)
                    assert ids[query] == length + t
                    assert cache.layer(0).key_ids[path].tolist() == list(range(len(path)))
        written += width * steps
        kept = [0, 2] if step == 6 else list(range(len(paths)))
        parents = [torch.randint(width, (3,)).tolist() for _ in kept]
        rows = [sentence * width + parent for sentence, chosen in zip(kept, parents, strict=True) for parent in chosen]
        cache.select(torch.tensor(rows), torch.tensor(kept))
        paths = [
            [list(paths[sentence][parent]) for parent in chosen] for sentence, chosen in zip(kept, parents, strict=True)
        ]


def test_keys_that_require_a_gradient_are_refused():
    model = small_model()
    with pytest.raises(ValueError, match=r"a cache holds no gradients; decode under torch.no_grad\(\)"):
        model.decode(torch.tensor([[2]]), model.encode(sentences([5])), Cache())


@pytest.mark.parametrize("beam", [1, 3])
def test_a_translation_a_score_a_trace_and_an_update_run_the_same_code(beam):
    # Small and short: the profiler below makes every call slow.
    translator = small_translator(encoder_layers=1, decoder_layers=1, max_positions=31)
    model = model_around(translator)
    [network] = translator.torch.models
    calls = {
        "translate": lambda: model.translate(LINES[0], beam=beam),
        "score": lambda: model.score(LINES[0], LINES[1]),
        "trace": lambda: model.trace(LINES[0], beam=beam),
        "train": lambda: network.train()(torch.tensor([[5, 3]]), torch.tensor([[2, 7]])).sum().backward(),
    }
    for name, call in calls.items():
        functions = functions_entered(call)
        for function in ("attend", "SelfAttention.forward", "CrossAttention.forward", "Attention.merge"):
            assert ("model/attention.py", function) in functions, name
        for function in ("FeedForward.forward", "Residual.forward", "EncoderLayer.forward", "DecoderLayer.forward"):
            assert ("model/layers.py", function) in functions, name


def test_attention_is_computed_in_one_file_only():
    """The checks of a trace recompute it in NumPy on purpose, as a second witness."""
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix() != "model/attention.py":
            text = path.read_text(encoding="utf-8")
            assert "scaled_dot_product_attention" not in text, path
            assert "def masked_softmax" not in text, path


@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_change_of_the_formula_changes_search_score_and_trace_alike(beam, monkeypatch):
    translator = small_translator()
    model = model_around(translator)
    plain = model.translate(LINES[0], beam=beam)
    real = attention.attend
    monkeypatch.setattr(attention, "attend", lambda q, *more: real(3 * q, *more))
    changed = model.translate(LINES[0], beam=beam)
    assert changed.score != pytest.approx(plain.score, abs=1e-3)
    trace = model.trace(LINES[0], beam=beam)
    assert trace.translation.text == changed.text
    assert trace.translation.score == approx_log_prob(changed.score)
    request = SearchRequest(small_tokenizer().encode_source([LINES[0]])[0], 1)
    [[hypothesis, *_]] = translator.torch.search([request], SearchConfig(beam=beam))
    tokens = [*hypothesis.tokens, *([3] if hypothesis.stop == "eos" else [])]
    [log_probs] = translator.torch.log_probs([list(request.source)], [tokens])
    assert log_probs == approx_log_prob(hypothesis.log_probs)


WIDE_MODEL_TERMS = 5000  # among them those of five feed-forward networks, each 1031 wide


@pytest.fixture
def wide_model() -> Transformer:
    """Large enough that some of its matrices are packed."""
    return random_model(3, 1300, 1700, d_model=64, d_ff=1031)


def test_the_copy_that_searches_run_gives_the_models_numbers_with_packed_matrices(wide_model):
    copied = ModelPacker(wide_model).copy_model()
    large = [weight for weight in wide_model.parameters() if weight.dim() == 2 and weight.numel() >= LARGE]
    assert len(large) == 13  # three tables of embeddings, and both matrices of five feed-forward networks
    packed = [weight for weight in copied_weights(copied).values() if isinstance(weight, PackedWeight)]
    assert len(packed) == (11 if can_pack(large[0]) else 0)  # two of the tables are only read
    # One row is multiplied with the plain matrices, 18 rows with packed ones.
    for some_sentences, is_packed in (([[5]], False), (SOURCES, True)):
        with torch.inference_mode():
            source = pad_sentences(some_sentences, torch.device("cpu"))
            target = torch.randint(4, 1700, tuple(source.shape))
            assert_same_sums(copied(source, target), wide_model(source, target), WIDE_MODEL_TERMS)
        assert [weight.shape for weight in packed if (weight.packed is not None) != is_packed] == []


def test_the_copy_shares_every_weight_and_leaves_the_model_untouched(wide_model):
    wide_model.train()
    before = {name: (part, type(part), dict(vars(part))) for name, part in wide_model.named_modules()}
    copied = ModelPacker(wide_model).copy_model()
    for name, weight in wide_model.named_parameters():
        assert copied_weights(copied)[name].data_ptr() == weight.data_ptr()
    assert not any(part.training for part in copied.modules())
    for name, part in wide_model.named_modules():
        part_before, kind, attributes = before[name]
        assert part is part_before
        assert type(part) is kind
        assert vars(part).keys() == attributes.keys()
        assert all(vars(part)[key] is value for key, value in attributes.items())


class Halving(Dropout):
    """Dropout that does something in evaluation, too."""

    def forward(self, x):
        return x / 2


def test_the_copy_has_no_dropout_but_what_does_something_in_evaluation(wide_model):
    first, second = (layer.get_submodule("ffn") for layer in wide_model.decoder[:2])
    first.dropout, shapes = Halving(0.1), []
    second.dropout.register_forward_hook(lambda part, inputs, output: shapes.append(output.shape))
    copied = ModelPacker(wide_model).copy_model()
    kept = {name for name, part in copied.named_modules() if isinstance(part, Dropout)}
    assert kept == {"decoder.0.ffn.dropout", "decoder.1.ffn.dropout"}
    with torch.inference_mode():
        source, target = pad_sentences(SOURCES, torch.device("cpu")), torch.randint(4, 1700, (3, 5))
        assert_same_sums(copied(source, target), wide_model(source, target), WIDE_MODEL_TERMS)
    assert shapes == [(3, 5, 1031)] * 2


def test_a_weight_that_has_changed_is_packed_again_and_no_other(wide_model):
    packer = ModelPacker(wide_model)
    first, second = (copied_weights(packer.copy_model()) for _ in range(2))
    with torch.no_grad():
        wide_model.decoder[0].ffn.inner.weight.mul_(2.0)
    changed = packer.copy_model()
    third = copied_weights(changed)
    for name in first:
        assert second[name] is first[name]
        assert (third[name] is first[name]) == (name != "decoder.0.ffn.inner.weight" or not can_pack(first[name]))
    with torch.inference_mode():
        source, target = pad_sentences(SOURCES, torch.device("cpu")), torch.randint(4, 1700, (3, 5))
        assert_same_sums(changed(source, target), wide_model(source, target), WIDE_MODEL_TERMS)


def test_a_copy_begun_while_another_is_made_packs_nothing_again(wide_model, monkeypatch):
    packer = ModelPacker(wide_model)
    first = copied_weights(packer.copy_model())
    others: list[dict[str, torch.Tensor]] = []
    real = packed_model.can_call_directly

    def copy_meanwhile(module: nn.Module) -> bool:
        if not others and module is wide_model.decoder[1]:
            others.append({})  # once only: the copy made here comes by this module too
            others[0] = copied_weights(packer.copy_model())
        return real(module)

    monkeypatch.setattr(packed_model, "can_call_directly", copy_meanwhile)
    outer = copied_weights(packer.copy_model())
    for name, weight in first.items():
        assert outer[name] is others[0][name] is weight


def copied_weights(model: Transformer) -> dict[str, torch.Tensor]:
    """The weights that the modules of a copied model multiply by, each by its name."""
    return {
        f"{path}.{name}".lstrip("."): vars(part)[name]
        for path, part in model.named_modules()
        for name, weight in part._parameters.items()
        if weight is not None
    }


def test_a_part_that_is_exchanged_between_two_searches_is_searched_with():
    engine = TorchEngine([random_model(7, 13, 17)], (0, 1, 2))
    [model] = engine.models
    request, config = SearchRequest([5, 7, 3], 1), SearchConfig(beam=1)
    [[before]] = engine.search([request], config)
    model.decoder_norm = nn.LayerNorm(6)
    model.get_submodule("decoder.0.ffn").__dict__["activation"] = torch.tanh
    [[after]] = engine.search([request], config)
    [[fresh]] = TorchEngine([model], (0, 1, 2)).search([request], config)
    assert after.log_probs == fresh.log_probs != before.log_probs


def test_a_hook_on_the_model_is_heard_in_a_search():
    engine = TorchEngine([random_model(7, 13, 17)], (0, 1, 2))
    engine.search([SearchRequest([5, 7, 3], 1)], SearchConfig(beam=2))
    shapes = []
    ffn = engine.models[0].get_submodule("decoder.1.ffn")
    ffn.register_forward_hook(lambda module, arguments, result: shapes.append(result.shape))
    engine.search([SearchRequest([5, 7, 3], 1)], SearchConfig(beam=2))
    assert {shape[0] for shape in shapes} == {1}  # one sentence, its hypotheses side by side
    assert {shape[1] for shape in shapes} == {1, 2}
