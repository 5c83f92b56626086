import { expect, it } from "vitest";
import { followKeyboard, type Seen } from "../../chat/keyboard.ts";

class Window extends EventTarget implements Seen {
  height = 740;
  scale = 1;

  become(height: number, scale = 1): void {
    Object.assign(this, { height, scale });
    this.dispatchEvent(new Event("resize"));
  }
}

it("what an on-screen keyboard leaves of the page is its height, however far it is zoomed", () => {
  const seen = new Window();
  const heights: (string | null)[] = [];
  followKeyboard(seen, { setProperty: (name, value) => void heights.push(`${name} ${value}`) });
  seen.become(412.4);
  seen.become(370, 2);
  expect(heights).toEqual(["--seen 740px", "--seen 412px", "--seen 740px"]);
  expect(() => followKeyboard(null, { setProperty: () => {} })).not.toThrow();
});
