"""Run files: every key is checked, every problem is named, and a file that is written reads back as the same run."""

import re

import pytest

from pellucid.config import apply_overrides, build_settings, read_toml, to_toml
from pellucid.model import PRESETS
from pellucid.training.config import OptimConfig, RunConfig, make_run, read_run
from pellucid.workflows.plan.estimate import stand_in_run

DATA = {"source": "a.en", "target": "a.es"}


def make_small_run(**sections):
    return make_run({"data": DATA, "train": {"steps": 7}, **sections})


def test_every_key_but_data_and_length_has_a_default():
    assert make_small_run().optim == OptimConfig()
    assert make_small_run().model.config(300, 300, joint=True).tie == "all"
    assert make_small_run().model.config(300, 200, joint=False).tie == "decoder"


def test_a_typo_names_the_nearest_key():
    with pytest.raises(
        ValueError, match=r"unknown key 'optim.warm_up'; did you mean 'warmup'\? \(known: kind, peak, warmup, "
    ):
        make_small_run(optim={"warm_up": 3})
    with pytest.raises(ValueError, match="unknown key 'modle'; did you mean 'model'"):
        make_small_run(modle={})


@pytest.mark.parametrize(
    ("section", "setting", "value", "harmless"),
    [
        ("optim", "r_drop", 5.0, 0.0),
        ("data", "bpe_dropout", 0.1, 0.0),
        ("train", "average", "best", "last"),
        ("train", "compile", True, False),
    ],
)
def test_a_setting_that_was_removed_is_refused_unless_it_changes_nothing(section, setting, value, harmless):
    tables = {"data": DATA, "train": {"steps": 7}}
    with pytest.raises(
        ValueError, match=rf"{section}\.{setting} = {value!r}: this setting was removed, version 0\.[12] was the last"
    ):
        make_run({**tables, section: {**tables.get(section, {}), setting: value}})
    assert make_run({**tables, section: {**tables.get(section, {}), setting: harmless}}) == make_run(tables)


