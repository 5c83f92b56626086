import { describe, expect, it } from "vitest";
import { changed, FIELDS, type Field } from "../../chat/settings.ts";

function field(name: Field["name"]): Field {
  const found = FIELDS.find((one) => one.name === name);
  if (!found) throw new Error(`no field ${name}`);
  return found;
}

describe("a setting", () => {
  it("takes what is written, and goes back to the model's own where nothing is", () => {
    const set = changed({ topK: 40 }, field("temperature"), "0.8");
    expect(set).toEqual({ topK: 40, temperature: 0.8 });
    expect(changed(set ?? {}, field("temperature"), " ")).toEqual({ topK: 40 });
  });

  it.each([
    ["topP", "0"],
    ["topK", "-1"],
    ["seed", "-1"],
  ] as const)("%s may be %s, as elsewhere", (name, text) => {
    expect(changed({}, field(name), text)).toEqual({ [name]: Number(text) });
  });

  it.each([
    ["temperature", "-1"],
    ["temperature", "hot"],
    ["topK", "1.5"],
    ["topP", "1.01"],
    ["maxTokens", "0"],
    ["seed", "1e300"],
  ] as const)("%s refuses %s", (name, text) => {
    expect(changed({}, field(name), text)).toBeNull();
  });
});
