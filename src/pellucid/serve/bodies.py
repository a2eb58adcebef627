"""Request bodies as tables of names and values, and refusals as a status with one sentence."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, RootModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
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


Form = TypeVar("Form", bound=BaseModel)

JSON, ENCODED, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"

MOST_FIELDS = 1000
MOST_DIGITS = 40
LONGEST_PART_HEADER = 1024
"""Most bytes before the value of a multipart section: browsers write about a hundred."""

NO_CHARACTER = re.compile("[\ud800-\udfff]")  # JSON can escape half of a surrogate pair, UTF-8 cannot hold it

# A parameter, quoted or plain (RFC 7578, section 4; RFC 2046, section 5.1.1). Nothing in either pattern can match in
# two ways, so both take a time that is linear in the text.
_BOUNDARY = re.compile(r';[ \t]*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))(?=[ \t]*(?:;|$))', re.IGNORECASE)
_FIELD = re.compile(
    rb'^content-disposition:[ \t]*form-data[^\r\n]*?;[ \t]*name="([^"\r\n]*)"', re.IGNORECASE | re.MULTILINE
)


class BodyTable(RootModel[dict[str, Any]]):
    """A body of any names and values."""


async def read_body(
    request: Request,
    form: type[Form],
    *,
    forms: bool = False,
    check: Callable[[Mapping[str, Any]], None] = lambda table: None,
) -> Form:
    """Read the body as a `form`, in JSON only unless `forms`; raise `Refusal` for an unexpected type or content.

    `check` is given the names and values before they are validated, and may raise `Refusal` too.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON and not (forms and kind in (ENCODED, PARTS)):
        expected = " or ".join((JSON, ENCODED, PARTS) if forms else (JSON,))
        raise Refusal(415, f"the body is of type {kind!r:.80}, expected {expected}")
    body = await request.body()
    # In a thread: a body that is costly to parse does not stop the event loop from answering other clients.
    # Strict for JSON, which has types; in a form every value is a text that pydantic must convert.
    if kind == JSON:
        return await run_in_threadpool(lambda: validate_body(form, parse_json(body), check, strict=True))
    content_type = request.headers["content-type"]
    return await run_in_threadpool(
        lambda: validate_body(
            form,
            parse_urlencoded(body) if kind == ENCODED else parse_multipart(body, content_type),
            check,
            strict=False,
        )
    )


async def read_body_table(request: Request) -> dict[str, Any]:
    """Read the body as a table of any values; raise `Refusal` where it is none."""
    return (await read_body(request, BodyTable)).root


def parse_json(body: bytes) -> Any:
    """Parse a JSON text; raise `Refusal` where it is invalid."""
    try:
        return json.loads(body.decode(), parse_int=parse_integer)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(422, f"the body is not JSON: {reason:.120}") from None


def parse_integer(digits: str) -> int:
    """Parse a whole number of at most `MOST_DIGITS` digits."""
    # Longer ones mean nothing here, and an error message would repeat all their digits.
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits):,} digits, {MOST_DIGITS} are read")
    return int(digits)


def parse_urlencoded(body: bytes) -> dict[str, Any]:
    """Parse the fields of a form that is written as a=b&c=d; raise `Refusal` where it is invalid."""
    try:
        return collect_fields(
            parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        )
    except ValueError as error:
        raise Refusal(422, f"the body is not a valid form: {error!s:.120}") from None


def parse_multipart(body: bytes, content_type: str) -> dict[str, Any]:
    """Parse a multipart form (RFC 7578): each section has a few lines of header, an empty line, and the value.

    >>> lines = b"--x", b'Content-Disposition: form-data; name="q"', b"", b"Yes.", b"--x--"
    >>> parse_multipart(b"\\r\\n".join(lines), "multipart/form-data; boundary=x")
    {'q': 'Yes.'}
    """
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise Refusal(422, "the body is not a form: its type names no boundary, so its parts cannot be separated")
    # The line break before a delimiter belongs to it; the body gets one in front, so that its first delimiter counts
    # too.
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1")
    # Splitting one further than allowed is enough to know that there are too many fields.
    sections = (b"\r\n" + body).split(delimiter, MOST_FIELDS + 2)[1:]
    if not sections or not sections[-1].startswith(b"--"):
        if len(sections) > MOST_FIELDS:
            raise Refusal(422, f"the form has more than {MOST_FIELDS:,} fields, as many as this server reads")
        raise Refusal(422, "the body is not a form: its last part does not end with the boundary")
    return collect_fields(parse_part(section) for section in sections[:-1])


def parse_part(section: bytes) -> tuple[str, str]:
    """Parse a section between two boundaries; return its name and its value."""
    start = section.find(b"\r\n\r\n", 0, LONGEST_PART_HEADER)
    field = _FIELD.search(section[:start]) if start >= 0 else None
    if field is None:
        raise Refusal(
            422,
            f"the body is not a form: a part does not begin, within {LONGEST_PART_HEADER:,} bytes, with "
            'Content-Disposition: form-data; name="..." and an empty line',
        )
    try:
        name = field[1].decode()
        return name, section[start + 4 :].decode()
    except UnicodeDecodeError as error:
        raise Refusal(422, f"the field {field[1]!r:.40} is not UTF-8: {error!s:.120}") from None


def describe_value(value: Any) -> str:
    """Return what a body is that is no table: a text or a number as it is, a list by its length.

    >>> describe_value("q"), describe_value([1, 2])
    ("'q'", 'a list of 2 values')
    """
    # Half a surrogate pair could not be sent, hence ASCII; a list may be long, or nested too deeply to be written.
    return f"a list of {len(value):,} values" if isinstance(value, list) else f"{value!a:.60}"


def refuse_invalid_text(value: Any) -> None:
    """Raise `Refusal` where a text anywhere in `value` holds NUL or half of a surrogate pair."""
    # A list instead of recursion: a body may nest nearly as deep as Python's stack allows.
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            # JSON can write both of these, but no file of sentences may hold them.
            if "\0" in value:
                raise Refusal(422, "the text holds a NUL, which no text may contain")
            if NO_CHARACTER.search(value):
                raise Refusal(422, "the text holds half of a surrogate pair, which is not a character")


def collect_fields(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Collect fields by their names; a name that was given several times gets a list.

    >>> collect_fields([("q", "Yes."), ("q", "No."), ("source", "en")])
    {'q': ['Yes.', 'No.'], 'source': 'en'}
    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name: texts if len(texts) > 1 else texts[0] for name, texts in values.items()}


def validate_body(form: type[Form], table: Any, check: Callable[[Mapping[str, Any]], None], *, strict: bool) -> Form:
    """Check a table, then validate it as a `form`; raise `Refusal` that names every problem."""
    if not isinstance(table, Mapping):
        raise Refusal(422, f"the body is {describe_value(table)}, expected an object with names and values")
    check(table)
    # Counted before pydantic, which makes an error of about a kilobyte for each: 500,000 of them took half a gigabyte
    # and stopped the event loop for seconds.
    if len(table) > MOST_FIELDS:
        raise Refusal(422, f"the body has {len(table):,} fields, this server reads {MOST_FIELDS:,}")
    # Before pydantic, whose messages repeat the names of unknown fields: half a surrogate pair could not be sent.
    refuse_invalid_text(table)
    try:
        return form.model_validate(table, strict=strict)
    except ValidationError as error:
        raise Refusal(422, describe_errors(error.errors(include_url=False))) from None
