"""Translation with the API of LibreTranslate, HTML too, and by GET for translators' tools (OPUS-CAT, OmegaT)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints
from starlette.concurrency import run_in_threadpool

from pellucid.data.languages import write_standard_code
from pellucid.decode.alarms import ALARMS, sort_alarms
from pellucid.decode.request import SearchConfig
from pellucid.decode.translation import Translation
from pellucid.localize.documents.formats import DOCUMENT_FORMATS
from pellucid.localize.documents.html import split_html
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Parts, TextSlot, fill_slots, list_slots
from pellucid.serve.bodies import (
    ENCODED,
    JSON,
    PARTS,
    Form,
    Refusal,
    documented_responses,
    list_ignored,
    media_type,
    read_fields,
    refuse_long_text,
    run_by_size,
    validate_table,
)
from pellucid.serve.directions import Directions, measure_known_words
from pellucid.serve.service import Service, TranslationJob
from pellucid.serve.settings import Limits, language_name

_BEAM = SearchConfig().beam
_MOST_DIGITS = 9  # of a number that is written as a text
IGNORED = "Pellucid-Ignored"  # the header that names the fields of a request that were ignored
_IGNORED_MEANS = (
    "names of the first fields of the request that are not known here, and were ignored"
)
NAMES_IGNORED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {IGNORED: {"schema": {"type": "string"}, "description": _IGNORED_MEANS}}}
}
# Reasons to stop, in ascending order: an answer made of several
# translations reports the last of theirs.
STOP_ORDER = ("same", "empty", "memory", "eos", "length", "failed")
_SAME = "the text is asked for in its own language, so it stays as it is"

_OTHERS = f"other translations of each text; more than {_BEAM - 1} widen the search, which may find another best one"
_TERMS = "source terms, and the target term that must translate each; in a form, the text of a JSON object"
_FLAGS = {"true": True, "false": False, "": False}
_PROVENANCE = (
    "say where each word comes from: the model, a term, or a unit of the translation memory"
)
_KEY = "a key of this server, unless the header Authorization holds it"
_NO_KEY = "sent by clients of LibreTranslate; this server needs no key and ignores it"

Term = Annotated[str, StringConstraints(pattern=r"\S")]


def _read_number(value: Any) -> Any:
    """Return a number as LibreTranslate understands it: a text or a fraction too, and less than none as none."""
    if isinstance(value, bool):
        return value  # refused by pydantic
    if value is None or value == "":
        return 0
    if isinstance(value, str) and len(value) > _MOST_DIGITS:
        raise ValueError(f"a number has at most {_MOST_DIGITS} characters")
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return value  # refused by pydantic


def _read_flag(value: Any) -> Any:
    """Return true or false as a form can say it; anything else is left to pydantic, and refused."""
    return _FLAGS.get(value, value) if isinstance(value, str) else value


class TranslateRequest(BaseModel):
    """Texts to translate. Fields of other names are ignored, and named in the header Pellucid-Ignored."""

    q: Annotated[str | list[str], Field(description="a text, or a list of them")]
    source: Annotated[
        str, Field(description='the language of the texts, or "auto": what this model reads')
    ]
    target: Annotated[str, Field(description="the language to translate into")]
    format: Annotated[
        Literal["text", "html"],
        BeforeValidator(lambda value: "text" if value in ("", None) else value),
    ] = "text"
    alternatives: Annotated[int, BeforeValidator(_read_number), Field(description=_OTHERS)] = 0
    terms: Annotated[dict[Term, Term] | None, Field(description=_TERMS)] = None
    provenance: Annotated[
        bool, BeforeValidator(_read_flag), Field(strict=True, description=_PROVENANCE)
    ] = False
    api_key: str | None = None


class Detected(BaseModel):
    """A language that a model of this server reads, and how much of the text that model knows."""

    language: str
    confidence: float = Field(
        ge=0, le=100, description="percent of the words that the model's vocabulary knows"
    )


class Remembered(BaseModel):
    """An entry of the server's translation memory: used where its similarity is 1, otherwise only offered."""

    source: str
    target: str
    similarity: float = Field(ge=0, le=1)
    place: str = Field(description="file and line of the entry")


class Origin(BaseModel):
    """Where a word of a translation comes from; a term or an entry with its place, its source and its target."""

    word: str
    origin: Literal["model", "memory", "term", "prefix"]
    place: str
    source: str
    target: str


