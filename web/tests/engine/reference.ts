/**
 * A model whose next token is a pure function of the history that its pages hold.
 *
 * It keeps tokens in pages where a real one keeps keys and values, and does with the step buffers
 * what the compiled programs do. A page given to two sequences, a wrong position, table row, slot or
 * count: each gives other tokens, or an error. Work is done in the order it is submitted; its
 * results arrive later.
 *
 * With windows each group keeps, beside a token, what the history up to it comes to: what a token sees must be one history.
 */

import type { Elements, LoadedProgram } from "../../device/base.ts";
import { isPenalized } from "../../engine/sampling.ts";
import { EdgewiseError } from "../../errors.ts";
import {
  AT_END,
  AT_FAULT,
  AT_LIMIT,
  COUNT,
  IGNORE_EOS,
  LIMIT,
  LOGPROBS,
  MASKED,
  MAX_BIASES,
  maskWords,
  NO_TOKEN,
  NOT_FINITE,
  PAGE_TOKENS,
  RING,
  SAMPLING_WIDTH,
  SEQUENCE,
  STEP_WIDTH,
  STOP,
  STOP_TOKENS,
  TABLE_HEADER,
  TABLES,
} from "../../format/abi.ts";
import type { BundleManifest, Program } from "../../format/manifest.ts";
import { mix, nextToken, seedOf, stateOf, VOCAB } from "./expected.ts";
import { model, program, type ReferenceOptions, type RunRecord } from "./reference-bundle.ts";

export class ReferenceProgram implements LoadedProgram {
  readonly manifest: BundleManifest;
  readonly program: Program;
  readonly plans = new Map();
  readonly counters = {
    submits: 0,
    dispatches: 0,
    buffers: 0,
    bindGroups: 0,
    pipelines: 0,
    readbacks: 0,
    bytes: 0,
    peakBytes: 0,
    growths: 0,
    shrinks: 0,
    copies: 0,
    copiedBytes: 0,
  };
  readonly lost: Promise<EdgewiseError>;
  readonly runs: RunRecord[] = [];
  private readonly buffers = new Map<string, Int32Array>();
  private readonly floats = new Map<string, Float32Array>();
  private kv: Int32Array;
  private readonly room: number;
  private readonly spoiler: number | null;
  private readonly x: Int32Array;
  private readonly histories: number[][] = [];
  private readonly logits: number[][] = [];
  /** What the histories come to, of rows and of those with logits. */
  private readonly states: number[] = [];
  private readonly outcomes: number[] = [];
  private readonly windows: readonly (number | null)[];
  /** Of a token in a page: it, and with windows what all up to it come to. */
  private readonly words: number;
  private readonly mirror = new Int32Array(STEP_WIDTH);
  private readonly columns: number;
  private readonly arrive: (run: RunRecord) => Promise<void>;
  private order: Promise<void> = Promise.resolve();
  private written: string[] = [];
  private unanswered = 0;
  private failure: EdgewiseError | null = null;
  private fault: EdgewiseError | null = null;
  private tell: (error: EdgewiseError) => void = () => {};
  private readonly failed: Promise<EdgewiseError>;

  /** Plans that were asked to be ready, and what comes of that. */
  readonly prepared: string[] = [];
  preparing: () => Promise<void> = () => Promise.resolve();

  prepare(plans: readonly string[]): Promise<void> {
    this.prepared.push(...plans);
    return this.preparing();
  }

