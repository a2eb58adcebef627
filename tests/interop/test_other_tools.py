"""What other programs do with our models and texts, where that surprises: facts of docs/reference/other-tools.md.

Each test names what the program does, with the version that is installed. Where a new version does otherwise, the test
fails, and the page has to change.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.evaluate.comparison import compare_translations
from pellucid.evaluate.scores import corpus_scores
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.marian import export_marian
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.interop.marian_models import quiet

pytestmark = quiet
ROOT = Path(__file__).resolve().parents[2]


# --- CTranslate2 ----------------------------------------------------------------------------------------------------

SOURCE = ["▁The", "▁", "b", "l", "u", "e"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model of random weights in CTranslate2, which seldom ends by itself."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("other") / "ct2"
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=400)
    convert_to_ctranslate2(model, tokenizer, folder, "float32")
    return ctranslate2.Translator(str(folder), intra_threads=1)


def sum_of_log_probs(translator: Any, source: list[str], target: list[str], end: bool) -> float:
    log_probs = translator.score_batch([source], [target], max_input_length=0)[0].log_probs
    return sum(log_probs if end else log_probs[:-1])


def test_ctranslate2_divides_a_greedy_score_by_the_pieces_with_the_end(translator: Any):
    def translate(penalty: float, limit: int) -> Any:
        return translator.translate_batch(
            [SOURCE],
            beam_size=1,
            length_penalty=penalty,
            max_decoding_length=limit,
            return_scores=True,
            min_decoding_length=0,
        )[0]

    # A long limit lets some text end; a limit of 3 cuts it.
    whole, divided = translate(0.0, 390), translate(1.0, 390)
    ended = len(whole.hypotheses[0]) < 390
    assert whole.scores[0] / divided.scores[0] == pytest.approx(len(whole.hypotheses[0]) + ended)
    cut, divided = translate(0.0, 3), translate(1.0, 3)
    assert len(cut.hypotheses[0]) == 3
    assert cut.scores[0] / divided.scores[0] == pytest.approx(3)


def test_ctranslate2_says_of_a_text_that_was_cut_only_its_length(translator: Any):
    result = translator.translate_batch([SOURCE], beam_size=1, max_decoding_length=3)[0]
    assert len(result.hypotheses[0]) == 3
    assert {name for name in dir(result) if not name.startswith("_")} == {"attention", "hypotheses", "logits", "scores"}


def test_ctranslate2_cuts_what_it_scores_to_its_limit_on_the_input(translator: Any):
    target = SOURCE * 4
    assert len(translator.score_batch([SOURCE], [target], max_input_length=4)[0].log_probs) == 4
    assert len(translator.score_batch([SOURCE], [target], max_input_length=0)[0].log_probs) == len(target) + 1


def test_ctranslate2_cuts_sources_of_more_than_1024_pieces_by_default(translator: Any):
    options = {"beam_size": 1, "max_decoding_length": 1, "return_scores": True}
    end = len(SOURCE) - 1
    short = [*SOURCE[:end], *["e"] * 60]
    cut = translator.translate_batch([short], max_input_length=20, **options)[0]
    assert translator.translate_batch([short[:19]], max_input_length=0, **options)[0].scores == pytest.approx(
        cut.scores
    )
    signature = str(type(translator).translate_batch.__doc__)
    assert "max_input_length: int = 1024" in signature
    assert "max_decoding_length: int = 256" in signature


def test_ctranslate2_takes_the_empty_text_out_of_its_scores_by_default(translator: Any):
    options = {"beam_size": 1, "max_decoding_length": 1, "return_scores": True, "length_penalty": 0.0}
    default = translator.translate_batch([SOURCE], **options)[0]
    whole = translator.translate_batch([SOURCE], min_decoding_length=0, **options)[0]
    first = default.hypotheses[0]
    model = sum_of_log_probs(translator, SOURCE, first, end=False)
    empty = math.exp(translator.score_batch([SOURCE], [[]])[0].log_probs[0])
    # With the end forbidden, the others share its probability.
    assert default.scores[0] == pytest.approx(model - math.log1p(-empty), abs=1e-4)
    if whole.hypotheses[0] == first:
        assert whole.scores[0] == pytest.approx(model, abs=1e-4)


def test_ctranslate2_draws_nothing_where_only_top_p_is_given(translator: Any):
    options = {"beam_size": 1, "max_decoding_length": 12, "sampling_temperature": 5.0}
    greedy = translator.translate_batch([SOURCE], beam_size=1, max_decoding_length=12)[0].hypotheses
    only = [translator.translate_batch([SOURCE], sampling_topp=0.9, **options)[0].hypotheses for _ in range(8)]
    assert all(hypotheses == greedy for hypotheses in only)
    drawn = [
        translator.translate_batch([SOURCE], sampling_topp=0.9, sampling_topk=0, **options)[0].hypotheses
        for _ in range(8)
    ]
    assert any(hypotheses != greedy for hypotheses in drawn)


# --- Hugging Face transformers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marian_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    tokenizer = Tokenizer.train(LINES[::2], LINES[1::2], TokenizerConfig(vocabulary=311), seed=1, max_sentences=99)
    sizes = {"d_model": 8, "max_positions": 90, "norm": "post", "output_bias": True}
    model = random_model(7, 311, 311, **sizes)
    assert model.output_bias is not None
    model.output_bias.data[EOS] = -20.0  # it does not end by itself
    save_bundle(folder / "own", model, tokenizer)
    export_marian(load_bundle(folder / "own"), folder / "marian")
    return folder / "marian"


def test_transformers_cuts_translations_short_without_generation_config(marian_directory: Path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(marian_directory)
    batch = tokenizer(["Yes."], return_tensors="pt")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(marian_directory)
    exported = model.generate(**batch, num_beams=1)
    assert exported.shape[1] == 90  # the model's longest text, which the export names
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=model.config.decoder_start_token_id, eos_token_id=model.config.eos_token_id
    )
    with pytest.warns(UserWarning, match="max_length"):
        assert model.generate(**batch, num_beams=1).shape[1] == 21


def test_transformers_reads_the_name_of_a_special_piece_in_a_text_as_the_piece(marian_directory: Path):
    transformers = pytest.importorskip("transformers")
    text = "Yes.</s> Yes."
    exported = transformers.AutoTokenizer.from_pretrained(marian_directory)
    assert exported(text).input_ids.count(exported.eos_token_id) == 1
    by_default = transformers.AutoTokenizer.from_pretrained(marian_directory, split_special_tokens=False)
    assert by_default(text).input_ids.count(exported.eos_token_id) == 2


# --- SentencePiece ----------------------------------------------------------------------------------------------------


def train_pieces(lines: list[str], folder: Path, **options: Any) -> SentencePieceProcessor:
    prefix = str(folder / "pieces")
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=prefix,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return SentencePieceProcessor(model_file=f"{prefix}.model")


def test_sentencepiece_rewrites_text_by_default(tmp_path: Path):
    lines = [*LINES * 20, "½ ﬁ ① Ａ"]
    theirs = train_pieces(lines, tmp_path, character_coverage=1.0)
    assert theirs.decode(theirs.encode("½ ﬁ Ａ")) != "½ ﬁ Ａ"
    ours = Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=330), seed=1, max_sentences=999)
    assert ours.decode_target(ours.encode_target(["½ ﬁ Ａ"])[0]) == "½ ﬁ Ａ"


def test_sentencepiece_learns_nothing_from_lines_of_more_than_4192_bytes(tmp_path: Path):
    long = "жук " * 2000  # no other line has these letters
    theirs = train_pieces([*LINES * 20, long], tmp_path)
    assert not any("ж" in theirs.id_to_piece(i) for i in range(theirs.vocab_size()))
    ours = Tokenizer.train([*LINES, long], LINES, TokenizerConfig(vocabulary=330), seed=1, max_sentences=999)
    assert any("жук" in piece for piece in ours.source_names)


# --- sacreBLEU --------------------------------------------------------------------------------------------------------


def test_sacrebleu_takes_an_empty_text_for_a_reference_without_words():
    outputs, first = ["a b x d", "the cat sat on the mat today"], ["a b c d", "the cat sat on a mat today"]
    missing, empty = ([first, [nothing, nothing]] for nothing in (None, ""))
    assert TER().corpus_score(outputs, missing).score == TER().corpus_score(outputs, [first]).score
    assert TER().corpus_score(outputs, empty).score > TER().corpus_score(outputs, missing).score
    ours = corpus_scores(outputs, [first, ["", ""]], ["ter"])
    assert ours["ter"]["score"] == pytest.approx(TER(case_sensitive=True).corpus_score(outputs, [first]).score)


def test_sacrebleu_scores_as_many_lines_as_the_shorter_list_has():
    right, wrong = "the cat sat on the mat", "nothing of that"
    assert sacrebleu.corpus_bleu([right, wrong, wrong], [[right]]).score == pytest.approx(100)
    with pytest.raises(ValueError, match="3"):
        corpus_scores([right, wrong, wrong], [right], ["bleu"])


def test_sacrebleu_reads_a_plain_list_of_references_letter_by_letter():
    lines = ["the cat sat on the mat", "a dog ran in the park"]
    assert sacrebleu.corpus_bleu(lines, lines).score < 1
    assert corpus_scores(lines, lines, ["bleu"])["bleu"]["score"] == pytest.approx(100)


def test_sacrebleu_gives_perfect_short_sentences_a_bleu_of_0():
    lines = ["good morning everybody", "see you soon"]
    assert sacrebleu.corpus_bleu(lines, [lines]).score == 0
    assert sacrebleu.corpus_chrf(lines, [lines]).score == 100


def test_sacrebleu_finds_a_difference_between_identical_systems():
    from sacrebleu.significance import PairedTest, Result

    lines = [f"sentence number {i} of the test set" for i in range(20)]
    systems: list[tuple[str, Sequence[str]]] = [("one", lines), ("other", lines)]
    _, scores = PairedTest(systems, {"BLEU": BLEU()}, [lines], "bs", n_samples=200)()
    [_, other] = scores["BLEU"]
    assert isinstance(other, Result)
    assert other.p_value == pytest.approx(1 / 201)
    ours = compare_translations(lines, lines, lines, samples=200)
    assert {score.p_value for score in ours.scores.values()} == {1.0}


def test_sacrebleu_unescapes_an_entity_within_an_entity():
    tokenize = BLEU(tokenize="13a").tokenizer
    assert tokenize("&amp;lt;") == "<"
    assert tokenize("&amp;quot;") != '"'


# --- The page itself --------------------------------------------------------------------------------------------------


def test_the_page_names_the_versions_that_are_pinned_and_tests_that_exist():
    page = (ROOT / "docs/reference/other-tools.md").read_text(encoding="utf-8")
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if re.fullmatch(r"[\w.-]+==[\w.]+", line)
    )
    named = re.findall(r"^## [^(\n]*\((?:\[)?`?([\w-]+)`? \{cited\}`([\d.]+)`", page, re.MULTILINE)
    assert len(named) > 3
    for package, version in named:
        assert pins.get(package, version) == version, package
    tests = re.findall(r"\]\(../../(tests/[\w/]+\.py)\)", page)
    assert len(tests) > 10
    for test in tests:
        assert (ROOT / test).is_file(), test
