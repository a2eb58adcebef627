"""Words of the scores: how text of each script is cut, checked by hand and by sacreBLEU's own command line."""

import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.evaluate import score_words
from pellucid.evaluate.comparison import compare_translations, group_by_length
from pellucid.evaluate.comparison_page import comparison_as_html
from pellucid.evaluate.report import comparison_as_text
from pellucid.evaluate.score_words import (
    choose_score_words,
    explain_empty_references,
    explain_tokenized_text,
    find_script,
    split_characters,
)
from pellucid.evaluate.scores import METRICS, NO_NGRAM, corpus_scores, score_notes

CHINESE = ["今天天气很好，我们去公园散步。", "这只黑猫喝了牛奶。", "球是蓝色的。", "他昨天在图书馆看了一本书。"]
CHINESE += ["我的妹妹喜欢吃苹果。", "火车八点钟从车站出发。"]
# One system writes another mark at the end, and once another comma; the other leaves out the last words.
LOUD = ["今天天气很好,我们去公园散步！", *(line.replace("。", "！") for line in CHINESE[1:])]
SHORT = ["今天天气很好，我们去公园。", "这只黑猫喝了。", "球是蓝。", "他昨天在图书馆看了一。", "我的妹妹喜欢吃。"]
SHORT += ["火车八点钟从车站。"]
JAPANESE = ["吾輩は猫である。", "名前はまだ無い。", "どこで生れたかとんと見当がつかぬ。"]
# "The black cat drinks milk" or something like it in scripts of many languages.
WITHOUT_SPACES = {
    "Thai": "แมวดำดื่มนม",
    "Lao": "ແມວດໍາດື່ມນົມ",
    "Khmer": "ឆ្មាខ្មៅផឹកទឹកដោះគោ",
    "Burmese": "ကြောင်နက်က နို့သောက်တယ်။",
    "Tibetan": "བྱི་ལ་ནག་པོས་འོ་མ་འཐུང་།",
}
WITH_SPACES = {
    "English": "The black cat drinks milk.",
    "Hindi": "काली बिल्ली दूध पीती है।",
    "Arabic": "القطة السوداء تشرب الحليب.",
    "Hebrew": "החתול השחור שותה חלב.",
    "Amharic": "ጥቁሩ ድመት ወተት ይጠጣል።",
    "Vietnamese": "Con mèo đen uống sữa.",
    "digits": "12 34 56",
}


