"""Requests of translators' tools that ask by GET: OPUS-CAT's clients, and OmegaT's plug-in for LibreTranslate."""

from typing import Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from pellucid.serve.bodies import documented_responses
from pellucid.serve.libretranslate import Translated, TranslateRequest, describe_languages, translate_form
from pellucid.serve.service import Service


class OpusCatTranslation(BaseModel):
    """The translation of a text, under the name that OPUS-CAT's clients look for."""

    translation: str


def cat_tool_routes(service: Service) -> APIRouter:
    """Make the routes GET /MTRestService/TranslateJson and ListSupportedLanguagePairs, and GET /translate_get."""
    router = APIRouter(tags=["translators' tools"])
    codes: dict[str, dict[str, Any]] = {"source": {}, "target": {}}
    describe_languages(codes, service.directions, with_auto=True)
    longest, key_meaning = service.limits.characters, "a key of this server, where it needs one"

    async def translate_query(request: Request, text: str, source: str, target: str, key: str) -> Translated:
        service.keys.check(request, key)
        return await translate_form(request, TranslateRequest(q=text, source=source, target=target), service)

    # Its clients send modelTag and inputIsSingleSentence too, which mean nothing here.
    @router.get("/MTRestService/TranslateJson", responses=documented_responses(403, 504), **service.keys.in_body())
    async def translate_json(
        request: Request,
        input: str = Query(max_length=longest),
        srcLangCode: str = Query(json_schema_extra=codes["source"]),
        trgLangCode: str = Query(json_schema_extra=codes["target"]),
        tokenCode: str = Query("", description=key_meaning),
    ) -> OpusCatTranslation:
        """Translate a text as OPUS-CAT's MT Engine does."""
        answer = await translate_query(request, input, srcLangCode, trgLangCode, tokenCode)
        return OpusCatTranslation(translation=str(answer.translatedText))

    @router.get("/MTRestService/ListSupportedLanguagePairs", responses=documented_responses())
    def list_language_pairs() -> list[str]:
        """List the pairs of languages, by which OPUS-CAT's clients test the connection."""
        return [f"{source}-{target}" for source, into in service.directions.targets.items() for target in into]

    # A path of its own, which the plug-in is told: at /translate LibreTranslate knows POST alone.
    @router.get(
        "/translate_get",
        response_model_exclude_none=True,
        responses=documented_responses(403, 504),
        **service.keys.in_body(),
    )
    async def translate_get(
        request: Request,
        q: str = Query(max_length=longest),
        source: str = Query(json_schema_extra=codes["source"]),
        target: str = Query(json_schema_extra=codes["target"]),
        api_key: str = Query("", description=key_meaning),
    ) -> Translated:
        """Translate a text given in the address, as OmegaT's plug-in for LibreTranslate asks."""
        return await translate_query(request, q, source, target, api_key)

    return router
