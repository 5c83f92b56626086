"""How good models are: what is scored, how, and the page and the plot that tell of it."""
