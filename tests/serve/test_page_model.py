"""The model that a server gives its page: every weight as it is, sent once, or refused with the reason."""

import json
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from pellucid.serve.gate import SECURITY_HEADERS, ApiKeys
from pellucid.store.directory import Bundle
from tests.serve.servers import client, small_model
from tests.serve.test_keys import KEY, basic_header


@pytest.fixture(autouse=True)
def built_page(monkeypatch):
    """Take some text for the scripts, which may not be built."""
    monkeypatch.setattr("pellucid.interpret.page.html_file.read_script", lambda path=None: "script")
    monkeypatch.setattr("pellucid.serve.trace_routes.read_script", lambda: "script")


def refusal(model=None, **options) -> str:
    """Return the reason why a server gives no model."""
    with client(model, **options) as server:
        response = server.get("/model")
    assert response.status_code == 200
    return json.loads(response.content)["refusal"]


def test_every_weight_and_tokenizer_arrives_as_it_is():
    with client() as server:
        facts = server.post("/trace", json={"sentence": "The ball is blue."}).json()["model"]
        head, _, data = server.get("/model").content.partition(b"\n")
    head = json.loads(head)
    assert [head["sha256"], head["tokenizer_sha256"]] == [facts["sha256"], facts["tokenizer_sha256"]]
    assert [head["engine"], head["header"]["precision"]] == ["script", "float32"]
    blocks, end = {}, 0
    for key, size in head["sizes"].items():
        blocks[key], end = data[end : end + size], end + size
    assert end == len(data)
    bundle = small_model().bundle
    for name, parameter in bundle.model.named_parameters():
        values = np.frombuffer(blocks.pop(f"parameter {name}"), "<f4").reshape(parameter.shape)
        np.testing.assert_array_equal(values, parameter.detach().numpy())
    assert blocks == {"tokenizer source": bundle.tokenizer.source.serialized_model_proto()}


def test_a_browser_that_has_the_model_is_not_sent_it_again():
    with client() as server:
        first = server.get("/model")
        again = server.get("/model", headers={"If-None-Match": first.headers["ETag"]})
        other = server.get("/model", headers={"If-None-Match": '"another"'})
    assert first.headers["Cache-Control"] == "private, no-cache"
    assert [again.status_code, again.content] == [304, b""]
    assert [other.status_code, other.content] == [200, first.content]


def test_a_model_that_the_page_is_not_to_compute_is_refused_with_the_reason():
    size = 4 * sum(parameter.numel() for parameter in small_model().bundle.model.parameters())
    assert refusal(page_bytes=size - 1).startswith("its weights have ")
    with client(page_bytes=size) as server:
        assert b"refusal" not in server.get("/model").content.partition(b"\n")[0]

    class OwnNorm(nn.LayerNorm):
        pass

    model = deepcopy(small_model().bundle.model)
    model.encoder_norm = OwnNorm(model.config.d_model)
    bundle = small_model().bundle
    own = Bundle(model, bundle.tokenizer, bundle.manifest, bundle.directory)
    reason = refusal(replace(small_model(), bundle=own))
    assert reason.startswith("the page computes only parts of Pellucid's own: ")
    assert "OwnNorm" in reason
    unsaved = Bundle(bundle.model, bundle.tokenizer, {}, bundle.directory)
    assert refusal(replace(small_model(), bundle=unsaved)) == "the model was never saved"


def test_the_model_needs_a_key_as_its_traces_do():
    with client(keys=ApiKeys([KEY])) as server:
        assert server.get("/model").status_code == 401
        assert server.get("/model", headers=basic_header(KEY)).status_code == 200


def test_only_the_page_itself_may_start_workers():
    with client() as server:
        policy = server.get("/").headers["Content-Security-Policy"]
        assert policy == SECURITY_HEADERS["Content-Security-Policy"] + "; worker-src blob:"
        assert server.get("/examples").headers["Content-Security-Policy"] == SECURITY_HEADERS["Content-Security-Policy"]
