/** Medians of visits, ratios of two subjects, and their Markdown. */

const NONE = "–";

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** What is compared: how it is called, its value in a summary, digits, and whether more is better. */
const MEASURES = [
  ["prefill, tokens/s", (of) => of.prefill, 2, true],
  ["decode, tokens/s", (of) => of.decode, 2, true],
  ["whole answer, s", (of) => of.answerMs / 1000, 2, false],
  ["load, cold, s", (of) => of.cold.loadMs / 1000, 2, false],
  ["load, warm, s", (of) => of.warm.loadMs / 1000, 2, false],
  ["page to first token, cold, s", (of) => of.cold.firstTokenMs / 1000, 2, false],
  ["page to first token, warm, s", (of) => of.warm.firstTokenMs / 1000, 2, false],
  ["code, MB", (of) => of.code.bytes / 1e6, 3, false],
  ["code gzipped, MB", (of) => of.code.gzipped / 1e6, 3, false],
];

/** The same answer without drawing, and so what drawing takes of a token; ours alone. */
const GREEDY = [
  ["decode, greedy, tokens/s", (of) => of.greedy.toFixed(2)],
  [
    "a token's time that greedy saves",
    (of) => `${(100 * (1 - of.decode / of.greedy)).toFixed(1)}%`,
  ],
];

/** Medians of a subject's visits. */
export function summary(visits) {
  const middle = (value) => median(visits.map(value));
  const loading = (which) => ({
    loadMs: middle((visit) => visit[which].loadMs),
    firstTokenMs: middle((visit) => visit[which].firstTokenMs),
  });
  const [{ cold, code }] = visits;
  return {
    program: cold.program ?? null,
    prefill: middle((visit) => visit.cold.prefill),
    decode: middle((visit) => visit.cold.decode),
    greedy: cold.greedy === undefined ? null : middle((visit) => visit.cold.greedy),
    answerMs: middle((visit) => visit.cold.answerMs),
    bursts: Object.fromEntries(
      Object.keys(cold.bursts ?? {}).map((k) => [k, middle((visit) => visit.cold.bursts[k])]),
    ),
    cold: loading("cold"),
    warm: loading("warm"),
    code,
  };
}

/** Ours over the peer's where more is better, otherwise the peer's over ours: above 1 we are ahead. */
export function ratios(ours, peer) {
  return Object.fromEntries(
    MEASURES.map(([name, value, , more]) => [
      name,
      more ? value(ours) / value(peer) : value(peer) / value(ours),
    ]),
  );
}

/** A table of every subject, and beneath it one of the two that ran the same model. */
export function markdown({ subjects, compared }) {
  const bursts = [...new Set(subjects.flatMap(({ summary }) => Object.keys(summary.bursts)))];
  const names = [...MEASURES, ...GREEDY].map(([name]) => name);
  const head = ["", "program", ...names, ...bursts.map(decodeOf)];
  const rows = subjects.map(({ name, adapter, summary }) => [
    `${name}, ${adapter}`,
    summary.program ?? NONE,
    ...MEASURES.map(([, value, digits]) => value(summary).toFixed(digits)),
    ...GREEDY.map(([, value]) => (summary.greedy === null ? NONE : value(summary))),
    ...bursts.map((k) => summary.bursts[k]?.toFixed(2) ?? NONE),
  ]);
  const lines = transposed([head, ...rows]);
  const all = table(lines);
  if (!compared) return all;
  const { ours, peer, ratios } = compared;
  const pairs = MEASURES.map(([name, value, digits]) => [
    name,
    value(ours).toFixed(digits),
    value(peer).toFixed(digits),
    ratios[name].toFixed(2),
  ]);
  return `${all}\n\n${table([["", "edgewise", "transformers.js", "ratio"], ...pairs])}`;
}

function decodeOf(k) {
  return `decode, bursts of ${k}, tokens/s`;
}

function transposed(rows) {
  return rows[0].map((_, column) => rows.map((row) => row[column]));
}

function table([head, ...rows]) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}