class Translated(BaseModel):
    """The translation of a text, or of each of a list. LibreTranslate itself has none of the last seven."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None
    stop: str | list[str] = Field(
        description='"eos" where the model ended, "length" where its limit did, "memory", "empty", "failed", or "same" '
        "where the text is asked for in its own language and stays as it is"
    )
    confidence: float | list[float | None] | None = Field(
        default=None,
        description="how likely it is that no change is needed, where the model was calibrated; of several sentences "
        "the least",
    )
    notes: list[str] | list[list[str]] = Field(
        description="unusual things that were done, such as a split"
    )
    alarms: list[str] | list[list[str]] = Field(
        description="names of what went wrong, as far as the texts tell: "
        + "; ".join(f'"{name}": {sentence}' for name, sentence in ALARMS.items())
    )
    missing_sentences: int | list[int] | None = Field(
        default=None,
        description="how many sentences fewer than the text its translation has, by the marks at their ends; not there "
        "where none is missing",
    )
    memory: list[Remembered] | list[list[Remembered]] | None = Field(
        default=None,
        description="entries of the translation memory, if the server has one: the same, or similar",
    )
    provenance: list[Origin] | list[list[Origin]] | None = Field(
        default=None,
        description="where each word comes from, where that was asked for: a term, or an entry of the translation "
        "memory, if the word is not there without it",
    )


class OpusCatTranslation(BaseModel):
    """The translation of a text, under the name that OPUS-CAT's clients look for."""

    translation: str


class SuggestRequest(BaseModel):
    """A better translation of a text. Fields of other names are ignored, and named in the header Pellucid-Ignored."""

    q: Annotated[str, Field(description="the text"), StringConstraints(pattern=r"\S")]
    s: Annotated[
        str, Field(description="the suggested translation"), StringConstraints(pattern=r"\S")
    ]
    source: str
    target: str
    api_key: str | None = None


class Suggested(BaseModel):
    """Whether the suggestion was stored."""

    success: bool


class DetectRequest(BaseModel):
    """Texts whose language is asked for. Other fields are ignored, and named in the header Pellucid-Ignored."""

    q: str | list[str]
    api_key: str | None = None


class Language(BaseModel):
    """A language, and the languages into which it is translated here."""

    code: str
    name: str
    targets: list[str]


def libretranslate_routes(service: Service) -> APIRouter:
    """Make the routes POST /translate, /suggest and /detect, GET /languages and /frontend/settings."""
    router = APIRouter(tags=["LibreTranslate"])
    limits, directions = service.limits, service.directions

    @router.post(
        "/translate",
        response_model_exclude_none=True,
        responses=documented_responses(403, 415, 504) | NAMES_IGNORED,
        openapi_extra=_describe_body(TranslateRequest, service),
        **service.keys.in_body(),
    )
    async def translate(request: Request, response: Response) -> Translated:
        """Translate a text or several; translations come in the order of the texts."""
        form = await _read_limited_form(request, response, TranslateRequest, service)
        return await translate_form(request, form, service)

    @router.post(
        "/suggest",
        responses=documented_responses(403, 415) | NAMES_IGNORED,
        openapi_extra=_describe_body(SuggestRequest, service),
        **service.keys.in_body(),
    )
    async def suggest(request: Request, response: Response) -> Suggested:
        """Store a better translation, where the server was told to keep corrections."""
        form = await _read_limited_form(request, response, SuggestRequest, service)
        if service.corrections is None:
            raise Refusal(
                403, "suggestions are not stored here; the server needs --corrections FILE for that"
            )

        refuse_long_text(len(form.s), limits.characters)

        # With "auto", the direction that would translate the text, as
        # it has done before somebody corrected it.
        direction = await run_in_threadpool(directions.find, form.source, form.target, [form.q])
        codes = direction.languages.codes
        if codes is None:
            if form.source == "auto":
                raise Refusal(
                    422, "source: name the language of the text, which a correction is stored with"
                )
            codes = write_standard_code(form.source), write_standard_code(form.target)

        await run_in_threadpool(service.corrections.append, form.q, form.s, codes)
        return Suggested(success=True)

    @router.post(
        "/detect",
        responses=documented_responses(403, 415) | NAMES_IGNORED,
        openapi_extra=_describe_body(DetectRequest, service),
        **service.keys.in_body(),
    )
    async def detect(request: Request, response: Response) -> list[Detected]:
        """Return the languages that are read here, with the percentage of words that the model knows as confidence."""
        form = await _read_limited_form(request, response, DetectRequest, service)
        known = await run_in_threadpool(directions.detect, _as_list(form.q))
        return [Detected(language=code, confidence=percent) for code, percent in known]

    # Argos Translate's own client asks for them by POST, which is
    # no part of LibreTranslate's description.
    @router.post("/languages", include_in_schema=False)
    @router.get("/languages", responses=documented_responses())
    def list_languages() -> list[Language]:
        """List the languages, each with those into which it is translated here."""
        languages = []
        for code, into in directions.targets.items():
            languages.append(Language(code=code, name=language_name(code), targets=into))
        return languages

    @router.get("/frontend/settings", responses=documented_responses())
    def settings() -> dict[str, Any]:
        """Return the settings that LibreTranslate's own page asks for first."""
        languages = directions.first.languages
        sides: dict[str, dict[str, str]] = {}
        for side in ("source", "target"):
            code = write_standard_code(getattr(languages, side))
            sides[side] = {"code": code, "name": language_name(code)}

        return {
            "apiKeys": bool(service.keys),
            "charLimit": limits.characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": bool(service.keys),
            "language": sides,
            "suggestions": service.corrections is not None,
            "supportedFilesFormat": list(DOCUMENT_FORMATS),
        }

    return router


