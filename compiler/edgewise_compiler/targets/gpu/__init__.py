"""What programs of every GPU language share: lowering."""
