"""Weight layouts: in which order packed weights lie in a bundle's parameter files."""
