/**
 * Fills the step buffers of a program: which rows there are, whose they are and what they need.
 *
 * The buffers are those of the bundle format, with N = prefillChunk, B = maxBatch, V = vocab and
 * MP = the pages of `context` tokens. What a plan reads is written before it runs, so nothing
 * depends on what ran before, but for the bursts that go on from each other.
 */

import type { Elements, LoadedProgram } from "../device/base.ts";
import { EdgewiseError } from "../errors.ts";
import * as abi from "../format/abi.ts";
import { planFor } from "../format/programs.ts";
import { groupsOf, pagedState, pagesFor } from "../format/state.ts";
import type { Draft } from "./drafts/drafting.ts";
import { type DrawnLogprob, logprobOf } from "./logprobs.ts";
import { GONE, placesOf } from "./prefix.ts";
import { isGreedy, isPenalized, type SamplingParams } from "./sampling.ts";
import type { Sequence } from "./sequence.ts";

/** The rows of a burst and how many of their tokens have been read. */
export interface Rows {
  readonly sequences: readonly Sequence[];
  readonly seen: number[];
}

/** Whether these are the sequences of the rows, in their order. */
export function areRows(rows: Rows, sequences: readonly Sequence[]): boolean {
  const { length } = rows.sequences;
  return length === sequences.length && sequences.every((one, row) => one === rows.sequences[row]);
}

/** What a burst brought one row: its new tokens, and whether the device ended it. */
export interface RowResult {
  readonly tokens: readonly number[];
  readonly stopped: boolean;
  /** False if no token follows these, for the logits were not finite. */
  readonly sound: boolean;
}

/** A row of the table: a sequence, its tokens in KV, and which of the step's rows are its. */
interface Query {
  readonly sequence: Sequence;
  readonly kvLen: number;
  readonly first: number;
  readonly queries: number;
}

/** A token to verify: of which draft, and where. */
interface DraftRow {
  readonly sequence: Sequence;
  readonly draft: number;
  readonly token: number;
  readonly position: number;
}

/** Buffers that tell what a burst has done. */
export const RESULTS = ["table", "ring"] as const;

/** Of each row the tokens that may come, a bit each; null where all may. */
export type Masks = readonly (Uint32Array | null)[];

export class Batch {
  /** Most token rows and sequences of a step. */
  readonly rows: number;
  readonly sequences: number;
  private readonly program: LoadedProgram;
  private readonly vocab: number;
  private readonly context: number;
  private readonly columns: number;
  /** The tables, one for each state group. */
  private readonly tables: readonly string[];
  private sampled: readonly (readonly [Sequence, SamplingParams, boolean])[] = [];
  /** The mask of each row on the device. */
  private readonly masks: Uint32Array[] = [];
  /** How many pages of each row the table on the device names. */
  private tabled: number[] = [];

  /** @throws EdgewiseError `bundle.eos` for more end tokens than a program looks for. */
  constructor(program: LoadedProgram) {
    const { model } = program.manifest;
    this.program = program;
    this.rows = model.prefillChunk;
    this.sequences = model.maxBatch;
    this.vocab = model.vocab;
    this.context = model.context;
    const { pageTokens } = pagedState(program.manifest);
    this.tables = abi.TABLES.slice(0, groupsOf(program.manifest));
    this.columns = abi.TABLE_HEADER + pagesFor(model.context, pageTokens);
    if (model.eos.length > abi.STOP_TOKENS) {
      throw new EdgewiseError("bundle.eos", `The bundle names ${model.eos.length} end tokens.`);
    }
    const eos = new Int32Array(abi.STOP_TOKENS).fill(abi.NO_TOKEN);
    eos.set(model.eos);
    program.write("eos", eos);
  }

  /**
   * Name of the plan that does an operation for so many rows and sequences (n, b, r) and, where that
   * is known, tokens that any of them can come to have in KV (t).
   */
  plan(operation: string, symbols: Readonly<Record<string, number>>): string {
    return planFor(this.program.program, operation, new Map(Object.entries(symbols)));
  }

  /** Whether the program does an operation. */
  does(operation: string): boolean {
    return this.program.program.entries.has(operation);
  }

