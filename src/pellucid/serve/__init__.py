"""The server: the page, traces, and translation as LibreTranslate's clients ask for it."""
