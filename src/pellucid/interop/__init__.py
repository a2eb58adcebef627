"""Other people's formats: reading and writing models as their programs do."""
