"""Codes of languages, of two and of three letters, with regions and scripts, and their English names."""

import re

# Each language: its code of two letters (ISO 639-1), its codes of
# three (ISO 639-2), and its name in English.
_LANGUAGES = """
aa aar Afar; ab abk Abkhazian; af afr Afrikaans; ak aka Akan; am amh Amharic; an arg Aragonese; ar ara Arabic;
as asm Assamese; av ava Avaric; ay aym Aymara; az aze Azerbaijani; ba bak Bashkir; be bel Belarusian; bg bul Bulgarian;
bi bis Bislama; bm bam Bambara; bn ben Bengali; bo bod tib Tibetan; br bre Breton; bs bos Bosnian; ca cat Catalan;
ce che Chechen; co cos Corsican; cs ces cze Czech; cv chv Chuvash; cy cym wel Welsh; da dan Danish; de deu ger German;
dv div Dhivehi; dz dzo Dzongkha; ee ewe Ewe; el ell gre Greek; en eng English; eo epo Esperanto; es spa Spanish;
et est Estonian; eu eus baq Basque; fa fas per Persian; ff ful Fulah; fi fin Finnish; fj fij Fijian; fo fao Faroese;
fr fra fre French; fy fry Frisian; ga gle Irish; gd gla Gaelic; gl glg Galician; gn grn Guarani; gu guj Gujarati;
gv glv Manx; ha hau Hausa; he heb Hebrew; hi hin Hindi; hr hrv Croatian; ht hat Haitian; hu hun Hungarian;
hy hye arm Armenian; ia ina Interlingua; id ind Indonesian; ig ibo Igbo; is isl ice Icelandic; it ita Italian;
iu iku Inuktitut; ja jpn Japanese; jv jav Javanese; ka kat geo Georgian; ki kik Kikuyu; kk kaz Kazakh;
kl kal Greenlandic; km khm Khmer; kn kan Kannada; ko kor Korean; ku kur Kurdish; kw cor Cornish; ky kir Kyrgyz;
la lat Latin; lb ltz Luxembourgish; lg lug Ganda; ln lin Lingala; lo lao Lao; lt lit Lithuanian; lv lav Latvian;
mg mlg Malagasy; mi mri mao Maori; mk mkd mac Macedonian; ml mal Malayalam; mn mon Mongolian; mr mar Marathi;
ms msa may Malay; mt mlt Maltese; my mya bur Burmese; nb nob Norwegian Bokmål; ne nep Nepali; nl nld dut Dutch;
nn nno Norwegian Nynorsk; no nor Norwegian; ny nya Chichewa; oc oci Occitan; om orm Oromo; or ori Odia;
os oss Ossetian; pa pan Punjabi; pl pol Polish; ps pus Pashto; pt por Portuguese; qu que Quechua; rm roh Romansh;
rn run Rundi; ro ron rum Romanian; ru rus Russian; rw kin Kinyarwanda; sa san Sanskrit; sc srd Sardinian;
sd snd Sindhi; se sme Northern Sami; si sin Sinhala; sk slk slo Slovak; sl slv Slovenian; sm smo Samoan; sn sna Shona;
so som Somali; sq sqi alb Albanian; sr srp Serbian; ss ssw Swati; st sot Southern Sotho; su sun Sundanese;
sv swe Swedish; sw swa Swahili; ta tam Tamil; te tel Telugu; tg tgk Tajik; th tha Thai; ti tir Tigrinya;
tk tuk Turkmen; tl tgl Tagalog; tn tsn Tswana; to ton Tonga; tr tur Turkish; ts tso Tsonga; tt tat Tatar;
ug uig Uyghur; uk ukr Ukrainian; ur urd Urdu; uz uzb Uzbek; vi vie Vietnamese; wo wol Wolof; xh xho Xhosa;
yi yid Yiddish; yo yor Yoruba; zh zho chi Chinese; zu zul Zulu
"""

