"""For a newcomer: the phrasebook to train on, and the Transformer in one file."""
