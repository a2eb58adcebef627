"""Routes of the glass box: the page, and traces whose numbers are fetched when a client looks at them."""

import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from io import BytesIO
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, RootModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from pellucid.interpret.page.html_file import read_script, trace_page
from pellucid.interpret.trace.edits import EditList
from pellucid.interpret.trace.facts import model_facts
from pellucid.interpret.trace.model_page import pack_model
from pellucid.interpret.trace.session import Drawing, choose_target
from pellucid.interpret.trace.untrusted import read_strictly
from pellucid.serve.bodies import JSON, Refusal, documented_responses, read_form, refuse_long_text
from pellucid.serve.gate import SECURITY_HEADERS
from pellucid.serve.service import Service

_BINARY = "application/octet-stream"

MOST_BYTES = 2**24  # most bytes of one answer with numbers; a client that wants more asks for rows
_MOST_TENSORS = 1000  # most tensors of one answer; a page asks for a few dozen at a time
_ACTS = {  # questions about a trace, or about its model, with the fields of their bodies
    "account": 'Split a logit into the parts it came from: {"step", "piece", "other"}.',
    "checks": "Check whether the numbers hold together: {}.",
    "verdict": 'Say why the translation may be bad: {"reference"}.',
    "edit": 'Trace the sentence again with the run changed, as a new trace: {"edits", "keep_target"}.',
    "words": 'The pieces of one table in two dimensions: {"side"}, one of the sides whose tables differ.',
    "neighbours": 'The pieces nearest to one: {"side", "piece"}.',
    "similar": 'The cosines of some words: {"side", "words"}.',
    "analogy": 'The pieces nearest to a sum of words: {"side", "question", "expected"}.',
    "masking": "The logits computed step by step, at once with the mask, and at once without it: {}.",
    "identity": 'The diagonals of the cross-attention on another sentence: {"sentence", "target"}.',
    "heads": "Name and cost of each head, from the file beside the model: {}.",
    "training": 'Losses of a translation, a batch with another sentence, an update, checkpoints: {"target", "beside"}.',
    "influence": 'The training pairs that made a word of the translation likelier, and those against it: {"word"}.',
}

