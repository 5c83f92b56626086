/** What the pages of conversations with a bundle are called, found out without a browser. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inject } from "vitest";
import type { Message } from "../../client/types.ts";
import { hex, sha256 } from "../../digest.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { parseManifest } from "../../format/manifest-reader.ts";
import { unseal } from "../../format/seal.ts";
import { pageKey, producerOf, rootKey } from "../../kv/keys.ts";

export const PAGE_TOKENS = 16;

export interface PageKeys {
  /** In hex, of each of the bundle's programs for GPUs on an adapter. */
  producers(adapter: string): Promise<ReadonlySet<string>>;
  /** Token ids of a conversation that is to be answered. */
  prompt(messages: readonly Message[]): readonly number[];
  /** In hex, of the full pages of some tokens, by any of those programs. */
  keys(tokens: readonly number[]): Promise<readonly string[]>;
}

export async function pageKeysOf(bundle: string): Promise<PageKeys> {
  const file = (name: string) =>
    new Uint8Array(readFileSync(join(inject("bundles"), bundle, name)));
  const raw = await unseal(file("bundle.json"));
  const { programs } = await parseManifest(file("bundle.json"));
  const ofGpus = programs.filter(({ target }) => target === "webgpu");
  const roots = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const program of ofGpus) {
    const root = await rootKey(raw, program);
    roots.set(hex(root), root);
  }
  const config = file("tokenizer_config.json");
  const tokenizer = Tokenizer.fromFiles(file("tokenizer.json"), config);
  const template = ChatTemplate.fromFiles(
    file("chat_template.jinja"),
    config,
    tokenizer.specialTokens,
  );
  return {
    async producers(adapter) {
      const named = ofGpus.map(async (program) => `${await producerOf(raw, program)}/${adapter}`);
      const hashed = named.map(async (name) =>
        hex(await sha256(new TextEncoder().encode(await name))),
      );
      return new Set(await Promise.all(hashed));
    },
    prompt: (messages) =>
      tokenizer.encode(template?.render(messages, { addGenerationPrompt: true }) ?? "", false),
    async keys(tokens) {
      const found: string[] = [];
      for (const root of roots.values()) {
        let key = root;
        for (let at = PAGE_TOKENS; at <= tokens.length; at += PAGE_TOKENS) {
          key = await pageKey(key, tokens.slice(at - PAGE_TOKENS, at));
          found.push(hex(key));
        }
      }
      return found;
    },
  };
}
