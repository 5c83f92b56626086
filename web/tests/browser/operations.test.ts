import { afterAll, beforeAll, expect, it } from "vitest";
import { Random } from "../engine/random.ts";
import { FULL } from "../suite.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { Talking } from "./talking.ts";

const SEED = Number(process.env.EDGEWISE_SEED ?? 41);
const COUNT = Number(process.env.EDGEWISE_OPERATIONS ?? (FULL ? 300 : 30));
/** Few, so that conversations begin alike; short, so that titles are as they were asked. */
const QUESTIONS = [
  "Hello! Who are you?",
  "Tell me a story about a small robot.",
  "Count from one to ten.",
  "How are you today?",
  "What is the sea?",
];
const MOST = { turns: 3, conversations: 6 } as const;
/** Room for 16 pages of the demo model, of which a long conversation has 11: the least recently used ones go. */
const LIMIT = 16 * 41_072;

interface Operation {
  readonly name: string;
  readonly weight: number;
  /** Whether there is something to do it to. */
  readonly can: (talking: Talking) => boolean;
  readonly act: (talking: Talking, random: Random) => Promise<void>;
}

const turns = ({ model }: Talking) => model.said.length / 2;
const always = () => true;
const OPERATIONS: readonly Operation[] = [
  {
    name: "ask",
    weight: 10,
    can: (talking) =>
      turns(talking) < MOST.turns &&
      (talking.model.shown !== null || talking.model.all.length < MOST.conversations),
    act: (talking, random) => talking.ask(random.pick(QUESTIONS)),
  },
  {
    name: "begin a conversation",
    weight: 4,
    can: ({ model }) => model.all.length < MOST.conversations,
    act: async (talking, random) => {
      talking.model.shown = null;
      await talking.ask(random.pick(QUESTIONS));
    },
  },
  {
    name: "switch to another",
    weight: 4,
    can: ({ model }) => model.all.length > 0,
    act: (talking, random) => talking.pick(random.whole(0, talking.model.all.length - 1)),
  },
  {
    name: "edit a message",
    weight: 6,
    can: (talking) => turns(talking) > 0,
    act: (talking, random) =>
      talking.edit(random.whole(0, turns(talking) - 1), random.pick(QUESTIONS)),
  },
  {
    name: "remove a conversation",
    weight: 2,
    can: ({ model }) => model.all.length > 2,
    act: (talking, random) => talking.remove(random.whole(0, talking.model.all.length - 1)),
  },
  { name: "reload", weight: 3, can: always, act: (talking) => talking.reload() },
  { name: "close and open the tab", weight: 2, can: always, act: (talking) => talking.reopen() },
  { name: "clear", weight: 1, can: always, act: (talking) => talking.clear() },
];

let session: Session;

beforeAll(async () => {
  session = await openSession("lavapipe");
});
afterAll(() => session?.close());

it(
  `${COUNT} random operations (seed ${SEED}): what is kept is sound and what is said right after each`,
  async () => {
    const random = new Random(SEED);
    const talking = await Talking.begin(session, { limit: LIMIT });
    const done: string[] = [];
    try {
      while (done.length < COUNT) {
        const possible = OPERATIONS.filter(({ can }) => can(talking));
        const drawn = random.pick(
          possible.flatMap((one) => Array.from({ length: one.weight }, () => one)),
        );
        done.push(drawn.name);
        await drawn.act(talking, random);
        // Some follow while pages are still being saved.
        if (random.chance(0.6)) await talking.settled();
        await talking.expectConversations();
        await talking.expectSoundPages();
        expect(session.complaints).toEqual([]);
      }
    } catch (error) {
      throw new Error(`seed ${SEED}, after ${done.join(", ")}`, { cause: error });
    }
  },
  20 * WAIT.timeout,
);
