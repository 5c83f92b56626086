/**
 * Whether a loaded program computes what its bundle says it must.
 *
 * A driver may get a shader wrong without a word. A few tokens find out before a person reads any.
 */

import type { LoadedProgram } from "../device/base.ts";
import { boundOf, distance, type Proof } from "../format/proof.ts";
import { groupsOf, pagedState, pagesFor } from "../format/state.ts";
import { Batch, RESULTS, type Rows, wrongOutput } from "./batch.ts";
import { samplingParams } from "./sampling.ts";
import { Sequence } from "./sequence.ts";

const GREEDY = samplingParams({ temperature: 0 }, { ignoreEos: true });
const NO_TEXT = { stream: () => ({ push: () => "", finish: () => "" }) };

/**
 * Let a program read a proof's tokens, and compare what it answers.
 *
 * The first tokens come in two chunks, which are for different plans, the next two one at a time, the
 * last of them beside another sequence. Nobody else may be using the program.
 *
 * @param pages how many it has, of all state groups; where they are too few, nothing happens.
 * @throws EdgewiseError `device.output` where it computes something else; `device.lost` and whatever
 *   else running it throws.
 */
export async function prove(program: LoadedProgram, proof: Proof, pages: number): Promise<void> {
  const { context } = program.manifest.model;
  const { pageTokens } = pagedState(program.manifest);
  const last = proof.tokens.length - 1;
  const own = pagesFor(last + 1, pageTokens);
  const groups = groupsOf(program.manifest);
  if (last < pageTokens + 2 || last + 1 >= context || (own + 1) * groups > pages) return;
  const batch = new Batch(program);
  const rowsOf = (pages: readonly number[]) =>
    upTo(groups).map((group) => pages.map((page) => page * groups + group));
  const first = reading(proof, context, last - 1, rowsOf(upTo(own)), 0);
  for (const [from, to] of [
    [0, pageTokens + 1],
    [pageTokens + 1, last - 1],
  ] as const) {
    for (let start = from; start < to; start += batch.rows) {
      const n = Math.min(batch.rows, to - start);
      batch.prefill(first, start, proof.tokens.slice(start, start + n), true);
      const plans = [batch.plan("embed", { n }), batch.plan("prefill", { n, b: 1 })];
      await program.run([...plans, batch.plan("logits", { r: 1 })]);
      await likeliest(program, proof, 0, start + n - 1);
    }
  }
  await drawn(program, proof, batch, "sample", batch.firstToken(first), [last - 2]);
  go(first, proof, last - 1);
  await drawn(program, proof, batch, "decode", decoding(batch, [first], last), [last - 1]);
  go(first, proof, last);
  // Another that has read just the first page, which both of them look at.
  const other = reading(proof, context, pageTokens, rowsOf([0, own]), 1);
  go(other, proof, pageTokens);
  const both = batch.sequences > 1 ? [first, other] : [first];
  const places = both.map(({ kvLen }) => kvLen);
  await drawn(program, proof, batch, "decode", decoding(batch, both, last + 1), places);
}

/** Sequences ready to be decoded, with all that is drawn. */
function decoding(batch: Batch, sequences: readonly Sequence[], reach: number): Rows {
  const rows = batch.decode(sequences, reach);
  batch.sampling(sequences);
  return rows;
}

/** A sequence whose prompt is the first `count` tokens. */
function reading(
  { tokens }: Proof,
  context: number,
  count: number,
  rows: number[][],
  slot: number,
): Sequence {
  const options = { tokenizer: NO_TEXT, eos: [], context, clock: () => 0 };
  const made = new Sequence({ prompt: tokens.slice(0, count), params: GREEDY }, options);
  made.holding = { rows, known: 0, at: null };
  made.slot = slot;
  return made;
}

/** Say which token comes next, whatever was drawn. */
function go(sequence: Sequence, { tokens }: Proof, position: number): void {
  sequence.tokens.push(tokens[position] ?? 0);
}

/** Run what draws a token for each row; it must be the likeliest by the row's logits. */
async function drawn(
  program: LoadedProgram,
  proof: Proof,
  batch: Batch,
  operation: string,
  rows: Rows,
  positions: readonly number[],
): Promise<void> {
  // By its reach one sequence is decoded by the plan for few keys, two by the one for any number:
  // between them are all kernels of decode.
  const plan = batch.plan(operation, { b: positions.length, t: Math.max(...positions) + 1 });
  const results = batch.results(await program.run([plan], 1, RESULTS), rows, 1);
  for (const [row, position] of positions.entries()) {
    const best = await likeliest(program, proof, row, position);
    const [token] = results[row]?.tokens ?? [];
    if (token !== best) throw wrongOutput(`it drew the token ${token} where ${best} is likeliest`);
  }
}

/** The id of the largest logit of a row, once the row proved to be right. */
async function likeliest(
  program: LoadedProgram,
  proof: Proof,
  row: number,
  position: number,
): Promise<number> {
  const logits = await program.read("logits", row, 1);
  const off = distance(proof, position, logits);
  if (!(off <= boundOf(program.program.arithmetic))) {
    const after = `after ${position + 1} tokens`;
    throw wrongOutput(`${after} its logits are off by ${off.toFixed(2)} of their deviation`);
  }
  let best = 0;
  for (let id = 1; id < program.manifest.model.vocab; id++) {
    if ((logits[id] ?? 0) > (logits[best] ?? 0)) best = id;
  }
  return best;
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}
