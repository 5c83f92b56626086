/** Calls as Python writes them: `f(a=1)`, alone, in a list or in lines. As in Python's `calls/pythonic.py`. */

import { keywords } from "./literals.ts";
import type { Reading, Source } from "./source.ts";

const PRINT = "print";

/** Read `[f(a=1), g()]`, from its bracket on. */
export function* callList(source: Source): Reading<void> {
  yield* source.expect("[");
  for (;;) {
    yield* source.spaces();
    yield* call(source);
    yield* source.spaces();
    if ((yield* source.expect(",", "]")) === "]") return;
  }
}

/** Read calls with white space between them, each perhaps printed; a list as above, too. */
export function* callLines(source: Source): Reading<void> {
  if ((yield* source.peek()) === "[") {
    yield* callList(source);
    return;
  }
  for (;;) {
    yield* call(source);
    yield* source.spaces();
    if (["`", ""].includes(yield* source.peek())) return;
  }
}

function* call(source: Source): Reading<void> {
  let name = yield* source.word();
  yield* source.expect("(");
  const printed = name === PRINT;
  if (printed) {
    name = yield* source.word();
    yield* source.expect("(");
  }
  source.begin(name);
  yield* keywords(source);
  source.end();
  if (printed) yield* source.expect(")");
}
