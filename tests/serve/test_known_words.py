import pytest

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.serve.directions import measure_known_words

LINES = ["the ball is blue", "the house is new", "犬は青い"] * 4


@pytest.mark.parametrize(
    ("kind", "text", "percent"),
    [
        ("word", "The ball, the ball!", 75.0),
        ("word", "the ball is red; 12 balls_", 60.0),
        ("word", "", 0.0),
        ("word", "123 ...", 0.0),
        ("bpe", "the ball", 100.0),
        ("bpe", "the kdgh", 50.0),
        ("bpe", "犬 青い", 100.0),
        ("bpe", "猫 犬", 50.0),
        ("char", "she hates", 100.0),
        ("char", "мяч the", 50.0),
    ],
)
def test_the_percentage_of_words_that_a_vocabulary_knows(kind, text: str, percent: float):
    tokenizer = Tokenizer.train(LINES, LINES, TokenizerConfig(kind=kind, vocabulary=320), seed=1, max_sentences=99)
    assert measure_known_words(tokenizer, [text]) == percent
