"""Documents of people: their texts are translated, and everything else in them stays."""
