"""The checks of a trace: all are passed by a sound one, and each is failed by something that is broken."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.bundle import Bundle
from pellucid.decode.translate import Translator
from pellucid.model import Transformer, attention
from pellucid.trace import Chain, Edit, Record
from pellucid.trace.capture import decoding_steps
from pellucid.trace.causes.logit_accounts import AccountPart, LogitAccount, LogitQuestion, account_for_logits
from pellucid.trace.checks import number_checks as checks_numbers
from pellucid.trace.checks import rerun_checks as checks_runs
from pellucid.trace.checks.all_checks import check_captured_run, check_trace, make_captured_run
from pellucid.trace.checks.captured_run import CapturedRun, Check
from pellucid.trace.trace import Trace
from pellucid.trace.tracing import trace_sentence
from tests.decode.models import random_model, small_tokenizer
from tests.model.models import every_option, sentences, small_model

SOURCE, TARGET = sentences([11])[0].tolist(), sentences([8], seed=2)[0].tolist()
FUSED = "an unwatched run gives the same logits"
LIKELIEST = "it finds the same pieces likeliest"
SUMS = "rows of every pattern sum to 1"
MASKED = "what may not be read has weight 0"
FOLLOWS = "every number follows from its inputs"
CACHED = "decoding step by step gives the same logits"
PARTS = "the parts of every written piece's logit add up"
CONTROL = "an account that lacks its largest part is off"
WHOLE = "shown probabilities and the rest make 1"
STEPS = "steps show what the logits say"
TOTALS = "totals of the beam are sums of log-probabilities"
FATES = "what was kept and dropped follows from the totals"
BEST = "the best way through the beam is the translation"
BEAM = "the beam's log-probabilities are the model's"
MODE = "evaluation mode, nothing dropped"
PRECISION = "numbers in the model's own precision"
KNOWN = "the files behind the run are known by their hashes"


SEARCH = {TOTALS, FATES, BEST, BEAM}
RUNS_AGAIN = {FUSED, LIKELIEST, CACHED, BEAM}


def seen_by(model: Transformer, edit: Edit | None = None) -> CapturedRun:
    """What a given target leaves to be checked."""
    record, read = Record(), [2, *TARGET[:-1]]
    watch = record if edit is None else Chain(edit, record)
    with torch.inference_mode():
        model(torch.tensor([SOURCE]), torch.tensor([read]), watch=watch)
    tensors = {name: (x if name.endswith(".positions") else x[0]).numpy() for name, x in record.items()}
    pieces = [str(number) for number in range(29)]
    steps = decoding_steps(record["logits"][0], [pieces[i] for i in read], TARGET, pieces.__getitem__)
    hashes = {"model": "0" * 64, "tokenizer": " ".join(["f" * 64] * 2)}
    return CapturedRun(model.config, tensors, SOURCE, read, TARGET, model, steps=steps, hashes=hashes)


def results(seen: CapturedRun) -> dict[str, Check]:
    return {check.name: check for check in check_captured_run(seen)}


def failed(seen: CapturedRun) -> set[str]:
    return {name for name, check in results(seen).items() if not check.passed}


def unmade(found: list[Check]) -> set[str]:
    return {check.name for check in found if check.value is None}


@cache
def traced(beam: int = 4, **settings: Any) -> Trace:
    """A real one: a random model that writes nonsense, and a search for it."""
    tokenizer = small_tokenizer()
    model = random_model(45, tokenizer.source_vocabulary, tokenizer.target_vocabulary, **settings)
    files = {name: {"sha256": "a" * 64} for name in ("model.safetensors", *tokenizer.files(tokenizer.config))}
    bundle = Bundle(model, tokenizer, {"files": files}, Path("somewhere"))
    return trace_sentence(Translator(model, tokenizer), bundle, "The ball is blue.", beam=beam)


def with_tensor(seen: CapturedRun, name: str, values: np.ndarray) -> CapturedRun:
    return replace(seen, tensors={**seen.tensors, name: values})


@every_option
def test_a_sound_run_passes_every_check_to_the_tenth_digit(options):
    found = results(seen_by(small_model(**options)))
    assert all(check.passed and check.value is not None for check in found.values()), found
    assert all(found[name].limit == 1e-10 for name in (FOLLOWS, CACHED, PARTS, SUMS))
    assert set(found) & SEARCH == set()


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_in_float32_the_limits_are_those_of_rounding_in_float32(norm):
    found = results(seen_by(small_model(norm=norm, positions="rotary", activation="gelu").float()))
    assert all(check.passed and check.value is not None for check in found.values()), found
    assert [found[name].limit for name in (SUMS, FOLLOWS, CACHED, PARTS)] == [1e-6, 1e-5, 1e-5, 1e-4]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_trace_with_its_search_passes_every_check(beam):
    found = check_trace(traced(beam))
    assert all(check.passed and check.value is not None for check in found), found
    assert {check.name for check in found} >= SEARCH
    assert len({check.name for check in found}) == len(found)


def test_checks_are_ready_for_json_and_say_what_they_mean():
    for check in check_trace(traced()):
        assert json.loads(json.dumps(check.as_json(), allow_nan=False)) == {
            "name": check.name,
            "passed": True,
            "value": check.value,
            "limit": check.limit,
            "means": check.means,
        }
        assert check.means.endswith((".", "..."))


@pytest.mark.parametrize(
    ("edit", "keep_target"),
    [
        ({"kind": "silence", "attention": "decoder.1.cross", "head": 1}, True),
        ({"kind": "pattern", "attention": "encoder.0.self", "head": 0, "row": 1, "values": [0.5, 0.0]}, True),
        ({"kind": "hide", "word": 1}, True),
        ({"kind": "hide", "word": 1}, False),
    ],
)
def test_what_an_edit_replaced_is_not_expected_to_follow(edit, keep_target):
    whole = traced()
    if edit["kind"] == "pattern":
        edit = {**edit, "values": [0.5] + [0.0] * (len(whole.source.ids) - 1)}  # a row that does not sum to 1
    edited = whole.edited(edit, keep_target=keep_target)
    assert edited.replaced
    found = check_trace(edited)
    assert all(check.passed for check in found), found
    assert RUNS_AGAIN - SEARCH <= unmade(found) <= RUNS_AGAIN
    said = {check.name: check.means for check in found}
    assert "an edit stands in" in said[FUSED]
    assert "left out, edited" in said[FOLLOWS]
    forgotten = replace(make_captured_run(edited), replaced=frozenset())
    assert failed(forgotten) >= {FUSED, FOLLOWS}


def test_a_trace_without_its_model_is_checked_as_far_as_its_numbers_go():
    found = check_captured_run(replace(make_captured_run(traced()), model=None))
    assert unmade(found) == RUNS_AGAIN | {FOLLOWS, PARTS, CONTROL, MODE, PRECISION}
    assert all(check.passed for check in found)
    assert all("not at hand" in check.means for check in found if check.value is None)


def test_what_was_not_captured_is_not_checked_and_said():
    seen = seen_by(small_model())
    patterns = {name: x for name, x in seen.tensors.items() if name.endswith((".pattern", ".allowed"))}
    found = results(replace(seen, tensors=patterns))
    assert unmade(list(found.values())) == {FUSED, LIKELIEST, CACHED, PARTS, CONTROL, STEPS}
    assert found[FUSED].means == "Not checked: logits not captured."
    assert found[FOLLOWS].means.startswith("5 tensors")  # what may be read
    assert found[SUMS].value is not None
    assert unmade(check_captured_run(replace(seen, tensors={}))) >= {SUMS, MASKED, FOLLOWS}


def test_a_mask_that_is_missing_is_noticed(monkeypatch):
    monkeypatch.setattr(attention, "masked_softmax", lambda scores, allowed: scores.softmax(dim=-1))
    assert failed(seen_by(small_model())) >= {MASKED, FOLLOWS, FUSED, CACHED}


def test_a_future_that_may_be_read_is_noticed(monkeypatch):
    monkeypatch.setattr(
        "pellucid.model.masks.causal_mask", lambda q, k: torch.ones(1, 1, len(q), len(k), dtype=torch.bool)
    )
    assert failed(seen_by(small_model())) == {MASKED, FOLLOWS, CACHED}  # fused attention is as wrong as the visible one


def test_a_scale_that_is_wrong_is_noticed(monkeypatch):
    right = attention.attend
    monkeypatch.setattr(attention, "attend", lambda q, *rest: right(q * 1.01 if rest[-1].seeing else q, *rest))
    assert failed(seen_by(small_model())) == {FOLLOWS, FUSED, CACHED}


def test_heads_on_the_wrong_axis_are_noticed(monkeypatch):
    monkeypatch.setattr(
        attention.Attention,
        "split",
        lambda self, x, parts: x.view(*x.shape[:2], parts, -1, self.heads).permute(2, 0, 4, 1, 3).unbind(),
    )
    assert failed(seen_by(small_model())) == {FOLLOWS}


def test_heads_merged_on_the_wrong_axis_are_noticed(monkeypatch):
    def merge(self, z, watch):
        return watch("output", self.output(z.permute(0, 2, 3, 1).flatten(2)))

    monkeypatch.setattr(attention.Attention, "merge", merge)
    assert failed(seen_by(small_model())) == {FOLLOWS, PARTS}


def test_dropout_that_was_left_on_is_noticed():
    model = small_model(dropout=0.1).train()
    assert failed(seen_by(model)) >= {MODE, FUSED, CACHED, FOLLOWS}


def test_weights_that_changed_since_are_noticed():
    seen = seen_by(small_model())
    assert seen.model is not None
    with torch.no_grad():
        seen.model.get_parameter("decoder.1.ffn.outer.bias")[3].add_(1e-3)
    assert failed(seen) >= {FUSED, FOLLOWS, CACHED}


@pytest.mark.parametrize("value", [12345.678, np.nan, np.inf])
def test_a_planted_number_is_noticed_wherever_it_stands(value):
    seen = seen_by(small_model())
    for name, values in seen.tensors.items():
        planted = values.astype(np.float64)
        planted.flat[planted.size // 2] = value
        with np.errstate(all="ignore"):
            check = checks_numbers.check_recomputed(with_tensor(seen, name, planted))
        assert not check.passed, name
        assert json.dumps(check.as_json(), allow_nan=False)
    broken = check_captured_run(with_tensor(seen, "logits", np.full_like(seen.tensors["logits"], value)))
    assert {check.name for check in broken if not check.passed} >= {FUSED, FOLLOWS, CACHED, PARTS, STEPS}
    assert json.dumps([check.as_json() for check in broken], allow_nan=False)


def test_logits_of_other_pieces_are_noticed():
    seen = seen_by(small_model())
    rolled = with_tensor(seen, "logits", np.roll(seen.tensors["logits"], 1, axis=1))
    assert failed(rolled) == {FUSED, LIKELIEST, FOLLOWS, CACHED, PARTS, STEPS}


def test_a_pattern_that_is_no_distribution_is_noticed():
    seen = seen_by(small_model())
    name = "decoder.1.cross.pattern"
    assert failed(with_tensor(seen, name, seen.tensors[name] * (1 + 1e-8))) == {SUMS, FOLLOWS}
    swapped = np.flip(seen.tensors["decoder.1.self.pattern"], axis=2)
    assert failed(with_tensor(seen, "decoder.1.self.pattern", swapped)) >= {MASKED, FOLLOWS}


def test_an_account_without_the_shifts_of_the_norms_does_not_add_up():
    """Nor does one that lacks any other group."""
    seen = seen_by(small_model())
    questions = [LogitQuestion(step, number) for step, number in enumerate(TARGET)]
    for account in account_for_logits(seen.config, seen.tensors.__getitem__, seen.parameter, seen.pieces, questions):
        for group in {part.group for part in account.parts}:
            left = sum(part.value for part in account.parts if part.group != group)
            assert abs(left - account.logit) > 1e-4


def test_an_account_that_could_not_fail_is_noticed(monkeypatch):
    nothing = LogitAccount(0, "a", 4, None, 7.0, 7.0, [AccountPart("embedding", "embedding", 1e-12)])
    monkeypatch.setattr(checks_numbers, "account_for_logits", lambda *_: [nothing])
    assert failed(seen_by(small_model())) == {CONTROL}


def test_steps_that_say_something_else_than_the_logits_are_noticed():
    seen = seen_by(small_model())
    step = seen.steps[3]
    first, second, *rest = step.top
    for said, names in (
        (replace(step, rank=step.rank + 1), {STEPS}),
        (replace(step, entropy=step.entropy + 1e-4), {STEPS}),
        (replace(step, others=step.others + 1e-4), {WHOLE}),
        (replace(step, others_count=step.others_count - 1), {STEPS}),
        (replace(step, top=[second, first, *rest]), {STEPS}),
        (replace(step, top=[first, *rest]), {WHOLE, STEPS}),
        (replace(step, top=[replace(first, prob=first.prob + 1e-4), second, *rest]), {WHOLE, STEPS}),
        (replace(step, top=[replace(first, log_prob=first.log_prob + 1e-2), second, *rest]), {STEPS}),
        (replace(step, chosen=replace(step.chosen, logit=step.chosen.logit + 1e-4)), {STEPS}),
    ):
        assert failed(replace(seen, steps=[*seen.steps[:3], said, *seen.steps[4:]])) == names, said


def test_a_tree_that_is_not_that_of_the_search_is_noticed():
    seen = make_captured_run(traced())
    assert seen.tree is not None
    nodes = seen.tree.nodes
    kept = next(node for node in nodes if node.fate == "kept" and node.best and node.step == 2)
    pruned = next(node for node in nodes if node.fate == "pruned" and node.step == 2)
    for before, after, names in (
        (kept, replace(kept, total=kept.total - 1e-3), {TOTALS}),
        (kept, replace(kept, score=kept.score + 1e-3), {TOTALS}),
        (kept, replace(kept, fate="pruned"), {FATES}),
        (kept, replace(kept, rank=99), {FATES}),
        (pruned, replace(pruned, fate="finished"), {FATES, BEST}),  # and it is better than the translation
        (kept, replace(kept, best=False), {BEST}),
        (kept, replace(kept, log_prob=kept.log_prob + 1e-3), {TOTALS, BEAM}),
    ):
        tree = replace(seen.tree, nodes=[after if node is before else node for node in nodes])
        found = checks_runs.check_tree(replace(seen, tree=tree))
        assert {check.name for check in found if not check.passed} == names, (before, after)
    other = replace(seen, target=[*seen.target[:-1], 5])
    assert [check.name for check in checks_runs.check_tree(other) if not check.passed] == [BEST]


def test_hashes_that_are_none_are_noticed():
    seen = seen_by(small_model())
    assert failed(replace(seen, hashes={"model": "0" * 64, "tokenizer": "f" * 63})) == {KNOWN}
    unsaved = results(replace(seen, hashes={"model": "", "tokenizer": ""}))[KNOWN]
    assert (unsaved.passed, unsaved.value) == (True, None)
    assert "never saved" in unsaved.means


def test_tensors_in_another_precision_than_the_model_are_noticed():
    seen = seen_by(small_model())
    rounded = with_tensor(seen, "memory", seen.tensors["memory"].astype(np.float32))
    assert not results(rounded)[PRECISION].passed
