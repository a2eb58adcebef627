"""Why the model wrote what it wrote: exact accounts of logits, erasure, and what may be wrong with a translation."""
