"""Translation as LibreTranslate's clients ask for it: the same paths, the same names, the same forms."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from pellucid.decode.assemble import Translation
from pellucid.decode.config import SearchConfig
from pellucid.serve.html import HtmlText, fill_translations, split_html
from pellucid.serve.languages import language_name
from pellucid.serve.limits import Limits
from pellucid.serve.problems import Refusal, documented_responses
from pellucid.serve.request_bodies import ENCODED, JSON, PARTS, read_body
from pellucid.serve.service import Service
from pellucid.serve.worker import TranslationJob

BEAM = SearchConfig().beam
STOP_ORDER = ("empty", "eos", "length", "failed")
"""Why translations stopped; of several, the last of these is said."""


OTHERS = f"other translations of each text; more than {BEAM - 1} widen the search, which may find another best one"


Term = Annotated[str, StringConstraints(pattern=r"\S")]
TERMS = "source terms, and the target term that must translate each; a form writes them as a JSON object"
KEY = "a key of this server, unless the header Authorization holds it"
NO_KEY = "clients of LibreTranslate send one; this server asks for none and does not look at it"


def terms_from_form(terms: Any) -> Any:
    """The terms of a form, where they are the text of a JSON object."""
    if not isinstance(terms, str):
        return terms
    try:
        return json.loads(terms)
    except (ValueError, RecursionError):
        raise ValueError("expected a JSON object of source terms and target terms") from None


class TranslateRequest(BaseModel):
    """What is to be translated. A field of another name is refused."""

    model_config = ConfigDict(extra="forbid")
    q: Annotated[str | list[str], Field(description="a text, or a list of them")]
    source: Annotated[str, Field(description='the language of the texts, or "auto": what this model reads')]
    target: Annotated[str, Field(description="the language to translate into")]
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, description=OTHERS)] = 0
    terms: Annotated[dict[Term, Term] | None, BeforeValidator(terms_from_form), Field(description=TERMS)] = None
    api_key: str | None = None


class Detected(BaseModel):
    """A language, and how sure it is: 0, because this model reads one language and looks for no other."""

    language: str
    confidence: float


class Translated(BaseModel):
    """The translation of a text, or of each of a list. `stop` and `notes` are what LibreTranslate does not say."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None
    stop: str | list[str] = Field(
        description='"eos" where the model ended, "length" where its limit did, "empty", or "failed"'
    )
    notes: list[str] | list[list[str]] = Field(description="what was done that was not plain, such as a split")


class DetectRequest(BaseModel):
    """A text whose language is asked for. A field of another name is refused."""

    model_config = ConfigDict(extra="forbid")
    q: str | list[str]
    api_key: str | None = None


class Language(BaseModel):
    """A language, and into which it is translated here."""

    code: str
    name: str
    targets: list[str]


