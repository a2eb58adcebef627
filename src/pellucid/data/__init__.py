"""From text files on the disk to padded batches of token ids."""
