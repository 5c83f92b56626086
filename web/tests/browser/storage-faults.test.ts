import { afterAll, beforeAll, expect, it } from "vitest";
import { Random } from "../engine/random.ts";
import { FULL } from "../suite.ts";
import type { StorageCounts, StorageFault } from "./faulty-storage.ts";
import { keptFiles } from "./kept-files.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { Talking } from "./talking.ts";
import { by } from "./visits.ts";
import { failStorage, takeCounts } from "./worker-patch.ts";

const SEED = Number(process.env.EDGEWISE_SEED ?? 43);
/** Which may be drawn for the landing suite: the script asks storage for a few more of each. */
const FEWEST: StorageCounts = { read: 30, write: 36, delete: 8 };
const LIMIT = 64 * 41_072;

type Sort = Omit<StorageFault, "nth">;
const EVERY: readonly Sort[] = [
  { kind: "read", error: "NotReadableError" },
  { kind: "write", error: "QuotaExceededError" },
  { kind: "delete", error: "NoModificationAllowedError" },
  { kind: "write", error: "NotAllowedError" },
];
const SORTS = FULL ? EVERY : EVERY.slice(0, 3);
const QUESTIONS = ["Hello! Who are you?", "What is the sea?", "How are you today?"] as const;

let session: Session;
let talking: Talking;

/** What was asked of storage by the worker that is there. */
async function told() {
  const { storage } = await takeCounts(talking.page);
  if (!storage) throw new Error("the worker is not patched");
  return storage;
}

/**
 * Ask, ask again, reload, ask, edit and clear, with one thing that fails; and look at what is left, and whether all is kept
 * again afterwards.
 *
 * @returns what failed; null where storage was not asked so often.
 */
async function script(fault: StorageFault) {
  const [first, second, third] = QUESTIONS;
  const failed = async () => (await told()).failed !== null;
  await failStorage(talking.page, fault);
  await talking.reload();
  await talking.ask(first);
  await talking.settled(failed);
  await talking.ask(second);
  await talking.settled(failed);
  const before = await told();
  const left = before.failed === null ? { ...fault, nth: fault.nth - before[fault.kind] } : null;
  await failStorage(talking.page, left);
  await talking.reload();
  await talking.ask(first);
  await talking.edit(0, third);
  await talking.settled(failed);
  const after = await told();
  await talking.expectSoundPages();
  await talking.clear();

  await failStorage(talking.page, null);
  await talking.reload();
  await talking.ask(second);
  await talking.settled();
  await talking.expectSoundPages();
  await talking.clear();
  while (talking.model.all.length > 0) await talking.remove(0);
  await talking.expectConversations();
  expect(session.complaints).toEqual([]);
  return { failed: before.failed ?? after.failed };
}

beforeAll(async () => {
  session = await openSession("lavapipe");
  talking = await Talking.begin(session, { limit: LIMIT, patch: { storage: true } });
});
afterAll(() => session?.close());

it("what others have open is not forgotten: that is said, and another try may do it", async () => {
  const { page } = talking;
  await talking.ask(QUESTIONS[0]);
  await talking.settled();
  await page.evaluate(async () => {
    const origin = await navigator.storage.getDirectory();
    const blobs = await (await origin.getDirectoryHandle("edgewise-pages")).getDirectoryHandle(
      "blobs",
    );
    for await (const file of blobs.values()) {
      if (!(file instanceof FileSystemFileHandle)) continue;
      Object.assign(globalThis, { held: await file.createWritable() });
      return;
    }
  });
  await by(page, "settings").click();
  await by(page, "forget-pages").click();
  await by(page, "not-forgotten").waitFor(WAIT);
  const { files } = await keptFiles(page);
  expect(files.filter(({ whole }) => whole)).toHaveLength(1); // beside it lies what is being written
  await page.evaluate(() => Reflect.get(globalThis, "held").abort());
  await by(page, "forget-pages").click();
  await page.locator("[data-testid=forget-pages]:disabled").waitFor(WAIT);
  expect(await by(page, "not-forgotten").count()).toBe(0);
  await page.getByRole("button", { name: "Done" }).click();
  expect(session.complaints).toEqual([]);
});

it.each(SORTS)(
  "where a $kind fails once ($error), answers are right, and what is kept is sound",
  async (sort) => {
    const random = new Random(SEED + SORTS.indexOf(sort));
    const drawn = random.whole(1, FEWEST[sort.kind]);
    for (let nth = FULL ? 1 : drawn; ; nth++) {
      const { failed } = await script({ ...sort, nth }).catch((error) => {
        throw new Error(`${sort.error} of ${sort.kind} ${nth}`, { cause: error });
      });
      if (!FULL) expect(failed).not.toBeNull();
      if (!FULL || failed === null) return;
    }
  },
  50 * WAIT.timeout,
);
