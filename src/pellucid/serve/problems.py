"""Refusals of the server: a status and one sentence as {"error": ...}, and never a traceback."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

RETRY_SECONDS = 2
"""Seconds after which a client that was refused for lack of room may try again."""

REALM = "Pellucid"

STATUS_HEADERS = {
    401: {"WWW-Authenticate": f'Basic realm="{REALM}"'},  # makes a browser ask for a password
    429: {"Retry-After": str(RETRY_SECONDS)},
    503: {"Retry-After": str(RETRY_SECONDS)},
}
"""Headers by which programs know what to do about a refusal."""

FAILURE_SENTENCE = "the server failed through no fault of the request; its log says where"


class Problem(BaseModel):
    """The reason why a request was not answered."""

    error: str = Field(description="a sentence")


class Refusal(Exception):
    """Raised to refuse a request: its status, and a sentence that says why."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


STATUS_MEANINGS = {
    400: "the request is not understood",
    401: "an API key is missing, or is not one of this server's",
    403: "asked by another site's page, or without an API key where one is needed",
    404: "not here, or not any more",
    408: "the request took too long to arrive",
    409: "meant for another model than this one",
    413: "more than this server takes at a time",
    415: "the body is of a type that is not read here",
    421: "the server is addressed by a name it does not know",
    422: "the request asks for something impossible",
    429: "too many requests from one address",
    503: "too much is waiting already, or the page is not built",
    504: "not done in time",
}


def documented_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the refusals of a route for OpenAPI: these statuses, and those that any route may give."""
    all_statuses = {400, 408, 413, 421, 422, 429, 503, *statuses}
    return {status: {"model": Problem, "description": STATUS_MEANINGS[status]} for status in sorted(all_statuses)}


def problem_response(status: int, reason: str) -> JSONResponse:
    """Make the answer that says why a request is refused."""
    return JSONResponse({"error": reason}, status, STATUS_HEADERS.get(status))


def install_error_handlers(app: FastAPI) -> None:
    """Answer every refusal and every error of routing of `app` with a `Problem`."""
    app.add_exception_handler(Refusal, answer_refusal)
    # Starlette and FastAPI would answer these two with {"detail": ...}, which LibreTranslate's clients do not read.
    app.add_exception_handler(HTTPException, answer_not_found)
    app.add_exception_handler(RequestValidationError, answer_invalid_request)


async def answer_refusal(request: Request, error: Exception) -> JSONResponse:
    """Answer a `Refusal` that a route has raised."""
    assert isinstance(error, Refusal)
    return problem_response(error.status, str(error))


async def answer_invalid_request(request: Request, error: Exception) -> JSONResponse:
    """Answer a request whose path or parameters are invalid."""
    assert isinstance(error, RequestValidationError)
    return problem_response(422, describe_errors(error.errors()))


def describe_errors(errors: Iterable[Mapping[str, Any]]) -> str:
    """Describe the problem of each field, five of them at most.

    >>> describe_errors([{"loc": ("query", "keep"), "type": "missing", "msg": "Field required"}])
    'query.keep: Field required'
    """
    return "; ".join(f"{'.'.join(map(str, error['loc'])):.80}: {describe_reason(error)}" for error in islice(errors, 5))


def describe_reason(error: Mapping[str, Any]) -> str:
    """Describe the problem of one field."""
    # pydantic says of an unknown field only that extra inputs are not permitted.
    return "there is no such field" if error["type"] == "extra_forbidden" else f"{error['msg']:.200}"


async def answer_not_found(request: Request, error: Exception) -> JSONResponse:
    """Answer where there is no such path, or not for this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem_response(404, "there is nothing at this path; /openapi.json lists what there is")
    answer = problem_response(error.status_code, f"{error.detail}".lower())
    # Such as Allow, which a 405 must carry (RFC 9110, section 15.5.6).
    answer.headers.update(error.headers or {})
    return answer
