"""Translation of documents with the API of LibreTranslate: upload, translate, download within some minutes."""

import asyncio
import re
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from pellucid.data.context import DocumentReader
from pellucid.data.languages import write_standard_code
from pellucid.decode.request import SearchConfig
from pellucid.decode.translation import Translation
from pellucid.localize.documents.account import make_account
from pellucid.localize.documents.formats import DOCUMENT_FORMATS, document_suffix
from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.reading import DocumentLimits, DocumentTooLarge
from pellucid.localize.terminology import Terms
from pellucid.serve.bodies import PARTS, Refusal, Section, documented_responses, read_upload
from pellucid.serve.directions import Direction
from pellucid.serve.libretranslate import (
    NAMES_IGNORED,
    describe_languages,
    name_ignored,
    validate_limited,
)
from pellucid.serve.service import BoundedStore, Patience, Service, TranslationJob

# Bounds on the texts of a document that are translated together,
# between which other requests get their turn.
_CHUNK_TEXTS, _CHUNK_CHARACTERS = 32, 4000
_WAIT = 0.2  # seconds until a document asks again for its turn where as many requests wait as may
_SAMPLE = 64  # texts by which the language of a document is recognised


class TranslateFileRequest(BaseModel):
    """The fields beside the file. Fields of other names are ignored, and named in the header Pellucid-Ignored."""

    source: Annotated[str, Field(description='the language of the document, or "auto"')]
    target: Annotated[str, Field(description="the language to translate into")]
    terms: dict[str, str] | None = None
    api_key: str | None = None


class TranslatedFile(BaseModel):
    """Where the translated document can be fetched; LibreTranslate itself only has the address."""

    translatedFileUrl: str
    texts: int = Field(description="texts that were given to the model")
    unchanged: int = Field(description="texts among them whose translation is the text itself")
    failed: int = Field(
        description="texts among them that could not be translated as asked and stay as they are"
    )
    kept: dict[str, int] = Field(
        description="texts that were not given to the model, by kind, as far as the reader of the format counts them"
    )


def file_routes(service: Service) -> APIRouter:
    """Make the routes POST /translate_file and GET /download_file."""
    router = APIRouter(tags=["LibreTranslate"])
    limits = service.limits
    store = BoundedStore[tuple[bytes, str]](
        limits.files, limits.file_bytes, limits.file_minutes, renew=False
    )
    service.add_gauge("files", "translated documents kept", lambda: len(store))
    document_limits = DocumentLimits(
        bytes=limits.document_bytes,
        unpacked=8 * limits.document_bytes,
        members=2000,
        texts=limits.document_characters,
        characters=limits.document_characters,
        elements=limits.document_elements,
    )
    under_way = 0

    @router.post(
        "/translate_file",
        responses=documented_responses(403, 415, 504) | NAMES_IGNORED,
        openapi_extra=_describe_upload(service),
        **service.keys.in_body(),
    )
    async def translate_file(request: Request, response: Response) -> TranslatedFile:
        """Translate a document, and return the address where it can be fetched for some minutes.

        The ending of its name tells its format. Everything in it
        that is not translated stays as it is.
        """
        nonlocal under_way

        def refuse_too_many() -> None:
            if under_way >= limits.documents:
                raise Refusal(
                    503,
                    f"{limits.documents} documents are being translated, which is as many as may",
                )

        # Before the body is read, which may be some megabytes, and after it:
        # a body that never arrives takes no place.
        refuse_too_many()
        fields, upload = await read_upload(request)
        refuse_too_many()
        under_way += 1
        try:
            translated = await _translate_upload(
                request, fields, upload, service, store, document_limits
            )
            name_ignored(response, TranslateFileRequest, fields)
            return translated
        finally:
            under_way -= 1

    # The name is secret, so it takes no key: LibreTranslate's clients send none.
    @router.get(
        "/download_file/{name}",
        response_class=Response,
        responses={**documented_responses(404), 200: {"content": {"application/octet-stream": {}}}},
    )
    def download_file(name: str) -> Response:
        """Return a translated document."""
        file = store.get(name)
        if file is None:
            raise Refusal(
                404,
                f"there is no such document: documents are kept {limits.file_minutes:g} minutes, the last "
                f"{limits.files} at most; translate it again",
            )

        shown_name = quote(name.partition(".")[2])
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{shown_name}"}
        content, media_type = file
        return Response(content, media_type=media_type, headers=headers)

    return router


