"""Weight layouts: in which order weights lie in a bundle's parameter files, and packing them."""
