"""The parts of a logit add up to it, each has the value it claims, and a wrong part is noticed."""

import json
from math import fsum

import numpy as np
import pytest
import torch

from pellucid.interpret.trace import Edit, Record
from pellucid.interpret.trace.attribution import (
    LogitAccount,
    LogitQuestion,
    OtherPiece,
    account_for_every_step,
    account_for_logits,
)
from pellucid.interpret.trace.edits import Chain, Silence
from tests.model.models import EVERY_PAIR, every_option, sentences, small_model
from tests.trace.traced import ball, small_traced

SOURCE, TARGET = sentences([11, 5]), sentences([7, 3], seed=2)
QUESTIONS = [LogitQuestion(step, piece, other) for step in range(7) for piece, other in ((4, None), (17, 9), (28, 4))]


def arrays_of_record(record: Record, row: int = 0):
    """Return the function that reads the tensors of one row of a recorded batch."""

    def tensor(name: str) -> np.ndarray:
        value = record[name]
        # All rows share the position vectors, which have no batch axis.
        return (value if name == "decoder.positions" else value[row]).cpu().numpy()

    return tensor


def parameters(model):
    return lambda name: model.get_parameter(name).detach().numpy()


def piece_names(ids):
    return [str(number) for number in ids]


def make_accounts(
    model, questions=QUESTIONS, row=0, edit=None, change=lambda name, values: values
) -> list[LogitAccount]:
    record = Record()
    with torch.no_grad():
        model(SOURCE, TARGET, watch=record if edit is None else Chain(edit, record))
    tensor = arrays_of_record(record, row)
    return account_for_logits(
        model.config, lambda name: change(name, tensor(name)), parameters(model), piece_names, questions
    )


def part_value(account: LogitAccount, name: str) -> float:
    [part] = [part for part in account.parts if part.name == name]
    return part.value


# ---------------------------------------------------------------- the sum


@every_option
@pytest.mark.parametrize("output_bias", [False, True])
def test_the_parts_add_up_to_the_logit(options, output_bias):
    """The sum holds for every step, for one piece and for the difference of two, in both rows of a padded batch."""
    model = small_model(output_bias=output_bias, **options)
    for row, steps in ((0, 7), (1, 3)):
        for account in make_accounts(model, [q for q in QUESTIONS if q.step < steps], row):
            assert abs(account.sum - account.logit) <= 1e-10 * abs(account.logit)
            assert account.sum == pytest.approx(fsum(part.value for part in account.parts), rel=1e-12)
            assert account.error <= 1e-12
    for account in make_accounts(model.float()):
        assert account.error <= 1e-5