def cat_tool_routes(service: Service) -> APIRouter:
    """Make the routes GET /MTRestService/TranslateJson and ListSupportedLanguagePairs, and GET /translate_get."""
    router = APIRouter(tags=["translators' tools"])
    codes: dict[str, dict[str, Any]] = {"source": {}, "target": {}}
    describe_languages(codes, service.directions)
    longest, key_meaning = service.limits.characters, "a key of this server, where it needs one"

    async def translate_query(
        request: Request, text: str, source: str, target: str, key: str
    ) -> Translated:
        service.keys.check(request, key)
        return await translate_form(
            request, TranslateRequest(q=text, source=source, target=target), service
        )

    # Its clients send modelTag and inputIsSingleSentence too, which mean nothing here.
    @router.get(
        "/MTRestService/TranslateJson",
        responses=documented_responses(403, 504),
        **service.keys.in_body(),
    )
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
        pairs: list[str] = []
        for source, into in service.directions.targets.items():
            pairs.extend(f"{source}-{target}" for target in into)
        return pairs

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


async def translate_form(request: Request, form: TranslateRequest, service: Service) -> Translated:
    """Translate the texts of a form, each as a whole or as the texts in its HTML."""
    if form.alternatives > service.limits.alternatives:
        raise Refusal(422, f"alternatives: this server gives {service.limits.alternatives} at most")

    texts, ranks = _as_list(form.q), 1 + form.alternatives
    if service.directions.stays_same(form.source, form.target):
        return _join_answers(form, [_keep_text(text, ranks) for text in texts])

    characters = sum(map(len, texts))
    direction = await run_by_size(
        characters, service.directions.find, form.source, form.target, texts
    )
    languages = direction.languages.codes

    pages: list[Parts] = []
    segments: list[str] = []
    for text in texts:
        is_html = form.format == "html"
        page = split_html(text, DocumentReading(languages)) if is_html else [TextSlot(text)]
        pages.append(page)
        segments.extend(slot.text for slot in list_slots(page))

    # A search gives as many alternatives as its beam holds; the default beam stays where that
    # suffices.
    search = SearchConfig(beam=max(_BEAM, ranks), n_best=ranks, provenance=form.provenance)
    # In a thread: the terms of a request are added to the terms of the server, which may be many.
    terms = await run_in_threadpool(service.terms_with, form.terms) if form.terms else service.terms
    job = TranslationJob(tuple(segments), direction, search, terms)
    translations = iter(await service.answer(request, service.translation_worker, job))
    target = languages[1] if languages else None
    answers = [_assemble_text(page, translations, ranks, target) for page in pages]

    if service.translation_memory is None:
        for answer in answers:
            answer.memory = None
    if form.source == "auto":
        # As LibreTranslate does: one language for all texts of a request, with one confidence.
        known = await run_in_threadpool(measure_known_words, direction.tokenizer, texts)
        detected = Detected(
            language=write_standard_code(direction.languages.source), confidence=known
        )
        for answer in answers:
            answer.detectedLanguage = detected

    return _join_answers(form, answers)


