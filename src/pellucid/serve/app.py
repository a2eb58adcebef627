"""The application: routes, and what every request passes on its way to them."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from pellucid.api import Model
from pellucid.decode.terms import Terms
from pellucid.serve import libretranslate, page_routes, trace_routes
from pellucid.serve.keys import ApiKeys
from pellucid.serve.languages import Languages
from pellucid.serve.limits import Limits
from pellucid.serve.metrics import CountRequests
from pellucid.serve.middleware import LOOPBACK, AddHeaders, AnswerHead, CheckHostAndOrigin, LimitRequests
from pellucid.serve.problems import Problem, Refusal, install_error_handlers
from pellucid.serve.service import Service


def create_app(
    model: Model,
    limits: Limits | None = None,
    *,
    languages: Languages | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    origins: Collection[str] = (),
    terms: Terms | None = None,
    keys: ApiKeys | None = None,
) -> FastAPI:
    """The server of one model.

    `hosts` are the names it answers to, None for any; `origins` other sites whose pages may ask it, "*" for all.
    `terms` hold for every translation, beside those of a request. Of `keys` every request carries one, but for those
    that say whether the server is up, what it translates and whether it asks for keys.
    """
    service = Service(model, limits or Limits(), languages or Languages.of(model.manifest), terms, keys or ApiKeys())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="Pellucid",
        summary="Translates, and shows every number it computes on the way.",
        version=model.manifest.get("versions", {}).get("pellucid", "unknown"),
        docs_url=None,  # both would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        middleware=make_middleware(service, hosts, origins),
    )
    install_error_handlers(app)
    app.include_router(libretranslate.libretranslate_routes(service))
    for router in (page_routes.page_routes(), trace_routes.trace_routes(service), metrics_routes(service)):
        app.include_router(router, **service.keys.in_header())

    @app.get("/health", tags=["operation"], responses={503: {"model": Problem, "description": "it does not work"}})
    def health() -> dict[str, str]:
        """Says that the server is up, and that what runs the model is."""
        if not service.is_alive:
            raise Refusal(503, "what runs the model has stopped; start the server again")
        return {"status": "ok"}

    @app.get("/spec", include_in_schema=False)
    def spec() -> JSONResponse:
        """The description of the server, where LibreTranslate has its own."""
        return JSONResponse(app.openapi())

    app.state.service = service
    return app


def metrics_routes(service: Service) -> APIRouter:
    """GET /metrics."""
    router = APIRouter(tags=["operation"])

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def make_middleware(service: Service, hosts: Collection[str] | None, origins: Collection[str]) -> list[Any]:
    """What a request passes, in this order."""
    pages = Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["Authorization"]
    )
    return [
        Middleware(AnswerHead),
        Middleware(CountRequests, metrics=service.metrics),
        Middleware(AddHeaders),
        Middleware(CheckHostAndOrigin, hosts=hosts, origins=origins),
        *([pages] if origins else []),
        Middleware(LimitRequests, limits=service.limits),
    ]