  /** Words of a row of masks. */
  get words(): number {
    return abi.maskWords(this.vocab);
  }

  /** How often a plan may run in one call. */
  repeats(plan: string): number {
    return this.program.plans.get(plan)?.maxBurst ?? abi.RING;
  }

  /**
   * Make tokens `start` to `start + ids.length` of one sequence the step's rows.
   *
   * `logits` asks for those of the last row.
   */
  prefill(sequence: Sequence, start: number, ids: readonly number[], logits: boolean): void {
    const count = ids.length;
    this.step(count, 1, logits ? 1 : 0, start + count);
    this.write("tokens", ids);
    this.write("positions", upTo(count, start));
    this.write("row_seq", new Array<number>(count).fill(0));
    if (logits) this.write("logit_rows", [count - 1]);
    this.table([{ sequence, kvLen: start, first: 0, queries: count }]);
  }

  /**
   * Make one sequence, all of whose tokens are in KV, ready to be sampled for, and to be decoded after that.
   */
  firstToken(sequence: Sequence, masks: Masks = []): Rows {
    const length = sequence.prompt.length + sequence.tokens.length;
    this.step(1, 1, 1, length);
    this.write("row_seq", [0]);
    this.write("logit_rows", [0]);
    this.table([{ sequence, kvLen: length, first: 0, queries: 1 }]);
    this.sampling([sequence], masks);
    return { sequences: [sequence], seen: [0] };
  }

  /** Make the last token of each sequence a row; `reach` as `step` has it. */
  decode(sequences: readonly Sequence[], reach: number): Rows {
    const count = sequences.length;
    this.step(count, count, count, reach);
    this.write(
      "tokens",
      sequences.map((s) => s.tokens.at(-1) ?? 0),
    );
    this.write(
      "positions",
      sequences.map((s) => s.kvLen),
    );
    this.write("row_seq", upTo(count));
    this.write("logit_rows", upTo(count));
    this.table(sequences.map((one, row) => queryOf(one, row)));
    return { sequences: [...sequences], seen: new Array<number>(count).fill(0) };
  }

  /** The logits of the rows of `decode` are there: make them ready to be sampled for. */
  draw(sequences: readonly Sequence[]): void {
    this.table(sequences.map((one, row) => queryOf(one, row, 1)));
  }

  /** Make the last token of each sequence, and the draft of what follows it, the step's rows, with logits of all. */
  verify(drafts: readonly Draft[]): void {
    const rows = rowsOf(drafts);
    const reach = Math.max(...rows.map(({ position }) => position + 1));
    this.step(rows.length, drafts.length, rows.length, reach);
    const column = (of: (row: DraftRow) => number) => rows.map(of);
    this.write(
      "tokens",
      column(({ token }) => token),
    );
    this.write(
      "positions",
      column(({ position }) => position),
    );
    this.write(
      "row_seq",
      column(({ draft }) => draft),
    );
    this.write("logit_rows", upTo(rows.length));
    let first = 0;
    const queries = drafts.map(({ sequence, tokens }) => {
      const query = { sequence, kvLen: sequence.kvLen, first, queries: 1 + tokens.length };
      first += query.queries;
      return query;
    });
    this.table(queries);
  }

  /** The rows of `verify` are in KV and their logits there: make what follows each of them ready to be sampled for. */
  verified(drafts: readonly Draft[]): Rows {
    const rows = rowsOf(drafts);
    const reach = Math.max(...rows.map(({ position }) => position + 1));
    this.step(rows.length, rows.length, rows.length, reach);
    this.write("row_seq", upTo(rows.length));
    this.table(
      rows.map(({ sequence, position }, row) => {
        return { sequence, kvLen: position + 1, first: row, queries: 1 };
      }),
    );
    const sequences = rows.map(({ sequence }) => sequence);
    this.sampling(sequences);
    return { sequences, seen: new Array<number>(rows.length).fill(0) };
  }

