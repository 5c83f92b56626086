"""JSON Schema, and any JSON object, as a grammar of canonical JSON."""

from edgewise_runtime.grammar.schema.lower import lower_json_object, lower_schema, schema_rules

__all__ = ["lower_json_object", "lower_schema", "schema_rules"]
