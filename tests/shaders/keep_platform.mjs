// Removes the builds of Dawn for other platforms, which its package brings along: 110 of 130 MB.

import { readdirSync, rmSync } from "node:fs";

const folder = new URL("node_modules/webgpu/dist/", import.meta.url);
const arch = process.platform === "darwin" ? "universal" : process.arch;
const ours = `${process.platform}-${arch}`;

const builds = readdirSync(folder);
if (!builds.includes(ours)) {
  console.error(`The shader checker has no build for ${ours}, only for ${builds.join(", ")}.`);
  process.exit(1);
}
for (const build of builds.filter((name) => name !== ours)) {
  rmSync(new URL(build, folder), { recursive: true });
}
