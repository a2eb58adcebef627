"""Translation with the API of LibreTranslate: its paths, names and forms, and HTML."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from itertools import count
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from starlette.concurrency import run_in_threadpool

from pellucid.decode.assemble import Translation
from pellucid.decode.config import SearchConfig
from pellucid.decode.known_words import measure_known_words
from pellucid.serve.bodies import ENCODED, JSON, PARTS, Refusal, documented_responses, read_body
from pellucid.serve.service import Service, TranslationJob
from pellucid.serve.settings import Limits, language_name

BEAM = SearchConfig().beam
STOP_ORDER = ("empty", "eos", "length", "failed")
"""Reasons to stop, in ascending order: an answer made of several translations reports the last of theirs."""


OTHERS = f"other translations of each text; more than {BEAM - 1} widen the search, which may find another best one"


Term = Annotated[str, StringConstraints(pattern=r"\S")]
TERMS = "source terms, and the target term that must translate each; in a form, the text of a JSON object"
KEY = "a key of this server, unless the header Authorization holds it"
NO_KEY = "sent by clients of LibreTranslate; this server needs no key and ignores it"


def terms_from_form(terms: Any) -> Any:
    """Parse terms that a form gives as the text of a JSON object; return others unchanged."""
    if not isinstance(terms, str):
        return terms
    try:
        return json.loads(terms)
    except (ValueError, RecursionError):
        raise ValueError("expected a JSON object of source terms and target terms") from None


class TranslateRequest(BaseModel):
    """Texts to translate. A field of another name is refused."""

    model_config = ConfigDict(extra="forbid")
    q: Annotated[str | list[str], Field(description="a text, or a list of them")]
    source: Annotated[str, Field(description='the language of the texts, or "auto": what this model reads')]
    target: Annotated[str, Field(description="the language to translate into")]
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, description=OTHERS)] = 0
    terms: Annotated[dict[Term, Term] | None, BeforeValidator(terms_from_form), Field(description=TERMS)] = None
    api_key: str | None = None


class Detected(BaseModel):
    """The language that this model reads, whatever the text is, and how much of the text the model knows."""

    language: str
    confidence: float = Field(ge=0, le=100, description="percent of the words that the model's vocabulary knows")


class Translated(BaseModel):
    """The translation of a text, or of each of a list. LibreTranslate itself has no `stop` and no `notes`."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None
    stop: str | list[str] = Field(
        description='"eos" where the model ended, "length" where its limit did, "empty", or "failed"'
    )
    notes: list[str] | list[list[str]] = Field(description="unusual things that were done, such as a split")


class DetectRequest(BaseModel):
    """Texts whose language is asked for. A field of another name is refused."""

    model_config = ConfigDict(extra="forbid")
    q: str | list[str]
    api_key: str | None = None


class Language(BaseModel):
    """A language, and the languages into which it is translated here."""

    code: str
    name: str
    targets: list[str]


