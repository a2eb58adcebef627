"""The store of decoder states: what it holds, that it is found again, and which it refuses."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import load_bundle
from pellucid.training import state_store
from pellucid.training.loop import train_run
from pellucid.training.state_store import open_state_store, remember_states, store_directory
from tests.tolerances import approx_sum, assert_same_sums
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of seconds."""
    folder = tmp_path_factory.mktemp("remembered")
    train_run(small_run(folder / "text"), folder / "run")
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of the run, which has no store yet; its text is where it was."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def remember(path: Path) -> list[str]:
    """Remember a run, and return what is said meanwhile."""
    said: list[str] = []
    remember_states(path, said.append)
    return said


def open_store(run: Path, name: str = "best") -> state_store.StateStore:
    return open_state_store(run / name, load_bundle(run / name).manifest)


def test_every_target_token_has_the_state_from_which_the_model_predicts_it(run, monkeypatch):
    monkeypatch.setattr(state_store, "PAIRS_PER_BLOCK", 17)  # several blocks, and a last one that is not full
    remember(run)
    store, bundle = open_store(run), load_bundle(run / "best")
    pairs = store.pairs
    assert len(store.codes) == len(store.scales) == len(pairs.targets.ids)
    for pair in (0, 16, 17, len(pairs) - 1):
        source, target = pairs.sources[pair].tolist(), pairs.targets[pair].tolist()
        with torch.no_grad():
            [states] = bundle.model.states(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))
        rows = slice(pairs.targets.starts[pair], pairs.targets.starts[pair + 1])
        stored = store.codes[rows] * store.scales[rows, None]
        expected = torch.nn.functional.normalize(states, dim=1).numpy()
        # Rounding to 8 bits moves a number by half of a 127th of the largest, and a new length by as much again.
        assert (np.abs(stored - expected).max(axis=1) <= 1 / 127 * np.abs(expected).max(axis=1)).all()
        assert np.linalg.norm(stored, axis=1) == approx_sum(1.0, terms=stored.shape[1])


def test_a_pair_is_known_by_the_line_of_its_file(run):
    remember(run)
    store, tokenizer = open_store(run), load_bundle(run / "best").tokenizer
    for pair in (0, 1, len(store.pairs) - 1):
        files, line = store.place_of(pair)
        texts = [Path(file).read_text(encoding="utf-8").splitlines()[line - 1] for file in files]
        assert texts == [tokenizer.decode_source(store.pairs.sources[pair]),
                         tokenizer.decode_target(store.pairs.targets[pair])]  # fmt: skip


def test_skipped_lines_and_those_held_out_do_not_shift_the_others(tmp_path):
    run = small_run(tmp_path / "text")
    source, target = (Path(file or "") for file in run.data.corpora[0].files)
    for file in (source, target):
        lines = file.read_text(encoding="utf-8").splitlines()
        # Line 3 has no translation, line 5 is too long, and some lines are held out of training.
        lines[2], lines[4] = ("" if file == target else "one two"), " ".join(lines[4:5] * 30)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    train_run(replace(run, data=replace(run.data, dev_source=None, dev_target=None)), tmp_path / "run")
    remember(tmp_path / "run")
    store, tokenizer = open_store(tmp_path / "run"), load_bundle(tmp_path / "run" / "best").tokenizer
    assert 150 < len(store.pairs) < 209
    assert not {3, 5} & set(store.lines.tolist())
    lines = target.read_text(encoding="utf-8").splitlines()
    decoded = [tokenizer.decode_target(store.pairs.targets[pair]) for pair in range(len(store.pairs))]
    assert decoded == [lines[line - 1] for line in store.lines]


def test_the_nearest_state_to_a_stored_one_is_itself(run):
    remember(run)
    store, bundle = open_store(run), load_bundle(run / "best")
    states = state_store.teacher_forced_states(bundle.model, store.pairs)
    for position in (3, 200):
        token = int(store.pairs.targets.ids[position])
        same, other = store.find_nearest(states[position].numpy(), token, 5)
        assert same.cosines[0] == pytest.approx(1.0, abs=0.001)
        assert (store.pairs.targets.ids[same.positions] == token).all()
        assert (store.pairs.targets.ids[other.positions] != token).all()
        assert (np.diff(same.cosines) <= 0).all()
        assert (np.diff(other.cosines) <= 0).all()


def test_searching_in_blocks_changes_nothing(run, monkeypatch):
    remember(run)
    store = open_store(run)
    state = np.linspace(-1, 1, 14, dtype=np.float32)
    whole = store.find_nearest(state, token=int(store.pairs.targets.ids[0]), count=9)
    monkeypatch.setattr(state_store, "_STATES_AT_ONCE", 101)
    for one, other in zip(whole, store.find_nearest(state, int(store.pairs.targets.ids[0]), 9), strict=True):
        assert one.positions.tolist() == other.positions.tolist()
        assert one.cosines == approx_sum(other.cosines, terms=len(state))


