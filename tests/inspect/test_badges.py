import json

import pytest

from pellucid.interpret.studies.roles import badges_path, list_heads, read_badges
from pellucid.interpret.trace.session import perform_act
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import small_tokenizer
from tests.trace.traced import small_traced


@pytest.fixture
def saved(tmp_path):
    """A model directory."""
    model = small_traced()
    directory = tmp_path / "best"
    save_bundle(directory, model.bundle.model, small_tokenizer(), step=0)
    return load_bundle(directory)


def badges_table(saved, **changes):
    heads = [
        {
            "attention": attention,
            "head": head,
            "badges": [{"mark": "R", "says": "reads the rarest", "share": 0.7, "beside": 0.2}] if head else [],
            "silent": 0.01 * head,
            "error": None,
            "gradient": 0.5,
        }
        for attention, head in list_heads(saved.model.config)
    ]
    files = saved.manifest["files"]
    table = {"format": 1, "sha256": files["model.safetensors"]["sha256"], "pairs": 31, "loss": 2.5, "rules": {"R": "x"}}
    return {**table, "heads": heads, **changes}


def write_badges(saved, table):
    badges_path(saved).write_text(table if isinstance(table, str) else json.dumps(table), encoding="utf-8")


def test_badges_stand_beside_the_model_directory(saved):
    assert badges_path(saved) == saved.directory.parent / "best.heads.json"
    write_badges(saved, badges_table(saved))
    badges = read_badges(saved)
    assert len(badges["heads"]) == 3 * (2 + 2 * 3)
    assert badges["pairs"] == 31


def broken_head(saved, **changes):
    table = badges_table(saved)
    return {**table, "heads": [{**table["heads"][0], **changes}, *table["heads"][1:]]}


@pytest.mark.parametrize(
    ("make_content", "says"),
    [
        (lambda saved: badges_table(saved, sha256="0" * 64), "was made with other weights"),
        (
            lambda saved: badges_table(saved, format=2),
            "is no file of badges that this program reads",
        ),
        (lambda saved: [1], "is no file of badges"),
        (lambda saved: "{", "cannot be read"),
        (lambda saved: badges_table(saved, pairs="many"), r"is damaged: badges\.pairs is 'many'"),
        (lambda saved: badges_table(saved, loss=float("nan")), r"is damaged: badges\.loss is nan"),
        (lambda saved: badges_table(saved, rules={"R": 3}), r"is damaged: badges\.rules\.R is 3"),
        (lambda saved: badges_table(saved, heads={}), r"is damaged: badges\.heads is {}"),
        (
            lambda saved: badges_table(saved, heads=badges_table(saved)["heads"][1:]),
            "names other heads",
        ),
        (lambda saved: broken_head(saved, head=99), "names other heads"),
        (lambda saved: broken_head(saved, silent=None), r"badges\.heads\[0\]\.silent is None"),
        (lambda saved: broken_head(saved, badges=[{"mark": 1}]), r"badges\.heads\[0\]\.badges\[0\]\.mark is 1"),
    ],
)
def test_a_wrong_file_is_refused_with_the_command(saved, make_content, says):
    write_badges(saved, make_content(saved))
    with pytest.raises(ValueError, match=says) as error:
        read_badges(saved)
    assert f"pellucid inspect heads {saved.directory}" in str(error.value)


def test_a_missing_file_is_answered_with_the_command(saved):
    with pytest.raises(ValueError, match="were not studied; run: pellucid inspect heads"):
        read_badges(saved)
    trace = small_traced().trace("Yes.", beam=1)
    answer = perform_act(trace, "heads", {})
    assert isinstance(answer, dict)
    assert answer["study"] is None
    assert "were not studied" in answer["says"]


def test_a_large_file_is_not_read(saved, monkeypatch):
    monkeypatch.setattr("pellucid.interpret.studies.roles.LARGEST_FILE", 10)
    write_badges(saved, badges_table(saved))
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_badges(saved)
