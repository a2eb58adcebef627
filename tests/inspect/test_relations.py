import pytest
import torch

from pellucid.inspect import pattern_measures
from pellucid.inspect import roles as relations
from pellucid.inspect.conllu import Relation, read_conllu, word_of_each_piece
from pellucid.inspect.roles import RelationCounts, follow_syntax, relation_badges
from tests.decode.models import small_tokenizer
from tests.trace.traced import small_traced

CONTRACTED = """\
# text = Vio el gato del perro.
1 Vio ver VERB _ _ 0 root _ _
2 el el DET _ _ 3 det _ _
3 gato gato NOUN _ _ 1 dobj _ _
4-5 del _ _ _ _ _ _ _ _
4 de de ADP _ _ 6 case _ _
5 el el DET _ _ 4 amod _ _
6 perro perro NOUN _ _ 3 nmod:of _ SpaceAfter=No
6.1 vio ver VERB _ _ _ _ 1:conj _
7 . . PUNCT _ _ 1 punct _ _

1 Yes yes INTJ _ _ 0 root _ _
"""


def conllu_lines(words: list[tuple[str, int, str]]) -> list[str]:
    return [f"{n}\t{form}\t_\t_\t_\t_\t{head}\t{name}\t_\t_" for n, (form, head, name) in enumerate(words, 1)] + [""]


CAT = conllu_lines(
    [("The", 3, "det"), ("black", 3, "amod"), ("cat", 4, "nsubj"), ("drank", 0, "root"), ("milk", 4, "obj")]
)
BALL = conllu_lines([("ball", 3, "nsubj:pass"), ("is", 3, "cop"), ("blue", 0, "root")])


def test_contractions_are_one_word_and_empty_nodes_none():
    sentence, yes = read_conllu(CONTRACTED.replace(" ", "\t").splitlines())
    assert sentence.words == ("Vio", "el", "gato", "del", "perro", ".")
    assert sentence.text == "Vio el gato del perro."
    assert [(relation.name, relation.dependent, relation.head) for relation in sentence.relations] == [
        ("det", 1, 2),
        ("obj", 2, 0),
        ("case", 3, 4),
        ("nmod", 4, 2),
        ("punct", 5, 0),
    ]
    assert (yes.words, yes.relations, yes.line) == (("Yes",), (), 12)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 Yes yes", "line 2 has 1 columns between tabs, CoNLL-U has 10"),
        ("x\tYes\t_\t_\t_\t_\t0\troot\t_\t_", "line 2: 'x' is no number of a word"),
        ("1-\tYes\t_\t_\t_\t_\t0\troot\t_\t_", None),
        ("1-x\tYes\t_\t_\t_\t_\t0\troot\t_\t_", "line 2: '1-x' is no number of a word"),
        ("1\tYes\t_\t_\t_\t_\tx\troot\t_\t_", "line 2: the head of 'Yes' is 'x', expected a number"),
        ("1\tYes\t_\t_\t_\t_\t-1\troot\t_\t_", "expected a number"),
        ("1\tYes\t_\t_\t_\t_\t9\tobj\t_\t_", "line 2: the sentence that begins here has no word 9"),
        ("1-99999999999\tYes\t_\t_\t_\t_\t_\t_\t_\t_", None),
    ],
)
def test_a_damaged_parse_is_refused(line: str, message: str | None):
    if message is None:
        assert [sentence.words for sentence in read_conllu(["# a", line])] == [("Yes",)]
        return
    with pytest.raises(ValueError, match=message):
        list(read_conllu(["# a", line]))


def test_pieces_find_their_words_by_letters():
    assert word_of_each_piece(["▁Th", "e", "▁", "ca", "t", "."], ["The", "cat", "."]) == [0, 0, -1, 1, 1, 2]
    assert word_of_each_piece(["▁the", "▁cat"], ["The", "Cat"]) == [0, 1]
    assert word_of_each_piece(["▁<0xC3>"[1:], "<0xA9>", "t", "é"], ["ét", "é"]) == [0, -1, 0, 1]
    assert word_of_each_piece(["▁the", "▁dog"], ["the", "cat"]) is None
    assert word_of_each_piece(["▁the"], ["the", "cat"]) is None


