"""Looking inside over HTTP: a trace is asked for once, and its numbers are fetched when they are looked at."""

import re
from collections.abc import Callable
from io import BytesIO
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from pellucid.page.html import trace_page
from pellucid.serve.page_routes import page_script
from pellucid.serve.problems import Refusal, documented_responses
from pellucid.serve.request_bodies import JSON, read_body, read_body_table
from pellucid.serve.service import Service
from pellucid.trace.page_api import choose_target, edits_from_json
from pellucid.trace.provenance import model_facts
from pellucid.trace.trace import Trace

MOST_BYTES = 2**24
"""In one answer with numbers; whoever wants more asks for rows."""

BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}
MANIFEST: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {"schema": {"type": "object"}}}}}

MODEL_VERBS = {
    "words": 'The pieces of a table in two dimensions: {"side"}, as those of source, target and output that differ.',
    "neighbours": 'The pieces nearest to one: {"side", "piece"}.',
    "similar": 'The cosines of some words: {"side", "words"}.',
    "analogy": 'What a sum of words is near to: {"side", "question", "expected"}.',
    "masking": "The logits step by step, at once with the mask, and without: {}.",
    "identity": 'The diagonals of the cross-attention on another sentence: {"sentence", "target"}.',
    "heads": "What each head can be called and costs, from the file beside the model: {}.",
}
"""What is asked of the model beside the trace, and what its body holds."""


class TraceRequest(BaseModel):
    """What is to be traced."""

    sentence: Annotated[str, Field(description="the sentence to translate, and to look inside while it is")]
    target: Annotated[str | None, Field(description="a translation to look at instead of the one that is found")] = None
    beam: Annotated[int, Field(ge=1, description="beginnings kept at a time")] = 4
    target_ids: Annotated[
        list[int] | None, Field(description="the same as the ids of its pieces, finished with the end mark or not")
    ] = None
    prefix_ids: Annotated[list[int] | None, Field(description="pieces the translation begins with")] = None
    edits: Annotated[list[Any] | None, Field(description="changes to the run, as those of {identity}/edit")] = None
    model: Annotated[
        str | None,
        Field(
            pattern="^[0-9a-f]{0,64}$",
            description="how the SHA-256 of the weights begins; refused where the model is another",
        ),
    ] = None


