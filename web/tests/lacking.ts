/**
 * What Safari 18 to 26 or Firefox 140 and later lack, in some version or all, and Chromium has: as far as it could
 * be of use here, and as far as is known without those browsers. Sources are searched for it (sources.test.ts),
 * pages and workers in Chromium lose it (browser/lacking.test.ts), and docs/browsers.md says what we do instead.
 */

export interface Lacking {
  /** As docs/browsers.md has it. */
  readonly feature: string;
  readonly by: "Safari" | "Firefox" | "both";
  /** Globals and properties that a browser loses; `@@` begins a well-known symbol. */
  readonly remove?: readonly string[];
  /** How a script uses it: `Object.member`, `.member` of anything, `name` of a global, `<attribute` of JSX. */
  readonly uses?: readonly string[];
  /** How a style sheet uses it. */
  readonly css?: RegExp;
  /** Sources that may use it: they look first whether it is there, or lose nothing where it is not. */
  readonly optional?: readonly string[];
}

const each = (owner: string, members: string) =>
  members.split(" ").map((member) => `${owner}.${member}`);

/** Globals, and how they are removed: by the names they are used by. */
const globals = (...names: string[]) => ({ remove: names, uses: names });
const members = (...names: string[]) => ({ remove: names, uses: names });
const methods = (owner: string, names: string) => ({
  remove: each(owner, names),
  uses: names.split(" ").map((name) => `.${name}`),
});
/** Of a window's navigator; a worker's has another prototype. */
const navigators = (names: string) => ({
  remove: [...each("Navigator.prototype", names), ...each("WorkerNavigator.prototype", names)],
  uses: each("navigator", names),
});

const ITERATOR = "map filter take drop flatMap reduce toArray forEach some every find";