def _join_answers(form: TranslateRequest, answers: list[Translated]) -> Translated:
    """Return the answer for a text, or, for a list, one answer whose fields are lists."""
    if isinstance(form.q, str):
        return answers[0]
    columns = {}
    for name in Translated.model_fields:
        columns[name] = [getattr(answer, name) for answer in answers]
    if any(columns["missing_sentences"]):
        columns["missing_sentences"] = [count or 0 for count in columns["missing_sentences"]]
    optional = {name for name, field in Translated.model_fields.items() if not field.is_required()}
    lacking = {name for name in optional if all(value is None for value in columns[name])}
    return Translated(**{name: values for name, values in columns.items() if name not in lacking})


def _keep_text(text: str, ranks: int) -> Translated:
    """Return the answer for a text that is asked for in its own language, as LibreTranslate gives it."""
    return Translated(
        translatedText=text,
        alternatives=[] if ranks > 1 else None,
        stop="same",
        notes=[_SAME],
        alarms=[],
    )


async def _read_limited_form(
    request: Request, response: Response, form: type[Form], service: Service
) -> Form:
    """Read the fields of a request as a `form`; the header of the `response` names those that it does not know.

    Raises `Refusal` without a key, beyond the limits, or for an invalid field.
    """
    table = await read_fields(request)

    # First of all checks: a client without a key learns nothing
    # else about the server, and costs it little.
    service.keys.check(request, table.get("api_key"))

    # Strict for JSON, which has types; in a form every value is a text that pydantic must convert.
    strict = media_type(request) == JSON
    size = len(await request.body()) + len(request.url.query)
    validated = await run_by_size(
        size, validate_limited, form, table, service.limits, strict=strict
    )
    name_ignored(response, form, table)
    return validated


def name_ignored(response: Response, form: type[BaseModel], table: Mapping[str, Any]) -> None:
    """Name in a header of the response the fields that the form does not know."""
    if ignored := list_ignored(form, table):
        response.headers[IGNORED] = ignored


def validate_limited(
    form: type[Form], table: dict[str, Any], limits: Limits, *, strict: bool
) -> Form:
    """Validate a table as a `form`; raise `Refusal` for texts and terms beyond the limits, and for an invalid field."""
    texts = _as_list(table.get("q", ""))
    if len(texts) > limits.texts:
        raise Refusal(413, f"{len(texts):,} texts, this server takes {limits.texts:,} at a time")
    refuse_long_text(sum(len(text) for text in texts if isinstance(text, str)), limits.characters)

    # In a form, terms are the text of a JSON object.
    if isinstance(table.get("terms"), str):
        try:
            table["terms"] = json.loads(table["terms"])
        except (ValueError, RecursionError):
            raise Refusal(
                422, "terms: expected a JSON object of source terms and target terms"
            ) from None

    terms = table.get("terms")
    if isinstance(terms, Mapping):  # anything else is left to pydantic
        if len(terms) > limits.request_terms:
            raise Refusal(
                413, f"{len(terms):,} terms, this server takes {limits.request_terms:,} at a time"
            )
        sides = [*terms.keys(), *terms.values()]
        longest = max((len(side) for side in sides if isinstance(side, str)), default=0)
        if longest > limits.term_characters:
            most = f"{limits.term_characters:,} at most"
            raise Refusal(
                413, f"a term of {longest:,} characters, this server takes terms of {most}"
            )

    return validate_table(form, table, strict=strict)


def _as_list(q: str | list[str]) -> list[str]:
    return q if isinstance(q, list) else [q]