  constructor(options: ReferenceOptions) {
    this.manifest = model(options);
    const { context, maxBatch, prefillChunk } = this.manifest.model;
    this.columns = TABLE_HEADER + Math.ceil(context / PAGE_TOKENS);
    this.arrive = options.arrive ?? (() => Promise.resolve());
    this.windows = options.windows ?? [null];
    this.words = this.windows.some((window) => window !== null) ? 2 : 1;
    this.kv = new Int32Array(options.pages * this.pageWords);
    this.counters.bytes = this.kv.byteLength;
    this.room = options.room ?? Number.POSITIVE_INFINITY;
    this.spoiler = options.spoiler ?? null;
    this.x = new Int32Array(prefillChunk);
    const sizes = {
      step: STEP_WIDTH,
      tokens: prefillChunk,
      row_seq: prefillChunk,
      positions: prefillChunk,
      logit_rows: maxBatch,
      ...Object.fromEntries(this.tables.map((name) => [name, maxBatch * this.columns])),
      ring: maxBatch * RING,
      eos: STOP_TOKENS,
      sampling_i: maxBatch * SAMPLING_WIDTH,
      biases: maxBatch * 2 * MAX_BIASES,
      grammar_mask: maxBatch * maskWords(VOCAB),
      counts: maxBatch * VOCAB,
      sampled: maxBatch,
      logprob_ids: maxBatch * LOGPROBS,
    };
    for (const [name, size] of Object.entries(sizes)) this.buffers.set(name, new Int32Array(size));
    this.floats.set("logprobs", new Float32Array(maxBatch * LOGPROBS));
    this.floats.set("sampling_f", new Float32Array(maxBatch * SAMPLING_WIDTH));
    this.program = program(prefillChunk, maxBatch, options.forward);
    this.lost = new Promise((resolve) => {
      this.tell = resolve;
    });
    this.failed = this.lost;
  }

  /** The device goes away: nothing that has not arrived ever does. */
  lose(): void {
    if (this.failure) return;
    this.failure = new EdgewiseError("device.lost", "The device is gone.");
    this.tell(this.failure);
  }

  /** The next run is refused, having done nothing. */
  failNext(error: EdgewiseError): void {
    this.fault = error;
  }

  /** Write into a buffer what no correct program would. */
  corrupt(buffer: string, at: number, value: number): void {
    this.ints(buffer)[at] = value;
  }

  write(buffer: string, data: Elements, offsetElems = 0): void {
    if (this.failure) throw this.failure;
    const target = this.buffers.get(buffer) ?? this.floats.get(buffer);
    if (
      !target ||
      target.constructor !== data.constructor ||
      offsetElems + data.length > target.length
    ) {
      throw new EdgewiseError("device.buffer", `${buffer} does not take ${data.length} elements.`);
    }
    target.set(data, offsetElems);
    if (buffer === "step") this.mirror.set(data, offsetElems);
    this.written.push(buffer);
  }

  async run(plans: readonly string[], k = 1, read: readonly string[] = []) {
    if (this.failure) throw this.failure;
    const record = {
      plans,
      k,
      rows: this.mirror[0] ?? 0,
      ahead: this.unanswered,
      written: this.written,
    };
    this.runs.push(record);
    this.written = [];
    const { fault } = this;
    this.fault = null;
    if (!fault)
      for (const [i, plan] of plans.entries()) this.do(plan, i === plans.length - 1 ? k : 1);
    const results = new Map<string, Elements>(
      read.map((name) => [name, (this.floats.get(name) ?? this.ints(name)).slice()]),
    );
    if (read.length === 0 && !fault) return results;
    await this.arrival(record);
    if (fault) throw fault;
    return results;
  }

  get pages(): number {
    return this.kv.length / this.pageWords;
  }

  private get pageWords(): number {
    return PAGE_TOKENS * this.words;
  }

  /** Those of all state groups. */
  private get tables(): readonly string[] {
    return TABLES.slice(0, this.windows.length);
  }

  /** Nothing is in these pages any more. */
  poison(pages: readonly number[]): void {
    const { pageWords } = this;
    for (const page of pages) this.kv.fill(0, page * pageWords, (page + 1) * pageWords);
  }