def test_hits_are_counted_instance_by_instance():
    """Two heads: one reads the right word of the first two instances, the other always the word before."""
    count = RelationCounts()
    count.add("obj", torch.tensor([[2, 0, 1], [0, 0, 1]]), {0: [2], 2: [1]})
    count.add("obj", torch.tensor([[0, 1, 0, 0], [0, 0, 1, 2]]), {3: [2]})
    followed = count.as_followed("obj", "encoder.0.self")
    assert followed is not None
    assert followed.shares == pytest.approx([2 / 3, 2 / 3])
    # two of three are one place before
    assert (followed.baseline, followed.offset, followed.instances) == (pytest.approx(2 / 3), -1, 3)
    assert count.as_followed("nsubj", "encoder.0.self") is None


def test_a_badge_takes_ten_points_more_than_a_fixed_place():
    assert [badge.mark for badge in relation_badges("S", "obj", 0.71, 0.6, 1, 50)] == ["S"]
    assert relation_badges("S", "obj", 0.69, 0.6, 1, 50) == []
    assert relation_badges("S", "obj", 1.0, 0.6, 1, 29) == []


def test_a_head_that_follows_a_relation_is_found(monkeypatch):
    """Patterns are replaced by ones that read the head of each word, whatever it is."""
    model = small_traced().bundle.model
    heads = {("The", "black", "cat", "drank", "milk"): [2, 2, 3, 3, 3], ("ball", "is", "blue"): [2, 2, 2]}
    shapes = []

    def read_heads(pattern, view):
        most_read = torch.zeros(pattern.shape[:3], dtype=torch.int64)
        for row, length in zip(most_read, view.queries.sum(dim=1).tolist(), strict=True):
            row[:, :length] = torch.tensor(next(words for words in heads.values() if len(words) == length))
        shapes.append(most_read.shape)
        return most_read

    monkeypatch.setattr(pattern_measures, "most_read_keys", read_heads)
    followed, notes = follow_syntax(model, small_tokenizer(), read_conllu(CAT + BALL))
    assert notes == []
    assert shapes == [(2, 3, 5)] * 2
    shares = {
        (relation.relation, relation.attention): (relation.shares[0], relation.baseline, relation.instances)
        for relation in followed
    }
    assert shares[("nsubj: dependent to head", "encoder.1.self")] == (1.0, 0.5, 2)
    assert shares[("nsubj: head to dependent", "encoder.0.self")] == (0.0, 0.5, 2)
    assert shares[("amod: dependent to head", "encoder.0.self")] == (1.0, 1.0, 1)
    assert shares[("obj: dependent to head", "encoder.0.self")] == (1.0, 1.0, 1)
    assert {name for name, _ in shares} == {
        f"{name}: {way}" for name in ("nsubj", "obj", "amod") for way in ("dependent to head", "head to dependent")
    }


def test_hits_are_those_of_the_patterns():
    """Against loops over the pattern of each sentence alone."""
    model, tokenizer = small_traced(double=True).bundle.model, small_tokenizer()
    sentences = list(read_conllu(CAT + BALL))
    followed, _ = follow_syntax(model, tokenizer, sentences)
    hits = {}
    for sentence in sentences:
        trace = small_traced(double=True).trace(sentence.text, target="Sí.")
        words = word_of_each_piece(trace.source.pieces[:-1], sentence.words)
        assert words is not None
        for layer in range(2):
            pattern = trace[f"encoder.{layer}.self.pattern"].values
            for head in range(3):
                for relation in sentence.relations:
                    if relation.name == "nsubj":
                        rows = [i for i, word in enumerate(words) if word == relation.head]
                        weights = [
                            sum(
                                pattern[head, row, key]
                                for row in rows
                                for key, word in enumerate(words)
                                if word == candidate
                            )
                            for candidate in range(len(sentence.words))
                        ]
                        hit = weights.index(max(weights)) == relation.dependent
                        hits[layer, head] = hits.get((layer, head), 0) + hit
    for result in followed:
        if result.relation == "nsubj: head to dependent":
            layer = int(result.attention.split(".")[1])
            assert result.shares == [hits[layer, head] / 2 for head in range(3)]


def test_skipped_sentences_are_noted():
    model = small_traced(max_positions=5).bundle.model
    followed, notes = follow_syntax(model, small_tokenizer(), read_conllu(CAT))
    assert (followed, notes) == ([], ["1 parsed sentences left out: more than 5 pieces"])
    strange = [Relation("obj", 0, 1)]
    other_words = next(read_conllu(CAT))
    other_words = type(other_words)(("The", "  "), "The dog", tuple(strange), 1)
    assert follow_syntax(model, small_tokenizer(), [other_words])[1] == [
        "1 parsed sentences left out: the tokenizer spells other words"
    ]


def test_names_are_those_of_the_paper():
    assert relations.NAMES == ("nsubj", "obj", "amod", "advmod")
