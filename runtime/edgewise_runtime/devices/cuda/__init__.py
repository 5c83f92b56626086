"""NVIDIA's GPUs as devices, by the CUDA driver."""
