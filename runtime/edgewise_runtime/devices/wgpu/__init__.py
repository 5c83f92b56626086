"""This machine's GPUs as devices, by wgpu-native."""
