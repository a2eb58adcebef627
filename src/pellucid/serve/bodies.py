"""Request bodies as tables of names and values, and refusals as a status with one sentence."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

Form = TypeVar("Form", bound=BaseModel)
Result = TypeVar("Result")

_RETRY_SECONDS = "2"  # seconds after which a client that was refused for lack of room may try again

REALM = "Pellucid"

_STATUS_HEADERS = {  # headers by which programs know what to do about a refusal
    401: {"WWW-Authenticate": f'Basic realm="{REALM}"'},  # makes a browser ask for a password
    429: {"Retry-After": _RETRY_SECONDS},
    503: {"Retry-After": _RETRY_SECONDS},
}

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

JSON, ENCODED, PARTS = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)

_MOST_FIELDS = 1000
# Bytes or characters that are parsed, validated or cut into pieces within a millisecond.
_MOST_AT_ONCE = 4096
# Most names of unknown fields that an answer repeats, and characters of each.
_MOST_NAMED, _LONGEST_NAME = 5, 20
_MOST_DIGITS = 40
# Most bytes before the value of a multipart section: browsers write about a hundred.
_LONGEST_PART_HEADER = 1024
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (_MOST_DIGITS + 1))
# JSON can escape half of a surrogate pair, UTF-8 cannot hold it.
_NO_CHARACTER = re.compile("[\ud800-\udfff]")
# A parameter, quoted or plain (RFC 7578, section 4; RFC 2046, section 5.1.1). Nothing in either
# pattern can match in two ways, so both take a time that is linear in the text.
_BOUNDARY = re.compile(
    r';[ \t]*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))(?=[ \t]*(?:;|$))', re.IGNORECASE
)
_FIELD = re.compile(
    rb'^content-disposition:[ \t]*form-data[^\r\n]*?;[ \t]*name="([^"\r\n]*)"',
    re.IGNORECASE | re.MULTILINE,
)
_FILE_NAME = re.compile(
    rb'^content-disposition:[^\r\n]*?;[ \t]*filename="([^"\r\n]*)"', re.IGNORECASE | re.MULTILINE
)


class Problem(BaseModel):
    """The reason why a request was not answered."""

    error: str = Field(description="a sentence")


class Refusal(Exception):
    """Raised to refuse a request: its status, and a sentence that says why."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


async def run_by_size(
    size: int, work: Callable[..., Result], *arguments: Any, **options: Any
) -> Result:
    """Run work on so many bytes or characters: in a thread where it would hold up the event loop, otherwise here."""
    # The way to a thread and back costs two waits for Python's lock,
    # which are long while the server is busy.
    if size <= _MOST_AT_ONCE:
        return work(*arguments, **options)
    return await run_in_threadpool(work, *arguments, **options)


async def read_form(request: Request, form: type[Form]) -> Form:
    """Read a JSON body as a `form`; raise `Refusal` for an unexpected type or content."""
    table = await read_table(request)
    size = len(await request.body())
    return await run_by_size(size, validate_table, form, table, strict=True)


async def read_table(request: Request) -> dict[str, Any]:
    """Read a JSON body as a table; raise `Refusal` for an unexpected type or content."""
    kind = media_type(request)
    if kind != JSON:
        raise Refusal(415, f"the body is of type {kind!r:.80}, expected {JSON}")
    # In a thread: a body that is costly to parse does not stop the
    # event loop from answering other clients.
    body = await request.body()
    return await run_by_size(len(body), _parse_json, body)


async def read_fields(request: Request) -> dict[str, Any]:
    """Read the fields of a request as LibreTranslate does, from JSON or a form and from the address.

    Where both have a field, the one in a JSON body counts, and otherwise the one in the address.
    Raises `Refusal` for an unexpected type or content.
    """
    kind, kinds = media_type(request), (JSON, ENCODED, PARTS)
    query = request.url.query.encode()
    address = await run_by_size(len(query), _parse_urlencoded, query, "address")
    if kind not in kinds:
        # Before the body is read, which means nothing then.
        if "q" not in address:
            raise Refusal(415, f"the body is of type {kind!r:.80}, expected {' or '.join(kinds)}")
        return address

    body = await request.body()
    if address and not body:
        return address
    if kind == JSON:
        return address | await run_by_size(len(body), _parse_json, body)
    if kind == PARTS:
        sections = await run_by_size(
            len(body), _split_multipart, body, request.headers["content-type"]
        )
        return _collect_fields((section.name, section.text) for section in sections) | address
    return await run_by_size(len(body), _parse_urlencoded, body, "body") | address


