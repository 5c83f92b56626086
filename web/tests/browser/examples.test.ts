/** The pages of examples/web as they are, with the library as it is packed. */

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { build, createServer, preview } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PAGES, REPOSITORY, WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

const WEB = join(REPOSITORY, "web");

let folder: string;
let project: string;
let session: Session;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "edgewise-examples-"));
  cpSync(join(REPOSITORY, "examples/web"), folder, {
    recursive: true,
    filter: (path) => !/[/\\](?:node_modules|dist|edgewise)$/.test(path),
  });
  project = join(folder, "vite");
  const npm = (...command: string[]) =>
    execFileSync("npm", command, {
      cwd: WEB,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
  npm("run", "--silent", "build:library");
  const packed = npm("pack", "--silent", "--pack-destination", folder).trim();
  const installed = join(project, "node_modules/edgewise");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", join(folder, packed), "--strip-components=1", "-C", installed]);
  symlinkSync(join(WEB, "node_modules/vite"), join(project, "node_modules/vite"));
  cpSync(join(folder, "plain.html"), join(PAGES, "examples/plain.html"));
  cpSync(join(installed, "dist"), join(PAGES, "examples/edgewise"), { recursive: true });
  session = await openSession("lavapipe");
});
afterAll(async () => {
  await session?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Asks what the page proposes, and gives what it answers. */
async function asked(page: Page): Promise<string> {
  await expect.poll(() => page.locator("button").first().isEnabled(), WAIT).toBe(true);
  await page.getByRole("button", { name: "Ask" }).click();
  const status = page.getByRole("status");
  await expect.poll(() => status.textContent(), WAIT).toMatch(/[\d.]+ tokens a second$/);
  return (await page.locator("pre").textContent()) ?? "";
}

it("the page without a bundler answers", async () => {
  session.proxy.shared = true; // as on a host of one's own, without the policy of ours
  const page = await session.page();
  await page.goto(`${session.proxy.url}/test/examples/plain.html`);
  expect(await asked(page)).toMatch(/\w+/);
  await page.goto(`${session.proxy.url}/test/examples/plain.html?bundle=/bundles/none/`);
  const status = page.getByRole("status");
  await expect.poll(() => status.textContent(), WAIT).toContain("/bundles/none/");
});

describe("the project of Vite", () => {
  const options = () => ({
    root: project,
    configFile: join(project, "vite.config.ts"),
    logLevel: "error" as const,
  });
  const server = () => ({
    port: 0,
    host: "127.0.0.1",
    proxy: { "/bundles": session.proxy.url },
  });

  it("answers from its development server, and goes on with the conversation", async () => {
    const running = await createServer({ ...options(), server: server() });
    try {
      await running.listen();
      const page = await session.page();
      await page.goto(running.resolvedUrls?.local[0] ?? "");
      expect(await asked(page)).toMatch(/\w+/);
      await page.locator("input").fill("Thank you!");
      expect(await asked(page)).toMatch(/\w+/);
      await page.close();
    } finally {
      await running.close();
    }
  });

  it("answers as it is built", async () => {
    await build(options());
    const running = await preview({ ...options(), preview: server() });
    try {
      const page = await session.page();
      await page.goto(running.resolvedUrls?.local[0] ?? "");
      expect(await asked(page)).toMatch(/\w+/);
      await page.close();
    } finally {
      await running.close();
    }
  });
});
