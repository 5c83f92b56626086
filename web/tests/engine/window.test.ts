/** Where a conversation is too long, its oldest turns go, whole, and room is made for more. */

import { describe, expect, it } from "vitest";
import type { Message } from "../../client/types.ts";
import { fitting } from "../../engine/window.ts";

const ROLES: Readonly<Record<string, string>> = {
  s: "system",
  d: "developer",
  u: "user",
  a: "assistant",
  t: "tool",
};

/** Messages of the roles that letters stand for, each one telling which it is. */
function said(roles: string): Message[] {
  return [...roles].map((letter, i) => ({ role: ROLES[letter] ?? "", content: String(i) }));
}

/** Every message is one token, its place. */
const places = (messages: readonly Message[]) => messages.map(({ content }) => Number(content));

describe("a conversation", () => {
  it.each([
    ["u", 2, [0], 0],
    ["suau", 6, [0, 1, 2, 3], 0],
    ["uauau", 5, [4], 2],
    ["uauauau", 8, [0, 1, 2, 3, 4, 5, 6], 0],
    ["uauauauau", 8, [6, 7, 8], 3],
    ["suauauauau", 8, [0, 7, 8, 9], 3],
    ["sduauauauau", 10, [0, 1, 8, 9, 10], 3],
    ["uatatauauau", 10, [6, 7, 8, 9, 10], 1],
    ["saauauauau", 8, [0, 7, 8, 9], 3],
    ["uuuuuuuu", 8, [4, 5, 6, 7], 4],
    ["uatat", 6, [0, 1, 2, 3, 4], 0],
    ["uauatat", 6, [2, 3, 4, 5, 6], 1],
  ])("%s in %i tokens is read as %j", (roles, context, kept, droppedTurns) => {
    expect(fitting(said(roles), places, context, 1)).toEqual({ ids: kept, droppedTurns });
  });

  it("leaves a quarter of the context for an answer, or less where that is enough", () => {
    const messages = said("ua".repeat(8));
    expect(fitting(messages, places, 20, 4).droppedTurns).toBe(0);
    expect(fitting(messages, places, 20, 1000).droppedTurns).toBe(3);
    expect(fitting(messages, places, 21, 1000).droppedTurns).toBe(0);
  });

  it("that is cut has room for the next questions: they begin where it did", () => {
    let messages = said("ua".repeat(40));
    const first = fitting(messages, places, 64, 8);
    expect(first.droppedTurns).toBe(24);
    messages = messages.slice(2 * first.droppedTurns);
    for (let asked = 0; asked < 12; asked++) {
      expect(fitting(messages, places, 64, 8)).toMatchObject({ droppedTurns: 0 });
      messages = [...messages, ...said("ua")];
    }
  });

  it.each([
    ["u", 1, 1],
    ["suas", 2, 4],
    ["uauat", 3, 3],
    ["ssss", 4, 4],
  ])("%s, of which too much has to stay for %i tokens, is refused", (roles, context, least) => {
    expect(() => fitting(said(roles), places, context, 1)).toThrow(
      expect.objectContaining({
        code: "input.context",
        message: expect.stringContaining(`have ${least} tokens`),
      }),
    );
  });

  it("of a thousand turns is written down a dozen times", () => {
    let calls = 0;
    const count = (messages: readonly Message[]) => {
      calls += 1;
      return places(messages);
    };
    const { ids, droppedTurns } = fitting(said(`s${"ua".repeat(1000)}`), count, 201, 1);
    expect([ids.length, droppedTurns]).toEqual([99, 951]);
    expect(calls).toBeLessThanOrEqual(12);
  });
});
