"""Models at a hub: how they are named, which of their files are read, and how these get here."""
