/** The processes of a browser, as Linux tells of them. */
import { readdirSync, readFileSync } from "node:fs";

/** Ids of the processes that run the pages of a browser with this folder for user data. */
export function renderersOf({ profile }: { readonly profile: string }): number[] {
  return withCommand([profile, "--type=renderer"]);
}

/** Ends all processes of a browser at once, those too that they start meanwhile. */
export function killAll(profile: string): void {
  for (let ids = withCommand([profile]); ids.length > 0; ids = withCommand([profile])) {
    for (const id of ids) {
      try {
        process.kill(id, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }
}

function withCommand(parts: readonly string[]): number[] {
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return ids.filter((id) => parts.every((part) => commandOf(id).includes(part))).map(Number);
}

function commandOf(id: string): string {
  try {
    return readFileSync(`/proc/${id}/cmdline`, "utf8");
  } catch {
    return ""; // it has ended
  }
}
