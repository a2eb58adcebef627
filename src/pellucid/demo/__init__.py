"""What a newcomer begins with: the phrasebook to train on, and the Transformer in one file."""
