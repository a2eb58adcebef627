import json
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from pellucid.serve.app import create_app
from pellucid.serve.corrections import Corrections
from pellucid.serve.settings import Limits
from tests.serve.servers import EN_ES, client, small_model

# The time limits are no part of the description: a trace may take long beside other busy processes.
LIMITS = Limits(characters=20, texts=3, alternatives=2, seconds=600, arrival=600)
CORRECTIONS = Corrections(Path(mkdtemp()) / "corrections.jsonl")
APP = create_app(small_model(), LIMITS, languages=EN_ES, hosts=None, corrections=CORRECTIONS)


@pytest.fixture(autouse=True, scope="module")
def built_page():
    """Serve a script also where none is built, or where it is just being built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pellucid.serve.trace_routes.read_script", lambda: "export default 1;")
        yield
    rmtree(CORRECTIONS.path.parent)


async def serve_requests_only(scope, receive, send):
    """Pass requests to the server; the start and stop of each test client must not stop the model's threads."""
    if scope["type"] == "http":
        return await APP(scope, receive, send)
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return None


REFUSED = ["403", "404", "405", "413", "415", "422"]
ANSWERED = ["2xx", "404"]
CONFIG = {
    "checks": {
        "negative_data_rejection": {"expected-statuses": REFUSED},
        "positive_data_acceptance": {"expected-statuses": ANSWERED},
    },
    # No description says which sentences have no words, or too many pieces for the model, or show nothing.
    "operations": [
        # A document of random bytes is none.
        {
            "include-path": "/translate_file",
            "checks": {
                "positive_data_acceptance": {"expected-statuses": [*ANSWERED, "400", "413", "422"]},
                "negative_data_rejection": {"expected-statuses": [*REFUSED, "400"]},
            },
        },
        # Argos Translate's client asks for them by POST.
        {"include-path": "/languages", "checks": {"unsupported_method": {"enabled": False}}},
        {"include-path": "/suggest", "checks": {"positive_data_acceptance": {"expected-statuses": [*ANSWERED, "422"]}}},
        {"include-path": "/trace", "checks": {"positive_data_acceptance": {"expected-statuses": [*ANSWERED, "422"]}}},
    ],
}
schema = schemathesis.openapi.from_asgi(
    "/openapi.json", serve_requests_only, config=schemathesis.Config.from_dict(CONFIG)
)


@schema.parametrize()
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_the_server_does_as_its_description_says(case):
    case.call_and_validate()


@pytest.fixture(scope="module")
def description():
    with client() as server:
        assert server.get("/spec").json() == server.get("/openapi.json").json()
        return server.get("/openapi.json").json()


def test_the_description_tells_the_limits(description):
    body = description["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
    fields = body["application/json"]["schema"]["properties"]
    assert fields["q"]["anyOf"][0]["maxLength"] == 5000
    assert fields["q"]["anyOf"][1]["maxItems"] == 64
    assert fields["alternatives"]["exclusiveMaximum"] == 8
    assert "alternatives" in body["multipart/form-data"]["schema"]["properties"]


def test_every_route_says_what_it_is_for_and_how_it_refuses(description):
    for path, methods in description["paths"].items():
        for method in methods.values():
            assert method["description"].endswith("."), path
            if path not in ("/health", "/metrics"):
                assert {"413", "421", "422", "429", "503"} <= set(method["responses"]), path
    assert "HTTPValidationError" not in json.dumps(description)


def test_no_page_loads_scripts_from_other_sites():
    with client() as server:
        assert [server.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]


def test_the_page_and_its_script_are_served_or_said_not_to_be_built(monkeypatch):
    with client() as server:
        monkeypatch.setattr("pellucid.serve.trace_routes.read_script", lambda: "export default 1;")
        assert '<div id="pellucid" data-host="page">' in server.get("/").text
        answer = server.get("/pellucid.js")
        assert (answer.text, answer.headers["Content-Type"]) == ("export default 1;", "text/javascript; charset=utf-8")
        for word in ("http", "//", "onload", "style="):
            assert word not in server.get("/").text.partition("<body>")[2]

        def unbuilt() -> str:
            raise ValueError("the page is not built: run `make page`")

        monkeypatch.setattr("pellucid.serve.trace_routes.read_script", unbuilt)
        assert server.get("/").status_code == 503
        assert "make page" in server.get("/").json()["error"]
        assert server.get("/health").status_code == 200