_NAMES, _SHORT_CODES = dict[str, str](), dict[str, str]()
for _entry in _LANGUAGES.replace("\n", " ").split(";"):
    _codes, _name = re.findall(r"(?:[a-z]{2,3} )+|[A-Z].*", _entry)
    _short, *_long = _codes.split()
    _NAMES[_short] = _name.strip()
    _SHORT_CODES |= dict.fromkeys(_long, _short)

_CODE = re.compile(r"(?:[A-Za-z]{2,3}|[xX](?=[-_]))(?:[-_][A-Za-z0-9]{1,8}){0,5}")
# Codes of one language, or of two that are translated as one: old codes,
# codes of groups, and Norwegian's two forms.
_SAME_LANGUAGE = {
    "nb": "no", "nn": "no", "iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "fil": "tl", "cmn": "zh",
    "arb": "ar", "pes": "fa", "zsm": "ms", "ekk": "et", "lvs": "lv", "khk": "mn", "swh": "sw", "npi": "ne", "ory": "or",
    "als": "sq", "plt": "mg", "pbt": "ps", "uzn": "uz", "azj": "az", "ydd": "yi", "gaz": "om", "kmr": "ku",
}  # fmt: skip
# Codes that LibreTranslate and Argos Translate use for a language with its script or region.
_CODES_OF_CLIENTS = {"pb": "pt-BR", "zt": "zh-Hant"}
# Regions whose script is clear without being named.
_SCRIPTS = {("zh", region): "hans" for region in ("cn", "sg", "my")}
_SCRIPTS |= {("zh", region): "hant" for region in ("tw", "hk", "mo")}
_SCRIPT_NAMES = {"hans": "simplified", "hant": "traditional"}


def split_code(code: str) -> tuple[str, str]:
    """Return the language of a code in two letters where it has such a code, and its region or script, or "".

    >>> split_code("spa"), split_code("EN_us"), split_code("eng_Latn"), split_code("tlh")
    (('es', ''), ('en', 'us'), ('en', 'latn'), ('tlh', ''))
    """
    language, _, rest = code.strip().lower().replace("_", "-").partition("-")
    return _SHORT_CODES.get(language, language), rest


def spell_code(code: str, separator: str = "-") -> str:
    """Return the code of a language as most files spell it: es, pt-BR, zh-Hans.

    >>> spell_code("spa"), spell_code("pt-br", "_"), spell_code("zho_Hans")
    ('es', 'pt_BR', 'zh-Hans')
    """
    short, region = split_code(code)
    parts = [short]
    for part in filter(None, region.split("-")):
        parts.append(part.upper() if len(part) == 2 else part.capitalize())
    return separator.join(parts)


def list_spellings(code: str) -> list[str]:
    """Return the codes and the English name of a language, in small letters, its region left out.

    >>> list_spellings("de-AT"), list_spellings("tlh")
    (['de', 'deu', 'ger', 'german'], ['tlh'])
    """
    short, _ = split_code(code)
    long = [other for other, its_short in _SHORT_CODES.items() if its_short == short]
    return [short, *long, *([_NAMES[short].lower()] if short in _NAMES else [])]


def is_known_language(code: str) -> bool:
    """Whether a text is the code of a language that has one of two letters, perhaps with a region or a script.

    >>> is_known_language("es-MX"), is_known_language("zh_Hans"), is_known_language("eng"), is_known_language("txt")
    (True, True, True, False)
    """
    is_well_formed = re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", code) is not None
    return is_well_formed and split_code(code)[0] in _NAMES


def describe_language(code: str) -> str:
    """Return the name of a language with its code, or the code alone where no name is known.

    >>> describe_language("es"), describe_language("zh-Hans"), describe_language("tlh")
    ('Spanish (es)', 'Chinese (zh-Hans)', 'tlh')
    """
    short, _ = split_code(code)
    return f"{_NAMES[short]} ({code})" if short in _NAMES else code


