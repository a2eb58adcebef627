"""The script and the manifests are sent compressed to those who take that, and the script only once."""

import pytest

from tests.serve.servers import client


@pytest.fixture(scope="module")
def server():
    with client() as test_client:
        yield test_client


def test_the_script_is_compressed_for_those_who_take_that_and_sent_once(server):
    plain = server.get("/pellucid.js", headers={"Accept-Encoding": "identity"})
    compressed = server.get("/pellucid.js", headers={"Accept-Encoding": "br;q=1.0, gzip;q=0.5"})
    if plain.status_code == 503:
        pytest.skip("the page is not built")
    assert "Content-Encoding" not in plain.headers
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert compressed.content == plain.content  # the client unpacks it
    assert int(compressed.headers["Content-Length"]) < 0.4 * len(plain.content)
    assert {plain.headers["Vary"], compressed.headers["Vary"]} == {"Accept-Encoding"}
    again = server.get("/pellucid.js", headers={"If-None-Match": compressed.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_manifest_of_a_trace_is_compressed_and_kept_by_nobody(server):
    made = server.post("/trace", json={"sentence": "Yes."}, headers={"Accept-Encoding": "gzip"})
    assert made.headers["Content-Encoding"] == "gzip"
    assert made.headers["Cache-Control"] == "no-store"  # a sentence is private
    assert int(made.headers["Content-Length"]) < 0.5 * len(made.content)
    plain = server.get(f"/trace/{made.json()['id']}/manifest.json", headers={"Accept-Encoding": "identity"})
    assert plain.json() == made.json()
