/** A device that is lost while a model is loaded: how often that is tried, and with what. */

import { describe, expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { loadAtLast } from "../../worker/attempts.ts";
import { Attention } from "../../worker/attention.ts";
import type { Hints } from "../../worker/loader.ts";
import { turn } from "../engine/support.ts";

const lost = () => new EdgewiseError("device.lost", "It is gone.");
const none = () => new EdgewiseError("device.no_program", "There is none.");

/** Loads the first of some programs that is not avoided, unless the device is lost with it. */
function loader(programs: readonly string[], deadly: (id: string, time: number) => boolean) {
  const tried: string[] = [];
  const attempt = async ({ avoid, onProgram }: Hints): Promise<string> => {
    const id = programs.find((one) => !avoid.has(one));
    if (id === undefined) throw none();
    tried.push(id);
    onProgram?.(id);
    if (deadly(id, tried.length)) throw lost();
    return id;
  };
  return { tried, load: () => loadAtLast(attempt, new Attention(), new Set()) };
}

describe("a device that is lost while a model is loaded", () => {
  test("by chance is asked for again", async () => {
    const { tried, load } = loader(["a", "b"], (_, time) => time === 1);
    expect(await load()).toBe("a");
    expect(tried).toEqual(["a", "a"]);
  });

  test("twice with a program has another one", async () => {
    const { tried, load } = loader(["a", "b", "c"], (id) => id !== "c");
    expect(await load()).toBe("c");
    expect(tried).toEqual(["a", "a", "b", "c"]);
  });

  test("with every program is lost", async () => {
    const { tried, load } = loader(["a", "b"], () => true);
    await expect(load()).rejects.toMatchObject({ code: "device.lost" });
    expect(tried).toEqual(["a", "a", "b"]);
  });

  test("with the one that was asked for is lost after two", async () => {
    let times = 0;
    const attempt = ({ onProgram }: Hints) => {
      times += 1;
      onProgram?.("asked"); // whatever is to be avoided
      return Promise.reject(lost());
    };
    const loading = loadAtLast(attempt, new Attention(), new Set(["asked"]));
    await expect(loading).rejects.toMatchObject({ code: "device.lost" });
    expect(times).toBe(2);
  });

  test("before anything is chosen is lost after two", async () => {
    let times = 0;
    const attempt = () => {
      times += 1;
      return Promise.reject(lost());
    };
    const loading = loadAtLast(attempt, new Attention(), new Set());
    await expect(loading).rejects.toMatchObject({ code: "device.lost" });
    expect(times).toBe(2);
  });

  test("while nobody sees the page is asked for when somebody does", async () => {
    const attention = new Attention();
    attention.set(false);
    let times = 0;
    const attempt = () => {
      times += 1;
      return times === 1 ? Promise.reject(lost()) : Promise.resolve(times);
    };
    const loading = loadAtLast(attempt, attention, new Set());
    await turn();
    expect(times).toBe(1);
    attention.set(true);
    expect(await loading).toBe(2);
  });
});

test("other failures are told at once", async () => {
  const attempt = () => Promise.reject(none());
  const loading = loadAtLast(attempt, new Attention(), new Set());
  await expect(loading).rejects.toMatchObject({ code: "device.no_program" });
});