  /**
   * Let the last burst's rows go on to so many tokens in KV; all else is on the device, but for
   * pages that they have got since.
   */
  goOn({ sequences }: Rows, reach: number): void {
    for (const [row, { holding }] of sequences.entries()) {
      const known = this.tabled[row] ?? 0;
      const length = placesOf(holding);
      if (length === known) continue;
      const at = row * this.columns + abi.TABLE_HEADER + known;
      // Behind a window it names what was given back: no kernel looks at it.
      for (const [group, table] of this.tables.entries()) {
        this.program.write(table, Int32Array.from(holding.rows[group]?.slice(known) ?? []), at);
      }
      this.tabled[row] = length;
    }
    this.program.write("step", Int32Array.of(Math.min(reach, this.context)), abi.REACH);
  }

  /** Say again how many rows there are, which a burst that has ended may have taken back. */
  recount(rows: number): void {
    this.write("step", [rows, rows, rows]);
  }

  /** How likely the token is that a row was just given, where it wants to be told. Throws as `results`. */
  likely(
    read: ReadonlyMap<string, Elements>,
    row: number,
    { params }: Sequence,
    tokens: readonly number[],
  ): DrawnLogprob[] {
    if (!params.logprobs || tokens.length === 0) return [];
    const found = logprobOf(read, row, params.topLogprobs);
    if (found && tokens.length === 1 && found.tokenId === tokens[0]) return [found];
    throw wrongOutput(`row ${row} has the token ${tokens} and tells of ${found?.tokenId}`);
  }

  /**
   * The tokens of each row that are new since the last look.
   *
   * @throws EdgewiseError `device.output` for what no correct program writes.
   */
  results(read: ReadonlyMap<string, Elements>, rows: Rows, most: number): RowResult[] {
    const table = read.get("table");
    const ring = read.get("ring");
    if (!table || !ring) throw wrongOutput("table or ring was not read");
    return rows.sequences.map((_, row) => {
      const seen = rows.seen[row] ?? 0;
      const count = table[row * this.columns + abi.COUNT] ?? Number.NaN;
      if (!(count >= seen && count - seen <= most)) {
        throw wrongOutput(`row ${row} counts ${count} tokens after ${seen} and ${most} steps`);
      }
      const tokens = upTo(count - seen, seen).map(
        (at) => ring[row * abi.RING + (at % abi.RING)] ?? -1,
      );
      const sound = tokens.at(-1) !== abi.NOT_FINITE;
      if (!sound) tokens.pop();
      const odd = tokens.find((token) => !(token >= 0 && token < this.vocab));
      if (odd !== undefined) throw wrongOutput(`row ${row} has the token ${odd}`);
      rows.seen[row] = count;
      return { tokens, sound, stopped: table[row * this.columns + abi.STOP] !== 0 };
    });
  }

  /** Write how each row is sampled: what is not as it was written last. */
  sampling(sequences: readonly Sequence[], masks: Masks = []): void {
    for (const one of sequences) if (!one.counted) this.counts(one);
    for (const [row, mask] of masks.entries()) if (mask) this.mask(row, mask);
    const rows = sequences.map((one, row) => [one, one.drawing, Boolean(masks[row])] as const);
    const { sampled } = this;
    if (rows.every((row, i) => row.every((part, k) => part === sampled[i]?.[k]))) return;
    this.sampled = rows;
    const count = sequences.length;
    const floats = new Float32Array(count * abi.SAMPLING_WIDTH);
    const ints = new Int32Array(count * abi.SAMPLING_WIDTH);
    const biases = new Int32Array(count * 2 * abi.MAX_BIASES);
    for (const [row, [{ seed, index }, p, masked]] of rows.entries()) {
      const at = row * abi.SAMPLING_WIDTH;
      floats[at + abi.TEMPERATURE] = isGreedy(p) ? 0 : p.temperature;
      floats[at + abi.TOP_P] = p.topP;
      floats[at + abi.MIN_P] = p.minP;
      floats[at + abi.REPETITION] = p.repetitionPenalty;
      floats[at + abi.PRESENCE] = p.presencePenalty;
      floats[at + abi.FREQUENCY] = p.frequencyPenalty;
      ints[at + abi.TOP_K] = p.topK;
      ints[at + abi.SEED_LOW] = Number(BigInt.asIntN(32, seed));
      ints[at + abi.SEED_HIGH] = Number(BigInt.asIntN(32, seed >> 32n));
      ints[at + abi.BIASES] = p.logitBias.size;
      ints[at + abi.SEQUENCE] = index;
      ints[at + abi.IGNORE_EOS] = Number(p.ignoreEos);
      ints[at + abi.MASKED] = Number(masked);
      const listed = 2 * row * abi.MAX_BIASES;
      const values = Float32Array.from(p.logitBias.values());
      biases.set([...p.logitBias.keys()], listed + abi.BIAS_IDS * abi.MAX_BIASES);
      biases.set(new Int32Array(values.buffer), listed + abi.BIAS_VALUES * abi.MAX_BIASES);
    }
    this.program.write("sampling_f", floats);
    this.program.write("sampling_i", ints);
    this.program.write("biases", biases);
  }