@every_option
def test_the_logit_is_the_one_that_was_captured(options):
    model = small_model(**options)
    with torch.no_grad():
        logits = model(SOURCE, TARGET)[0]
    for question, account in zip(QUESTIONS, make_accounts(model), strict=True):
        other = 0.0 if question.other is None else float(logits[question.step, question.other])
        assert account.logit == pytest.approx(float(logits[question.step, question.id]) - other, rel=1e-9, abs=1e-12)
        assert (account.step, account.id, account.piece) == (question.step, question.id, str(question.id))
        assert account.other == (None if question.other is None else OtherPiece(str(question.other), question.other))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_the_shifts_of_the_norms_the_parts_do_not_add_up(norm):
    for account in make_accounts(small_model(norm=norm)):
        missing = abs(account.sum - part_value(account, "norms") - account.logit)
        assert missing > 1e-3 * max(abs(part.value) for part in account.parts)


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
@pytest.mark.parametrize("sublayer", ["self", "cross"])
def test_with_two_heads_swapped_the_parts_do_not_add_up(norm, sublayer):
    def swap_heads(name, values):
        return (
            values[[1, 0, 2]]
            if name.startswith(f"decoder.1.{sublayer}.") and values.ndim == 3 and len(values) == 3
            else values
        )

    assert all(account.error > 1e-4 for account in make_accounts(small_model(norm=norm), change=swap_heads))


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_with_the_deviation_of_another_position_the_parts_do_not_add_up(norm):
    def shift_positions(name, values):
        return np.roll(values, 1, axis=0) if name == "decoder.1.ffn_residual.sum" else values

    assert all(account.error > 1e-4 for account in make_accounts(small_model(norm=norm), change=shift_positions))


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize("options", [{"norm": "pre"}, {"norm": "post"}, {"norm": "post", "positions": "learned"}])
def test_each_part_is_its_vector_sent_through_the_later_norms(options):
    """The vectors are followed forwards, with every norm written out as a matrix."""
    model, record = small_model(**options), Record()
    with torch.no_grad():
        model(SOURCE, TARGET, watch=record)
    tensor, parameter, step, piece = arrays_of_record(record), parameters(model), 4, 17
    d = model.config.d_model

    def matrix(name, before):
        deviation = np.sqrt(tensor(before)[step].var() + 1e-5)
        return np.diag(parameter(f"{name}.weight")) @ (np.eye(d) - np.ones((d, d)) / d) / deviation

    vectors = {"embedding": tensor("decoder.embedding")[step], "positions": tensor("decoder.positions")[step]}
    shift = np.zeros(d)
    for layer in range(2):
        for sublayer in ("self", "cross", "ffn"):
            prefix = f"decoder.{layer}.{sublayer}"
            if sublayer == "ffn":
                vectors[prefix] = parameter(f"{prefix}.outer.weight") @ tensor(f"{prefix}.active")[step]
            else:
                w = parameter(f"{prefix}.output.weight")
                for h in range(3):
                    z = tensor(f"{prefix}.pattern")[h, step] @ tensor(f"{prefix}.v")[h]
                    vectors[f"{prefix}.head.{h}"] = w[:, 10 * h : 10 * h + 10] @ z
            if options["norm"] == "post":
                a = matrix(f"{prefix}_residual.norm", f"{prefix}_residual.sum")
                vectors = {name: a @ vector for name, vector in vectors.items()}
                shift = a @ shift + parameter(f"{prefix}_residual.norm.bias")
    if options["norm"] == "pre":
        a = matrix("decoder_norm", "decoder.1.ffn_residual.sum")
        vectors, shift = {name: a @ vector for name, vector in vectors.items()}, parameter("decoder_norm.bias")
    [account] = make_accounts(model, [LogitQuestion(step, piece)])
    u = parameter("source_embedding.weight")[piece]
    assert [part.name for part in account.parts] == [*vectors, "norms", "biases"]
    for name, vector in vectors.items():
        assert part_value(account, name) == pytest.approx(u @ vector, rel=1e-9, abs=1e-12)
    assert part_value(account, "norms") == pytest.approx(u @ shift, rel=1e-9)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
def test_positions_are_a_part_if_they_are_added_to_embeddings(positions):
    for account in make_accounts(small_model(positions=positions), QUESTIONS[:1]):
        groups = [part.group for part in account.parts]
        added = ["positions"] * (positions in ("sinusoidal", "learned"))
        layer = ["self"] * 3 + ["cross"] * 3 + ["ffn"]
        assert groups == ["embedding", *added, *layer, *layer, "norm", "bias"]


@every_option
def test_what_a_head_adds_is_split_over_the_positions_it_read(options):
    for account in make_accounts(small_model(**options)):
        for part in account.parts:
            if part.group not in ("self", "cross"):
                assert part.by_key is None
                continue
            assert part.by_key is not None
            assert len(part.by_key) == (7 if part.group == "self" else 11)
            assert fsum(part.by_key) == pytest.approx(part.value, rel=1e-9, abs=1e-12)
            if part.group == "self":
                assert not any(part.by_key[account.step + 1 :])
                assert all(part.by_key[: account.step + 1])


def test_padding_that_is_never_read_adds_nothing():
    for account in make_accounts(small_model(), [LogitQuestion(1, 9)], row=1):
        cross = [part.by_key for part in account.parts if part.group == "cross"]
        assert all(by_key is not None and all(by_key[:5]) and not any(by_key[5:]) for by_key in cross)


def test_a_difference_is_the_difference_of_every_part():
    model = small_model(output_bias=True)
    difference, first, second = make_accounts(
        model, [LogitQuestion(3, 17, 9), LogitQuestion(3, 17), LogitQuestion(3, 9)]
    )
    for a, b, c in zip(difference.parts, first.parts, second.parts, strict=True):
        assert a.value == pytest.approx(b.value - c.value, rel=1e-9, abs=1e-12)
    [nothing] = make_accounts(model, [LogitQuestion(3, 17, 17)])
    assert nothing.logit == nothing.error == 0
    assert not any(part.value for part in nothing.parts)


