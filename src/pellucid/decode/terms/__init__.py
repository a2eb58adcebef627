"""What a translation must contain: terminology, protected text and forced prefixes."""