def test_all_problems_are_named_at_once():
    with pytest.raises(ValueError, match="unknown key") as error:
        make_small_run(optim={"warm_up": 3, "peak": "fast"}, model={"size": "huge"})
    for problem in ("'optim.warm_up'", "'optim.peak' is 'fast'", "'model.size' is 'huge'"):
        assert problem in str(error.value)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"train": {}}, "neither train.steps nor train.minutes"),
        ({"train": {"steps": 5, "minutes": 2}}, "both given"),
        ({"train": {"steps": 0}}, "'train.steps' is 0: it must be greater than 0"),
        ({"train": {"steps": 5, "keep": -1}}, "'train.keep' is -1"),
        ({"data": {"source": "a"}}, "name either source and target or train, not half of it"),
        ({"data": {**DATA, "train": "b.tsv"}}, "not both"),
        ({"data": {}}, "no sentences to train on"),
        ({"model": {"d_model": 30, "heads": 4}}, "d_model 30 cannot be split into 4 heads"),
        ({"model": {"tie": "all"}, "tokenizer": {"joint": False}}, "needs tokenizer.joint = true"),
        ({"model": {"max_positions": 100}}, "data.max_pieces 256 is more than model.max_positions 100"),
        ({"tokenizer": {"kind": "words"}}, "kind"),
        ({"optim": {"beta2": 1.0}}, "'optim.beta2' is 1.0: it must be less than 1"),
        ({"seed": -1}, "'seed' is -1"),
        ({"data": {**DATA, "source": "${PELLUCID_NOT_SET}/a"}}, "environment variable PELLUCID_NOT_SET"),
    ],
)
def test_an_impossible_run_is_refused_with_the_reason(sections, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_small_run(**sections)


def test_a_run_file_read_back_is_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CORPORA", str(tmp_path))
    file = tmp_path / "run.toml"
    file.write_text(
        '\ufeffseed = 3\n[data]\nsource = "a.en"\ntarget = "${CORPORA}/x \\"y\\".es"\n[train]\nminutes = 2.5\n'
        '[model]\nsize = "small"\nd_ff = 96\n',
        encoding="utf-8",
    )
    settings = read_run(file, ["optim.peak=1e-4", "model.norm=post", "tokenizer.lowercase=true"])
    assert settings.data.source == str(tmp_path / "a.en")
    assert settings.data.target == str(tmp_path / 'x "y".es')
    assert (settings.optim.peak, settings.model.norm, settings.tokenizer.lowercase) == (1e-4, "post", True)
    assert settings.model.config(300, 300, joint=True).d_ff == 96
    copy = tmp_path / "again.toml"
    copy.write_text(to_toml(settings), encoding="utf-8")
    assert read_run(copy) == settings
    assert "# learning rate at the end of the warm-up" in to_toml(settings)


def test_a_file_that_is_not_toml_is_named(tmp_path):
    file = tmp_path / "run.toml"
    file.write_bytes(b"seed = = 3")
    with pytest.raises(ValueError, match=r"run.toml is not a TOML file: .*line 1"):
        read_toml(file)
    file.write_bytes(b"seed = '\xff'")
    with pytest.raises(ValueError, match=r"run.toml is not a TOML file"):
        read_toml(file)


def test_a_text_that_is_given_as_a_run_file_is_told_from_one(tmp_path):
    file = tmp_path / "pairs.txt"
    file.write_bytes(b"\xef\xbb\xbfsource\ttarget\nYes.\tS\xc3\xad.\n")
    message = (
        rf"^{file} is not a TOML file: .*line 1.*\. A run file holds settings, .* begins with 'source\\ttarget'\. .*"
        rf"give --source {file} and their translations as --target; if it holds pairs .* end in \.tsv and"
    )
    for read in (read_run, stand_in_run):
        with pytest.raises(ValueError, match=message):
            read(file)
    file = file.rename(tmp_path / "run.toml")
    with pytest.raises(ValueError, match=r"is not a TOML file: [^.]*line 1[^.]*$"):
        read_run(file)


def test_an_override_of_steps_replaces_minutes_and_the_other_way_round(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[data]\nsource = "a.en"\ntarget = "a.es"\n[train]\nminutes = 30\n', encoding="utf-8")
    assert read_run(file).train.minutes == 30
    for overrides, length in [
        (["train.steps=500"], (500, None)),
        (["seed=2", " train.minutes = 4"], (None, 4)),
        (["train.steps=500", "train.minutes=4"], (None, 4)),
        (["train.minutes=4", "train.steps=500"], (500, None)),
    ]:
        train = read_run(file, overrides).train
        assert (train.steps, train.minutes) == length
    assert stand_in_run(file, ["train.steps=7"]).train.minutes is None
    file.write_text("train = 3", encoding="utf-8")
    with pytest.raises(ValueError, match="'train' is a value, not a section"):
        read_run(file, ["train.steps=5"])


@pytest.mark.parametrize("override", ["train.steps", "=5", "train.=5", ".steps=5"])
def test_a_malformed_override_is_refused_with_the_right_form(override):
    with pytest.raises(ValueError, match="is not KEY=VALUE"):
        apply_overrides({}, [override])


def test_an_override_through_a_value_is_refused():
    with pytest.raises(ValueError, match="'seed' is a value, not a section"):
        apply_overrides({"seed": 1}, ["seed.x=1"])


def test_sizes_have_the_papers_numbers():
    assert PRESETS["base"] == {"d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6}
    assert PRESETS["big"]["d_model"] == 1024
    assert PRESETS["big"]["heads"] == 16


def test_built_settings_are_frozen():
    settings = build_settings(RunConfig, {"data": DATA, "train": {"steps": 1}}, "here")
    with pytest.raises(AttributeError):
        settings.seed = 5  # pyright: ignore[reportAttributeAccessIssue]
