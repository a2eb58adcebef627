"""Groups of sentences by their length and by how rare their words are."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pellucid.evaluate.comparison import group_by_length, group_by_lone_words, group_by_rarest_word, plain_words


@given(lengths=st.lists(st.integers(0, 300), min_size=1, max_size=60))
def test_every_sentence_is_in_one_group_whose_name_is_true(lengths: list[int]):
    groups = group_by_length(["w " * length for length in lengths])
    assert sorted(i for indices in groups.values() for i in indices) == list(range(len(lengths)))
    for name, indices in groups.items():
        low, _, high = name.removesuffix("+").partition("-")
        upper = 300 if name.endswith("+") else int(high or low)
        assert all(int(low) <= lengths[i] <= upper for i in indices)


@given(lengths=st.lists(st.integers(1, 300), min_size=10, max_size=60))
def test_no_group_of_lengths_has_less_than_a_tenth(lengths: list[int]):
    groups = group_by_length(["w " * length for length in lengths])
    assert all(len(indices) >= len(lengths) / 10 for indices in groups.values())


def test_groups_of_lengths_follow_the_text():
    short = group_by_length(["w " * (1 + i % 5) for i in range(100)])
    long = group_by_length(["w " * (10 + i % 40) for i in range(100)])
    assert list(short) == ["1", "2", "3", "4+"]
    assert list(long) == ["10-15", "16-20", "21-30", "31+"]
    assert list(group_by_length(["w w w"] * 9)) == ["3+"]


def test_rare_words_are_counted_in_the_training_text():
    training = ["the"] * 100 + ["dog"] * 99 + ["cat."] * 10 + ["(Ball)"] * 9
    references = ["The the", "the DOG", "a cat", "the ball", "the cat", ""]
    assert group_by_rarest_word(references, training) == {
        "0": [2],  # nobody has seen "a"
        "1-9": [3],
        "10-99": [1, 4],
        "100+": [0],
        "no word": [5],
    }


def test_words_that_stand_alone_are_counted_without_a_training_text():
    assert group_by_lone_words(["x y z v", "x", "y, y", "w.", "", "z Q"]) == {"0": [1, 2, 4], "1": [0, 3, 5]}


@given(text=st.text())
def test_words_have_no_punctuation_around_them_and_no_letter_is_lost(text: str):
    words = plain_words(text)
    assert all(word and not word.isspace() for word in words)
    assert Counter(c for word in words for c in word if c.isalnum()) == Counter(
        c for c in text.casefold() if c.isalnum()
    )


def test_marks_of_a_script_belong_to_its_words():
    assert plain_words("हिन्दी, कि।") == ["हिन्दी", "कि"]