def run_sacrebleu(folder: Path, hypotheses: list[str], references: list[str], *options: str) -> float:
    """Return the score that sacreBLEU's command prints for these texts."""
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", "hypotheses", *options, "-b", "-w", "10"]
    return float(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


def test_chinese_is_scored_as_by_sacrebleus_command_with_its_tokenizer_zh(tmp_path: Path):
    references = CHINESE * 4
    for system, expected in ((LOUD * 4, 84.0), (SHORT * 4, 70.1)):
        scores = corpus_scores(system, references)
        assert scores["bleu"]["score"] == pytest.approx(expected, abs=0.05)
        by_command = run_sacrebleu(tmp_path, system, references, "-m", "bleu", "-tok", "zh")
        assert scores["bleu"]["score"] == pytest.approx(by_command, abs=1e-8)
        assert "tok:zh" in scores["bleu"]["signature"]
        # The command's TER can cut Chinese characters, too, by an option of its own.
        asian = "--ter-asian-support", "--ter-normalized", "--ter-case-sensitive"
        assert scores["ter"]["score"] == pytest.approx(run_sacrebleu(tmp_path, system, references, "-m", "ter", *asian))
        assert scores["chrf"]["score"] == pytest.approx(run_sacrebleu(tmp_path, system, references, "-m", "chrf"))


@pytest.mark.parametrize("language", WITHOUT_SPACES)
def test_text_without_spaces_is_scored_as_by_sacrebleus_command_by_characters(tmp_path: Path, language: str):
    text = WITHOUT_SPACES[language]
    references = [text, text + text]
    system = [text[1:], text + text[3:]]
    scores = corpus_scores(system, references)
    by_command = run_sacrebleu(tmp_path, system, references, "-m", "bleu", "-tok", "char")
    assert scores["bleu"]["score"] == pytest.approx(by_command, abs=1e-8)
    cut_system, cut_references = ([" ".join(line) for line in lines] for lines in (system, references))
    by_command = run_sacrebleu(tmp_path, cut_system, cut_references, "-m", "ter", "--ter-case-sensitive")
    assert scores["ter"]["score"] == pytest.approx(by_command, abs=1e-8)
    assert all("tok:char" in scores[name]["signature"] for name in ("bleu", "ter", "wer"))


def test_bleu_ter_and_wer_of_chinese_by_hand():
    scores = corpus_scores(["黑猫喝了豆奶"], ["黑猫喝了牛奶"])
    # of 6 characters 5 are right, of 5 pairs 3, of 4 triples 2, of 3 runs of four 1
    assert scores["bleu"]["score"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert scores["ter"]["score"] == scores["wer"]["score"] == pytest.approx(100 / 6)
    # five characters moved to the front: one shift for TER; five taken out and five put in for WER
    moved = corpus_scores(["丁戊己庚辛甲乙丙丁戊"], ["甲乙丙丁戊丁戊己庚辛"], metrics=["ter"])
    assert moved["ter"]["score"] == pytest.approx(100 / 10)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits", "characters"),
    [
        ("แมวดืม", "แมวดำดื่ม", 3, 9),  # vowel signs and tone marks are characters, too
        ("ကြောင် နက်", "ကြောင်နက်", 0, 9),  # spaces are none
        ("黑猫 drinks", "黑猫 drank", 2, 7),
        ("", "黑猫", 2, 2),
    ],
)
def test_word_errors_of_text_without_spaces_are_character_errors(hypothesis, reference, edits, characters):
    wer = corpus_scores([hypothesis], [reference], metrics=["wer"], tokenize="char")["wer"]
    assert wer["score"] == pytest.approx(100 * edits / characters)
    assert wer["signature"] == "nrefs:1|case:mixed|tok:char|edits:levenshtein"


def test_every_script_is_known():
    assert {name: find_script([text]) for name, text in WITHOUT_SPACES.items()} == dict.fromkeys(
        WITHOUT_SPACES, "without spaces"
    )
    assert {name: find_script([text]) for name, text in WITH_SPACES.items()} == dict.fromkeys(
        WITH_SPACES, "with spaces"
    )
    assert find_script(CHINESE) == find_script(["這隻黑貓喝了牛奶"]) == "Chinese"
    assert find_script(JAPANESE) == find_script(["カタカナ"]) == find_script(["ｶﾀｶﾅ"]) == "Japanese"
    assert find_script(["검은 고양이가 우유를 마신다."]) == "Korean"


def test_the_majority_of_a_mixed_text_decides():
    # A character of Chinese counts as much as a word of English.
    assert find_script(["请在 Docker Desktop 中打开 Kubernetes 设置。"]) == "Chinese"
    assert find_script(["The 东京 office opened in 北京 today."]) == "with spaces"
    assert find_script(["The cat sat.", *CHINESE]) == "Chinese"
    assert find_script(["one two", "黑猫"]) == "with spaces"  # as many words as characters
    # A name in kana makes no Japanese of a Chinese text.
    assert find_script(["鲜の每日是一家很受欢迎的连锁饮料店在全国各地都有分店"]) == "Chinese"


def test_the_text_wins_over_the_language_except_for_chinese_characters_alone():
    assert find_script(["東京都庁舎"]) == find_script(["東京都庁舎"], "en") == "Chinese"
    for code in ("ja", "JA", "ja-JP", "jpn_Jpan"):
        assert find_script(["東京都庁舎"], code) == "Japanese"
    assert find_script(JAPANESE, "zh") == "Japanese"
    assert choose_score_words(["The black cat."], language="zh").bleu == "13a"
    assert choose_score_words(CHINESE, language="en").bleu == "zh"


@pytest.mark.parametrize(
    ("texts", "tokenizer", "otherwise", "ter"),
    [(JAPANESE, "ja-mecab", "char", "ja-mecab"), (["검은 고양이가 우유를 마신다."], "ko-mecab", "13a", "tercom")],
)
def test_mecab_is_used_where_it_is_installed_and_otherwise_a_note_says_so(
    texts, tokenizer, otherwise, ter, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(score_words, "is_installed", lambda name: name == tokenizer)
    chosen = choose_score_words(texts)
    assert (chosen.bleu, chosen.ter, chosen.note) == (tokenizer, ter, None)
    monkeypatch.setattr(score_words, "is_installed", lambda name: False)
    chosen = choose_score_words(texts)
    assert chosen.bleu == otherwise
    assert f"not installed: pip install 'sacrebleu[{tokenizer[:2]}]'" in str(chosen.note)
    assert score_notes(texts, texts)[0] == chosen.note
    with pytest.raises(
        ValueError, match=rf"tokenizer {tokenizer} needs MeCab .* pip install 'sacrebleu\[{tokenizer[:2]}"
    ):
        corpus_scores(texts, texts, tokenize=tokenizer)


def test_japanese_words_are_those_of_mecab():
    pytest.importorskip("MeCab")
    pytest.importorskip("ipadic")
    system = [line.replace("。", "！") for line in JAPANESE]
    scores = corpus_scores(system, JAPANESE, metrics=["bleu", "ter"])
    bleu = BLEU(tokenize="ja-mecab")
    assert scores["bleu"]["score"] == bleu.corpus_score(system, [JAPANESE]).score
    assert scores["bleu"]["signature"] == str(bleu.get_signature())
    cut_system, cut_references = (list(map(bleu.tokenizer, lines)) for lines in (system, JAPANESE))
    assert scores["ter"]["score"] == TER(case_sensitive=True).corpus_score(cut_system, [cut_references]).score
    assert "tok:ja-mecab" in scores["ter"]["signature"]


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "zh", "char", "none"])
def test_a_tokenizer_that_is_named_is_sacrebleus(tokenizer: str):
    hypotheses, references = ["The dog—bit the man. 黑猫喝", "a b c d e."], ["The dog—bit a man. 黑猫喝", "a b c d f."]
    scores = corpus_scores(hypotheses, references, tokenize=tokenizer)
    bleu = BLEU(tokenize=tokenizer)
    assert scores["bleu"]["score"] == bleu.corpus_score(hypotheses, [references]).score
    assert scores["bleu"]["signature"] == str(bleu.get_signature())
    assert scores["chrf"]["score"] == CHRF().corpus_score(hypotheses, [references]).score
    by_spaces = tokenizer not in ("zh", "char")
    assert f"tok:{'tercom' if by_spaces else tokenizer}|" in scores["ter"]["signature"]
    assert f"tok:{'whitespace' if by_spaces else 'char'}|" in scores["wer"]["signature"]


