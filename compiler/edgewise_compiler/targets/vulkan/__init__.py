"""Programs for Vulkan: SPIR-V and plans."""
