"""Codes of languages, of two and of three letters, with their English names."""

import re

# Of each language: its code of two letters (ISO 639-1), those of three (ISO 639-2), and its name in English.
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
    parts = [part.upper() if len(part) == 2 else part.capitalize() for part in region.split("-") if part]
    return separator.join([short, *parts])


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
    return split_code(code)[0] in _NAMES and re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", code) is not None


def describe_language(code: str) -> str:
    """Return the name of a language with its code, or the code alone where no name is known.

    >>> describe_language("es"), describe_language("zh-Hans"), describe_language("tlh")
    ('Spanish (es)', 'Chinese (zh-Hans)', 'tlh')
    """
    short, _ = split_code(code)
    return f"{_NAMES[short]} ({code})" if short in _NAMES else code
