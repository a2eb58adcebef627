"""The file, the frame and the widget in a browser; skipped if there is no browser, or the page is not built."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pellucid.api import Model
from pellucid.decode.translator import Translator
from pellucid.interpret.page.html_file import (
    KEEP_CHOICES,
    SCRIPT_PATH,
    manifest_with_answers,
    page_html,
    read_script,
    save_html,
)
from pellucid.interpret.page.widget import PageQuestions, frame_html
from pellucid.interpret.trace.session import perform_act
from pellucid.store.directory import load_bundle, save_bundle
from tests.browser.watched import launch_chromium
from tests.decode.models import random_model, small_tokenizer
from tests.page.browser import open_tab

HOSTILE = "</script><img src=x onerror=window.harmed=1>"

INFLATED = """async () => {
  const digests = {};
  for (const block of document.querySelectorAll("script[data-tensor], script[data-parameter]")) {
    const packed = Uint8Array.from(atob(block.textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const digest = await crypto.subtle.digest("SHA-256", await new Response(stream).arrayBuffer());
    const name = block.dataset.tensor ?? block.dataset.parameter;
    digests[name] = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  return digests;
}"""

REACHES_OUT = "() => { try { return parent.document.body.innerText } catch (error) { return error.name } }"

HOSTED = """async (text) => {
  const module = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const listeners = [];
  const view = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const model = {
    on: (event, listener) => listeners.push(listener),
    send: async (content) => {
      const [answer, buffers] = await window.python(content);
      for (const listener of listeners) listener(answer, buffers.map(view));
    },
  };
  window.leave = module.default.render({ model, el: document.body });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser, because starting it takes as long as a test."""
    with launch_chromium() as chromium_browser:
        yield chromium_browser


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    if not SCRIPT_PATH.exists():
        pytest.skip("the page is not built: `make page` builds it")
    vocabulary = small_tokenizer().source_vocabulary
    directory = tmp_path_factory.mktemp("runs") / "best"
    save_bundle(directory, random_model(1, vocabulary, vocabulary), small_tokenizer(), step=0)
    bundle = load_bundle(directory)
    translator = Translator(bundle.model, bundle.tokenizer)
    return Model(bundle, translator).trace("The black cat drank the milk.", target="El gato negro bebió la leche.")


@pytest.mark.slow  # test_files.py of tests/browser opens one file
def test_every_file_opens_without_a_network_and_its_blocks_are_those_of_its_manifest(trace, browser, tmp_path):
    with open_tab(browser) as tab:
        urls = []
        tab.context.set_offline(True)
        tab.on("request", lambda request: urls.append(request.url))
        for keep in KEEP_CHOICES:
            path = tmp_path / f"{keep}.html"
            save_html(trace, path, keep)
            tab.goto(path.as_uri())
            tab.get_by_text("El gato negro bebió la leche.").first.wait_for()
            manifest = json.loads(tab.locator("#pellucid-manifest").text_content())
            rows = [row for row in (*manifest["tensors"], *manifest["parameters"]) if row["captured"]]
            assert tab.evaluate(INFLATED) == {row["name"]: row["sha256"] for row in rows}
        own_urls = ("data:", *((tmp_path / f"{keep}.html").as_uri() for keep in KEEP_CHOICES))
        assert [url for url in urls if not url.startswith(own_urls)] == []


def test_hostile_text_is_harmless_in_a_file_and_in_the_notebook_around_it(trace, browser, tmp_path):
    manifest = json.loads(json.dumps(manifest_with_answers(trace)))
    for side in ("source", "target"):
        manifest[side] |= {"text": f"a {HOSTILE}", "normalised": HOSTILE}
        manifest[side]["pieces"][1] = HOSTILE
    manifest["axes"]["S"]["labels"][1] = manifest["steps"][0]["chosen"]["piece"] = HOSTILE
    manifest["notes"] = [HOSTILE]
    text = page_html(trace, manifest, "float32")
    (tmp_path / "out.html").write_text(text, encoding="utf-8")
    with open_tab(browser) as tab:
        tab.goto((tmp_path / "out.html").as_uri())
        assert_harmless(tab)
        tab.set_content(f"<!doctype html><body><p>a notebook</p>{frame_html(text)}")
        [_, frame] = tab.frames
        assert_harmless(frame)
        assert tab.locator("img").count() == 0
        assert frame.evaluate(REACHES_OUT) == "SecurityError"


def assert_harmless(frame) -> None:
    """Walk through views that show pieces, and find the hostile text there as text."""
    frame.get_by_text(HOSTILE).first.wait_for()
    for name in ("Pieces", "Output", "Alignment"):
        frame.get_by_text(name, exact=True).first.click()
        frame.wait_for_timeout(100)
    assert frame.evaluate("window.harmed") is None
    assert frame.locator("img").count() == 0


def test_a_widget_gets_its_numbers_from_python_and_can_ask_for_another_sentence(trace, browser):
    page_questions = PageQuestions(trace, perform_act)
    questions = []

    def python(content):
        questions.append(content)
        answer, buffers = page_questions(content)
        return [answer, [base64.b64encode(buffer).decode() for buffer in buffers]]

    with open_tab(browser) as tab:
        tab.expose_function("python", python)
        tab.set_content("<!doctype html><body>")
        tab.evaluate(HOSTED, read_script())
        tab.get_by_text("El gato negro bebió la leche.").first.wait_for()
        tab.get_by_role("textbox").first.fill("Yes.")
        tab.get_by_role("button", name="Translate").first.click()
        tab.wait_for_timeout(100)
        tab.get_by_text("▁Yes").first.wait_for()
        new_traces = [question["trace"] for question in questions if question["trace"]]
        assert new_traces
        assert {"manifest", "tensor", "act"} <= {question["ask"] for question in questions}
        tab.evaluate("window.leave()")
        assert tab.locator("body").inner_text().strip() == ""