def media_type(request: Request) -> str:
    """Return the type of a body without its parameters, in lower case; every kind of JSON gets the type of JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return JSON if kind.startswith("application/") and kind.endswith("+json") else kind


def _parse_json(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; raise `Refusal` where the text is something else."""
    try:
        # The bytes themselves: Python knows the encodings of JSON, and the mark that some programs
        # write before it. A function of ours for each number would keep Python's lock for a second
        # where there are 500,000 of them, so it is used only where one is long, and for UTF-16, in
        # which digits stand apart.
        is_plain = b"\0" not in body[:4] and not _LONG_NUMBER.search(body)
        table = json.loads(body, parse_int=int if is_plain else _parse_integer)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(422, f"the body is not JSON: {reason:.120}") from None

    if isinstance(table, dict):
        return table
    # Half a surrogate pair could not be sent, hence ASCII; a list may be
    # long, or nested too deeply to be written.
    value = f"a list of {len(table):,} values" if isinstance(table, list) else f"{table!a:.60}"
    raise Refusal(422, f"the body is {value}, expected an object with names and values")


def _parse_integer(digits: str) -> int:
    # Longer ones mean nothing here, and an error message would repeat all their digits.
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits):,} digits, {_MOST_DIGITS} are read")
    return int(digits)


def _parse_urlencoded(form: bytes, place: str) -> dict[str, Any]:
    """Parse the fields of a form that is written as a=b&c=d; raise `Refusal`, with its place, where it is invalid."""
    try:
        fields = parse_qsl(
            form.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
        return _collect_fields(fields)
    except ValueError as error:
        raise Refusal(422, f"the {place} is not a valid form: {error!s:.120}") from None


async def read_upload(request: Request) -> "tuple[dict[str, Any], Section | None]":
    """Read the body as a form with one file; return its other fields, and the file; `Refusal` for any other body."""
    kind = media_type(request)
    if kind != PARTS:
        raise Refusal(415, f"the body is of type {kind!r:.80}, expected {PARTS}")
    body = await request.body()
    sections = await run_by_size(len(body), _split_multipart, body, request.headers["content-type"])
    files = [section for section in sections if section.name == "file"]
    if len(files) > 1:
        raise Refusal(422, f"file: the form has {len(files)} files, one is translated at a time")
    texts = [(section.name, section.text) for section in sections if section.name != "file"]
    return _collect_fields(texts), files[0] if files else None


@dataclass(frozen=True)
class Section:
    """A section of a multipart form: a field, or a file with its name."""

    name: str
    file_name: str
    value: bytes

    @property
    def text(self) -> str:
        """The value as a text; `Refusal` where it is none."""
        try:
            return self.value.decode()
        except UnicodeDecodeError as error:
            raise Refusal(
                422, f"the field {self.name!r:.40} is not UTF-8: {error!s:.120}"
            ) from None


def _split_multipart(body: bytes, content_type: str) -> list[Section]:
    r"""Split a multipart form (RFC 7578): each section has a few lines of header, an empty line, and the value.

    >>> body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nYes.\r\n--x--'
    >>> _split_multipart(body, "multipart/form-data; boundary=x")
    [Section(name='q', file_name='', value=b'Yes.')]
    """
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise Refusal(
            422,
            "the body is not a form: its type names no boundary, so its parts cannot be separated",
        )

    # The line break before a delimiter belongs to it; the body gets one in
    # front, so that its first delimiter counts too.
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1")

    # Splitting one further than allowed is enough to know that there are too many fields.
    sections = (b"\r\n" + body).split(delimiter, _MOST_FIELDS + 2)[1:]
    if not sections or not sections[-1].startswith(b"--"):
        if len(sections) > _MOST_FIELDS:
            raise Refusal(
                422, f"the form has more than {_MOST_FIELDS:,} fields, as many as this server reads"
            )
        raise Refusal(422, "the body is not a form: its last part does not end with the boundary")

    return [_parse_part(section) for section in sections[:-1]]


def _parse_part(section: bytes) -> Section:
    start = section.find(b"\r\n\r\n", 0, _LONGEST_PART_HEADER)
    field = _FIELD.search(section[:start]) if start >= 0 else None
    if field is None:
        raise Refusal(
            422,
            f"the body is not a form: a part does not begin, within {_LONGEST_PART_HEADER:,} bytes, with "
            'Content-Disposition: form-data; name="..." and an empty line',
        )

    file_name = _FILE_NAME.search(section[:start])
    try:
        name, shown_name = field[1].decode(), file_name[1].decode() if file_name else ""
    except UnicodeDecodeError as error:
        raise Refusal(422, f"the field {field[1]!r:.40} is not UTF-8: {error!s:.120}") from None
    return Section(name, shown_name, section[start + 4 :])


def _collect_fields(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Collect fields by their names; of a name that was given several times the first counts, and of texts all.

    >>> _collect_fields([("q", "Yes."), ("q", "No."), ("source", "en"), ("source", "de")])
    {'q': ['Yes.', 'No.'], 'source': 'en'}
    >>> _collect_fields([("q", '["Yes.", "No."]')]), _collect_fields([("q", "[1]")])
    ({'q': ['Yes.', 'No.']}, {'q': '[1]'})
    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    table: dict[str, Any] = {name: texts[0] for name, texts in values.items()}
    if "q" in values:
        table["q"] = values["q"] if len(values["q"]) > 1 else _read_list(values["q"][0])
    return table


def _read_list(text: str) -> str | list[str]:
    """Return the texts of a JSON list of texts, as which clients send several in a form; any other text as it is."""
    if not text.lstrip().startswith("["):
        return text
    try:
        texts = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_list = isinstance(texts, list) and texts and all(isinstance(item, str) for item in texts)
    return texts if is_list else text


def validate_table(form: type[Form], table: Mapping[str, Any], *, strict: bool) -> Form:
    """Validate a table as a `form`, `strict` where it came from JSON; raise `Refusal` that names every problem."""
    # Counted before pydantic, which makes an error of about a kilobyte for each: 500,000 of them
    # took half a gigabyte and stopped the event loop for seconds.
    if len(table) > _MOST_FIELDS:
        raise Refusal(
            422, f"the body has {len(table):,} fields, this server reads {_MOST_FIELDS:,}"
        )

    # Before pydantic, whose messages repeat the names of unknown fields:
    # half a surrogate pair could not be sent.
    _refuse_invalid_text(table)
    try:
        return form.model_validate(table, strict=strict)
    except ValidationError as error:
        problems = _describe_errors(error.errors(include_url=False))
        # A field whose name is misspelt is missing under its right one.
        ignored = list_ignored(form, table)
        if ignored:
            problems += f" (not known here: {ignored})"
        raise Refusal(422, problems) from None


def list_ignored(form: type[BaseModel], table: Mapping[str, Any]) -> str:
    """Return the names of fields that a `form` does not know, the first few, as a header can hold them.

    >>> list_ignored(Problem, {"error": "", "apiKey": "", "größe": 1})
    'apiKey, gr%C3%B6%C3%9Fe'
    """
    names = [name for name in table if name not in form.model_fields]
    shown = [quote(name[:_LONGEST_NAME], safe=" []") for name in names[:_MOST_NAMED]]
    if len(names) > _MOST_NAMED:
        shown.append(f"and {len(names) - _MOST_NAMED} more")
    return ", ".join(shown)


def refuse_long_text(characters: int, most: int) -> None:
    """Raise `Refusal` for more text than is accepted at a time."""
    if characters > most:
        raise Refusal(413, f"{characters:,} characters, this server takes {most:,} at a time")


def _refuse_invalid_text(value: Any) -> None:
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
            if _NO_CHARACTER.search(value):
                raise Refusal(
                    422, "the text holds half of a surrogate pair, which is not a character"
                )


def _describe_errors(errors: Iterable[Mapping[str, Any]]) -> str:
    """Describe the problem of each field, five of them at most.

    >>> _describe_errors([{"loc": ("query", "keep"), "type": "missing", "msg": "Field required"}])
    'query.keep: Field required'
    """
    problems = []
    for error in islice(errors, 5):
        # pydantic says of an unknown field only that extra inputs are not permitted.
        reason = f"{error['msg'].removeprefix('Value error, '):.200}"
        if error["type"] == "extra_forbidden":
            reason = "there is no such field"
        problems.append(f"{'.'.join(map(str, error['loc'])):.80}: {reason}")

    return "; ".join(problems)


def problem_response(status: int, reason: str) -> JSONResponse:
    """Make the answer that says why a request is refused."""
    return JSONResponse({"error": reason}, status, _STATUS_HEADERS.get(status))


def documented_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the refusals of a route for OpenAPI: these statuses, and those that any route may give."""
    responses: dict[int | str, dict[str, Any]] = {}
    for status in sorted({400, 408, 413, 421, 422, 429, 503, *statuses}):
        responses[status] = {"model": Problem, "description": STATUS_MEANINGS[status]}
    return responses


def install_error_handlers(app: FastAPI) -> None:
    """Answer every refusal and every error of routing of `app` with a `Problem`."""

    @app.exception_handler(Refusal)
    async def answer_refusal(request: Request, error: Refusal) -> JSONResponse:
        return problem_response(error.status, str(error))

    # Starlette and FastAPI would answer the next two with {"detail": ...},
    # which LibreTranslate's clients do not read.
    @app.exception_handler(RequestValidationError)
    async def answer_invalid_parameters(
        request: Request, error: RequestValidationError
    ) -> JSONResponse:
        return problem_response(422, _describe_errors(error.errors()))

    @app.exception_handler(HTTPException)
    async def answer_no_route(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 404:
            return problem_response(
                404, "there is nothing at this path; /openapi.json lists what there is"
            )
        answer = problem_response(error.status_code, f"{error.detail}".lower())
        # Such as Allow, which a 405 must carry (RFC 9110, section 15.5.6).
        answer.headers.update(error.headers or {})
        return answer