def test_a_larger_output_bias_is_found_among_the_biases():
    model = small_model(output_bias=True)
    [before] = make_accounts(model, [LogitQuestion(3, 17)])
    with torch.no_grad():
        model.get_parameter("output_bias")[17] += 12345.678
    [after] = make_accounts(model, [LogitQuestion(3, 17)])
    changed = {a.name: b.value - a.value for a, b in zip(before.parts, after.parts, strict=True) if a != b}
    assert changed == {"biases": pytest.approx(12345.678)}


def test_a_silenced_head_adds_nothing_and_is_not_split():
    edit = Edit({"decoder.0.cross.head_output": lambda z: z.index_fill(1, torch.tensor([2]), 0.0)})
    for account in make_accounts(small_model(norm="post"), edit=edit):
        assert account.error < 1e-12
        [part] = [part for part in account.parts if part.name == "decoder.0.cross.head.2"]
        assert part.value == 0
        assert part.by_key is None
        assert all(p.by_key is not None for p in account.parts if p.group in ("self", "cross") and p is not part)


def test_an_edited_pattern_decides_where_the_head_reads():
    edit = Edit({"decoder.1.cross.pattern": lambda p: torch.zeros_like(p).index_fill(3, torch.tensor([5]), 1.0)})
    for account in make_accounts(small_model(), edit=edit):
        assert account.error < 1e-12
        by_keys = [p.by_key for p in account.parts if p.name.startswith("decoder.1.cross")]
        assert all(by_key is not None and [n for n, value in enumerate(by_key) if value] == [5] for by_key in by_keys)


# ---------------------------------------------------------------- of a trace


@pytest.mark.parametrize("options", EVERY_PAIR[::4], ids=[" ".join(options.values()) for options in EVERY_PAIR[::4]])
def test_the_accounts_of_a_trace_add_up(options):
    double = small_traced(double=True, max_positions=17, **options).trace("The ball is blue.", beam=2)
    assert all(double.account(step).error < 1e-10 for step in range(len(double.steps)))
    single = small_traced(max_positions=17, **options).trace("The ball is blue.", beam=2)
    assert all(single.account(step, other=7).error < 1e-4 for step in range(len(single.steps)))


def test_by_default_the_account_is_of_the_piece_that_was_written():
    trace = ball()
    for step in trace.steps:
        account = trace.account(step.step)
        assert (account.id, account.piece) == (step.chosen.id, step.chosen.piece)
        assert account.logit == pytest.approx(step.chosen.logit, rel=1e-6)


def test_accounts_of_every_step_equal_the_single_accounts():
    trace = ball()
    tables = account_for_every_step(trace)
    for step, chosen, against in zip(trace.steps, tables["chosen"], tables["against"], strict=True):
        rival = next(candidate for candidate in step.top if candidate.id != step.chosen.id)
        assert chosen["other"] is None
        assert against["other"] == {"piece": rival.piece, "id": rival.id}
        for table, account in ((chosen, trace.account(step.step)), (against, trace.account(step.step, other=rival.id))):
            assert (table["id"], table["logit"]) == (step.chosen.id, account.logit)
            for a, b in zip(table["parts"], account.parts, strict=True):
                assert a["value"] == pytest.approx(b.value, rel=1e-9, abs=1e-12)


def test_an_account_is_ready_for_the_page():
    table = json.loads(json.dumps(ball().account(0, other=9).as_json(), allow_nan=False))
    assert list(table) == ["step", "piece", "id", "other", "logit", "sum", "parts"]
    assert list(table["other"]) == ["piece", "id"]
    assert {tuple(part) for part in table["parts"]} == {
        ("name", "group", "value"),
        ("name", "group", "value", "by_key"),
    }
    assert ball().account(0).as_json()["other"] is None


def test_a_silenced_head_of_a_trace_adds_nothing():
    account = ball().edited(Silence("decoder.1.self", 0)).account(0)
    assert account.error < 1e-5
    assert part_value(account, "decoder.1.self.head.0") == 0


def test_unknown_steps_and_pieces_are_refused():
    trace = ball()
    with pytest.raises(ValueError, match=f"step is 99, this translation has steps 0 to {len(trace.steps) - 1}"):
        trace.account(99)
    with pytest.raises(ValueError, match="the piece is -1, the target vocabulary has pieces 0 to"):
        trace.account(0, 4, -1)
    with pytest.raises(ValueError, match="the piece is 4000, "):
        trace.account(0, 4000)
