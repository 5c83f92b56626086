"""Programs for CUDA: fatbins and plans."""
