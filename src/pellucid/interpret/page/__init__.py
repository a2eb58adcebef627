"""The page that shows a trace: its built script, one self-contained HTML file, and the widget for notebooks."""