def test_a_tokenizer_that_does_not_exist_or_lacks_its_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with pytest.raises(ValueError, match="unknown tokenizer '13b' for the scores; did you mean '13a'"):
        corpus_scores(["a"], ["a"], tokenize="13b")
    with pytest.raises(ValueError, match=r"unknown tokenizer 'moses' for the scores \(known: 13a, intl, zh, "):
        compare_translations(["a"], ["a"], ["a"], tokenize="moses")
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"tokenizer flores200 needs the file .*flores200sacrebleuspm, which is not there"
    ):
        corpus_scores(["a"], ["a"], tokenize="flores200")


@pytest.mark.parametrize("case", [False, True])
def test_case_is_ignored_in_text_without_spaces_as_well(case: bool):
    scores = corpus_scores(["打开docker设置吧"], ["打开DOCKER设置吧"], lowercase=not case)
    assert (scores["bleu"]["score"] == pytest.approx(100)) != case
    assert (scores["ter"]["score"] == scores["wer"]["score"] == 0) != case


def test_tokenized_text_is_warned_of():
    detokenized, tokenized = ["The dog barks."] * 300, ["The dog barks ."] * 300
    assert explain_tokenized_text(detokenized, "lines") is None
    assert str(explain_tokenized_text(tokenized, "translations")).startswith(
        "300 of 300 translations end in a space and"
    )
    assert explain_tokenized_text([*tokenized[:100], *detokenized], "lines")  # sacreBLEU's own threshold
    assert explain_tokenized_text([*tokenized[:99], *detokenized], "lines") is None
    assert explain_tokenized_text(tokenized[:10], "lines")
    assert explain_tokenized_text(tokenized[:9], "lines") is None
    references = detokenized[:12]
    assert len(score_notes(tokenized[:12], references)) == 1
    comparison = compare_translations(tokenized[:12], references, references, samples=3)
    [note] = comparison.notes
    assert "12 of 12 translations in A end in a space" in note
    assert "12 of 12 translations in A end in a space" in comparison_as_html(comparison)


