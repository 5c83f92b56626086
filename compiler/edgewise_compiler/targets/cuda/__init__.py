"""Programs for CUDA: kernels in CUDA C, and plans."""
