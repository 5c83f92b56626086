"""A conversation in a terminal: what is typed, what it does, and how answers are shown."""
