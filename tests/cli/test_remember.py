"""`pellucid remember` and `pellucid explain --because` as users call them."""

from pellucid.train.loop import train_run
from tests.train.corpora import small_run


def test_a_run_is_remembered_in_at_most_200_bytes_a_token(call, tmp_path):
    # The width of a tiny model, which has the most numbers a state in the store.
    train_run(small_run(tmp_path / "text", model={"d_model": 128}), tmp_path / "run")
    result = call("remember", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert "211 of 211 pairs" in result.stderr
    *_, size, _, _, _ = result.stderr.split()
    assert 128 < int(size) <= 200, result.stderr
    assert (tmp_path / "run" / "best.states" / "manifest.json").is_file()


def test_a_model_without_its_run_is_refused(call, model):
    result = call("remember", model)
    assert result.exit_code == 2
    assert "run.toml is missing: it names the text that" in result.stderr