  async grow(pages: number): Promise<void> {
    if (this.failure) throw this.failure;
    await Promise.race([
      this.arrive({ plans: ["grow"], k: 1, rows: 0, ahead: 0, written: [] }),
      this.lost,
    ]);
    if (this.failure) throw this.failure;
    if (pages <= this.pages) return;
    if (pages > this.room) throw new EdgewiseError("device.memory", "There is no room.");
    const larger = new Int32Array(pages * this.pageWords);
    larger.set(this.kv);
    this.counters.growths += 1;
    this.counters.copies += 1;
    this.counters.copiedBytes += this.kv.byteLength;
    this.kv = larger;
    this.counters.bytes = larger.byteLength;
  }

  async shrink(pages: number): Promise<void> {
    if (this.failure) throw this.failure;
    await Promise.race([
      this.arrive({ plans: ["shrink"], k: 1, rows: 0, ahead: 0, written: [] }),
      this.lost,
    ]);
    if (this.failure) throw this.failure;
    this.kv = this.kv.slice(0, pages * this.pageWords);
    this.counters.shrinks += 1;
    this.counters.bytes = this.kv.byteLength;
  }

  settled(): Promise<void> {
    const last = this.runs.at(-1);
    return last ? this.arrival(last) : this.order;
  }

  /** A page as a program with keys and values in float16 has it: the spoiling token's key is NaN. */
  async read(buffer: string, first = 0, rows = 1): Promise<Elements> {
    if (this.failure) throw this.failure;
    if (buffer !== "kv.0" || rows !== 1) throw new Error(`nobody reads ${rows} of ${buffer}`);
    const words = new Uint16Array(2 * PAGE_TOKENS);
    for (const slot of words.keys()) {
      const word = this.kv[first * this.pageWords + slot * this.words] ?? 0;
      if (slot < PAGE_TOKENS && word - 1 === this.spoiler) words[slot] = 0x7e00;
    }
    return words;
  }
  get pageBytes(): number {
    return this.pageWords * Int32Array.BYTES_PER_ELEMENT;
  }
  async readPage(page: number): Promise<Uint8Array<ArrayBuffer>> {
    if (this.failure) throw this.failure;
    const data = new Uint8Array(
      this.kv.slice(page * this.pageWords, (page + 1) * this.pageWords).buffer,
    );
    await this.settled();
    if (this.failure) throw this.failure;
    return data;
  }
  writePage(page: number, data: Uint8Array<ArrayBuffer>): void {
    if (this.failure) throw this.failure;
    if (data.length !== this.pageBytes) throw new Error(`a page of ${data.length} bytes`);
    this.kv.set(new Int32Array(data.slice().buffer), page * this.pageWords);
  }
  upload(): void {}
  nudge(): void {}
  memory() {
    return { param: 0, state: 0, input: 0, output: 0, scratch: 0 };
  }
  async *trace() {}
  time(): Promise<null> {
    return Promise.resolve(null);
  }
  close(): void {
    this.failure ??= new EdgewiseError("device.closed", "The program is closed.");
  }

  /** What is submitted arrives in its order. */
  private async arrival(record: RunRecord): Promise<void> {
    this.unanswered += 1;
    const before = this.order;
    const arrived = (async () => {
      await before;
      await this.arrive(record);
      this.unanswered -= 1;
    })();
    this.order = arrived;
    const lost = this.failed.then((error) => {
      throw error;
    });
    await Promise.race([arrived, lost]);
    if (this.failure) throw this.failure;
  }

  private ints(name: string): Int32Array {
    const buffer = this.buffers.get(name);
    if (!buffer) throw new Error(`no buffer ${name}`);
    return buffer;
  }

  private at(name: string, index: number): number {
    const value = (this.buffers.get(name) ?? this.floats.get(name))?.[index];
    if (value === undefined) throw new Error(`${name}[${index}] is out of bounds`);
    return value;
  }

  private table(row: number, column: number): number {
    const values = this.tables.map((name) => this.at(name, row * this.columns + column));
    if (values.some((value) => value !== values[0])) throw new Error("the tables disagree");
    return values[0] ?? 0;
  }