export const LACKING: readonly Lacking[] = [
  // Scripts: the language.
  {
    // Of arrays there are methods of these names: what TypeScript's library has (tsconfig.json) decides here.
    feature: "iterator helpers",
    by: "Safari",
    remove: [...each("Iterator.prototype", ITERATOR), "Iterator.from"],
    uses: ["Iterator.from", "Iterator.concat"],
  },
  { feature: "Promise.try", by: "Safari", ...members("Promise.try") },
  { feature: "RegExp.escape", by: "Safari", ...members("RegExp.escape") },
  {
    feature: "Uint8Array.fromBase64",
    by: "Safari",
    remove: [
      ...each("Uint8Array", "fromBase64 fromHex"),
      ...each("Uint8Array.prototype", "toBase64 toHex setFromBase64 setFromHex"),
    ],
    uses: [".fromBase64", ".fromHex", ".toBase64", ".toHex", ".setFromBase64", ".setFromHex"],
  },
  {
    feature: "Float16Array",
    by: "Safari",
    remove: [
      "Float16Array",
      "Math.f16round",
      ...each("DataView.prototype", "getFloat16 setFloat16"),
    ],
    uses: ["Float16Array", "Math.f16round", ".getFloat16", ".setFloat16"],
  },
  { feature: "Error.isError", by: "Safari", ...members("Error.isError") },
  { feature: "Math.sumPrecise", by: "Safari", ...members("Math.sumPrecise") },
  { feature: "Temporal", by: "Safari", ...globals("Temporal") },
  { feature: "JSON.rawJSON", by: "Safari", ...members("JSON.rawJSON", "JSON.isRawJSON") },
  {
    feature: "Map.getOrInsert",
    by: "both",
    remove: each("Map.prototype", "getOrInsert getOrInsertComputed"),
    uses: [".getOrInsert", ".getOrInsertComputed"],
  },
  {
    feature: "explicit resource management",
    by: "both",
    ...globals("DisposableStack", "AsyncDisposableStack", "SuppressedError"),
  },
  // Scripts: pages and workers.
  {
    // By `for await`, which sources.test.ts knows apart.
    feature: "iterating a ReadableStream",
    by: "Safari",
    remove: ["ReadableStream.prototype.@@asyncIterator", "ReadableStream.prototype.values"],
    uses: ["ReadableStream.from"],
  },
  {
    feature: "requestIdleCallback",
    by: "Safari",
    ...globals("requestIdleCallback", "cancelIdleCallback"),
  },
  { feature: "scheduler", by: "Safari", ...globals("scheduler", "TaskController") },
  {
    feature: "createWritable",
    by: "Safari",
    ...methods("FileSystemFileHandle.prototype", "createWritable"),
    optional: ["store/opfs.ts"],
  },
  {
    feature: "navigator.userAgentData",
    by: "both",
    ...navigators("userAgentData connection deviceMemory getBattery keyboard scheduling"),
  },
  { feature: "performance.memory", by: "both", remove: ["Performance.prototype.memory"] },
  {
    feature: "measureUserAgentSpecificMemory",
    by: "both",
    ...methods("Performance.prototype", "measureUserAgentSpecificMemory"),
  },
  {
    feature: "file pickers",
    by: "both",
    ...globals("showOpenFilePicker", "showSaveFilePicker", "showDirectoryPicker"),
  },
  {
    feature: "beforeinstallprompt",
    by: "both",
    ...globals("BeforeInstallPromptEvent", "onbeforeinstallprompt"),
  },
  { feature: "URLPattern", by: "both", ...globals("URLPattern") },
  { feature: "navigation API", by: "both", ...globals("navigation") },
  { feature: "CloseWatcher", by: "both", ...globals("CloseWatcher") },
  {
    feature: "closedby",
    by: "Safari",
    remove: ["HTMLDialogElement.prototype.closedBy", "HTMLDialogElement.prototype.requestClose"],
    uses: ["<closedby", ".closedBy", ".requestClose"],
    // Without it a click beside the settings does not close them; Escape and Done do.
    optional: ["chat/components/settings.tsx"],
  },
  {
    feature: "invoker commands",
    by: "both",
    uses: ["<command", "<commandfor", "<interestfor", ".commandForElement"],
  },
  {
    feature: "view transitions",
    by: "Firefox",
    ...methods("Document.prototype", "startViewTransition"),
  },
  { feature: "moveBefore", by: "both", ...methods("Element.prototype", "moveBefore") },
  {
    feature: "Sanitizer",
    by: "both",
    remove: ["Sanitizer", "Element.prototype.setHTML"],
    uses: ["Sanitizer", ".setHTML"],
  },
  { feature: "trusted types", by: "both", ...globals("trustedTypes") },
  { feature: "EditContext", by: "both", ...globals("EditContext") },
  { feature: "fetchLater", by: "both", ...globals("fetchLater") },
  // WebGPU. Features are asked for by name, and a missing one is another program: device/adapter.ts.
  {
    feature: "GPUAdapterInfo",
    by: "both",
    remove: each("GPUAdapterInfo.prototype", "isFallbackAdapter subgroupMinSize subgroupMaxSize"),
    uses: [".isFallbackAdapter", ".subgroupMinSize", ".subgroupMaxSize", ".adapterInfo"],
    optional: ["device/adapter.ts", "selftest/markdown.ts"],
  },
  // Styles.
  { feature: "field-sizing", by: "both", css: /\bfield-sizing\s*:/ },
  { feature: "interpolate-size", by: "both", css: /\binterpolate-size\s*:|\bcalc-size\(/ },
  {
    feature: "anchor positioning",
    by: "both",
    css: /\b(?:anchor-name|position-(?:anchor|area|try))\b|\banchor\(/,
  },
  { feature: "scrollbar-color", by: "Safari", css: /\bscrollbar-(?:color|width|gutter)\s*:/ },
  { feature: "text-wrap: pretty", by: "Firefox", css: /\btext-wrap(?:-style)?\s*:\s*pretty/ },
  { feature: "text-box", by: "both", css: /\btext-box(?:-trim|-edge)?\s*:/ },
  { feature: "@scope", by: "Firefox", css: /@scope\b/ },
  {
    feature: "scroll-driven animations",
    by: "both",
    css: /\b(?:animation|scroll|view)-timeline\b/,
  },
  { feature: "customizable select", by: "both", css: /\bappearance\s*:\s*base-select/ },
  { feature: "user-select", by: "Safari", css: /(?<!-webkit-)\buser-select\s*:/ },
  {
    feature: "CSS if() and functions",
    by: "both",
    css: /:\s*if\(|@function\b|\bsibling-(?:index|count)\(/,
  },
  { feature: "contrast-color", by: "both", css: /\bcontrast-color\(/ },
  { feature: "style queries", by: "both", css: /@container[^{]*\b(?:style|scroll-state)\(/ },
  { feature: "reading-flow", by: "both", css: /\breading-(?:flow|order)\s*:/ },
];

/** What a browser loses that is to be like this one. */
export function removedIn(browser: "Safari" | "Firefox"): readonly string[] {
  const lacked = LACKING.filter(({ by }) => by === browser || by === "both");
  return lacked.flatMap(({ remove = [] }) => remove);
}
