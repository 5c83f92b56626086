"""The model as a graph of semantic operations, and the passes that rewrite it."""
