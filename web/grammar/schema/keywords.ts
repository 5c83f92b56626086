/** Which keywords of JSON Schema are understood, and what they speak of. */

export const TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"] as const;
export type TypeName = (typeof TYPES)[number];

/** What asserts nothing, `discriminator` and what follows it being OpenAPI's. */
const SAYING_NOTHING =
  "$schema $comment $defs definitions $anchor $dynamicAnchor title description default examples " +
  "example deprecated readOnly writeOnly contentSchema discriminator externalDocs xml";
/** The same, each. */
export const ANNOTATIONS: ReadonlySet<string> = new Set(SAYING_NOTHING.split(" "));
const COMBINING = "$ref allOf anyOf oneOf";
const VALUES = "type enum const";

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
const KNOWN = new Set([...`${SAYING_NOTHING} ${COMBINING} ${VALUES}`.split(" "), ...SAYING]);

/** Formats of OpenAPI's that hint at how a value is kept. */
export const FORMATS_WITHOUT_MEANING: ReadonlySet<string> = new Set(
  "int32 int64 float double password binary byte".split(" "),
);

/** Whether a keyword is one of ours, or an extension's, which says nothing of values. */
export function understood(keyword: string): boolean {
  return KNOWN.has(keyword) || keyword.startsWith("x-");
}
