"""From text on disk to padded integers."""
