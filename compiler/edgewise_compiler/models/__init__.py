"""Model families: configuration, parameters and forward pass of each."""
