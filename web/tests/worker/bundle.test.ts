import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MemoryStore } from "../../store/memory.ts";
import { BundleFiles } from "../../worker/bundle.ts";
import { bytes } from "../format/cases.ts";
import { type Host, startHost } from "../store/host.ts";

const MANIFEST = bytes("goldens/bundle.json");
const coded = (code: string) => expect.objectContaining({ name: "EdgewiseError", code });

let host: Host;
const open = (store = new MemoryStore(), signal = new AbortController().signal) =>
  BundleFiles.open(host.url, store, signal);

beforeAll(async () => {
  host = await startHost();
});
afterAll(() => host.close());
beforeEach(() => {
  host.files.set("bundle.json", MANIFEST);
  host.misbehave = () => ({});
});

describe("the manifest of a bundle", () => {
  it("is read where streams cannot be iterated, as in Safari", async () => {
    const iterator = Object.getOwnPropertyDescriptor(
      ReadableStream.prototype,
      Symbol.asyncIterator,
    );
    Reflect.deleteProperty(ReadableStream.prototype, Symbol.asyncIterator);
    try {
      expect((await open()).manifest.programs.length).toBeGreaterThan(0);
    } finally {
      Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, iterator ?? {});
    }
  });

  it("that breaks off is the one used last, if there is one", async () => {
    const store = new MemoryStore();
    host.misbehave = () => ({ cutAfter: 100 });
    await expect(open(store)).rejects.toEqual(coded("store.network"));
    host.misbehave = () => ({});
    const whole = await open(store);
    host.misbehave = () => ({ cutAfter: 100 });
    expect((await open(store)).manifest).toEqual(whole.manifest);
  });

  it("is not taken from the store where loading is cancelled", async () => {
    const store = new MemoryStore();
    await open(store);
    const aborting = new AbortController();
    host.misbehave = () => ({ slow: 20 });
    const opening = open(store, aborting.signal);
    setTimeout(() => aborting.abort(), 10);
    await expect(opening).rejects.toEqual(coded("load.aborted"));
  });

  it("that is too large is refused while it comes", async () => {
    host.files.set("bundle.json", new Uint8Array((16 << 20) + 1));
    await expect(open()).rejects.toEqual(coded("bundle.size"));
  });
});

describe("a file that the manifest does not list", () => {
  it("is not asked for, though the host has it", async () => {
    const unlisted = "additional_chat_templates/default.jinja";
    host.files.set(unlisted, new TextEncoder().encode("forged"));
    const files = await open();
    host.asked.length = 0;
    expect(await files.file(unlisted)).toBe(null);
    expect(host.asked).toEqual([]);
  });
});
