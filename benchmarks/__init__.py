"""Speed and quality side by side with peers and with the last version; imports anything, imported by nothing."""
