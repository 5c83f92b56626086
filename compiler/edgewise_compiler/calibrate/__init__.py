"""What a model does with a text, in NumPy: the graph computed, and what its linears are given."""