def trace_routes(service: Service) -> APIRouter:
    """POST /trace, and everything under /trace/{identity}."""
    router = APIRouter(prefix="/trace", tags=["glass box"])
    limits = service.limits
    wanted = TraceRequest.model_json_schema()
    wanted["properties"]["sentence"]["maxLength"] = limits.characters
    wanted["properties"]["beam"]["maximum"] = limits.beam

    @router.post(
        "", responses={**MANIFEST, **documented_responses(403, 409, 415, 504)}, openapi_extra=json_body(wanted)
    )
    async def trace(request: Request) -> Response:
        """Translate a sentence and keep every number: what there is to see, as the page's manifest."""
        asked = await read_body(request, TraceRequest)
        refuse_long_text(len(asked.sentence) + len(asked.target or ""), limits.characters)
        if asked.beam > limits.beam:
            raise Refusal(422, f"beam: this server looks with {limits.beam} at most")
        refuse_other_model(service, asked.model)
        try:
            target, edits = choose_target(asked.target, asked.target_ids), edits_from_json(asked.edits or [])
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        how = {"target": target, "beam": asked.beam, "prefix_ids": tuple(asked.prefix_ids or ()), "edits": edits}
        return json_response(
            (await service.run_in_trace_worker(request, lambda: service.trace(asked.sentence, **how))).manifest
        )

    @router.get("/{identity}/manifest.json", responses={**MANIFEST, **documented_responses(404)})
    def manifest(identity: str) -> Response:
        """What there is to see of a trace."""
        return json_response(service.get_trace(identity).manifest)

    @router.get("/{identity}/t/{name}", responses={**BINARY, **documented_responses(404)}, response_class=Response)
    def tensor(identity: str, name: str, rows: str | None = None) -> Response:
        """The numbers of a tensor as float32, little-endian, the last dimension fastest; rows=a:b of the first."""
        return numbers_response(lambda: service.get_trace(identity).trace.tensor(name), rows)

    @router.get("/{identity}/p/{name}", responses={**BINARY, **documented_responses(404)}, response_class=Response)
    def parameter(identity: str, name: str, rows: str | None = None) -> Response:
        """The same of a weight of the model."""
        return numbers_response(lambda: service.get_trace(identity).trace.parameter(name), rows)

    async def acted(identity: str, verb: str, request: Request) -> Response:
        kept = service.get_trace(identity)
        arguments = await read_body_table(request)
        refuse_long_text(sum(len(each) for each in arguments.values() if isinstance(each, str)), limits.characters)
        return json_response(
            await service.run_in_trace_worker(request, lambda: service.act(kept.trace, verb, arguments))
        )

    asks: dict[str, Any] = {
        "responses": {**MANIFEST, **documented_responses(403, 404, 415, 504)},
        "openapi_extra": json_body({"type": "object"}),
    }

    @router.post("/{identity}/account", **asks)
    async def account(identity: str, request: Request) -> Response:
        """Where a logit came from: {"step", "piece", "other"}."""
        return await acted(identity, "account", request)

    @router.post("/{identity}/verdict", **asks)
    async def verdict(identity: str, request: Request) -> Response:
        """Why the translation may be bad: {"reference"}."""
        return await acted(identity, "verdict", request)

    @router.post("/{identity}/edit", **asks)
    async def edit(identity: str, request: Request) -> Response:
        """The same sentence with the run changed, as a new trace: {"edits", "keep_target"}."""
        return await acted(identity, "edit", request)

    def asked(verb: str) -> Callable[..., Any]:
        async def answer(identity: str, request: Request) -> Response:
            return await acted(identity, verb, request)

        return answer

    for verb, says in MODEL_VERBS.items():
        router.add_api_route(
            f"/{{identity}}/{verb}", asked(verb), methods=["POST"], name=verb, description=says, **asks
        )

    @router.get(
        "/{identity}/export.html",
        responses={200: {"content": {"text/html": {}}}, **documented_responses(404, 504)},
        response_class=Response,
    )
    async def export(identity: str, request: Request, keep: Literal["maps", "float16", "float32", "weights"] = "maps"):
        """The page and the trace as one file."""
        kept = service.get_trace(identity)
        page_script()
        text = await service.run_in_trace_worker(request, lambda: trace_page(kept.trace, keep).encode())
        return attachment_response(text, f"trace-{identity}.html", "text/html; charset=utf-8")

    @router.get(
        "/{identity}/tensors.npz", responses={**BINARY, **documented_responses(404, 504)}, response_class=Response
    )
    async def arrays(identity: str, request: Request) -> Response:
        """Every captured tensor, for NumPy."""
        kept = service.get_trace(identity)
        data = await service.run_in_trace_worker(request, lambda: trace_as_npz(kept.trace))
        return attachment_response(data, f"trace-{identity}.npz", "application/octet-stream")

    return router


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """How a body in JSON is described."""
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def refuse_other_model(service: Service, wanted: str | None) -> None:
    """`Refusal` where a model is named that is not the one of this server: its ids and heads would mean others here."""
    here = model_facts(service.model.bundle)
    if wanted is not None and not here.sha256.startswith(wanted):
        raise Refusal(
            409,
            f"this link or question belongs to another model, whose weights have the SHA-256 {wanted:.12}…; here is "
            f"{here.name} ({here.sha256[:12] or 'never saved'}…): serve the other model, or ask for the sentence alone",
        )


def refuse_long_text(characters: int, most: int) -> None:
    """`Refusal` for more text than is taken at a time."""
    if characters > most:
        raise Refusal(413, f"{characters:,} characters, this server takes {most:,} at a time")


def json_response(manifest: bytes) -> Response:
    """JSON that is already written."""
    return Response(manifest, media_type=JSON)


def attachment_response(data: bytes, name: str, kind: str) -> Response:
    """A file to be saved, and never shown under our own name: its script is its own."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=kind, headers=headers)


def numbers_response(values: Callable[[], np.ndarray], rows: str | None) -> Response:
    """An array's numbers; `Refusal` where there is none of that name, or not those rows."""
    try:
        array = values()
    except (KeyError, ValueError) as error:
        raise Refusal(404, str(error.args[0])) from None
    if rows is not None:
        found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", rows, re.ASCII)
        first, end = (int(found[1]), int(found[2])) if found else (1, 0)
        if array.ndim == 0 or not first <= end <= len(array):
            raise Refusal(422, f"rows is {rows!r:.40}, expected a:b within 0:{len(array) if array.ndim else 0}")
        array = array[first:end]
    if 4 * array.size > MOST_BYTES:
        raise Refusal(413, f"{4 * array.size:,} bytes, {MOST_BYTES:,} are sent at a time; ask for rows=a:b")
    data = np.ascontiguousarray(array, dtype="<f4")
    shape = ",".join(map(str, data.shape))
    return Response(data.tobytes(), media_type="application/octet-stream", headers={"X-Shape": shape})


def trace_as_npz(trace: Trace) -> bytes:
    """All tensors of a trace as one NumPy file."""
    written = BytesIO()
    np.savez(written, **{name: named.values for name, named in trace.items()})  # pyright: ignore[reportArgumentType]
    return written.getvalue()
