"""Documents taken apart into texts to translate and everything else, and put together again with translations."""
