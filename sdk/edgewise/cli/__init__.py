"""The `edgewise` command: one module per subcommand."""
