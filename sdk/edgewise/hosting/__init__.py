"""Models that answer requests of others: in this process, or in a child of it."""
