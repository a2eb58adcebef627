"""Models are fetched from the Hub by name, without pickles, and uploaded with a card; each refusal is one sentence."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import load
from pellucid.store.directory import load_bundle
from tests.cli.conftest import call as call
from tests.cli.conftest import model as model
from tests.interop.hub_server import TOKEN, HubServer, hub_server
from tests.interop.marian_models import quiet, write_marian_model

constants = pytest.importorskip("huggingface_hub.constants")

pytestmark = quiet

NAME = "Helsinki-NLP/opus-mt-en-es"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a Hub that has one Marian model with a pickle beside its weights, and let huggingface_hub ask it."""
    folder = write_marian_model(tmp_path / "on_the_hub")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "README.md").write_text("a card", "utf-8")
    with hub_server(NAME, folder) as server:
        ask_at(f"http://127.0.0.1:{server.server_port}", monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        yield server


def ask_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let huggingface_hub take this address for the Hub's, as HF_ENDPOINT does before it is imported."""
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")


def refusal(result: Any) -> str:
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.output
    return result.stderr


def test_a_model_is_imported_by_its_name_without_its_pickle(call: Any, hub: HubServer, tmp_path: Path):
    result = call("import", NAME, tmp_path / "ours")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "model.safetensors" in hub.fetched
    assert not {"pytorch_model.bin", "README.md"} & set(hub.fetched)
    call("import", tmp_path / "on_the_hub", tmp_path / "from_directory")
    fetched, by_hand = load(tmp_path / "ours"), load(tmp_path / "from_directory")
    assert fetched.manifest["imported"]["from"] == NAME
    assert fetched.manifest["languages"] == {"source": "en", "target": "es"}
    assert "languages" not in by_hand.manifest
    lines = ["The ball.", "no water"]
    assert [line.text for line in fetched.translate(lines)] == [line.text for line in by_hand.translate(lines)]


def test_a_model_that_was_fetched_is_imported_again_without_a_network(
    call: Any, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert call("import", NAME, tmp_path / "ours").exit_code == 0
    ask_at("http://127.0.0.1:9", monkeypatch)
    assert call("import", NAME, tmp_path / "again").exit_code == 0
    assert load_bundle(tmp_path / "again").manifest["files"] == load_bundle(tmp_path / "ours").manifest["files"]


def test_what_cannot_be_fetched_is_said_in_one_sentence(
    call: Any, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert "the Hub has no model someone/else that is open to you" in refusal(call("import", "someone/else", "ours"))
    assert f"{NAME} has no such revision" in refusal(call("import", f"{NAME}@v2", "ours"))
    (hub.folder / "model.safetensors").unlink()
    message = refusal(call("import", NAME, "ours"))
    assert f"{NAME} has no model.safetensors at its revision main, and pickles are not fetched" in message
    assert f"{NAME}@refs/pr/NUMBER" in message
    ask_at("http://127.0.0.1:9", monkeypatch)
    by_hand = "hf download a/b --local-dir b"
    assert f"a/b cannot be fetched; on a machine with a network: {by_hand}" in refusal(call("import", "a/b", "ours"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    message = refusal(call("import", "a/b", "ours"))
    assert f"to fetch the model of that name: pip install 'pellucid[hub]'; or, by hand: {by_hand}" in message
    assert not (tmp_path / "ours").exists()


def test_a_misspelled_path_is_not_looked_for_on_the_hub(call: Any, hub: HubServer, tmp_path: Path):
    (tmp_path / "Helsinki-NLP").mkdir()
    assert "is not a directory with a model of Hugging Face" in refusal(call("import", NAME, "ours"))
    assert not hub.fetched


def test_a_model_is_uploaded_whole_with_a_card(
    call: Any, hub: HubServer, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
):
    (model.parent / "notes.txt").write_text("not of the model", "utf-8")
    assert f"the Hub has no model {NAME} that is open to you" in refusal(call("push", model, NAME))
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    assert "log in with a token that may read it" in refusal(call("push", model, NAME))
    assert not hub.uploaded
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    result = call("push", model, NAME, "--private")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert result.stdout == f"{constants.ENDPOINT}/{NAME}\n"
    assert '"private"' in json.dumps(hub.created)
    card = hub.uploaded.pop("README.md").decode()
    assert hub.uploaded == {path.name: path.read_bytes() for path in model.iterdir()}
    assert f"hf download {NAME} --local-dir model" in card
    (tmp_path / "card.md").write_text("My card\n", "utf-8")
    assert call("push", model, NAME, "--card", "card.md").exit_code == 0
    assert hub.uploaded["README.md"] == b"My card\n"
    (tmp_path / "downloaded").mkdir()
    for name, content in hub.uploaded.items():
        (tmp_path / "downloaded" / name).write_bytes(content)
    assert load(tmp_path / "downloaded").translate("Yes.").text == load(model).translate("Yes.").text


def test_a_card_says_what_the_manifest_says(call: Any, model: Path, tmp_path: Path):
    from pellucid.store.directory import save_bundle

    bundle = load_bundle(model)
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    about = {
        "data": "6559dbb3",
        "pairs": [{"corpus": "train.en", "read": 1237, "trained_on": 1201}],
        "step": 834,
        "languages": {"source": "en", "target": "es"},
        "dev": {"bleu": 41.25, "signatures": {"bleu": signature}},
    }
    save_bundle(tmp_path / "told", bundle.model, bundle.tokenizer, **about)
    result = call("push", "told", "someone/told", "--card", "card.md")
    assert (result.exit_code, result.stderr) == (0, "")
    card = (tmp_path / "card.md").read_text("utf-8")
    head = "---\nlibrary_name: pellucid\npipeline_tag: translation\nlanguage:\n- en\n- es\n---\n# someone/told\n"
    assert card.startswith(head)
    for fact in (
        f"{sum(p.numel() for p in bundle.model.parameters()):,} weights, 2 + 3 layers",
        f"- bleu 41.25, `{signature}`",
        "`train.en`: 1,201 pairs trained on of 1,237 read",
        "training text: `6559dbb3`",
        "updates: 834",
        json.loads((tmp_path / "told" / "manifest.json").read_text("utf-8"))["sha256"],
    ):
        assert fact in card


def test_a_wrong_name_is_refused(call: Any, model: Path, tmp_path: Path):
    message = refusal(call("push", model, "told", "--card", "card.md"))
    assert "'told' is not a name on the Hub: OWNER/MODEL" in message
    assert not (tmp_path / "card.md").exists()