  private do(plan: string, k: number): void {
    if (plan === "logprobs" && !this.prepared.includes(plan)) throw new Error("not prepared");
    const operation = plan.split(".")[0];
    for (let i = 0; i < 3; i++) {
      if (this.at("step", i) > (this.mirror[i] ?? 0)) throw new Error("too few workgroups");
    }
    if (operation === "embed") this.embed();
    else if (operation === "prefill") this.prefill();
    else if (operation === "logits") this.gather();
    else if (operation === "sample") this.sample(0);
    else if (operation === "forward") this.forward();
    else if (operation === "logprobs") this.likely();
    else for (let i = 0; i < k; i++) this.decode();
  }

  private embed(): void {
    for (let row = 0; row < this.at("step", 0); row++) this.x[row] = this.at("tokens", row);
  }

  private prefill(): void {
    for (let s = 0; s < this.at("step", 1); s++) {
      const [kvLen, first, count] = [this.table(s, 0), this.table(s, 1), this.table(s, 2)];
      for (let i = 0; i < count; i++) this.append(first + i, s, kvLen + i);
      for (let i = 0; i < count; i++) this.look(first + i, s, kvLen + i + 1);
    }
  }

  private decode(): void {
    this.forward();
    this.sample(1);
  }

  private forward(): void {
    this.embed();
    for (let row = 0; row < this.at("step", 0); row++) {
      const s = this.at("row_seq", row);
      if (this.table(s, 3) !== 0) continue;
      this.append(row, s, this.table(s, 0));
      this.look(row, s, this.table(s, 0) + 1);
    }
    this.gather();
  }

  private append(row: number, s: number, position: number): void {
    if (this.at("row_seq", row) !== s) throw new Error(`row ${row} is not of sequence ${s}`);
    if (this.at("positions", row) !== position) throw new Error(`row ${row} has a wrong position`);
    if (position >= this.at("step", 3)) throw new Error("more tokens than the step says");
    const token = this.x[row] ?? 0;
    for (const group of this.windows.keys()) {
      const slot = this.slot(group, s, position);
      this.kv[slot] = token + 1;
      if (this.words === 1) continue;
      const before = position === 0 ? stateOf([]) : this.kv[this.slot(group, s, position - 1) + 1];
      this.kv[slot + 1] = mix(before ?? 0, token);
    }
  }

  /** What the last of so many tokens sees, in every group. */
  private look(row: number, s: number, length: number): void {
    const seen = this.windows.map((window, group) => this.history(group, window, s, length));
    const [first] = seen;
    if (!first || seen.some(({ state }) => state !== first.state))
      throw new Error("other histories");
    this.histories[row] = first.tokens;
    this.states[row] = first.state;
  }

  private history(group: number, window: number | null, s: number, length: number) {
    const start = window === null ? 0 : Math.max(length - window, 0);
    for (let q = 0; q < start; q += PAGE_TOKENS) this.slot(group, s, q); // kernels look up where it is
    let state = start === 0 ? stateOf([]) : null;
    const tokens: number[] = [];
    for (let q = start; q < length; q++) {
      const slot = this.slot(group, s, q);
      const token = (this.kv[slot] ?? 0) - 1;
      if (token < 0) throw new Error(`position ${q} was never written`);
      const told = this.words === 1 ? undefined : (this.kv[slot + 1] ?? 0) >>> 0;
      const next = state === null ? (told ?? 0) : mix(state, token);
      if (told !== undefined && next !== told) throw new Error(`position ${q} has another history`);
      tokens.push(token);
      state = next;
    }
    return { tokens, state: state ?? 0 };
  }

  private slot(group: number, s: number, position: number): number {
    const column = TABLE_HEADER + Math.floor(position / PAGE_TOKENS);
    const page = this.at(this.tables[group] ?? "", s * this.columns + column);
    const slot = page * this.pageWords + (position % PAGE_TOKENS) * this.words;
    if (slot < 0 || slot >= this.kv.length) throw new Error("a page out of bounds");
    return slot;
  }