def is_language_code(text: str) -> bool:
    """Whether a text has the form of a language's code: two or three letters, and perhaps a script, a region and more.

    Private codes begin with x.

    >>> [is_language_code(text) for text in ("es", "spa", "zh_Hans", "fre-FR", "x-source")]
    [True, True, True, True, True]
    >>> [is_language_code(text) for text in ("", "auto", "Spanish", "es-", "a/b", "es-../b")]
    [False, False, False, False, False, False]
    """
    return _CODE.fullmatch(text) is not None


def get_language(code: str) -> str:
    """Return the language of a code, one name for all of its codes; region and script do not matter.

    >>> get_language("he-IL"), get_language("iw"), get_language("heb"), get_language("nn-NO")
    ('he', 'he', 'he', 'no')
    """
    language, _ = split_code(code)
    return _SAME_LANGUAGE.get(language, language)


def is_same_language(code: str, other: str) -> bool:
    """Whether two codes name one language; region and script do not matter.

    >>> is_same_language("en-US", "eng"), is_same_language("nb", "no"), is_same_language("es", "est")
    (True, True, False)
    """
    return get_language(code) == get_language(other)


def is_same_variety(code: str, other: str) -> bool:
    """Whether two codes may mean the same form of a language: either may leave out the region or the script.

    >>> is_same_variety("pt", "pt-BR"), is_same_variety("POR_br", "pt-BR"), is_same_variety("pt-PT", "pt-BR")
    (True, True, False)
    >>> is_same_variety("fre-FR", "fr"), is_same_variety("zh-CN", "zho_Hans"), is_same_variety("zh-TW", "zh-Hans")
    (True, True, False)
    """
    first, second = (_CODES_OF_CLIENTS.get(tag.lower(), tag) for tag in (code, other))
    if not is_same_language(first, second):
        return False
    parts, other_parts = _split_variety(first), _split_variety(second)
    return all(parts[kind] == other_parts[kind] for kind in parts.keys() & other_parts.keys())


def _split_variety(code: str) -> dict[str, str]:
    """Return the script, the region and the rest of a code, those that it names; the script also where it is clear."""
    _, rest = split_code(code)
    parts: dict[str, str] = {}
    for part in rest.split("-") if rest else ():
        is_early = "region" not in parts and "rest" not in parts
        if is_early and len(part) == 4 and part.isalpha():
            parts["script"] = part
        elif is_early and re.fullmatch("[a-z]{2}|[0-9]{3}", part):
            parts["region"] = part
        else:
            parts["rest"] = "-".join(filter(None, (parts.get("rest"), part)))

    script = _SCRIPTS.get((get_language(code), parts.get("region", "")))
    return parts if script is None else {"script": script, **parts}


def write_standard_code(code: str) -> str:
    """Return a code as most programs write it: two letters where there are such, hyphens, and usual capitals.

    >>> [write_standard_code(code) for code in ("eng", "PT_br", "zho_Hans", "tlh")]
    ['en', 'pt-BR', 'zh-Hans', 'tlh']
    """
    language, rest = split_code(code)
    parts = [_write_part(part) for part in rest.split("-")] if rest else []
    return "-".join((language, *parts))


def _write_part(part: str) -> str:
    if len(part) == 2:
        return part.upper()
    return part.capitalize() if len(part) == 4 and part.isalpha() else part


def name_language(code: str) -> str:
    """Return the English name of a language with its region or script; the code itself where no name is known.

    >>> name_language("es"), name_language("pt-BR"), name_language("zho_Hans"), name_language("tlh")
    ('Spanish', 'Portuguese (BR)', 'Chinese (simplified)', 'tlh')
    """
    short, rest = split_code(code)
    if short not in _NAMES:
        return code
    if not rest:
        return _NAMES[short]
    parts = [_SCRIPT_NAMES.get(part) or _write_part(part) for part in rest.split("-")]
    return f"{_NAMES[short]} ({', '.join(parts)})"