  /** What penalties know of a sequence: twice the times sampled, plus 1 for a prompt's token. */
  private counts(sequence: Sequence): void {
    sequence.counted = true;
    if (!isPenalized(sequence.params)) return;
    const counts = new Int32Array(this.vocab);
    const { prompt, begun, tokens } = sequence;
    for (const token of prompt.slice(0, prompt.length - begun.length)) counts[token] = 1;
    for (const token of [...begun, ...tokens]) counts[token] = (counts[token] ?? 0) + 2;
    this.program.write("counts", counts, sequence.slot * this.vocab);
  }

  private mask(row: number, mask: Uint32Array): void {
    if (this.masks[row] === mask) return;
    this.program.write("grammar_mask", new Int32Array(mask.buffer), row * this.words);
    this.masks[row] = mask;
  }

  /** Say how many there are; `reach` is the most tokens a sequence can come to have in KV. */
  private step(rows: number, sequences: number, logits: number, reach: number): void {
    const step = new Int32Array(abi.STEP_WIDTH);
    step[abi.ROWS] = rows;
    step[abi.SEQUENCES] = sequences;
    step[abi.LOGIT_ROWS] = logits;
    step[abi.REACH] = Math.min(reach, this.context);
    this.program.write("step", step);
  }

  private table(queries: readonly Query[]): void {
    const table = new Int32Array(queries.length * this.columns);
    for (const [row, query] of queries.entries()) {
      const { sequence } = query;
      const at = row * this.columns;
      table[at + abi.KV_LEN] = query.kvLen;
      table[at + abi.Q_START] = query.first;
      table[at + abi.Q_LEN] = query.queries;
      table[at + abi.LIMIT] = sequence.kvLimit;
      table[at + abi.SLOT] = sequence.slot;
    }
    for (const [group, name] of this.tables.entries()) {
      for (const [row, { sequence }] of queries.entries()) {
        const pages = sequence.holding.rows[group] ?? [];
        const named = pages[0] === GONE ? pages.map((page) => Math.max(page, 0)) : pages;
        table.set(named, row * this.columns + abi.TABLE_HEADER);
      }
      // It takes what is there now: the next group writes over it.
      this.program.write(name, table);
    }
    this.tabled = queries.map(({ sequence }) => placesOf(sequence.holding));
  }

  private write(buffer: string, values: readonly number[]): void {
    this.program.write(buffer, Int32Array.from(values));
  }
}

/** A row that decodes, with so many tokens in KV beside all but its last. */
function queryOf(sequence: Sequence, row: number, more = 0): Query {
  return { sequence, kvLen: sequence.kvLen + more, first: row, queries: 1 };
}

/** The last token of each sequence and those of its draft, in their order. */
function rowsOf(drafts: readonly Draft[]): DraftRow[] {
  return drafts.flatMap(({ sequence, tokens }, draft) =>
    [sequence.tokens.at(-1) ?? 0, ...tokens].map((token, i) => {
      return { sequence, draft, token, position: sequence.kvLen + i };
    }),
  );
}

function upTo(count: number, start = 0): number[] {
  return Array.from({ length: count }, (_, i) => start + i);
}

/** The error of an answer that no correct program gives. */
export function wrongOutput(what: string): EdgewiseError {
  return new EdgewiseError(
    "device.output",
    `The device gave an answer that cannot be: ${what}.`,
    "Run the self-test; another program of the bundle may work on this device.",
  );
}
