/** The device protocol: how the engine runs plans, whatever launches the kernels. */

import type { EdgewiseError } from "../errors.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import type { Plan, Role } from "../format/plan.ts";

/** Elements of a buffer; float16 comes as its bits. */
export type Elements = Int32Array | Uint32Array | Float32Array | Uint16Array | Uint8Array;

/**
 * What was made and done so far. Once a program is loaded, a run makes nothing and submits once;
 * only more pages make something.
 */
export interface Counters {
  submits: number;
  dispatches: number;
  buffers: number;
  bindGroups: number;
  pipelines: number;
  readbacks: number;
  /** Bytes of the program's buffers now, and the most there ever were at once. */
  bytes: number;
  peakBytes: number;
  /** Times that pages were added, and given back; buffers and bytes copied to others for that. */
  growths: number;
  shrinks: number;
  copies: number;
  copiedBytes: number;
}

/** What one launch wrote, but for state. */
export interface TracedStep {
  readonly label: string;
  readonly kernel: string;
  readonly outputs: readonly {
    readonly buffer: string;
    readonly dtype: string;
    readonly shape: readonly number[];
    readonly data: Elements;
  }[];
}

/** How long one launch took on the device. */
export interface TimedStep {
  readonly label: string;
  readonly kernel: string;
  readonly ns: number;
}

/** A program bound to memory: its buffers exist and its plans can be run. Calls happen in order. */
export interface LoadedProgram {
  readonly manifest: BundleManifest;
  readonly program: Program;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly counters: Readonly<Counters>;
  /** Resolves with `device.lost` should that happen; never after `close`. */
  readonly lost: Promise<EdgewiseError>;

  /**
   * Copy elements into a buffer from an element offset on.
   *
   * @throws EdgewiseError `device.buffer` for an unknown buffer, one that may not be written, another
   *   type, or elements past its end; `device.closed`.
   */
  write(buffer: string, data: Elements, offsetElems?: number): void;

  /**
   * Compile and bind plans that may be left until they are needed. Does nothing for others.
   *
   * @throws EdgewiseError `device.plan` for an unknown plan, `device.kernel`, `device.lost`, `device.closed`.
   */
  prepare(plans: readonly string[]): Promise<void>;

  /**
   * Run plans in order, the last one `k` times, in one submission; then copy whole small buffers.
   *
   * Encoded and submitted before it returns, so that the caller may write and run again at once. Step
   * symbols have the values last written to `step`.
   *
   * @param read buffers whose contents right after the run the promise brings.
   * @throws EdgewiseError `device.plan` for an unknown plan, one that has to be prepared first, or a k it does not allow;
   *   rejects with `device.lost`.
   */
  run(
    plans: readonly string[],
    k?: number,
    read?: readonly string[],
  ): Promise<ReadonlyMap<string, Elements>>;

  /** Some rows of a buffer, once all that was submitted is done. */
  read(buffer: string, firstRow?: number, rows?: number): Promise<Elements>;

  /** Pages that its state has room for. */
  readonly pages: number;

  /**
   * Make room for so many pages, if there are fewer. What is in the others stays, and may be used
   * all the while.
   *
   * @throws EdgewiseError `device.memory` where the device has no room: there are as many pages as
   *   before; `device.lost`.
   */
  grow(pages: number): Promise<void>;

  /**
   * Give back the memory of all but so many pages, if there are more. What is in those stays, and may be used all the
   * while; nobody may use the others any more.
   *
   * @throws EdgewiseError `device.memory` where there is no room for what takes their place: some of it is held as before;
   *   `device.lost`.
   */
  shrink(pages: number): Promise<void>;

  /** Bytes of a page, which are the same as on the host. */
  readonly pageBytes: number;

  /**
   * What is in a page once all that was submitted before is done. What is submitted after the call may write to it.
   *
   * @throws EdgewiseError `device.buffer` for a page that there is not; `device.read`, `device.lost`.
   */
  readPage(page: number): Promise<Uint8Array<ArrayBuffer>>;

  /**
   * Make a page these bytes, in the order of what is submitted.
   *
   * @throws EdgewiseError `device.buffer` for a page that there is not, or another number of bytes; `device.lost`.
   */
  writePage(page: number, data: Uint8Array<ArrayBuffer>): void;

  /** Bytes per role. */
  memory(): Readonly<Record<Role, number>>;

  /** Copy a piece of a parameter. Offset and length are multiples of 4, but for the tensor's end. */
  upload(tensor: string, offsetBytes: number, data: Uint8Array): void;

  /** Resolves once all that was submitted is done. */
  settled(): Promise<void>;

  /**
   * Submit nothing, so that a browser that looks for finished work now and then looks for it now.
   *
   * Firefox settles what is waited for on a timer, every 100 ms, and, by its source, also whenever
   * something is submitted; nobody has tried it there. Does nothing once the device is lost or the program closed.
   */
  nudge(): void;

  /** Run a plan launch by launch and show what each wrote. For debugging and the self-test. */
  trace(plan: string): AsyncIterable<TracedStep>;

  /** Run a plan once and time every launch; null where the adapter has no timestamps. */
  time(plan: string): Promise<readonly TimedStep[] | null>;

  /** Release the memory. Closing twice is fine. */
  close(): void;
}