def test_lengths_and_rare_words_of_text_without_spaces_are_counted_in_characters():
    comparison = compare_translations(LOUD, SHORT, CHINESE, samples=11)
    assert [grouping.title for grouping in comparison.groupings.values()] == [
        "length of the reference, in characters",
        "characters of the reference that occur only once in all references",
    ]
    names = [bucket.name for bucket in comparison.groupings["length"].buckets]
    assert names == list(group_by_length(CHINESE, split_characters)) != ["1+"]
    training = ["我们去公园散步", *CHINESE * 3]
    comparison = compare_translations(LOUD, SHORT, CHINESE, ["one two three"] * 6, training=training, samples=11)
    assert comparison.groupings["length"].title == "length of the source, in words"
    rare = comparison.groupings["rare_words"]
    assert rare.title == "how often the rarest character of the reference occurs in the training text"
    assert [(bucket.name, bucket.sentences) for bucket in rare.buckets] == [("1-9", 6)]


def test_the_page_marks_characters_where_there_are_no_spaces():
    page = comparison_as_html(compare_translations(LOUD, SHORT, CHINESE, samples=11))
    assert "这只黑猫喝了<del>牛奶！</del>" in page
    assert "这只黑猫喝了<ins>。</ins>" in page
    assert "characters of A that B has not" in page


# Sentences of one to three words: no run of four words exists, and sacreBLEU's BLEU is 0 for a perfect translation.
SHORT_LINES = ["File", "Save as", "Close all files"]


def test_a_group_in_which_no_reference_has_four_words_has_no_bleu():
    lines = [*SHORT_LINES * 10, *["the black cat drank all of the milk today"] * 10]
    other = [line.replace("milk", "water").replace("File", "Data") for line in lines]
    comparison = compare_translations(lines, other, lines, samples=11)
    groups = {bucket.name: bucket for bucket in comparison.groupings["length"].buckets}
    assert list(groups) == ["1", "2", "3", "4+"]
    assert [group.bleu is None for group in groups.values()] == [True, True, True, False]
    text = "\n".join(comparison_as_text(comparison))
    assert "        1         10         -       -       -    100.00    " in text
    assert "NaN" not in text + comparison_as_html(comparison)
    # A tokenizer that cuts off the full stop makes four words of three.
    three = ["Close all files."] * 3
    [group] = compare_translations(three, three, three, samples=3).groupings["length"].buckets
    assert group.bleu == pytest.approx((100, 100))
    by_spaces = compare_translations(three, three, three, samples=3, tokenize="none")
    assert by_spaces.groupings["length"].buckets[0].bleu is None


def test_where_no_reference_at_all_has_four_words_bleu_is_a_dash_and_says_why():
    comparison = compare_translations(SHORT_LINES, ["File", "Save", "Close"], SHORT_LINES, samples=11)
    assert not comparison.scores["bleu"].is_defined
    assert comparison.scores["bleu"].better is None
    [row] = [line for line in comparison_as_text(comparison) if line.startswith("BLEU ") and "tok:" not in line]
    assert row.split(maxsplit=4) == ["BLEU", "-", "-", "-", NO_NGRAM]
    assert f'<td>-</td><td>-</td><td>-</td><td></td><td class="words">{NO_NGRAM}' in comparison_as_html(comparison)
    assert score_notes(SHORT_LINES, SHORT_LINES) == [NO_NGRAM]


