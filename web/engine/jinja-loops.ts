/**
 * Loops that the interpreter would get wrong: it forgets what a turn has written when the turn is left
 * by `break` or `continue`. Templates where that can happen are refused rather than rendered wrongly.
 */

/** What is looked at of a node. */
interface Statement {
  readonly type: string;
  readonly body?: unknown;
  readonly alternate?: unknown;
  readonly defaultBlock?: unknown;
  readonly value?: unknown;
}

/** Statements that write nothing by themselves. */
const SILENT: ReadonlySet<string> = new Set(["Break", "Comment", "Continue", "Macro", "Set"]);

/** @throws Error for a program in which a turn of a loop may be left after it has written. */
export function checkLoops(program: { readonly body: readonly unknown[] }): void {
  walk(program.body, false);
}

/** Whether a turn may have written something once these statements are through. */
function walk(statements: unknown, written: boolean): boolean {
  let soFar = written;
  const list: readonly Statement[] = Array.isArray(statements) ? statements : [];
  for (const { type, body, alternate, defaultBlock, value } of list) {
    if (type === "Break" || type === "Continue") {
      if (soFar) {
        const message = `it leaves a turn of a loop by ${type.toLowerCase()} after writing in it`;
        throw new Error(`${message}, which is not supported`);
      }
    } else if (type === "If") {
      const taken = walk(body, soFar);
      soFar = walk(alternate, soFar) || taken;
    } else if (type === "For") {
      // What is left inside is a turn of the inner loop.
      const inner = walk(body, false);
      soFar = walk(defaultBlock, soFar) || inner || soFar;
    } else {
      if (body !== undefined) walk(body, false);
      const empty = type === "StringLiteral" && value === "";
      if (!SILENT.has(type) && !empty) soFar = true;
    }
  }
  return soFar;
}
