/** Reading the programs of `bundle.json`, and what they refer to. */

import { shorten } from "../errors.ts";
import type { BundleManifest, Entry, Needs, Program } from "./manifest.ts";
import { integers, mapValues, part, readPath } from "./manifest-parts.ts";
import { type Fields, HEX_SHA256, ID, LIMIT, NAME } from "./reading.ts";

const MAX_PLANS = 256;
const MAX_SHADERS = 4096;
export const MAX_GROUPS = 64;

function readNeeds(fields: Fields): Needs {
  const needs: Needs = {
    arch: fields.nullable("arch", () => fields.text("arch", ID)),
    features: fields.names("features", 64, ID),
  };
  fields.done();
  return needs;
}

/** One program; its `where` becomes its id. */
export function readProgram(fields: Fields): Program {
  const id = fields.text("id", ID);
  fields.where = `bundle.json, program ${shorten(id)}`;
  const paths = (key: string, most: number): Map<string, string> => {
    const inner = part(fields.get(key), `${fields.where}, ${key}`);
    return mapValues(fields.table(key, most), (_, name) => readPath(inner, name));
  };
  const program: Program = {
    id,
    plans: paths("plans", MAX_PLANS),
    shaders: paths("shaders", MAX_SHADERS),
    target: fields.text("target", ID),
    arithmetic: fields.text("arithmetic", ID),
    layout: fields.text("layout", ID),
    needs: readNeeds(part(fields.get("needs"), `${fields.where}, needs`)),
    library: fields.nullable("library", () => readPath(fields, "library")),
    entries: mapValues(fields.table("entries", 64), (items, key) => {
      if (!Array.isArray(items) || items.length < 1 || items.length > MAX_PLANS) {
        throw fields.fail("type", `the entries of ${shorten(key)} must be a list of plans`);
      }
      return items.map((item) => readEntry(part(item, `${fields.where}, entry ${shorten(key)}`)));
    }),
    stateDtype: fields.choice("state_dtype", ["float32", "float16", "int8"]),
    pageBytes: integers(fields, "page_bytes", MAX_GROUPS, 1, LIMIT - 1),
    decodeAgrees: fields.flag("decode_agrees"),
    signature: fields.has("signature") ? fields.text("signature", HEX_SHA256) : null,
  };
  fields.done();
  return program;
}

function readEntry(fields: Fields): Entry {
  const when = mapValues(fields.table("when", 16), (item, name): readonly [number, number] => {
    if (!Array.isArray(item) || item.length !== 2) {
      throw fields.fail("type", `the range of ${shorten(name)} must be [low, high]`);
    }
    const bound = (value: unknown): number => {
      if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value >= LIMIT) {
        throw fields.fail("range", `the range of ${shorten(name)} holds ${shorten(value)}`);
      }
      return value;
    };
    const low = bound(item[0]);
    const high = bound(item[1]);
    if (low > high) {
      throw fields.fail("range", `the range ${low}..${high} of ${shorten(name)} is empty`);
    }
    return [low, high];
  });
  const entry = { when, plan: fields.text("plan", NAME) };
  fields.done();
  return entry;
}

/** What programs name must be there: layouts, files, plans; and no two have the same id. */
export function checkPrograms(fields: Fields, manifest: BundleManifest): void {
  const ids = new Set<string>();
  for (const program of manifest.programs) {
    const where = `program ${shorten(program.id)}`;
    if (ids.has(program.id)) {
      throw fields.fail("duplicate", `two programs are called ${shorten(program.id)}`);
    }
    ids.add(program.id);
    const [sizes, groups] = [program.pageBytes.length, manifest.stateGroups.length];
    if (sizes !== groups) {
      const message = `${where}: ${sizes} sizes of pages for ${groups} state groups`;
      throw fields.fail("state", message);
    }
    if (!manifest.layouts.has(program.layout)) {
      const message = `${where}: no layout is called ${shorten(program.layout)}`;
      throw fields.fail("unknown_name", message);
    }
    const library = program.library === null ? [] : [program.library];
    for (const path of [...program.plans.values(), ...library, ...program.shaders.values()]) {
      if (!manifest.files.has(path)) {
        throw fields.fail("unknown_name", `${where}: 'files' does not list ${shorten(path)}`);
      }
    }
    for (const [operation, entries] of program.entries) {
      for (const { plan } of entries) {
        if (program.plans.has(plan)) continue;
        const message = `${where}, entry ${shorten(operation)}: no plan is called ${shorten(plan)}`;
        throw fields.fail("unknown_name", message);
      }
    }
  }
}