REFERENCES = ["The dog bit the man.", "It was not unexpected.", "The man bit him first.", "Stop there, you two!"]
HYPOTHESES = ["The dog bit a man.", "It was no surprise.", "He bit the man first.", "Stop, both of you!"]
OTHERS = ["A dog bit the man.", " ", "The man was the first to bite.", ""]


@pytest.mark.parametrize("blank", ["", " ", "\t", None])
def test_a_blank_reference_in_a_later_list_does_not_exist(blank):
    third = [blank, "No surprise there.", blank, blank]
    scores = corpus_scores(HYPOTHESES, [REFERENCES, OTHERS, third])
    missing = [REFERENCES, ["A dog bit the man.", None, "The man was the first to bite.", None]]
    missing.append([None, "No surprise there.", None, None])
    for name, metric in {"bleu": BLEU(), "chrf": CHRF(), "ter": TER(case_sensitive=True)}.items():
        assert scores[name]["score"] == metric.corpus_score(HYPOTHESES, missing).score
        assert scores[name]["signature"] == str(metric.get_signature())
    assert all(result["signature"].startswith("nrefs:var|") for result in scores.values())
    # Edits to the nearest, over the mean length: 1 of 5 and 5 words, 2 of 4 and 3, 4 of 5 and 7, 4 of 4.
    assert scores["wer"]["score"] == pytest.approx(100 * (1 + 2 + 4 + 4) / (5 + 3.5 + 6 + 4))


def test_a_list_of_blank_references_changes_nothing():
    assert corpus_scores(HYPOTHESES, [REFERENCES, [""] * 4]) == corpus_scores(HYPOTHESES, REFERENCES)


def test_a_blank_reference_in_the_first_list_is_an_empty_translation():
    blank = ["", *REFERENCES[1:]]
    assert corpus_scores(HYPOTHESES, [blank]) == corpus_scores(HYPOTHESES, blank)
    assert corpus_scores([""], [[""], ["a"]], ["wer"])["wer"] == {
        "score": 0.0,
        "signature": "nrefs:2|case:mixed|tok:whitespace|edits:levenshtein",
    }


def test_a_comparison_has_the_words_and_the_references_of_evaluate():
    system = ["吾輩は犬である！", "名前は無い。", "どこで生れたか知らない。"]
    others = ["", "名前はない。", None]
    for tokenize in (None, "zh", "13a", "char"):
        comparison = compare_translations(system, JAPANESE, [JAPANESE, others], samples=5, tokenize=tokenize)
        expected = corpus_scores(system, [JAPANESE, others], tokenize=tokenize)
        for name in METRICS:
            assert comparison.scores[name].a.score == pytest.approx(expected[name]["score"], rel=1e-12)
            assert comparison.scores[name].signature == expected[name]["signature"]
            assert "nrefs:var" in expected[name]["signature"]


def test_a_list_of_references_of_another_length_is_refused_by_compare():
    with pytest.raises(ValueError, match="4 references, 3 references in list 2, 4 translations in A"):
        compare_translations(HYPOTHESES, HYPOTHESES, [REFERENCES, OTHERS[:3]])


def test_lines_without_a_reference_are_named():
    texts = ["The ball is blue today.", "No.", "", "Yes.", "So."]
    assert explain_empty_references([texts], texts) is None
    assert str(explain_empty_references([["The ball is blue today.", " ", "", "Yes.", "So."]], texts)).startswith(
        "line 2 has a"
    )
    # One of several references is enough, and a blank translation of a blank line is right.
    assert explain_empty_references([["", "", "", "a", "b"], ["a", "b", None, "", ""]], texts) is None
    note = explain_empty_references([["", "", "", "", ""]], texts, ["", "", "a", "", ""])
    assert str(note).startswith("5 lines (1, 2, 3, ...) have")
    assert score_notes(texts, ["The ball is blue today.", "", "", "Yes.", "So."]) == [
        "line 2 has a translation and no reference, so that all of its words count as wrong; leave it out"
    ]
