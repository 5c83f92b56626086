"""The tests of that name in tests/compiler/kernels/gpu that run kernels, on the emulator."""

from tests.compiler.kernels.gpu.test_thread import (  # noqa: F401
    test_every_float32_arrives_as_it_is,
    test_vectors_of_a_constant_have_it_in_every_lane,
)