def libretranslate_routes(service: Service) -> APIRouter:
    """Make the routes POST /translate and /detect, GET /languages and /frontend/settings."""
    router = APIRouter(tags=["LibreTranslate"])
    limits, languages = service.limits, service.languages

    def check_table(request: Request, table: Mapping[str, Any]) -> None:
        # First of all checks: a client without a key learns nothing else about the server, and costs it little.
        service.keys.check(request, table.get("api_key"))
        refuse_many_texts(table.get("q"), limits)
        refuse_large_terms(table.get("terms"), limits)

    def detect_language(texts: Sequence[str]) -> Detected:
        known = measure_known_words(service.model.lazy_bundle.tokenizer, texts)
        return Detected(language=languages.source, confidence=known)

    def make_job(form: TranslateRequest, pages: Sequence[Sequence[str | HtmlText]]) -> TranslationJob:
        ranks = 1 + form.alternatives
        # A search gives as many alternatives as its beam holds; the default beam stays where that suffices.
        search = SearchConfig(beam=max(BEAM, ranks), n_best=ranks)
        texts = (segment.text for page in pages for segment in page if not isinstance(segment, str))
        return TranslationJob(tuple(texts), search, service.terms_with(form.terms))

    @router.post(
        "/translate",
        response_model_exclude_none=True,
        responses=documented_responses(403, 415, 504),
        openapi_extra=describe_body(TranslateRequest, service),
        **service.keys.in_body(),
    )
    async def translate(request: Request) -> Translated:
        """Translate a text or several; translations come in the order of the texts."""
        form = await read_body(request, TranslateRequest, forms=True, check=partial(check_table, request))
        problem = languages.problem(form.source, form.target)
        if problem:
            raise Refusal(422, problem)
        texts = texts_within_limits(form.q, limits)
        if form.alternatives > limits.alternatives:
            raise Refusal(422, f"alternatives: this server gives {limits.alternatives} at most")
        pages = [split_html(text) if form.format == "html" else [HtmlText(text)] for text in texts]
        # In a thread: the terms of a request are added to those of the server, which may be many.
        job = await run_in_threadpool(make_job, form, pages)
        translations = iter(await service.answer(request, service.translation_worker, job))
        results = [
            assemble_text(
                page, [next(translations) for segment in page if not isinstance(segment, str)], job.search.n_best
            )
            for page in pages
        ]
        detected = await run_in_threadpool(lambda: [detect_language([text]) for text in texts if form.source == "auto"])
        return make_answer(results, form, detected)

    @router.post(
        "/detect",
        responses=documented_responses(403, 415),
        openapi_extra=describe_body(DetectRequest, service),
        **service.keys.in_body(),
    )
    async def detect(request: Request) -> list[Detected]:
        """Return the language this model reads, with the percentage of words that the model knows as confidence."""
        form = await read_body(request, DetectRequest, forms=True, check=partial(check_table, request))
        return [await run_in_threadpool(detect_language, texts_within_limits(form.q, limits))]

    @router.get("/languages", responses=documented_responses())
    def list_languages() -> list[Language]:
        """List the languages of this model, which has one direction."""
        return [Language(**language) for language in languages.as_list()]

    @router.get("/frontend/settings", responses=documented_responses())
    def settings() -> dict[str, Any]:
        """Return the settings that LibreTranslate's own page asks for first."""
        codes = {"source": languages.source, "target": languages.target}
        return {
            "apiKeys": bool(service.keys),
            "charLimit": limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": bool(service.keys),
            "language": {side: {"code": code, "name": language_name(code)} for side, code in codes.items()},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return router


@dataclass(frozen=True)
class TextResult:
    """Translations of one text, best first, with the reason they stopped and their notes."""

    texts: list[str]
    stop: str
    notes: list[str]


def assemble_text(page: Sequence[str | HtmlText], translations: Sequence[Translation], ranks: int) -> TextResult:
    """Put the n-th best translations of all segments together to the n-th best translation of the page."""
    ranked = [[translation, *translation.alternatives] for translation in translations]
    texts = [
        # A segment with fewer translations than others repeats its last one.
        fill_translations(
            page, iter([segment_ranks[min(rank, len(segment_ranks) - 1)].text for segment_ranks in ranked])
        )
        for rank in range(max(map(len, ranked), default=1))
    ]
    stop = max((translation.stop for translation in translations), key=STOP_ORDER.index, default="empty")
    notes = [note for translation in translations for note in translation.notes]
    # Different hypotheses may detokenize to one text; `fromkeys` drops repeats and keeps the order.
    return TextResult(list(dict.fromkeys(texts))[:ranks], stop, list(dict.fromkeys(notes)))


def make_answer(results: Sequence[TextResult], form: TranslateRequest, detected: list[Detected]) -> Translated:
    """Make the answer: lists for a list of texts, alternatives and a detected language where they were asked for."""
    is_list = isinstance(form.q, list)
    answer = Translated(
        translatedText=[result.texts[0] for result in results],
        alternatives=[result.texts[1:] for result in results] if form.alternatives else None,
        detectedLanguage=detected if form.source == "auto" else None,
        stop=[result.stop for result in results],
        notes=[result.notes for result in results],
    )
    if is_list:
        return answer
    # For a single text, every list becomes its only element; None and absent values stay.
    return Translated(**{name: value and value[0] for name, value in answer})


def refuse_many_texts(q: Any, limits: Limits) -> None:
    """Raise `Refusal` for a list of more items than the limits allow texts."""
    if isinstance(q, list) and len(q) > limits.texts:
        raise Refusal(413, f"{len(q):,} texts, this server takes {limits.texts:,} at a time")


def refuse_large_terms(terms: Any, limits: Limits) -> None:
    """Raise `Refusal` for more terms, or longer ones, than the limits allow; what is no table is left to others."""
    try:
        table = terms_from_form(terms)
    except ValueError:
        return
    if not isinstance(table, Mapping):
        return
    if len(table) > limits.request_terms:
        raise Refusal(413, f"{len(table):,} terms, this server takes {limits.request_terms:,} at a time")
    longest = max((len(side) for pair in table.items() for side in pair if isinstance(side, str)), default=0)
    if longest > limits.term_characters:
        raise Refusal(
            413, f"a term of {longest:,} characters, this server takes terms of {limits.term_characters:,} at most"
        )


def texts_within_limits(q: str | list[str], limits: Limits) -> list[str]:
    """Return the texts as a list; raise `Refusal` for more characters than the limits allow."""
    texts = [q] if isinstance(q, str) else q
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise Refusal(413, f"{characters:,} characters, this server takes {limits.characters:,} at a time")
    return texts


def describe_body(form: type[BaseModel], service: Service) -> dict[str, Any]:
    """Describe the body of a route for OpenAPI: the fields and limits of `form`, in each type it may be sent as."""
    fewest_texts = {JSON: 0, ENCODED: 1, PARTS: 1}  # the fewest texts of a list: a form has no way to write none
    content = {
        media_type: {"schema": describe_form(form, service, fewest)} for media_type, fewest in fewest_texts.items()
    }
    return {"requestBody": {"required": True, "content": content}}


def describe_form(form: type[BaseModel], service: Service, fewest: int) -> dict[str, Any]:
    """Return the JSON schema of `form` with the limits and the languages of this server."""
    # The routes read the body themselves, for its three types, so FastAPI knows no schema of it.
    limits, languages = service.limits, service.languages
    schema = form.model_json_schema()
    fields = schema["properties"]
    text = {"type": "string", "maxLength": limits.characters}
    fields["q"]["anyOf"] = [text, {"type": "array", "items": text, "minItems": fewest, "maxItems": limits.texts}]
    fields["api_key"]["description"] = KEY if service.keys else NO_KEY
    if "terms" in fields:
        table, _ = fields["terms"]["anyOf"]
        table["maxProperties"] = limits.request_terms
        for side in ("propertyNames", "additionalProperties"):
            table[side] = {**table.get(side, {}), "maxLength": limits.term_characters}
    if "alternatives" in fields:
        fields["alternatives"]["maximum"] = limits.alternatives
    if "source" in fields and languages.are_named:
        fields["source"]["enum"] = [languages.source, "auto"]
        fields["target"]["enum"] = [languages.target]
    return schema


# Possessive quantifiers (*+) never backtrack: without them, a crafted page could take exponential time.
ATTRIBUTES = r"""(?:"[^"]*+"|'[^']*+'|[^"'<>])*+"""
UNTOUCHED_ELEMENTS = "script|style|pre|code|kbd|samp|var|textarea|svg|math"
MARKUP = re.compile(
    rf"<!--.*?(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)"
    rf"|<({UNTOUCHED_ELEMENTS})(?=[\s/>]){ATTRIBUTES}>.*?(?:</\1\s*+>|\Z)"
    rf"|<([a-z][\w:-]*+)\s(?=[^<>]*?\btranslate\s*=\s*[\"']?no\b){ATTRIBUTES}>.*?(?:</\2\s*+>|\Z)"
    rf"|<(/?)([a-z][\w:-]*+)(?=[\s/>]){ATTRIBUTES}>",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""Markup, that is everything but text. As in browsers, an element that is never closed goes on to the end. The last two
groups are those of a single tag: whether it closes, and its name."""

VOID_ELEMENTS = "area base embed img input link meta param source track wbr"
BLOCK_ELEMENTS = """
address article aside audio blockquote body br button caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li main menu nav
noscript object ol optgroup option p picture section select summary table tbody td template tfoot th thead title tr ul
video
"""
"""Elements that separate texts; any other is inline, and stands inside a text."""

SPACE = re.compile(r"[ ]*+[\t\r\n\f][ \t\r\n\f]*+")
NUMBERED = re.compile(r"</?(\d{1,6})/?>")


@dataclass(frozen=True)
class HtmlText:
    """One text to translate; if it comes from HTML, with its tags by the numbered tags that stand for them."""

    text: str
    tags: dict[str, str] | None = None

    def restore(self, translation: str) -> str:
        """Put the original tags back into a translation of HTML, and escape everything else."""
        if self.tags is None:
            return translation
        position, out = 0, []
        for match in [*NUMBERED.finditer(translation), None]:  # None: the text after the last tag
            out.append(escape(translation[position : match.start() if match else None], quote=False))
            if match:
                out.append(self.tags.get(match[0]) or escape(match[0], quote=False))
                position = match.end()
        return "".join(out)


def split_html(html: str) -> list[str | HtmlText]:
    """Split HTML into texts to translate and markup that stays as it is, in their order.

    >>> split_html("<p>Tom &amp; <b>Ann</b></p>")
    ['<p>', HtmlText(text='Tom & <0>Ann</0>', tags={'<0>': '<b>', '</0>': '</b>'}), '</p>']
    """
    parts: list[str | HtmlText] = []
    run: list[re.Match[str] | str] = []
    position = 0
    for match in [*MARKUP.finditer(html), None]:  # None: the text after the last markup
        run.append(html[position : match.start() if match else None])
        block = match is not None and match[4] is not None and match[4].lower() in BLOCK_ELEMENTS.split()
        if match is None or block:
            parts += join_run(run)
            run = []
        elif match:
            run.append(match)
        if match and block:
            parts.append(match[0])
        position = match.end() if match else position
    return parts


def join_run(run: Sequence[re.Match[str] | str]) -> list[str | HtmlText]:
    """Join a run of texts and inline tags to one text; a run without words stays as it is."""
    verbatim = "".join(item if isinstance(item, str) else item[0] for item in run)
    texts = [unescape(item) for item in run if isinstance(item, str)]
    if not any(text.strip() for text in texts):
        return [verbatim] if verbatim else []
    # A text may itself contain something like <0>, which must not be taken for a tag of ours.
    numbers = free_numbers("".join(texts))
    tags: dict[str, str] = {}
    open_tags: list[tuple[str, int]] = []
    out: list[str] = []
    for item in run:
        if isinstance(item, str):
            out.append(SPACE.sub(" ", unescape(item)))
            continue
        stand_in = number_tag(item, open_tags, numbers)
        tags[stand_in] = item[0]
        out.append(stand_in)
    return [HtmlText("".join(out), tags)]


def number_tag(match: re.Match[str], open_tags: list[tuple[str, int]], numbers: Iterator[int]) -> str:
    """Return the stand-in of a tag; a closing tag gets the number of the tag that it closes."""
    closing, name = match[3], (match[4] or "").lower()
    if closing:
        # HTML in the wild closes tags out of order, so look through all open ones, innermost last.
        matching = [i for i, (open_name, _) in enumerate(open_tags) if open_name == name]
        number = open_tags.pop(matching[-1])[1] if matching else next(numbers)
        return f"</{number}>"
    number = next(numbers)
    if not name or name in VOID_ELEMENTS.split() or match[0].endswith("/>"):
        return f"<{number}/>"
    open_tags.append((name, number))
    return f"<{number}>"


def free_numbers(text: str) -> Iterator[int]:
    """Yield the numbers from 0 on that no numbered tag of the text itself has."""
    used = {int(number) for number in NUMBERED.findall(text)}
    return (number for number in count() if number not in used)


def fill_translations(parts: Sequence[str | HtmlText], translations: Iterator[str]) -> str:
    """Join the parts of a page, with a translation in place of each text."""
    return "".join(part if isinstance(part, str) else part.restore(next(translations)) for part in parts)