_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Pellucid</title>
</head>
<body>
<div id="pellucid" data-host="page"></div>
<noscript>This page draws what the model computes, and needs JavaScript for it.</noscript>
<script type="module" src="pellucid.js"></script>
</body>
</html>
"""


class TraceRequest(BaseModel):
    """A sentence to trace, and how."""

    sentence: Annotated[str, Field(description="the sentence to translate and trace")]
    context: Annotated[
        str, Field(description="the sentence before, for a model that was trained with context")
    ] = ""
    segment: Annotated[
        int | None,
        Field(ge=1, description="which part of a line that is translated in several, 1 first"),
    ] = None
    target: Annotated[
        str | None, Field(description="a translation to look at instead of the search's own")
    ] = None
    beam: Annotated[int, Field(ge=1, description="hypotheses kept at each step")] = 4
    # Only the first invalid id is reported: each of 500,000 errors would take a kilobyte.
    target_ids: Annotated[
        list[int] | None,
        Field(
            description="the target as ids of its pieces, with or without EOS, the end token",
            fail_fast=True,
        ),
    ] = None
    prefix_ids: Annotated[
        list[int] | None, Field(fail_fast=True, description="pieces the translation begins with")
    ] = None
    edits: Annotated[
        list[Any] | None, Field(description="changes to the run, as those of {identity}/edit")
    ] = None
    drawing: Annotated[
        dict[str, Any] | None,
        Field(
            description='draw the translation by chance: {"temperature", "top_k", "top_p", "seed"}'
        ),
    ] = None
    model: Annotated[
        str | None,
        Field(
            pattern="^[0-9a-f]{0,64}$",
            description="the beginning of the SHA-256 of the weights; another model refuses the request",
        ),
    ] = None


class _ActArguments(RootModel[dict[str, Any]]):
    """Arguments of an act by name; `perform_act` checks each of them."""


class Text(BaseModel):
    """A text that is being typed."""

    text: Annotated[str, Field(description="the text whose words are looked up")]


def page_routes(service: Service) -> APIRouter:
    """Make the routes GET /, /pellucid.js, /model and /examples, and POST /rare-words."""
    router = APIRouter(tags=["page"])

    @router.get("/", **answers("text/html"))
    def page() -> Response:
        """Return the page that shows what the model computes."""
        # Refuse here rather than send a page that would stay empty.
        _page_script()
        # The engine of the page runs in a worker, whose script comes with the model.
        policy = f"{SECURITY_HEADERS['Content-Security-Policy']}; worker-src blob:"
        return HTMLResponse(_DOCUMENT, headers={"Content-Security-Policy": policy})

    @router.get("/pellucid.js", **answers("text/javascript"))
    def javascript(request: Request) -> Response:
        """Return the script of the page, which a browser keeps and asks for only whether it is still the same."""
        script = _page_script().encode()
        headers = {"ETag": f'"{sha256(script).hexdigest()}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return _compressed_response(request, script, "text/javascript", headers)

    @router.get("/model", **answers(_BINARY))
    def model(request: Request) -> Response:
        """Return the model that the page looks into, with which the page computes changes to a trace by itself.

        First comes a line of JSON, then the numbers that it lists. Where the
        line holds `refusal`, that is why there are none.
        """
        loaded = service.model
        try:
            head, blocks = pack_model(loaded.bundle, loaded.translator, service.limits.page_bytes)
        except ValueError as error:
            # No error status: a browser would show that as a fault
            # of the page, which goes on without.
            return JSONResponse({"refusal": str(error)}, media_type=_BINARY)

        # Kept by the browser, but asked for each time: the model may have been replaced.
        headers = {"ETag": f'"{sha256(head).hexdigest()}"', "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return StreamingResponse(chain([head], blocks), media_type=_BINARY, headers=headers)

    @router.get("/examples", **answers(JSON))
    def examples() -> Response:
        """Return sentences to try with what is special about them, the languages and the number of training pairs.

        `references` are their translations by people, as far as they are known. `doubts` counts
        how well the words that the model is least sure of tell its mistakes. `pending` is true
        while mistakes of the model are still sought.
        """
        # Read before the mistakes: if the study ends in between, an answer
        # without them must not say that it ended.
        pending = service.is_studying_mistakes
        text = service.training_text
        codes = service.directions.first.languages.codes or text.languages
        chosen = text.choose_examples(codes[0] if codes else None, service.mistake)
        answer = {
            "sentences": list(chosen),
            "notes": chosen,
            "references": text.find_references(chosen),
            "languages": codes,
            "pairs": text.pairs,
            "doubts": None if service.doubt_counts is None else asdict(service.doubt_counts),
            "pending": pending,
        }
        return JSONResponse(answer)

    @router.post("/rare-words", **answers(JSON, 403, 415), **_takes_json(Text.model_json_schema()))
    async def rare_words(request: Request) -> Response:
        """Return the words of a text that are rare in the training text, with their counts; null if it is unknown."""
        form = await read_form(request, Text)
        refuse_long_text(len(form.text), service.limits.characters)
        # In a thread: the first call counts the words of the whole training text.
        words = await run_in_threadpool(service.training_text.find_rare_words, form.text)
        return JSONResponse({"words": words})

    return router


def trace_routes(service: Service) -> APIRouter:
    """Make the route POST /trace, and the routes of everything under /trace/{identity}."""
    router = APIRouter(prefix="/trace", tags=["glass box"])
    # One thread: traces are made and asked one at a time.
    limits, worker = service.limits, service.trace_worker
    schema = TraceRequest.model_json_schema()
    schema["properties"]["sentence"]["maxLength"] = limits.characters
    schema["properties"]["beam"]["maximum"] = limits.beam

    @router.post("", **answers(JSON, 403, 409, 415, 504), **_takes_json(schema))
    async def trace(request: Request) -> Response:
        """Translate a sentence, keep every number, and return the manifest for the page."""
        form = await read_form(request, TraceRequest)
        characters = len(form.sentence) + len(form.context) + len(form.target or "")
        refuse_long_text(characters, limits.characters)
        if form.beam > limits.beam:
            raise Refusal(422, f"beam: this server looks with {limits.beam} at most")
        here = model_facts(service.model.bundle)
        if form.model is not None and not here.sha256.startswith(form.model):
            # Its ids and heads would have other meanings here.
            raise Refusal(
                409,
                f"this link or question belongs to another model, whose weights have the SHA-256 {form.model:.12}…; "
                f"here is {here.name} ({here.sha256[:12] or 'never saved'}…): serve the other model, or ask for the "
                "sentence alone",
            )

        try:
            target = choose_target(form.target, form.target_ids)
            edits = read_strictly(EditList, form.edits or [], "edits")
            drawing = None
            if form.drawing is not None:
                drawing = read_strictly(Drawing, form.drawing, "drawing")
        except ValueError as error:
            raise Refusal(422, str(error)) from None

        def trace_and_store() -> bytes:
            options = {
                "context": form.context,
                "beam": form.beam,
                "prefix_ids": tuple(form.prefix_ids or ()),
            }
            model = service.directions.model(service.directions.first)
            made = model.trace(
                form.sentence,
                target=target,
                edits=edits,
                drawing=drawing,
                segment=form.segment,
                **options,
            )
            return service.traces.store(made).manifest

        manifest = await service.answer(request, worker, trace_and_store)
        return await run_in_threadpool(_compressed_response, request, manifest, JSON)

    @router.get("/{identity}/manifest.json", **answers(JSON, 404))
    def manifest(identity: str, request: Request) -> Response:
        """Return the manifest of a trace: what there is to see of it."""
        return _compressed_response(request, service.get_trace(identity).manifest, JSON)

    @router.get("/{identity}/t/{name}", **answers(_BINARY, 404))
    def tensor(identity: str, name: str, rows: str | None = None) -> Response:
        """Return a tensor as float32, little-endian, the last dimension fastest; rows=a:b of the first."""
        return _numbers_response(service.get_trace(identity).trace.tensor, [name], rows)

    @router.get("/{identity}/tensors", **answers(_BINARY, 404))
    def tensors(
        identity: str, name: Annotated[list[str], Query(max_length=_MOST_TENSORS)]
    ) -> Response:
        """Return several tensors in the order of their names; X-Shape holds their shapes, with `;` between them."""
        return _numbers_response(service.get_trace(identity).trace.tensor, name)

    @router.get("/{identity}/p/{name}", **answers(_BINARY, 404))
    def parameter(identity: str, name: str, rows: str | None = None) -> Response:
        """Return a weight of the model in the format of the tensors."""
        return _numbers_response(service.get_trace(identity).trace.parameter, [name], rows)

    def add_act(verb: str, description: str) -> None:
        # A function of its own for every verb: one closure in a loop would see only the last verb.
        async def act(identity: str, request: Request) -> Response:
            trace = service.get_trace(identity).trace
            arguments = (await read_form(request, _ActArguments)).root
            characters = sum(len(value) for value in arguments.values() if isinstance(value, str))
            refuse_long_text(characters, limits.characters)
            result = await service.answer(
                request, worker, lambda: service.act(trace, verb, arguments)
            )
            return Response(result, media_type=JSON)

        options = {**answers(JSON, 403, 404, 415, 504), **_takes_json({"type": "object"})}
        router.add_api_route(
            f"/{{identity}}/{verb}",
            act,
            methods=["POST"],
            name=verb,
            description=description,
            **options,
        )

    for verb, description in _ACTS.items():
        add_act(verb, description)

    @router.get("/{identity}/export.html", **answers("text/html", 404, 504))
    async def export(
        identity: str,
        request: Request,
        keep: Literal["maps", "float16", "float32", "weights"] | None = None,
    ):
        """Return the page and the trace as one file; by default whole in float16 up to 3 MB, and maps otherwise."""
        trace = service.get_trace(identity).trace
        # The exported file contains the script: refuse before the work if it was not built.
        _page_script()
        text = await service.answer(request, worker, lambda: trace_page(trace, keep).encode())
        return _attachment_response(text, f"trace-{identity}.html", "text/html; charset=utf-8")

    @router.get("/{identity}/tensors.npz", **answers(_BINARY, 404, 504))
    async def arrays(identity: str, request: Request) -> Response:
        """Return every captured tensor, for NumPy."""
        trace, buffer = service.get_trace(identity).trace, BytesIO()
        tensors: dict[str, Any] = {name: array.values for name, array in trace.items()}
        await service.answer(request, worker, lambda: np.savez(buffer, **tensors))
        return _attachment_response(buffer.getvalue(), f"trace-{identity}.npz", _BINARY)

    return router


def answers(media_type: str, *refusals: int) -> dict[str, Any]:
    """Return the options of a route for OpenAPI: the type of its answer, and the statuses by which it refuses."""
    content = {media_type: {"schema": {"type": "object"}} if media_type == JSON else {}}
    return {
        "response_class": Response,
        "responses": {200: {"content": content}, **documented_responses(*refusals)},
    }


def _takes_json(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the option of a route that describes its JSON body for OpenAPI."""
    return {
        "openapi_extra": {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}
    }


