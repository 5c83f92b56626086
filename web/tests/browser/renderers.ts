/** The processes of a browser's pages, as Linux tells of them. */
import { readdirSync, readFileSync } from "node:fs";
import type { RunningBrowser } from "./launch.ts";

/** Ids of the processes that run the pages of a browser. */
export function renderersOf({ profile }: RunningBrowser): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => isRenderer(pid, profile)).map(Number);
}

function isRenderer(pid: string, profile: string): boolean {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return command.includes(profile) && command.includes("--type=renderer");
  } catch {
    return false; // it has ended
  }
}
