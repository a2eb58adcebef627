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
from pellucid.serve.keys import Keys
from pellucid.serve.languages import Languages
from pellucid.serve.limits import Limits
from pellucid.serve.metrics import Measured
from pellucid.serve.middleware import LOOPBACK, Addressed, Bounded, Guarded, Headed
from pellucid.serve.problems import Problem, Refusal, say_problems
from pellucid.serve.service import Service


def create_app(
    model: Model,
    limits: Limits | None = None,
    *,
    languages: Languages | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    origins: Collection[str] = (),
    terms: Terms | None = None,
    keys: Keys | None = None,
) -> FastAPI:
    """The server of one model.

    `hosts` are the names it answers to, None for any; `origins` other sites whose pages may ask it, "*" for all.
    `terms` hold for every translation, beside those of a request. Of `keys` every request carries one, but for those
    that say whether the server is up, what it translates and whether it asks for keys.
    """
    service = Service(model, limits or Limits(), languages or Languages.of(model.manifest), terms, keys or Keys())

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
        middleware=passed(service, hosts, origins),
    )
    say_problems(app)
    app.include_router(libretranslate.routes(service))
    for router in (page_routes.routes(), trace_routes.routes(service), counters(service)):
        app.include_router(router, **service.keys.in_header())

    @app.get("/health", tags=["operation"], responses={503: {"model": Problem, "description": "it does not work"}})
    def health() -> dict[str, str]:
        """Says that the server is up, and that what runs the model is."""
        if not service.works:
            raise Refusal(503, "what runs the model has stopped; start the server again")
        return {"status": "ok"}

    @app.get("/spec", include_in_schema=False)
    def spec() -> JSONResponse:
        """The description of the server, where LibreTranslate has its own."""
        return JSONResponse(app.openapi())

    app.state.service = service
    return app


def counters(service: Service) -> APIRouter:
    """GET /metrics."""
    router = APIRouter(tags=["operation"])

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def passed(service: Service, hosts: Collection[str] | None, origins: Collection[str]) -> list[Any]:
    """What a request passes, in this order."""
    pages = Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["Authorization"]
    )
    return [
        Middleware(Headed),
        Middleware(Measured, metrics=service.metrics),
        Middleware(Guarded),
        Middleware(Addressed, hosts=hosts, origins=origins),
        *([pages] if origins else []),
        Middleware(Bounded, limits=service.limits),
    ]
