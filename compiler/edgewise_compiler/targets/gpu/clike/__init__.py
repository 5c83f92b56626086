"""Languages that look like C: one printer of lowered kernels, and a dialect for each of them."""
