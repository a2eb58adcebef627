"""The body of a request as a table: JSON, or a form as browsers and LibreTranslate's clients send it."""

import json
from collections.abc import Mapping
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, RootModel, ValidationError
from starlette.requests import Request

from pellucid.serve.problems import Refusal, in_words

Form = TypeVar("Form", bound=BaseModel)

JSON, ENCODED, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"


class Table(RootModel[dict[str, Any]]):
    """Names and values."""


async def read(request: Request, form: type[Form], *, forms: bool = False) -> Form:
    """The body as a `form`; `Refusal` for one of another type, or that is none. Other forms than JSON if `forms`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == JSON:
        return checked(form, table_of(body), strict=True)
    if not forms or kind not in (ENCODED, PARTS):
        read_here = " or ".join((JSON, ENCODED, PARTS) if forms else (JSON,))
        raise Refusal(415, f"the body is of type {kind!r:.80}, expected {read_here}")
    fields = encoded(body) if kind == ENCODED else parts(body, request.headers["content-type"])
    return checked(form, fields, strict=False)


async def read_table(request: Request) -> dict[str, Any]:
    """The body as a table of anything; `Refusal` where it is none."""
    return (await read(request, Table)).root


def table_of(body: bytes) -> Any:
    """What stands in a JSON text."""
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(422, f"the body is not JSON: {said:.120}") from None


def encoded(body: bytes) -> dict[str, Any]:
    """The fields of a form that was written as a=b&c=d."""
    try:
        return collected(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=1000))
    except ValueError as error:
        raise Refusal(422, f"the body is not a form: {error!s:.120}") from None


def parts(body: bytes, kind: str) -> dict[str, Any]:
    """The fields of a form in parts."""
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body)
    if not message.is_multipart():
        raise Refusal(422, "the body is not a form: its parts cannot be told apart")
    fields = []
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        value = part.get_payload(decode=True)
        try:
            fields.append((str(name), value.decode() if isinstance(value, bytes) else ""))
        except UnicodeDecodeError as error:
            raise Refusal(422, f"the field {name!r:.40} is not UTF-8: {error!s:.120}") from None
    return collected(fields)


def refuse_halves(text: str) -> None:
    """`Refusal` for a text with half of a surrogate pair, which JSON can write and nothing can store."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Refusal(422, "the text holds half of a surrogate pair, which is no character")


def collected(fields: list[tuple[str, str]]) -> dict[str, Any]:
    """Fields by their names; one that was given several times is a list.

    >>> collected([("q", "Yes."), ("q", "No."), ("source", "en")])
    {'q': ['Yes.', 'No.'], 'source': 'en'}
    """
    found: dict[str, Any] = {}
    for name, value in fields:
        before = found.get(name)
        found[name] = value if before is None else [*before, value] if isinstance(before, list) else [before, value]
    return found


def checked(form: type[Form], table: Any, *, strict: bool) -> Form:
    """The table as a `form`; `Refusal` that names everything that is wrong with it."""
    if not isinstance(table, Mapping):
        raise Refusal(422, f"the body is {table!r:.60}, expected an object with names and values")
    try:
        return form.model_validate(table, strict=strict)
    except ValidationError as error:
        raise Refusal(422, in_words(error.errors(include_url=False))) from None
