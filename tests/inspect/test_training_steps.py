"""The page of training: losses are those of scoring, an update goes against the gradient, checkpoints translate."""

import json
from pathlib import Path

import pytest
import torch

from pellucid.api import load
from pellucid.decode.scoring import score_pairs
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.studies import training_steps
from pellucid.interpret.studies.training_steps import RATE, study_training, update_once
from pellucid.interpret.trace.session import perform_act
from pellucid.training.loop import train_run
from tests.tolerances import approx_log_prob
from tests.trace.traced import ball
from tests.training.corpora import small_run


def test_the_losses_are_minus_the_log_probabilities_of_the_pieces_and_fall_with_the_update():
    trace = ball()
    answer = study_training(trace, "La bola es azul.")
    [score] = score_pairs(trace.origin.translator, [trace.sentence], ["La bola es azul."], 1)
    assert answer["writes"] == score.pieces
    assert answer["reads"] == ["<s>", *score.pieces[:-1]]
    assert answer["losses"] == [approx_log_prob(-log_prob) for log_prob in score.per_piece]
    assert sum(answer["losses_after"]) < sum(answer["losses"])
    assert answer["checkpoints"] == []
    assert study_training(trace)["writes"] == trace.target.pieces
    json.dumps(answer, allow_nan=False)


def test_an_update_goes_against_the_gradient_and_leaves_the_model_as_it_was():
    trace = ball()
    before = {name: value.clone() for name, value in trace.model.state_dict().items()}
    source, target = trace.source.ids, trace.target.ids
    losses, _, update = update_once(trace.model, source, target)
    for name, value in trace.model.state_dict().items():
        assert torch.equal(value, before[name])

    assert update.before == before[update.parameter][update.row, update.column]
    assert update.after == pytest.approx(update.before - RATE * update.gradient, rel=1e-5)
    # The gradient is the slope of the mean loss.
    weight = trace.model.get_parameter(update.parameter)
    slope = []
    with inference_only(trace.model):
        for change in (1e-2, -1e-2):
            weight[update.row, update.column] = update.before + change
            slope.append(training_steps._piece_losses(trace.model, [source], [target]).mean().item())
        weight[update.row, update.column] = update.before
    assert (slope[0] - slope[1]) / 2e-2 == pytest.approx(update.gradient, rel=0.02)
    assert len(losses) == len(target)


@pytest.mark.parametrize("beside", ["one", "one two six one two six one two six one two six"])
def test_in_a_batch_the_shorter_sentence_is_padded_and_no_padding_is_read_or_changes_a_loss(beside):
    trace = ball()
    answer = study_training(trace, "La bola es azul.", beside)
    batch, other = answer["batch"], trace.again(beside)
    for rows, single in (("sources", trace.source.pieces), ("sources", other.source.pieces)):
        assert single in [[piece for piece in row if piece != "<pad>"] for row in batch[rows]]
    assert [row[: len(other.target.pieces)] for row in batch["targets"]][1] == other.target.pieces
    assert len({len(row) for row in batch["sources"]}) == len({len(row) for row in batch["targets"]}) == 1
    padded = 0
    for pieces, weights in zip(batch["sources"], batch["weights"], strict=True):
        assert sum(weights) == pytest.approx(1, abs=1e-6)
        for piece, weight in zip(pieces, weights, strict=True):
            padded += piece == "<pad>"
            assert (weight == 0) == (piece == "<pad>")
    assert padded == abs(len(trace.source.ids) - len(other.source.ids)) > 0
    assert batch["losses"] == [approx_log_prob(loss) for loss in answer["losses"]]


def test_the_first_middle_and_last_checkpoints_translate_the_sentence(tmp_path: Path):
    train = {"steps": 12, "evaluate_every": 12, "save_every": 2, "keep": 6}
    train_run(small_run(tmp_path / "text", train=train, tokenizer={"vocabulary": 305}), tmp_path / "run")
    model = load(tmp_path / "run" / "best", engine="torch")
    trace = model.trace("one two six")
    answer = perform_act(trace, "training", {"target": "seis dos uno"})
    assert isinstance(answer, dict)
    states = answer["checkpoints"]
    assert [state["step"] for state in states] == [2, 8, 12]
    for state in states:
        checkpoint = load(tmp_path / "run" / "checkpoints" / f"step-{state['step']:08d}", engine="torch")
        assert state["translation"] == checkpoint.translate("one two six").text
        score = checkpoint.score("one two six", "seis dos uno")
        assert state["loss"] == approx_log_prob(-score.log_prob / len(score.pieces))

    (tmp_path / "run" / "checkpoints" / "step-00000002" / "config.json").write_text("{}", encoding="utf-8")
    assert [state["step"] for state in study_training(trace)["checkpoints"]] == [8, 12]


@pytest.mark.parametrize(
    ("target", "message"), [(" ", "the translation is blank"), ("a " * 200, r"has \d+ pieces, this model takes 97")]
)
def test_translations_that_cannot_be_learned_are_refused(target, message):
    with pytest.raises(ValueError, match=message):
        study_training(ball(), target)


def test_a_model_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(training_steps, "MOST_PARAMETERS", 100)
    with pytest.raises(ValueError, match="at most 100 parameters"):
        study_training(ball())
