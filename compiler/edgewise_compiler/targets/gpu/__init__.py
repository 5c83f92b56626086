"""What programs of every GPU language share: lowering, code generation, files."""
