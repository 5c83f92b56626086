/** Which keywords of JSON Schema are understood, and what they speak of. */

export const TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"] as const;
export type TypeName = (typeof TYPES)[number];

/** What asserts nothing, `discriminator` and what follows it being OpenAPI's. */
export const ANNOTATIONS: ReadonlySet<string> = new Set(
  (
    "$schema $comment $defs definitions $anchor $dynamicAnchor title description default examples " +
    "example deprecated readOnly writeOnly contentSchema discriminator externalDocs xml"
  ).split(" "),
);

/**
 * What asserts something in a draft, and is not supported. All else that is not named here asserts
 * nothing either, as the specification has it of keywords that nobody knows.
 */
export const REFUSED: ReadonlySet<string> = new Set(
  (
    "not if then else contains minContains maxContains unevaluatedItems unevaluatedProperties " +
    "dependencies dependentRequired dependentSchemas $dynamicRef $recursiveRef contentEncoding " +
    "contentMediaType extends disallow divisibleBy"
  ).split(" "),
);

/** Names of schemas, against which references below them are resolved. */
export const NAMES: readonly string[] = ["$id", "id"];

export const OF_TYPE: ReadonlyMap<TypeName, readonly string[]> = new Map([
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
  ["string", ["minLength", "maxLength", "pattern", "format"]],
  ["array", ["items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"]],
  [
    "object",
    [
      ...["properties", "required", "additionalProperties", "patternProperties", "propertyNames"],
      ...["minProperties", "maxProperties"],
    ],
  ],
]);

/** Keywords that speak of one type. */
export const SAYING: readonly string[] = [...OF_TYPE.values()].flat();

/**
 * Formats that the specification has, and that are not supported. Others that `formats` does not have
 * assert nothing, as the specification has it of formats that nobody knows.
 */
export const REFUSED_FORMATS: ReadonlySet<string> = new Set(
  (
    "idn-email idn-hostname iri iri-reference regex relative-json-pointer uri-reference " +
    "uri-template"
  ).split(" "),
);