def test_a_store_that_was_cut_off_goes_on_and_ends_the_same(run, monkeypatch):
    monkeypatch.setattr(state_store, "PAIRS_PER_BLOCK", 31)
    remember(run)
    whole = {path.name: path.read_bytes() for path in store_directory(run / "best").iterdir()}
    shutil.rmtree(store_directory(run / "best"))
    real, calls = state_store.teacher_forced_states, []

    def die_at_the_third(model, encoded):
        calls.append(encoded)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(model, encoded)

    monkeypatch.setattr(state_store, "teacher_forced_states", die_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        remember(run)
    assert not store_directory(run / "best").exists()
    # Half a block that was written before the cut is written again.
    with (run / "best.states.unfinished" / "codes").open("ab") as file:
        file.write(b"half a block")
    assert "going on behind 62 of 211 pairs" in remember(run)
    assert len(calls) == 3 + 5  # 211 pairs are seven blocks, and the third was not finished
    assert {path.name: path.read_bytes() for path in store_directory(run / "best").iterdir()} == whole
    assert not (run / "best.states.unfinished").exists()


def test_a_finished_store_is_not_made_again(run, monkeypatch):
    remember(run)
    monkeypatch.setattr(state_store, "_append_states", None)
    assert remember(run) == [f"{run / 'best.states'} holds the states of this model already"]


def test_the_store_of_another_model_is_refused_in_one_sentence(run):
    remember(run)
    shutil.copytree(run / "checkpoints" / "step-00000004", run / "other")
    shutil.copytree(run / "best.states", run / "other.states")
    weights = [load_bundle(run / name).manifest["files"]["model.safetensors"]["sha256"] for name in ("best", "other")]
    assert weights[0] != weights[1]
    with pytest.raises(ValueError, match=r"other\.states holds the states of another model than .*other; run"):
        open_store(run, "other")


def test_a_missing_or_damaged_store_names_the_command(run):
    offer = r"is missing: before training lines can be found, run `pellucid remember .*` once \(about a minute for"
    with pytest.raises(ValueError, match=offer):
        open_store(run)
    remember(run)
    path = run / "best.states" / "codes"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is damaged: a file is missing or was cut; run `pellucid remember"):
        open_store(run)


def test_text_that_changed_since_training_is_refused(run):
    # Another text, and not the one that other tests read.
    settings = (run / "run.toml").read_text(encoding="utf-8")
    source = Path(settings.split('source = "')[1].partition('"')[0])
    (run / "changed.txt").write_text(source.read_text(encoding="utf-8").replace("one", "six", 1), encoding="utf-8")
    (run / "run.toml").write_text(settings.replace(str(source), str(run / "changed.txt"), 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"is not what .*best was trained on: it has changed since"):
        remember(run)


def test_a_model_without_a_run_is_refused(run, tmp_path):
    shutil.copytree(run / "best", tmp_path / "alone" / "best")
    with pytest.raises(ValueError, match=r"run\.toml is missing: it names the text"):
        remember(tmp_path / "alone" / "best")


def test_something_else_in_the_way_is_not_replaced(run):
    (run / "best.states").mkdir()
    (run / "best.states" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="holds something other than states and is not replaced"):
        remember(run)


def test_a_wide_state_is_projected_so_that_a_token_takes_no_more_room():
    config = ModelConfig(101, 101, d_model=192, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1)
    torch.manual_seed(1)
    model = Transformer(config).eval()
    directions = state_store.output_directions(model)
    assert directions.shape == (192, state_store.WIDTH)
    assert directions.T @ directions == approx_sum(np.eye(state_store.WIDTH))
    # With 101 pieces W has 101 directions, so 128 lose nothing of any logit.
    states = torch.randn(7, 192)
    kept = torch.from_numpy(states.numpy() @ directions @ directions.T)
    assert_same_sums(model.logits(kept), model.logits(states))


def test_a_store_knows_each_corpus_by_its_files(run, tmp_path):
    from tests.training.corpora import mixed

    train_run(mixed(small_run(tmp_path / "text"), tmp_path / "text"), tmp_path / "mixed")
    remember(tmp_path / "mixed")
    store = open_store(tmp_path / "mixed")
    corpora = json.loads((tmp_path / "mixed" / "best.states" / "manifest.json").read_text())["corpora"]
    assert [corpus["pairs"] for corpus in corpora] == [89, 67, 41]
    assert store.place_of(88) == (tuple(corpora[0]["files"]), 89)
    assert store.place_of(89) == (tuple(corpora[1]["files"]), 1)
    assert store.place_of(196) == ((str(tmp_path / "text" / "rows.tsv"),) * 2, 41)
