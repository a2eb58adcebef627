"""A Transformer you can see through: train, translate, serve and inspect an encoder-decoder on your own sentence pairs."""