  private gather(): void {
    for (let r = 0; r < this.at("step", 2); r++) {
      const row = this.at("logit_rows", r);
      this.logits[r] = this.histories[row] ?? [];
      this.outcomes[r] = this.states[row] ?? 0;
    }
  }

  /** How likely what was drawn is: by its id; the likeliest are those after it. */
  private likely(): void {
    for (let row = 0; row < this.at("step", 1); row++) {
      const drawn = this.ints("sampled")[row] ?? 0;
      for (let column = 0; column < LOGPROBS; column++) {
        const id = column < LOGPROBS - 1 ? (drawn + column) % VOCAB : NO_TOKEN;
        this.ints("logprob_ids")[row * LOGPROBS + column] = id;
        const values = this.floats.get("logprobs");
        if (values) values[row * LOGPROBS + column] = -id / VOCAB;
      }
    }
  }

  /** Draw for every running row, and note what was drawn. */
  private sample(advance: number): void {
    let running = false;
    for (let row = 0; row < this.at("step", 1); row++) {
      if (this.table(row, 3) !== 0) continue;
      const length = this.table(row, 0) + advance;
      const slot = this.table(row, 6);
      const token = this.draw(row, slot, length);
      this.ints("sampled")[row] = token;
      const count = this.table(row, 5);
      const base = row * this.columns;
      const table = this.ints("table");
      table[base] = length;
      this.ints("ring")[row * RING + (count % RING)] = token;
      table[base + COUNT] = count + 1;
      this.ints("tokens")[row] = Math.max(token, 0);
      this.ints("positions")[row] = length;
      const ends =
        this.at("sampling_i", row * SAMPLING_WIDTH + IGNORE_EOS) === 0 &&
        this.ints("eos").includes(token);
      table[base + STOP] = ends ? AT_END : length >= this.table(row, LIMIT) ? AT_LIMIT : 0;
      if (token === NOT_FINITE) table[base + STOP] = AT_FAULT;
      if (table[base + STOP] === 0) running = true;
      for (const name of this.tables.slice(1)) {
        this.ints(name).set(table.subarray(base, base + TABLE_HEADER), base);
      }
    }
    if (advance === 1 && !running) this.ints("step").fill(0, 0, 3);
  }

  private draw(row: number, slot: number, position: number): number {
    if (this.spoiler !== null && this.logits[row]?.includes(this.spoiler)) return NOT_FINITE;
    const f = (i: number) => this.at("sampling_f", row * SAMPLING_WIDTH + i);
    const n = (i: number) => this.at("sampling_i", row * SAMPLING_WIDTH + i);
    const values = new Float32Array(this.ints("biases").buffer);
    const biases = Array.from({ length: n(3) }, (_, i): [number, number] => [
      this.at("biases", 2 * row * MAX_BIASES + i),
      values[(2 * row + 1) * MAX_BIASES + i] ?? Number.NaN,
    ]);
    const params = {
      maxTokens: 1,
      minTokens: 0,
      temperature: f(0),
      topP: f(1),
      minP: f(2),
      repetitionPenalty: f(3),
      presencePenalty: f(4),
      frequencyPenalty: f(5),
      topK: n(0),
      seed: undefined,
      stop: [],
      stopTokenIds: [],
      ignoreEos: false,
      logprobs: false,
      topLogprobs: 0,
      priority: 0,
      logitBias: new Map(biases),
    };
    const seed = seedOf((BigInt(n(2) >>> 0) << 32n) | BigInt(n(1) >>> 0), n(SEQUENCE));
    const counts = this.ints("counts").subarray(slot * VOCAB, (slot + 1) * VOCAB);
    const word = (token: number) => this.at("grammar_mask", row * maskWords(VOCAB) + (token >>> 5));
    const allows = (token: number) => n(MASKED) === 0 || ((word(token) >>> (token & 31)) & 1) === 1;
    const token = nextToken(this.outcomes[row] ?? 0, position, params, seed, [...counts], allows);
    if (isPenalized(params)) counts[token] = (counts[token] ?? 0) + 2;
    return token;
  }
}
