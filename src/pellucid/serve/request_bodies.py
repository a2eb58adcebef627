"""The body of a request as a table: JSON, or a form as browsers and LibreTranslate's clients send it."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, RootModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from pellucid.serve.problems import Refusal, describe_errors

Form = TypeVar("Form", bound=BaseModel)

JSON, ENCODED, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"

MOST_FIELDS = 1000
MOST_DIGITS = 40
LONGEST_PART_HEADER = 1024
"""Bytes before the value of a part: browsers write about a hundred."""

NO_CHARACTER = re.compile("[\ud800-\udfff]")

# A parameter, quoted or plain (RFC 7578, section 4; RFC 2046, section 5.1.1). Nothing in either pattern can match in
# two ways, so both take a time that is linear in the text.
_BOUNDARY = re.compile(r';[ \t]*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))(?=[ \t]*(?:;|$))', re.IGNORECASE)
_FIELD = re.compile(
    rb'^content-disposition:[ \t]*form-data[^\r\n]*?;[ \t]*name="([^"\r\n]*)"', re.IGNORECASE | re.MULTILINE
)


class BodyTable(RootModel[dict[str, Any]]):
    """Names and values."""


async def read_body(request: Request, form: type[Form], *, forms: bool = False) -> Form:
    """The body as a `form`; `Refusal` for one of another type, or that is none. Other forms than JSON if `forms`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON and not (forms and kind in (ENCODED, PARTS)):
        read_here = " or ".join((JSON, ENCODED, PARTS) if forms else (JSON,))
        raise Refusal(415, f"the body is of type {kind!r:.80}, expected {read_here}")
    body = await request.body()
    # In a thread: whatever a body costs, the event loop goes on answering the others.
    if kind == JSON:
        return await run_in_threadpool(lambda: validate_body(form, parse_json(body), strict=True))
    content_type = request.headers["content-type"]
    return await run_in_threadpool(
        lambda: validate_body(
            form, parse_urlencoded(body) if kind == ENCODED else parse_multipart(body, content_type), strict=False
        )
    )


async def read_body_table(request: Request) -> dict[str, Any]:
    """The body as a table of anything; `Refusal` where it is none."""
    return (await read_body(request, BodyTable)).root


def parse_json(body: bytes) -> Any:
    """What stands in a JSON text."""
    try:
        return json.loads(body.decode(), parse_int=parse_integer)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(422, f"the body is not JSON: {said:.120}") from None


def parse_integer(digits: str) -> int:
    """A whole number of a size that anything here can mean, so that no message has to repeat a longer one."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits):,} digits, {MOST_DIGITS} are read")
    return int(digits)


def parse_urlencoded(body: bytes) -> dict[str, Any]:
    """The fields of a form that was written as a=b&c=d."""
    try:
        return collect_fields(
            parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        )
    except ValueError as error:
        raise Refusal(422, f"the body is not a form: {error!s:.120}") from None


def parse_multipart(body: bytes, content_type: str) -> dict[str, Any]:
    """The fields of a form in parts (RFC 7578): each a few lines of header, an empty line, and the value.

    >>> lines = b"--x", b'Content-Disposition: form-data; name="q"', b"", b"Yes.", b"--x--"
    >>> parse_multipart(b"\\r\\n".join(lines), "multipart/form-data; boundary=x")
    {'q': 'Yes.'}
    """
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise Refusal(422, "the body is not a form: its type names no boundary, so its parts cannot be told apart")
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1")
    # One more than allowed is enough to know that there are too many.
    sections = (b"\r\n" + body).split(delimiter, MOST_FIELDS + 2)[1:]
    if not sections or not sections[-1].startswith(b"--"):
        if len(sections) > MOST_FIELDS:
            raise Refusal(422, f"the form has more than {MOST_FIELDS:,} fields, as many as this server reads")
        raise Refusal(422, "the body is not a form: its last part does not end with the boundary")
    return collect_fields(parse_part(section) for section in sections[:-1])


def parse_part(section: bytes) -> tuple[str, str]:
    """The name and the value of what stands between two boundaries."""
    start = section.find(b"\r\n\r\n", 0, LONGEST_PART_HEADER)
    named = _FIELD.search(section[:start]) if start >= 0 else None
    if named is None:
        raise Refusal(
            422,
            f"the body is not a form: a part does not begin, within {LONGEST_PART_HEADER:,} bytes, with "
            'Content-Disposition: form-data; name="..." and an empty line',
        )
    try:
        name = named[1].decode()
        return name, section[start + 4 :].decode()
    except UnicodeDecodeError as error:
        raise Refusal(422, f"the field {named[1]!r:.40} is not UTF-8: {error!s:.120}") from None


def refuse_invalid_text(value: Any) -> None:
    """`Refusal` where a text anywhere in `value` holds what JSON can write and no file of sentences may hold."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            rest += [*value, *value.values()]
        elif isinstance(value, list):
            rest += value
        elif isinstance(value, str):
            if "\0" in value:
                raise Refusal(422, "the text holds a NUL, which is no character of a text")
            if NO_CHARACTER.search(value):
                raise Refusal(422, "the text holds half of a surrogate pair, which is no character")


def collect_fields(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fields by their names; one that was given several times is a list.

    >>> collect_fields([("q", "Yes."), ("q", "No."), ("source", "en")])
    {'q': ['Yes.', 'No.'], 'source': 'en'}
    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


def validate_body(form: type[Form], table: Any, *, strict: bool) -> Form:
    """The table as a `form`; `Refusal` that names everything that is wrong with it."""
    refuse_invalid_text(table)
    if not isinstance(table, Mapping):
        raise Refusal(422, f"the body is {table!r:.60}, expected an object with names and values")
    try:
        return form.model_validate(table, strict=strict)
    except ValidationError as error:
        raise Refusal(422, describe_errors(error.errors(include_url=False))) from None
