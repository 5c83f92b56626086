/** What a page does together with its host: `edgewise/host`, apart from what every page needs. */

export { type Lendable, type Lending, type LendOptions, type LendState, lend } from "./lend.ts";
export type { HostOptions } from "./opening.ts";
export { type AnyEngine, type ModelFacts, RemoteEngine, type RemoteOptions } from "./remote.ts";
