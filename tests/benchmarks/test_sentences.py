"""The benchmark of sentence ends counts what a reader would count."""

from benchmarks.sentences import Score, choose_lines, list_places, score_split


def test_places_are_counted_without_white_space_and_without_the_end():
    assert list_places(["It is.", " We go.", ""]) == list_places(["It is. ", "We go."]) == {5}


def test_ends_that_are_right_wrong_and_missed_are_told_apart():
    # Lines end after 2, 4 and 6 letters, and this splits after 1, 2 and 5.
    assert score_split(lambda text: ["x", "x", "xxx", "xxx"], ["xx", "xx", "xx", "xx"], " ") == Score(3, 1, 3)
    assert Score(3, 1, 3).show() == "33.3 / 33.3 / 33.3"
    assert Score(4, 3, 5).show() == "75.0 / 60.0 / 66.7"


def test_lines_are_left_out_where_their_ends_are_not_known():
    libraries = [lambda text: text.split("|"), lambda text: text.split("|"), lambda text: [text]]
    lines = ["A heading", "a small letter.", "One|two.", "It is so.", "Was it? »"]
    assert choose_lines(lines, libraries) == ["It is so.", "Was it? »"]
    assert choose_lines(["One|two."], libraries[1:]) == ["One|two."]