def _page_script() -> str:
    """Return the built script; raise `Refusal` where it was not built."""
    try:
        return read_script()
    except ValueError as error:
        raise Refusal(503, str(error)) from None


def _compressed_response(
    request: Request, data: bytes, kind: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return data, compressed where the client takes that."""
    sent = {"Vary": "Accept-Encoding", **(headers or {})}
    codings = request.headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    # What has a weight of 0 is refused (RFC 9110, section 12.4.2).
    if not any(re.fullmatch(r"gzip(;q=(1|0\.0*[1-9]).*)?", coding) for coding in codings):
        return Response(data, media_type=kind, headers=sent)
    compressed = gzip.compress(data, compresslevel=6, mtime=0)
    return Response(compressed, media_type=kind, headers={**sent, "Content-Encoding": "gzip"})


def _attachment_response(data: bytes, name: str, kind: str) -> Response:
    """Return a file to be saved, never shown."""
    # Shown from this address, the script of an exported page
    # would run with the server's own rights.
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=kind, headers=headers)


def _numbers_response(
    read_array: Callable[[str], np.ndarray], names: Sequence[str], rows: str | None = None
) -> Response:
    """Return the numbers of arrays one after another; raise `Refusal` for an unknown name or invalid rows."""
    try:
        arrays = [read_array(name) for name in names]
    except (KeyError, ValueError) as error:
        raise Refusal(404, str(error.args[0])) from None

    if rows is not None:
        arrays = [_take_rows(array, rows) for array in arrays]
    # Before the copy below, and of the rows only; every number is sent as float32, 4 bytes.
    if (size := 4 * sum(array.size for array in arrays)) > MOST_BYTES:
        raise Refusal(413, f"{size:,} bytes, {MOST_BYTES:,} are sent at a time; ask for rows=a:b")

    # float32 in this order is what a browser's Float32Array holds;
    # float64 would only double the bytes.
    data = b"".join(np.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)
    shapes = ";".join(",".join(map(str, array.shape)) for array in arrays)
    return Response(data, media_type=_BINARY, headers={"X-Shape": shapes})


def _take_rows(array: np.ndarray, rows: str) -> np.ndarray:
    """Return the rows a:b of an array; raise `Refusal` for rows that it does not have."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", rows, re.ASCII)
    # 1:0 is no valid range: it lets the check below refuse what could not be parsed.
    first, end = (int(match[1]), int(match[2])) if match else (1, 0)
    if array.ndim == 0 or not first <= end <= len(array):
        raise Refusal(
            422, f"rows is {rows!r:.40}, expected a:b within 0:{len(array) if array.ndim else 0}"
        )
    return array[first:end]
