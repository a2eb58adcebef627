from dataclasses import replace

import numpy as np
import pytest

from pellucid.interpret.studies.word_vectors import (
    Embeddings,
    answer_ranks,
    parse_question,
    solve_analogy,
    sum_of_words,
)
from tests.inspect.test_embeddings import table


def planted_table() -> Embeddings:
    """Table in which a1 - a2 + a3 is a4, a5 - a6 + a7 is a8 and so on to a36, but for a little noise."""
    embeddings = table(width=23)
    unit = embeddings.vectors / np.linalg.norm(embeddings.vectors, axis=1)[:, None]
    for n in range(4, 37, 4):
        embeddings.vectors[n] = 3.0 * (unit[n - 3] - unit[n - 2] + unit[n - 1]) + 0.01
    return replace(embeddings)


def test_an_analogy_equals_brute_force():
    embeddings = table()
    for words in (["a1", "a2", "a3"], ["a5", "-", "a6"], ["a7", "+", "a8", "-", "a9 a3", "+", "a2"]):
        terms = parse_question(words, embeddings)
        answer = solve_analogy(embeddings, terms, count=41)
        total = np.zeros(7)
        for term in terms:
            vector = np.mean([embeddings.vectors[i] for i in term.word.ids], axis=0)
            total += term.sign * vector / np.sqrt((vector**2).sum())
        cosines = [float(total @ row / np.sqrt((total**2).sum() * (row**2).sum())) for row in embeddings.vectors]
        order = sorted(range(41), key=lambda n: -cosines[n])
        inputs = {i for term in terms for i in term.word.ids}
        assert [neighbour.id for neighbour in answer.answers_with_inputs] == order
        assert [neighbour.id for neighbour in answer.answers] == [n for n in order if n not in inputs]
        assert [neighbour.cosine for neighbour in answer.answers_with_inputs] == pytest.approx(
            [cosines[n] for n in order]
        )


def test_three_words_and_signs_say_the_same():
    embeddings = table()
    assert parse_question(["a1", "a2", "a3"], embeddings) == parse_question(["a1", "-", "a2", "+", "a3"], embeddings)
    assert solve_analogy(embeddings, parse_question(["a1", "a2", "a3"], embeddings)).question == "a1 - a2 + a3"


@pytest.mark.article("B11", "X15")
def test_a_planted_analogy_is_found():
    embeddings = planted_table()
    answer = solve_analogy(embeddings, parse_question(["a1", "a2", "a3"], embeddings), embeddings.word("a4"))
    assert (answer.rank, answer.rank_with_inputs, answer.candidates) == (1, 1, 38)
    assert answer.verdict == "this model does: a4 comes first, the words of the question left out"


def test_without_leaving_inputs_out_the_answer_is_often_one_of_them():
    embeddings = table(width=101)  # so wide that no two words have anything in common
    answer = solve_analogy(embeddings, parse_question(["a1", "a2", "a3"], embeddings))
    assert answer.answers_with_inputs[0].id in (1, 3)
    assert answer.answers[0].id not in (1, 2, 3)
    assert "is one of them" in answer.verdict


def test_a_failed_analogy_says_so():
    embeddings = table()
    terms = parse_question(["a1", "a2", "a3"], embeddings)
    last = solve_analogy(embeddings, terms, count=41).answers[-1]
    answer = solve_analogy(embeddings, terms, embeddings.word(last.piece))
    assert (answer.rank, answer.by_chance) == (38, 1.0)
    assert answer.verdict.startswith("this model does not: ")


def test_the_chance_of_a_rank_is_its_share_in_random_tables():
    embeddings = table()
    terms, generator = parse_question(["a1", "a2", "a3"], embeddings), np.random.default_rng(3)
    words = embeddings.words(["a4", "a7 a8"])
    ranks = []
    for _ in range(2000):
        random_embeddings = replace(embeddings, vectors=generator.standard_normal(embeddings.vectors.shape))
        ranks.append(
            [
                answer_ranks(random_embeddings, sum_of_words(random_embeddings, terms), word, [1, 2, 3])[0]
                for word in words
            ]
        )
    one_piece, two_pieces = np.array(ranks).T
    for rank in (1, 10, 19, 30):  # binomial: three deviations are below 0.034
        assert np.mean(one_piece <= rank) == pytest.approx(rank / 38, abs=0.034)
        assert np.mean(two_pieces <= rank) == pytest.approx(rank / 39, abs=0.034)


def test_a_word_of_several_pieces_ranks_by_their_mean():
    embeddings = table()
    terms = parse_question(["a1", "a2", "a3"], embeddings)
    answer = solve_analogy(embeddings, terms, embeddings.word("a7 a8"), count=41)
    total, mean = sum_of_words(embeddings, terms), (embeddings.vectors[7] + embeddings.vectors[8]) / 2
    cosine = float(total @ mean / np.sqrt((total**2).sum() * (mean**2).sum()))
    assert answer.rank == 1 + sum(neighbour.cosine > cosine for neighbour in answer.answers)
    assert answer.rank_with_inputs == 1 + sum(neighbour.cosine > cosine for neighbour in answer.answers_with_inputs)
    assert answer.candidates == 39


def test_a_question_in_quotes_is_the_question():
    embeddings = table()
    apart = parse_question(["a1", "-", "a2", "+", "a3"], embeddings)
    assert parse_question(["a1 - a2 + a3"], embeddings) == apart
    assert parse_question(["a1 a2 a3"], embeddings) == apart


@pytest.mark.parametrize("words", [[], ["a1"], ["a1", "-"], ["a1", "a2"], ["-", "-", "a1"], ["a1", "-", "a2", "a3"]])
def test_what_is_no_analogy_is_refused(words: list[str]):
    with pytest.raises(
        ValueError, match="is not an analogy; it needs words with signs between them, for example: king - man \\+ woman"
    ):
        parse_question(words, table())


def test_questions_without_an_answer_are_refused():
    embeddings = table()
    with pytest.raises(ValueError, match="cancel out"):
        solve_analogy(embeddings, parse_question(["a1", "-", "a1"], embeddings))
    for word in ("a2", "a5 a2"):
        with pytest.raises(ValueError, match=f"'{word}' shares a piece with the question"):
            solve_analogy(embeddings, parse_question(["a1", "a2", "a3"], embeddings), embeddings.word(word))
