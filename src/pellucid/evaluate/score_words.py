"""Words as BLEU, TER and WER count them: chosen by the script of the references, or by the user."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Literal, get_args

# Names of sacreBLEU's tokenizers, as its option --tokenize takes them.
TokenizerName = Literal[
    "13a",
    "intl",
    "zh",
    "ja-mecab",
    "ko-mecab",
    "char",
    "none",
    "flores101",
    "flores200",
    "spBLEU-1K",
]
TOKENIZER_NAMES: tuple[str, ...] = get_args(TokenizerName)

_MECAB = {"ja-mecab": ("Japanese", "sacrebleu[ja]"), "ko-mecab": ("Korean", "sacrebleu[ko]")}
# Tokenizers that need a SentencePiece model, which is downloaded.
_PIECES = ("flores101", "flores200", "spBLEU-1K")

# Letters of scripts that are written without spaces between words, as the insides of character
# classes.
_HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3100-\u312f\u31a0-\u31bf"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001aff0-\U0001b16f"
_SOUTH_EAST_ASIAN = "".join(
    (
        "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46",  # Thai
        "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf",  # Lao
        # Tibetan: a mark stands between syllables, and none between words.
        "\u0f40-\u0f6c\u0f88-\u0f8c",
        # Burmese.
        "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e",
        # Burmese script, other languages.
        "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f",
        "\u1780-\u17b3\u17d7\u17dc",  # Khmer
        # Tai Le, New Tai Lue, Tai Tham, Tai Viet.
        "\u1950-\u19c9\u1a20-\u1a54\uaa80-\uaac2\uaadb-\uaadd",
        "\u1b05-\u1b33\u1b45-\u1b4c\ua984-\ua9b2",  # Balinese, Javanese
        "\ua000-\ua48c",  # Yi
    )
)
_WITHOUT_SPACES = re.compile(f"[{_HAN}{_KANA}{_SOUTH_EAST_ASIAN}]")
_HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb]")
# Share of kana among the Chinese characters and kana of a text from which it is Japanese: text of
# newspapers has 0.4 and more, and a Chinese text may quote a Japanese name.
_JAPANESE_SHARE = 0.05


@dataclass(frozen=True)
class ScoreWords:
    """Choice of what each score counts as a word."""

    bleu: str = "13a"  # name of one of sacreBLEU's tokenizers
    ter: str = "tercom"  # TER's own words, which stand between spaces; or one of the tokenizers
    wer: Literal["whitespace", "char"] = "whitespace"
    note: str | None = None  # a sentence for the user where a better tokenizer is not installed


WORDS_BETWEEN_SPACES = ScoreWords()


def choose_score_words(
    references: Iterable[str | None], tokenize: str | None = None, language: str | None = None
) -> ScoreWords:
    """Choose what counts as a word, by the script of the references, or as `tokenize` asks, one of `TOKENIZER_NAMES`.

    Chinese gets zh, Japanese ja-mecab where MeCab is installed and otherwise char, other text
    without spaces (Thai, Khmer, Lao, Burmese ...) char, Korean ko-mecab where that is installed,
    and all else 13a. In a mixed text the majority decides: a letter of a script without spaces
    counts once, and so does each word of the others. The text wins over a `language`, whose code
    may be wrong or missing; only where Chinese characters stand without kana does ja say that they
    are Japanese.

    >>> choose_score_words(["这只黑猫喝了牛奶。"])
    ScoreWords(bleu='zh', ter='zh', wer='char', note=None)
    >>> choose_score_words(["The cat drank milk (牛奶)."], language="zh").bleu
    '13a'

    Raises ValueError for a `tokenize` that is unknown or not installed.
    """
    if tokenize is not None:
        require_score_tokenizer(tokenize)
    script = find_script(references, language)
    chosen = _words_of_script(script)
    if tokenize is None or tokenize == chosen.bleu:
        return chosen
    if tokenize in _PIECES:
        # Pieces are made for BLEU alone: an edit of a piece is no measure that anybody uses.
        ter = "tercom" if chosen.wer == "whitespace" else chosen.ter
        return ScoreWords(tokenize, ter, chosen.wer)
    if tokenize in ("zh", "ja-mecab", "char"):
        return ScoreWords(tokenize, tokenize, "char")

    # The other tokenizers are for text with spaces, whose words TER and WER find by themselves.
    return ScoreWords(tokenize)


def _words_of_script(script: str) -> ScoreWords:
    if script == "Chinese":
        return ScoreWords("zh", "zh", "char")
    if script == "Japanese" and is_installed("ja-mecab"):
        return ScoreWords("ja-mecab", "ja-mecab", "char")
    if script == "Japanese":
        note = (
            "BLEU and TER of Japanese count characters here; MeCab, which finds its words, is "
            "not installed: pip install 'sacrebleu[ja]'"
        )
        return ScoreWords("char", "char", "char", note)
    if script == "without spaces":
        return ScoreWords("char", "char", "char")
    if script == "Korean" and is_installed("ko-mecab"):
        return ScoreWords("ko-mecab")
    if script == "Korean":
        note = (
            "BLEU of Korean counts the words between spaces here; MeCab, which splits them into "
            "stems and endings, is not installed: pip install 'sacrebleu[ko]'"
        )
        return ScoreWords(note=note)

    return WORDS_BETWEEN_SPACES


def find_script(texts: Iterable[str | None], language: str | None = None) -> str:
    """Return how most of a text is written: "Chinese", "Japanese", "without spaces", "Korean" or "with spaces".

    >>> find_script(["Docker Compose 使用指南"]), find_script(["แมวดำดื่มนม"]), find_script(["고양이가 우유를 마셨다."])
    ('Chinese', 'without spaces', 'Korean')
    """
    han = kana = south_east_asian = korean = others = 0
    for text in texts:
        if not text:
            continue
        letters = "".join(_WITHOUT_SPACES.findall(text))
        if letters:
            han += len(re.findall(f"[{_HAN}]", letters))
            kana += len(re.findall(f"[{_KANA}]", letters))
            south_east_asian += len(re.findall(f"[{_SOUTH_EAST_ASIAN}]", letters))
            text = _WITHOUT_SPACES.sub(" ", text)
        for word in text.split():
            if _HANGUL.search(word):
                korean += 1
            elif any(map(str.isalpha, word)):
                others += 1

    if han + kana + south_east_asian <= korean + others:
        return "Korean" if korean > others else "with spaces"
    if south_east_asian > han + kana:
        return "without spaces"

    is_named_japanese = language is not None and re.split("[-_]", language.lower())[0] in (
        "ja",
        "jpn",
    )
    is_japanese = is_named_japanese or kana >= _JAPANESE_SHARE * (han + kana)
    return "Japanese" if is_japanese else "Chinese"


def has_no_spaces(texts: Iterable[str | None]) -> bool:
    """Whether most of a text is in a script without spaces between words.

    >>> has_no_spaces(["吾輩は猫である。"]), has_no_spaces(["I am a cat."])
    (True, False)
    """
    return find_script(texts) in ("Chinese", "Japanese", "without spaces")


def split_characters(text: str) -> list[str]:
    """Return the characters of a text without its spaces.

    >>> split_characters("黑猫 (cat)")
    ['黑', '猫', '(', 'c', 'a', 't', ')']
    """
    return [character for character in text if not character.isspace()]


def require_score_tokenizer(name: str) -> None:
    """Raise ValueError for a tokenizer that sacreBLEU does not have, or that lacks what it needs on this machine."""
    if name not in TOKENIZER_NAMES:
        close = get_close_matches(name, TOKENIZER_NAMES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"unknown tokenizer {name!r} for the scores{hint} (known: "
            f"{', '.join(TOKENIZER_NAMES)}); where none is named, the script of the references "
            "decides"
        )
    if name in _MECAB and not is_installed(name):
        language, package = _MECAB[name]
        raise ValueError(
            f"the tokenizer {name} needs MeCab with its dictionary for {language}, which is not "
            f"installed: pip install '{package}'"
        )

    if name in _PIECES:
        model = _piece_model(name)
        if not model.is_file():
            raise ValueError(
                f"the tokenizer {name} needs the file {model}, which is not there, and Pellucid "
                f"downloads nothing for a score: run `sacrebleu --tokenize {name}` on any files "
                "once, with a network, and it fetches the file"
            )


@cache
def is_installed(name: str) -> bool:
    """Whether one of the two tokenizers that need MeCab can be used here."""
    from sacrebleu.metrics.bleu import BLEU

    try:
        BLEU(tokenize=name, force=True)
    # sacreBLEU raises RuntimeError where MeCab is missing, and asserts that the dictionary is the
    # right one.
    except (RuntimeError, ImportError, AssertionError):
        return False
    return True


def _piece_model(name: str) -> Path:
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    return Path(SACREBLEU_DIR, "models", Path(SPM_MODELS[name]["url"]).name)


def explain_empty_references(
    streams: Sequence[Sequence[str | None]], *hypotheses: Sequence[str]
) -> str | None:
    """Return a warning where translations have no reference: all of their words count as wrong.

    `streams` are the lists of references; blank translations of such lines are right.

    >>> explain_empty_references([["Yes.", ""]], ["Yes.", "No."])
    'line 2 has a translation and no reference, so that all of its words count as wrong; leave it out'
    """
    empty = []
    for index, texts in enumerate(zip(*streams, strict=True)):
        has_reference = any(text and text.strip() for text in texts)
        if not has_reference and any(side[index].strip() for side in hypotheses):
            empty.append(index + 1)

    if not empty:
        return None
    if len(empty) == 1:
        return (
            f"line {empty[0]:,} has a translation and no reference, so that all of its words "
            "count as wrong; leave it out"
        )

    first = ", ".join(f"{number:,}" for number in empty[:3]) + (", ..." if len(empty) > 3 else "")
    return (
        f"{len(empty):,} lines ({first}) have a translation and no reference, so that all of "
        "their words count as wrong; leave them out"
    )


def explain_tokenized_text(texts: Sequence[str], name: str) -> str | None:
    """Return a warning where many texts end in a space and a full stop, as tokenized text does.

    sacreBLEU warns from 100 such lines on; here a half of ten lines or more is enough, too.
    """
    lines = sum(text.endswith(" .") for text in texts)
    if lines < 100 and (lines < 10 or 2 * lines < len(texts)):
        return None
    return (
        f"{lines:,} of {len(texts):,} {name} end in a space and a full stop, as tokenized text "
        "does; BLEU and TER are made for text as people write it, so remove these spaces first "
        "(detokenize), or do not compare these scores with others"
    )
