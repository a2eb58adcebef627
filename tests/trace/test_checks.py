"""A sound trace passes every check, and every kind of damage fails the checks that are about it."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.decode.translator import Translator
from pellucid.interpret.trace import Chain, Edit, Record
from pellucid.interpret.trace import checks as checks_runs
from pellucid.interpret.trace import number_checks as checks_numbers
from pellucid.interpret.trace.attribution import AccountPart, LogitAccount, LogitQuestion, account_for_logits
from pellucid.interpret.trace.capture import decoding_steps
from pellucid.interpret.trace.checks import check_captured_run
from pellucid.interpret.trace.number_checks import CapturedRun, Check
from pellucid.interpret.trace.session import Trace, TraceOrigin, trace_sentence
from pellucid.model import Transformer, attention
from pellucid.store.directory import Bundle
from tests.decode.models import random_model, small_tokenizer
from tests.model.models import every_option, sentences, small_model

SOURCE, TARGET = sentences([11])[0].tolist(), sentences([8], seed=2)[0].tolist()
FUSED = "without recording, the model computes the same numbers"
LIKELIEST = "that run finds the same pieces most likely"
SUMS = "rows of every pattern sum to 1"
MASKED = "what may not be read has weight 0"
FOLLOWS = "every number follows from its inputs"
CACHED = "decoding step by step gives the same logits"
PARTS = "the parts of each written piece's logit add up to it"
CONTROL = "test of the test: without the largest part, the sum is wrong, as it should be"
WHOLE = "the probabilities of each step sum to 1"
STEPS = "the numbers of each step follow from the logits"
TOTALS = "totals of the beam are sums of log-probabilities"
FATES = "what was kept and dropped follows from the totals"
BEST = "the best path through the beam is the translation"
BEAM = "the model gives the log-probabilities of the beam"
MODE = "the model is in evaluation mode, without dropout"
PRECISION = "all numbers have the precision of the model"
KNOWN = "every file of the model has a hash"


SEARCH = {TOTALS, FATES, BEST, BEAM}
RUNS_AGAIN = {FUSED, LIKELIEST, CACHED, BEAM}


def capture_run(model: Transformer, edit: Edit | None = None) -> CapturedRun:
    """Capture a run on a given target, without a search."""
    record, inputs = Record(), [2, *TARGET[:-1]]
    watch = record if edit is None else Chain(edit, record)
    with torch.inference_mode():
        model(torch.tensor([SOURCE]), torch.tensor([inputs]), watch=watch)
    tensors = {name: (x if name.endswith(".positions") else x[0]).numpy() for name, x in record.items()}
    pieces = [str(number) for number in range(29)]
    steps = decoding_steps(record["logits"][0], [pieces[i] for i in inputs], TARGET, pieces.__getitem__)
    hashes = {"model": "0" * 64, "tokenizer": " ".join(["f" * 64] * 2)}
    return CapturedRun(model.config, tensors, SOURCE, inputs, TARGET, model, steps=steps, hashes=hashes)


def checks_by_name(run: CapturedRun) -> dict[str, Check]:
    return {check.name: check for check in check_captured_run(run)}


def failed_checks(run: CapturedRun) -> set[str]:
    return {name for name, check in checks_by_name(run).items() if not check.passed}


def skipped_checks(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if check.value is None}


@cache
def searched_trace(beam: int = 4, **settings: Any) -> Trace:
    """A trace of a random model that writes nonsense, with the search for it."""
    tokenizer = small_tokenizer()
    sizes = {"max_positions": 37, **settings}  # the translation is as long as it may be
    model = random_model(45, tokenizer.source_vocabulary, tokenizer.target_vocabulary, **sizes)
    files = {name: {"sha256": "a" * 64} for name in ("model.safetensors", *tokenizer.files(tokenizer.config))}
    bundle = Bundle(model, tokenizer, {"files": files}, Path("somewhere"))
    return trace_sentence(TraceOrigin(Translator(model, tokenizer), bundle, beam), "The ball is blue.")


@cache
def searched_checks(beam: int = 4) -> list[Check]:
    """The checks of that trace."""
    return check_captured_run(CapturedRun.from_trace(searched_trace(beam)))


def with_tensor(run: CapturedRun, name: str, values: np.ndarray) -> CapturedRun:
    return replace(run, tensors={**run.tensors, name: values})


@every_option
def test_a_sound_run_passes_every_check_to_the_tenth_digit(options):
    checks = checks_by_name(capture_run(small_model(**options)))
    assert all(check.passed and check.value is not None for check in checks.values()), checks
    assert all(checks[name].limit == 1e-10 for name in (FOLLOWS, CACHED, PARTS, SUMS))
    assert set(checks) & SEARCH == set()


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_in_float32_the_limits_are_those_of_rounding_in_float32(norm):
    checks = checks_by_name(capture_run(small_model(norm=norm, positions="rotary", activation="gelu").float()))
    assert all(check.passed and check.value is not None for check in checks.values()), checks
    assert [checks[name].limit for name in (SUMS, FOLLOWS, CACHED, PARTS)] == [1e-6, 1e-5, 1e-5, 1e-4]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_trace_with_its_search_passes_every_check(beam):
    checks = searched_checks(beam)
    assert all(check.passed and check.value is not None for check in checks), checks
    assert {check.name for check in checks} >= SEARCH
    assert len({check.name for check in checks}) == len(checks)


def test_checks_are_ready_for_json_and_say_what_they_mean():
    for check in searched_checks():
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
def test_edited_tensors_are_left_out_of_the_checks(edit, keep_target):
    trace = searched_trace()
    if edit["kind"] == "pattern":
        edit = {**edit, "values": [0.5] + [0.0] * (len(trace.source.ids) - 1)}  # a row that does not sum to 1
    edited = trace.edited(edit, keep_target=keep_target)
    assert edited.replaced
    checks = check_captured_run(CapturedRun.from_trace(edited))
    assert all(check.passed for check in checks), checks
    assert RUNS_AGAIN - SEARCH <= skipped_checks(checks) <= RUNS_AGAIN
    means = {check.name: check.means for check in checks}
    assert "an edit replaced" in means[FUSED]
    assert "left out, edited" in means[FOLLOWS]
    unmarked_run = replace(CapturedRun.from_trace(edited), replaced=frozenset())
    assert failed_checks(unmarked_run) >= {FUSED, FOLLOWS}


def test_tensors_that_were_not_captured_are_reported_as_not_checked():
    run = capture_run(small_model())
    patterns = {name: x for name, x in run.tensors.items() if name.endswith((".pattern", ".allowed"))}
    checks = checks_by_name(replace(run, tensors=patterns))
    assert skipped_checks(list(checks.values())) == {FUSED, LIKELIEST, CACHED, PARTS, CONTROL, STEPS}
    assert checks[FUSED].means == "Not checked: logits not captured."
    assert checks[FOLLOWS].means.startswith("5 tensors")  # what may be read
    assert checks[SUMS].value is not None
    assert skipped_checks(check_captured_run(replace(run, tensors={}))) >= {SUMS, MASKED, FOLLOWS}


def test_a_mask_that_is_missing_is_noticed(monkeypatch):
    monkeypatch.setattr(attention, "masked_softmax", lambda scores, allowed: scores.softmax(dim=-1))
    assert failed_checks(capture_run(small_model())) >= {MASKED, FOLLOWS, FUSED, CACHED}


def test_a_mask_that_lets_the_future_through_is_noticed(monkeypatch):
    monkeypatch.setattr(
        "pellucid.model.masks.causal_mask", lambda q, k: torch.ones(1, 1, len(q), len(k), dtype=torch.bool)
    )
    # fused attention is as wrong as the visible one
    assert failed_checks(capture_run(small_model())) == {MASKED, FOLLOWS, CACHED}


def test_a_scale_that_is_wrong_is_noticed(monkeypatch):
    attend = attention.attend
    monkeypatch.setattr(attention, "attend", lambda q, *args: attend(q * 1.01 if args[-1].seeing else q, *args))
    assert failed_checks(capture_run(small_model())) == {FOLLOWS, FUSED, CACHED}


def test_heads_on_the_wrong_axis_are_noticed(monkeypatch):
    monkeypatch.setattr(
        attention.Attention,
        "split",
        lambda self, x, parts: x.view(*x.shape[:2], parts, -1, self.heads).permute(2, 0, 4, 1, 3).unbind(),
    )
    assert failed_checks(capture_run(small_model())) == {FOLLOWS}


def test_heads_merged_on_the_wrong_axis_are_noticed(monkeypatch):
    def merge(self, z, watch):
        return watch("output", self.output(z.permute(0, 2, 3, 1).flatten(2)))

    monkeypatch.setattr(attention.Attention, "merge", merge)
    assert failed_checks(capture_run(small_model())) == {FOLLOWS, PARTS}


def test_dropout_that_was_left_on_is_noticed():
    model = small_model(dropout=0.1).train()
    assert failed_checks(capture_run(model)) >= {MODE, FUSED, CACHED, FOLLOWS}


def test_weights_that_changed_after_the_trace_are_noticed():
    run = capture_run(small_model())
    assert run.model is not None
    with torch.no_grad():
        run.model.get_parameter("decoder.1.ffn.outer.bias")[3].add_(1e-3)
    assert failed_checks(run) >= {FUSED, FOLLOWS, CACHED}


@pytest.mark.parametrize("value", [12345.678, np.nan, np.inf])
def test_a_planted_number_is_noticed_wherever_it_stands(value):
    run = capture_run(small_model())
    for name, values in run.tensors.items():
        planted = values.astype(np.float64)
        planted.flat[planted.size // 2] = value
        with np.errstate(all="ignore"):
            check = checks_numbers.check_recomputed(with_tensor(run, name, planted))
        assert not check.passed, name
        assert json.dumps(check.as_json(), allow_nan=False)
    checks = check_captured_run(with_tensor(run, "logits", np.full_like(run.tensors["logits"], value)))
    assert {check.name for check in checks if not check.passed} >= {FUSED, FOLLOWS, CACHED, PARTS, STEPS}
    assert json.dumps([check.as_json() for check in checks], allow_nan=False)


def test_logits_of_other_pieces_are_noticed():
    run = capture_run(small_model())
    rolled = with_tensor(run, "logits", np.roll(run.tensors["logits"], 1, axis=1))
    assert failed_checks(rolled) == {FUSED, LIKELIEST, FOLLOWS, CACHED, PARTS, STEPS}


def test_a_pattern_whose_rows_are_not_distributions_is_noticed():
    run = capture_run(small_model())
    name = "decoder.1.cross.pattern"
    assert failed_checks(with_tensor(run, name, run.tensors[name] * (1 + 1e-8))) == {SUMS, FOLLOWS}
    swapped = np.flip(run.tensors["decoder.1.self.pattern"], axis=2)
    assert failed_checks(with_tensor(run, "decoder.1.self.pattern", swapped)) >= {MASKED, FOLLOWS}


def test_an_account_without_the_shifts_of_the_norms_does_not_add_up():
    """An account that lacks any other group does not add up either."""
    run = capture_run(small_model())
    questions = [LogitQuestion(step, number) for step, number in enumerate(TARGET)]
    for account in account_for_logits(run.config, run.tensors.__getitem__, run.parameter, run.pieces, questions):
        for group in {part.group for part in account.parts}:
            remainder = sum(part.value for part in account.parts if part.group != group)
            assert abs(remainder - account.logit) > 1e-4


def test_an_account_without_a_large_part_fails_its_control(monkeypatch):
    account = LogitAccount(0, "a", 4, None, 7.0, 7.0, [AccountPart("embedding", "embedding", 1e-12)])
    monkeypatch.setattr(checks_numbers, "account_for_logits", lambda *_: [account])
    assert failed_checks(capture_run(small_model())) == {CONTROL}


def test_steps_that_contradict_the_logits_are_noticed():
    run = capture_run(small_model())
    step = run.steps[3]
    first, second, *others = step.top
    for wrong_step, names in (
        (replace(step, rank=step.rank + 1), {STEPS}),
        (replace(step, entropy=step.entropy + 1e-4), {STEPS}),
        (replace(step, others=step.others + 1e-4), {WHOLE}),
        (replace(step, others_count=step.others_count - 1), {STEPS}),
        (replace(step, top=[second, first, *others]), {STEPS}),
        (replace(step, top=[first, *others]), {WHOLE, STEPS}),
        (replace(step, top=[replace(first, prob=first.prob + 1e-4), second, *others]), {WHOLE, STEPS}),
        (replace(step, top=[replace(first, log_prob=first.log_prob + 1e-2), second, *others]), {STEPS}),
        (replace(step, chosen=replace(step.chosen, logit=step.chosen.logit + 1e-4)), {STEPS}),
    ):
        assert failed_checks(replace(run, steps=[*run.steps[:3], wrong_step, *run.steps[4:]])) == names, wrong_step


def test_a_changed_search_tree_is_noticed():
    run = CapturedRun.from_trace(searched_trace())
    assert run.tree is not None
    nodes = run.tree.nodes
    kept_node = next(node for node in nodes if node.fate == "kept" and node.best and node.step == 2)
    pruned_node = next(node for node in nodes if node.fate == "pruned" and node.step == 2)
    for before, after, names in (
        (kept_node, replace(kept_node, total=kept_node.total - 1e-3), {TOTALS}),
        (kept_node, replace(kept_node, score=kept_node.score + 1e-3), {TOTALS}),
        (kept_node, replace(kept_node, fate="pruned"), {FATES}),
        (kept_node, replace(kept_node, rank=99), {FATES}),
        (pruned_node, replace(pruned_node, fate="finished"), {FATES, BEST}),  # and it is better than the translation
        (kept_node, replace(kept_node, best=False), {BEST}),
        (kept_node, replace(kept_node, log_prob=kept_node.log_prob + 1e-3), {TOTALS, BEAM}),
    ):
        tree = replace(run.tree, nodes=[after if node is before else node for node in nodes])
        checks = checks_runs.check_tree(replace(run, tree=tree))
        assert {check.name for check in checks if not check.passed} == names, (before, after)
    other_run = replace(run, target=[*run.target[:-1], 5])
    assert [check.name for check in checks_runs.check_tree(other_run) if not check.passed] == [BEST]


def test_malformed_and_missing_hashes_are_noticed():
    run = capture_run(small_model())
    assert failed_checks(replace(run, hashes={"model": "0" * 64, "tokenizer": "f" * 63})) == {KNOWN}
    check = checks_by_name(replace(run, hashes={"model": "", "tokenizer": ""}))[KNOWN]
    assert (check.passed, check.value) == (True, None)
    assert "never saved" in check.means


def test_tensors_in_another_precision_than_the_model_are_noticed():
    run = capture_run(small_model())
    rounded = with_tensor(run, "memory", run.tensors["memory"].astype(np.float32))
    assert not checks_by_name(rounded)[PRECISION].passed
