"""The tests of that name in tests/compiler/kernels/gpu, in MSL on the emulator."""

from tests.compiler.kernels.gpu.test_experts import *  # noqa: F403
