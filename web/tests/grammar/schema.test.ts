/** Schemas become what they become in Python, and the same are refused. */

import { expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { type Node, toJson } from "../../grammar/nodes.ts";
import { lowerJsonObject, lowerSchema, schemaRules } from "../../grammar/schema/lower.ts";
import { casesOf, expected, hashed, type Outcome, outcome } from "./cases.ts";

interface SchemaCase extends Outcome {
  readonly what: string;
  readonly schema: unknown;
  readonly prefix?: string;
}

const CASES = casesOf<SchemaCase>("schemas.json");
const RANDOM = casesOf<SchemaCase>("random-schemas.json");

function made({ schema, prefix = "" }: SchemaCase): Outcome {
  return outcome(() => {
    const { root, rules } = lowerSchema(schema, prefix);
    return { root, rules: [...rules].map(([name, node]: [string, Node]) => [name, toJson(node)]) };
  });
}

test.each(CASES.map((item) => [item.what, item] as const))(
  "%s becomes what it does in Python",
  (_, item) => {
    const here = made(item);
    expect(typeof item.json === "string" ? hashed(here) : here).toEqual(expected(item));
  },
);

test(`${RANDOM.length} schemas at random become what they do in Python`, () => {
  const unlike = RANDOM.filter((item) => {
    const [here, there] = [hashed(made(item)), expected(item)];
    return here.json !== there.json || here.error !== there.error;
  });
  expect(unlike).toEqual([]);
});

function within(count: number, outer: (inner: unknown) => unknown, schema: unknown): unknown {
  return count > 0 ? within(count - 1, outer, outer(schema)) : schema;
}

/** Definitions of which each is made of a reference to the next. */
function chain(count: number, each: (link: unknown) => unknown): unknown {
  const links = Array.from({ length: count }, (_, i) => [
    String(i),
    each({ $ref: `#/$defs/${i + 1}` }),
  ]);
  return { $defs: { ...Object.fromEntries(links), [count]: true }, $ref: "#/$defs/0" };
}

function properties(count: number): unknown {
  const named = Array.from({ length: count }, (_, i) => [`k${i}`, { type: "string" }]);
  return { properties: Object.fromEntries(named) };
}

test.each([
  ["choices of references that double", chain(60, (link) => ({ anyOf: [link, link] }))],
  ["arrays within arrays by references", chain(5000, (link) => ({ items: link }))],
  ["values by the thousand", { enum: Array.from({ length: 60_000 }, (_, i) => i) }],
  ["a billion items", { type: "array", minItems: 1e9 }],
  ["a billion characters", { type: "string", minLength: 1e9 }],
  ["schemas within schemas", within(1000, (inner) => ({ allOf: [inner] }), true)],
  ["schemas that double", within(40, (inner) => ({ allOf: [inner, inner] }), true)],
  ["names by the thousand", properties(12_000)],
  ["first items by the thousand", { prefixItems: Array(5000).fill({ type: "string" }) }],
  ["a long text", { const: "x".repeat(1 << 21) }],
])("a bomb is refused early: %s", (_, schema) => {
  expect(outcome(() => lowerSchema(schema)).error).toMatch(/^(?:input|unsupported)\.schema$/);
});

test("references that double are written once", () => {
  const pair = (link: unknown) => ({ properties: { a: link, b: link }, required: ["a", "b"] });
  expect(lowerSchema(chain(60, pair)).rules.size).toBeLessThan(200);
});

test("what is refused says where it is", () => {
  const schema = { type: "object", properties: { "a/b": { items: { contains: true } } } };
  expect(() => lowerSchema(schema)).toThrow(/#\/properties\/a~1b\/items: the keyword "contains"/);
  expect(() => lowerSchema(schema)).toThrow(EdgewiseError);
});

test("any object is a schema's, too", () => {
  expect(lowerJsonObject()).toEqual(lowerSchema({ type: "object" }));
});

test("schemas go into a larger grammar under names of their own", () => {
  const rules = new Map<string, Node>([["root", { kind: "rule", name: "x_value_1" }]]);
  schemaRules(properties(20), rules, "x_");
  const before = rules.get("x_value_1");
  schemaRules(properties(30), rules, "x_");
  expect(before).toBeDefined();
  expect(rules.get("x_value_1")).toBe(before);
});
