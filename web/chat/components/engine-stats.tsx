import { useEffect, useState } from "preact/hooks";
import type { Engine } from "../../client/index.ts";
import type { EngineStats } from "../../client/types.ts";
import { bytes, count } from "../format.ts";

/** How often they are asked for while they are shown, in milliseconds. */
const EVERY_MS = 2000;

/** What the model takes just now: memory, pages of conversations, and how much of prompts was found in them. */
export function EngineStatsView({ engine }: { readonly engine: Pick<Engine, "stats"> }) {
  const [stats, setStats] = useState<EngineStats | null>(null);
  useEffect(() => {
    let wanted = true;
    const look = () =>
      engine.stats().then(
        (found) => wanted && setStats(found),
        () => wanted && setStats(null),
      );
    void look();
    const timer = setInterval(look, EVERY_MS);
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [engine]);
  if (!stats) return null;
  return (
    <dl class="facts" data-testid="engine-stats">
      {factsOf(stats).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function factsOf(stats: EngineStats): readonly (readonly [string, string])[] {
  const { pages, pagesFree, pagesCached, pagesKept, pagesKeptBytes } = stats;
  const { prefixQueriedTokens: asked, prefixHitTokens: hit, prefixBundleTokens: came } = stats;
  return [
    ["Memory of the GPU now", `${bytes(stats.bytes)}, ${bytes(stats.peakBytes)} at most so far`],
    [
      "Pages",
      `${count(pages - pagesFree)} of ${count(pages)} hold text, ${count(pagesCached)} to be found again`,
    ],
    [
      "Found again",
      asked > 0 ? `${percent(hit / asked)} of ${count(asked)} tokens` : "nothing was read yet",
    ],
    ...(came > 0 ? [["Came with the model", `${count(came)} tokens of those`] as const] : []),
    ["Pages in storage", `${count(pagesKept)}, ${bytes(pagesKeptBytes)}`],
    ...(stats.deviceLosses > 0
      ? [["Times the GPU was lost", count(stats.deviceLosses)] as const]
      : []),
  ];
}

function percent(part: number): string {
  return `${Math.round(100 * part)} %`;
}
