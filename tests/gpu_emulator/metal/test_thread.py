"""The tests of that name in tests/compiler/kernels/gpu that run kernels, in MSL on the emulator."""

from tests.compiler.kernels.gpu.test_thread import (  # noqa: F401
    test_constants_keep_all_their_bits,
    test_vectors_of_a_constant_have_it_in_every_lane,
)