def _assemble_text(
    page: Parts, answers: Iterator[Translation], ranks: int, language: str | None
) -> Translated:
    """Put the n-th best translations of all segments together to the n-th best translation of the page."""
    translations = [next(answers) for _ in list_slots(page)]
    ranked = [[translation, *translation.alternatives] for translation in translations]

    texts: list[str] = []
    for rank in range(max(map(len, ranked), default=1)):
        # A segment with fewer translations than others repeats its last one.
        chosen = (segment_ranks[min(rank, len(segment_ranks) - 1)].text for segment_ranks in ranked)
        texts.append(fill_slots(page, chosen, language=language))

    # Different hypotheses may detokenize to one text; `fromkeys` drops repeats and keeps the order.
    best, *alternatives = list(dict.fromkeys(texts))[:ranks]
    notes: list[str] = []
    alarms: list[str] = []
    confidences: list[float] = []
    found: list[Remembered] = []
    origins: list[Origin] = []
    for translation in translations:
        notes += translation.notes
        alarms += translation.alarms
        if translation.confidence is not None:
            confidences.append(translation.confidence)
        if translation.remembered:
            found.append(Remembered(**asdict(translation.remembered)))
        for origin in translation.provenance or ():
            origins.append(Origin(**asdict(origin)))

    return Translated(
        translatedText=best,
        alternatives=alternatives if ranks > 1 else None,
        stop=max(
            (translation.stop for translation in translations),
            key=STOP_ORDER.index,
            default="empty",
        ),
        # A page is no surer than the least sure of its segments.
        confidence=min(confidences, default=None),
        notes=list(dict.fromkeys(notes)),
        alarms=list(sort_alarms(alarms)),
        missing_sentences=sum(translation.missing_sentences for translation in translations)
        or None,
        memory=found,
        provenance=origins or None,
    )


def _describe_body(form: type[BaseModel], service: Service) -> dict[str, Any]:
    """Describe the body of a route for OpenAPI: the fields and limits of `form`, in each type it may be sent as."""
    content: dict[str, Any] = {}
    for kind in (JSON, ENCODED, PARTS):
        content[kind] = {"schema": _describe_form(form, service, kind)}
    return {"requestBody": {"required": True, "content": content}}


def _describe_form(form: type[BaseModel], service: Service, kind: str) -> dict[str, Any]:
    """Return the JSON schema of `form` in a body of this type, with the limits and the languages of this server."""
    # The routes read the body themselves, for its three types, so FastAPI knows no schema of it.
    limits = service.limits
    schema = form.model_json_schema()
    fields = schema["properties"]
    text = {"type": "string", "maxLength": limits.characters}
    fields["api_key"]["description"] = _KEY if service.keys else _NO_KEY

    if form is SuggestRequest:
        for side in ("q", "s"):
            fields[side]["maxLength"] = limits.characters
        describe_languages(fields, service.directions)
        return schema

    # A form has no way to write a list without texts, nor a null, and all of its values are texts.
    is_json = kind == JSON
    several = {
        "type": "array",
        "items": text,
        "minItems": 0 if is_json else 1,
        "maxItems": limits.texts,
    }
    fields["q"]["anyOf"] = [text, several]
    if form is TranslateRequest:
        empty = ["", None] if is_json else [""]
        fields["format"] |= {"type": ["string", "null"], "enum": ["text", "html", *empty]}
        fields["alternatives"]["maximum"] = limits.alternatives
        if is_json:
            # The words for numbers say nothing of texts, and the pattern
            # nothing of numbers. A fraction is cut off.
            numbers = "|".join(map(str, range(limits.alternatives + 1)))
            fields["alternatives"] |= {
                "type": ["number", "string", "null"],
                "pattern": f"^({numbers}|-[0-9]{{1,5}})?$",
            }
            fields["alternatives"]["exclusiveMaximum"] = fields["alternatives"].pop("maximum") + 1

        flags = [True, False, *_FLAGS] if is_json else [*_FLAGS]
        fields["provenance"] |= {"type": ["boolean", "string"], "enum": flags}

        table, _ = fields["terms"]["anyOf"]
        table["maxProperties"] = limits.request_terms
        for side in ("propertyNames", "additionalProperties"):
            table[side] = {**table.get(side, {}), "maxLength": limits.term_characters}
        describe_languages(fields, service.directions)

    return schema


def describe_languages(fields: dict[str, Any], directions: Directions) -> None:
    """Add the languages of a server to the schema of a form, where its models name them."""
    if directions.first.languages.are_named:
        sources: list[str] = []
        targets: dict[str, None] = {}
        for code, into in directions.targets.items():
            if into:
                sources.append(code)
            targets |= dict.fromkeys(into)
        fields["source"]["enum"] = [*sources, "auto"]
        fields["target"]["enum"] = list(targets)
