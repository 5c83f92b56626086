/** Answers that have to follow a schema are the same texts in a browser as in Python. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

/** What tests/browser/constrained.py wrote. */
interface Written {
  readonly program: string;
  /** Tokens of an answer. */
  readonly most: number;
  readonly cases: readonly {
    readonly question: string;
    readonly schema: Readonly<Record<string, unknown>>;
    readonly finish: string;
    readonly text: string;
    readonly tokens: readonly number[];
  }[];
}

describe("an answer under a schema", () => {
  const path = join(inject("bundles"), "constrained.json");
  const { program, most, cases }: Written = JSON.parse(readFileSync(path, "utf8"));
  let session: Session;
  let page: Page;

  beforeAll(async () => {
    session = await openSession("swiftshader");
    page = await session.library();
    const loaded = await page.evaluate(
      (program) => library.load("demo", "/bundles/demo-q4/", { program }),
      program,
    );
    expect(loaded).toMatchObject({ value: { program } });
  }, WAIT.timeout);
  afterAll(() => session?.close());

  it("is what Python says, for each of 20", { ...WAIT }, async () => {
    expect(cases).toHaveLength(20);
    const said = await page.evaluate(
      ([cases, maxTokens]) =>
        Promise.all(
          cases.map(async ({ question, schema }) => {
            const messages = [{ role: "user", content: question }];
            const responseFormat = { type: "json_schema", json_schema: { schema } } as const;
            const options = { temperature: 0, maxTokens, responseFormat };
            return library.chat("demo", messages, options);
          }),
        ),
      [cases, most] as const,
    );
    const texts = said.map((one) =>
      "value" in one
        ? [one.value.completion.text, one.value.completion.finishReason]
        : [one.error.message],
    );
    expect(texts).toEqual(cases.map(({ text, finish }) => [text, finish]));
    const parsed = said.filter(
      (one) => "value" in one && one.value.completion.parsed !== undefined,
    );
    expect(parsed.length).toBeGreaterThan(15);
  });
});
