"""This machine's GPUs as devices, by Vulkan itself."""
