"""The FastAPI application of a server: its routes and the middleware that every request passes."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI
from prometheus_client import generate_latest
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from pellucid.api import Model
from pellucid.localize.terminology import Terms
from pellucid.localize.translation_memory import TranslationMemory
from pellucid.serve.bodies import Problem, Refusal, install_error_handlers
from pellucid.serve.corrections import Corrections
from pellucid.serve.directions import Direction, Directions
from pellucid.serve.gate import (
    LOOPBACK,
    AddHeaders,
    ApiKeys,
    CheckHostAndOrigin,
    CountRequests,
    LimitRequests,
    ReadRequestLine,
    RequestLog,
)
from pellucid.serve.libretranslate import IGNORED, cat_tool_routes, libretranslate_routes
from pellucid.serve.service import Service
from pellucid.serve.settings import Languages, Limits
from pellucid.serve.trace_routes import page_routes, trace_routes
from pellucid.serve.training_text import TrainingText
from pellucid.serve.uploads import file_routes

_SHORT_THREADS = 4  # threads for work of milliseconds that would hold up the event loop


def create_app(
    model: Model,
    limits: Limits | None = None,
    *,
    languages: Languages | None = None,
    others: Sequence[Direction] = (),
    reload: Callable[[], Model] | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    origins: Collection[str] = (),
    terms: Terms | None = None,
    keys: ApiKeys | None = None,
    training_text: TrainingText | None = None,
    translation_memory: TranslationMemory | None = None,
    corrections: Corrections | None = None,
    request_log: RequestLog | None = None,
) -> FastAPI:
    """Make the server of a model, and of `others` for other languages, which are loaded when they are needed.

    The page looks into `model`. With `reload`, a function that loads it again, it is loaded anew
    once its directory was replaced.

    `hosts` are the names it answers to, None for any; `origins` are other sites whose pages may
    send requests, "*" for all. `terms` apply to every translation, beside a request's own;
    ValueError, naming them, for terms that the model cannot write. With `keys`, every request must
    carry one, except requests for the server's health, languages, settings, and documents that it
    translated, whose names are secret. The page offers sentences of `training_text` and marks words
    that are rare in it, and shows the training pairs behind a word; anyone who reaches the server
    can then read this text. Without it no training text is shown. A text that is in
    `translation_memory` gets the translation there. Suggestions are appended to `corrections`.
    `request_log` is told of each request, and never of its text, its address or its key.
    """
    limits = limits or Limits()

    def load_first() -> Model:
        loaded = reload() if reload else model
        # One that replaced another may not have their pieces: the other then goes on.
        if terms is not None:
            terms.prepare(loaded.translator.tokenizer)
        return loaded

    first = Direction(
        languages or Languages.from_manifest(model.manifest),
        model.bundle.tokenizer,
        load_first,
        model.directory if reload else None,
        manifest=model.manifest,
    )
    service = Service(
        Directions([*first.split(model.manifest), *others], model, limits.models),
        limits,
        terms,
        keys or ApiKeys(),
        training_text,
        translation_memory,
        corrections,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Fewer than anyio's 40: all of them and the event loop take turns at Python's lock. Those
        # that take documents apart keep theirs for seconds, the others for milliseconds.
        current_default_thread_limiter().total_tokens = service.limits.documents + _SHORT_THREADS
        # The workers are threads that `Service` has already begun.
        if service.head_study is not None:
            service.head_study.start()
        yield
        await service.close()

    app = FastAPI(
        title="Pellucid",
        summary="Translates, and shows every number it computes on the way.",
        version=model.manifest.get("versions", {}).get("pellucid", "unknown"),
        docs_url=None,  # both pages would load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
        middleware=_list_middleware(service, hosts, origins, request_log),
    )
    app.state.service = service
    install_error_handlers(app)

    # LibreTranslate's clients send the key in the body: these routes check it after reading that.
    for routes in (libretranslate_routes, cat_tool_routes, file_routes, _operation_routes):
        app.include_router(routes(service))
    for routes in (page_routes, trace_routes):
        app.include_router(routes(service), **service.keys.in_header())
    # The path at which LibreTranslate serves its own description.
    app.add_api_route("/spec", lambda: JSONResponse(app.openapi()), include_in_schema=False)
    return app


def _operation_routes(service: Service) -> APIRouter:
    router, key = APIRouter(tags=["operation"]), service.keys.in_header()

    @router.get(
        "/health",
        responses={
            503: {"model": Problem, "description": "the model's threads have stopped, or are stuck"}
        },
    )
    async def health() -> dict[str, str]:
        """Say that the server and the threads that run the model are up, and get on."""
        # On the event loop: in a thread it would wait with all others
        # for a thread, and then for Python's lock.
        if not service.is_alive:
            raise Refusal(503, "the thread that runs the model has stopped; restart the server")
        if service.is_stuck:
            seconds = f"{service.limits.stuck:g} s"
            raise Refusal(
                503,
                f"the thread that runs the model has been at one piece of work for {seconds}; restart it",
            )

        return {"status": "ok"}

    @router.get(
        "/metrics",
        response_class=Response,
        dependencies=key.get("dependencies"),
        responses={200: {"content": {"text/plain": {}}}, **key.get("responses", {})},
    )
    def metrics() -> Response:
        """Counters for Prometheus."""
        text = generate_latest(service.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _list_middleware(
    service: Service,
    hosts: Collection[str] | None,
    origins: Collection[str],
    log: RequestLog | None,
) -> list[Any]:
    """List the middleware in the order in which a request passes it."""
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization"],
        expose_headers=[IGNORED],
    )

    # Path and HEAD first: all below then sees a path, and GET. The counter stands outside what
    # refuses, so that it counts refusals too.
    return [
        Middleware(ReadRequestLine),
        Middleware(CountRequests, metrics=service.metrics, log=log),
        Middleware(AddHeaders),
        Middleware(CheckHostAndOrigin, hosts=hosts, origins=origins),
        # Inside the check of hosts and origins: a preflight request from an
        # unknown site is refused before it is answered.
        *([cors] if origins else []),
        Middleware(LimitRequests, limits=service.limits, refuse_if_full=service.refuse_if_full),
    ]
