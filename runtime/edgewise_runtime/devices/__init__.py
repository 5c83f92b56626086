"""What launches kernels: the `Device` protocol and one module per device."""
