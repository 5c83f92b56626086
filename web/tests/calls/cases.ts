/** The cases of tests/calls, which Python is checked against too, and how one is run. */

import { readdirSync, readFileSync } from "node:fs";
import { type Delta, joined, type Why } from "../../calls/deltas.ts";
import { formatNamed } from "../../calls/formats.ts";
import { Parser } from "../../calls/parser.ts";
import type { Tools } from "../../calls/source.ts";

const FOLDER = new URL("../../../tests/calls/", import.meta.url);

/** Deltas as the files have them; of a whole call they say all in one. */
type Written =
  | readonly ["content" | "reasoning", string]
  | readonly ["call begins", number, string, string]
  | readonly ["arguments", number, string]
  | readonly ["call", number, string, string, string]
  | readonly ["no call", number | null, string, Why];

export interface Case {
  readonly format: string;
  readonly what: string;
  readonly text: string;
  readonly tools?: Tools;
  readonly opened?: boolean;
  readonly deltas: readonly Written[];
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
}

/** The name of a format, and a template that tells of it. */
export const templates = read<readonly (readonly [string, string])[]>("templates.json");

export const formats = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".json"))
  .map((name) => name.replace(/\.json$/, ""))
  .filter((name) => name !== "templates")
  .sort();

export const cases: readonly Case[] = formats.flatMap((format) =>
  read<readonly Omit<Case, "format">[]>(`${format}.json`).map((given) => ({ ...given, format })),
);

export function deltasOf(written: readonly Written[]): Delta[] {
  return written.flatMap(inFull);
}

function inFull(delta: Written): Delta[] {
  switch (delta[0]) {
    case "content":
    case "reasoning":
      return [{ kind: delta[0], text: delta[1] }];
    case "call begins":
      return [{ kind: "call begins", index: delta[1], id: delta[2], name: delta[3] }];
    case "arguments":
      return [{ kind: "arguments", index: delta[1], text: delta[2] }];
    case "no call":
      return [{ kind: "no call", index: delta[1], text: delta[2], why: delta[3] }];
    case "call":
      return [
        { kind: "call begins", index: delta[1], id: delta[2], name: delta[3] },
        { kind: "arguments", index: delta[1], text: delta[4] },
        { kind: "call ends", index: delta[1] },
      ];
  }
}

/** What a parser makes of pieces of text; ids count from `id0`. */
export function parsed(given: Omit<Case, "what" | "deltas">, pieces: readonly string[]): Delta[] {
  let ids = 0;
  const parser = new Parser(formatNamed(given.format), {
    tools: given.tools ?? null,
    opened: given.opened ?? false,
    newId: () => `id${ids++}`,
  });
  const deltas = pieces.flatMap((piece) => parser.feed(piece));
  return joined([...deltas, ...parser.end()]);
}

/** A text in pieces of some characters, the numbers of which come round again. */
export function cut(text: string, sizes: readonly number[]): string[] {
  const characters = [...text];
  const pieces: string[] = [];
  for (let at = 0; at < characters.length; ) {
    const size = sizes[pieces.length % sizes.length] ?? 1;
    pieces.push(characters.slice(at, at + size).join(""));
    at += size;
  }
  return pieces;
}