def libretranslate_routes(service: Service) -> APIRouter:
    """POST /translate and /detect, GET /languages and /frontend/settings."""
    router = APIRouter(tags=["LibreTranslate"])
    limits, languages = service.limits, service.languages

    @router.post(
        "/translate",
        response_model_exclude_none=True,
        responses=documented_responses(403, 415, 504),
        openapi_extra=describe_body(TranslateRequest, service),
        **service.keys.in_body(),
    )
    async def translate(request: Request) -> Translated:
        """Translate a text or several. One text in, one out, in their order."""
        wanted = await read_body(request, TranslateRequest, forms=True)
        service.keys.check(request, wanted.api_key)
        problem = languages.problem(wanted.source, wanted.target)
        if problem:
            raise Refusal(422, problem)
        texts = texts_within_limits(wanted.q, limits)
        if wanted.alternatives > limits.alternatives:
            raise Refusal(422, f"alternatives: this server gives {limits.alternatives} at most")
        pages = [split_html(text) if wanted.format == "html" else [HtmlText(text)] for text in texts]
        ranks = 1 + wanted.alternatives
        search = SearchConfig(beam=max(BEAM, ranks), n_best=ranks)
        asked = TranslationJob(
            tuple(each.text for page in pages for each in page if not isinstance(each, str)),
            search,
            service.terms_with(wanted.terms),
        )
        found = iter(await service.answer(request, service.translation_worker, asked))
        results = [
            assemble_text(page, [next(found) for each in page if not isinstance(each, str)], ranks) for page in pages
        ]
        return make_answer(results, wanted, Detected(language=languages.source, confidence=0.0))

    @router.post(
        "/detect",
        responses=documented_responses(403, 415),
        openapi_extra=describe_body(DetectRequest, service),
        **service.keys.in_body(),
    )
    async def detect(request: Request) -> list[Detected]:
        """The language this model reads, whatever was asked: nothing is measured, hence the confidence of 0."""
        asked = await read_body(request, DetectRequest, forms=True)
        service.keys.check(request, asked.api_key)
        texts_within_limits(asked.q, limits)
        return [Detected(language=languages.source, confidence=0.0)]

    @router.get("/languages", responses=documented_responses())
    def listed() -> list[Language]:
        """The languages of this model, which has one direction."""
        return [Language(**each) for each in languages.as_list()]

    @router.get("/frontend/settings", responses=documented_responses())
    def settings() -> dict[str, Any]:
        """What LibreTranslate's own page asks first."""
        ends = {"source": languages.source, "target": languages.target}
        return {
            "apiKeys": bool(service.keys),
            "charLimit": limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": bool(service.keys),
            "language": {end: {"code": code, "name": language_name(code)} for end, code in ends.items()},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return router


@dataclass(frozen=True)
class TextResult:
    """What became of one text: its translations, best first, why they stopped, and what is to be said of them."""

    texts: list[str]
    stop: str
    notes: list[str]


def assemble_text(page: Sequence[str | HtmlText], found: Sequence[Translation], ranks: int) -> TextResult:
    """The translations of what stands in a text, put together again; the n-th of it is made of the n-th of each."""
    ranked = [[each, *each.alternatives] for each in found]
    texts = [
        fill_translations(page, iter([each[min(rank, len(each) - 1)].text for each in ranked]))
        for rank in range(max(map(len, ranked), default=1))
    ]
    stop = max((each.stop for each in found), key=STOP_ORDER.index, default="empty")
    notes = [note for each in found for note in each.notes]
    return TextResult(list(dict.fromkeys(texts))[:ranks], stop, list(dict.fromkeys(notes)))


def make_answer(results: Sequence[TextResult], wanted: TranslateRequest, detected: Detected) -> Translated:
    """The answer: lists where a list was asked for, and alternatives and a language where those were."""
    many = isinstance(wanted.q, list)
    answer = Translated(
        translatedText=[each.texts[0] for each in results],
        alternatives=[each.texts[1:] for each in results] if wanted.alternatives else None,
        detectedLanguage=[detected] * len(results) if wanted.source == "auto" else None,
        stop=[each.stop for each in results],
        notes=[each.notes for each in results],
    )
    if many:
        return answer
    return Translated(**{name: value and value[0] for name, value in answer})


def texts_within_limits(asked: str | list[str], limits: Limits) -> list[str]:
    """The texts; `Refusal` for more than the limits let through."""
    texts = [asked] if isinstance(asked, str) else asked
    if len(texts) > limits.texts:
        raise Refusal(413, f"{len(texts)} texts, this server takes {limits.texts} at a time")
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise Refusal(413, f"{characters:,} characters, this server takes {limits.characters:,} at a time")
    return texts


def describe_body(form: type[BaseModel], service: Service) -> dict[str, Any]:
    """How the body of a route is described: the fields of `form`, in each way they may be written, and the limits."""
    kinds = {JSON: 0, ENCODED: 1, PARTS: 1}  # the fewest texts of a list: a form has no way to write none
    content = {kind: {"schema": describe_form(form, service, least)} for kind, least in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def describe_form(form: type[BaseModel], service: Service, least: int) -> dict[str, Any]:
    """The schema of `form`, with the limits and the languages of this server."""
    limits, languages = service.limits, service.languages
    schema = form.model_json_schema()
    fields = schema["properties"]
    text = {"type": "string", "maxLength": limits.characters}
    fields["q"]["anyOf"] = [text, {"type": "array", "items": text, "minItems": least, "maxItems": limits.texts}]
    fields["api_key"]["description"] = KEY if service.keys else NO_KEY
    if "alternatives" in fields:
        fields["alternatives"]["maximum"] = limits.alternatives
    if "source" in fields and languages.are_named:
        fields["source"]["enum"] = [languages.source, "auto"]
        fields["target"]["enum"] = [languages.target]
    return schema