async def _translate_upload(
    request: Request,
    fields: dict[str, Any],
    upload: Section | None,
    service: Service,
    store: BoundedStore[tuple[bytes, str]],
    limits: DocumentLimits,
) -> TranslatedFile:
    """Translate the document of a form with these other fields, and store it."""
    service.keys.check(request, fields.get("api_key"))
    form = await run_in_threadpool(
        validate_limited, TranslateFileRequest, fields, service.limits, strict=False
    )
    if upload is None:
        raise Refusal(422, "file: the form has no file")

    # Refuses other languages before the document is read.
    service.directions.find(form.source, form.target)
    # As documents write it, and names of files: a client may send three letters.
    target = write_standard_code(form.target)
    languages = None if form.source == "auto" else (form.source, target)

    try:
        name = PurePath(upload.file_name).name
        document = await service.run_while_wanted(
            request, partial(read_document, name, upload.value, languages, limits)
        )
    except DocumentTooLarge as error:
        raise Refusal(413, str(error)) from None
    except ValueError as error:
        raise Refusal(400, str(error)) from None

    direction = await run_in_threadpool(
        service.directions.find, form.source, form.target, document.texts[:_SAMPLE]
    )
    terms = await run_in_threadpool(service.terms_with, form.terms)
    translations = await _translate_texts(request, service, document.texts, direction, terms)
    written = [translation.text for translation in translations]

    try:
        language = target if direction.languages.are_named else None
        content = await run_in_threadpool(document.write, written, language=language)
    except ValueError as error:
        raise Refusal(400, str(error)) from None

    failed = sum(translation.stop == "failed" for translation in translations)
    account = make_account(document.texts, written, failed, document.kept)
    suffix = document_suffix(upload.file_name) or ""
    stem = re.sub(r"[^\w.-]+", "_", PurePath(upload.file_name).stem)[:80] or "document"

    # LibreTranslate's own form: an identity that nobody can
    # guess, and then the name of the download.
    name = f"{secrets.token_hex(16)}.{stem}_{target}{suffix}"
    store.put(name, (content, DOCUMENT_FORMATS[suffix].media_types[suffix]), len(content))

    return TranslatedFile(
        translatedFileUrl=str(request.url_for("download_file", name=name)),
        texts=len(translations),
        unchanged=account.unchanged,
        failed=failed,
        kept=dict(account.kept),
    )


async def _translate_texts(
    request: Request,
    service: Service,
    texts: Sequence[str],
    direction: Direction,
    terms: Terms | None,
) -> list[Translation]:
    """Translate the texts of a document in pieces, between which other requests get their turn."""
    translations: list[Translation] = []
    model = await run_in_threadpool(service.directions.model, direction)
    reader = DocumentReader(model.translator.context)

    # Of the whole document: each piece waits for its turn, and
    # the sum of these waits would have no end.
    patience = Patience(service.seconds_left(request))
    for chunk in _cut_into_chunks(texts):
        contexts = tuple(map(reader.take, chunk))
        # With its model: one that is replaced in the meantime
        # does not translate the rest of the document.
        job = TranslationJob(
            tuple(chunk), direction, SearchConfig(scores=False), terms, contexts, model
        )
        while True:
            try:
                translations += await service.answer(
                    request, service.translation_worker, job, patience
                )
                break
            except Refusal as refusal:
                # A document that is half done waits for its turn.
                if refusal.status != 503 or service.is_ending or patience.seconds <= _WAIT:
                    raise

            await asyncio.sleep(_WAIT)
            patience.waited += _WAIT
    return translations


def _cut_into_chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in their order, some at a time.

    >>> [len(chunk) for chunk in _cut_into_chunks(["a" * 1500] * 3 + ["b"] * 40)]
    [2, 32, 9]
    """
    chunk: list[str] = []
    characters = 0
    for text in texts:
        if chunk and (len(chunk) >= _CHUNK_TEXTS or characters + len(text) > _CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(text)
        characters += len(text)

    if chunk:
        yield chunk


def _describe_upload(service: Service) -> dict[str, Any]:
    schema = TranslateFileRequest.model_json_schema()
    fields = schema["properties"]
    formats = ", ".join(DOCUMENT_FORMATS)
    fields["file"] = {
        "type": "string",
        "format": "binary",
        "description": f"a document of the formats {formats}",
    }
    schema["required"] = ["file", *schema["required"]]

    # In a form every value is a text; the text of this one is a JSON object.
    fields["terms"] = {"type": "string", "contentMediaType": "application/json"}
    fields["api_key"] = {"type": "string"}
    describe_languages(fields, service.directions)
    return {"requestBody": {"required": True, "content": {PARTS: {"schema": schema}}}}
