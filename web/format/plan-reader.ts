/** Reading a plan from JSON that nobody vouches for. */

import { EdgewiseError, shorten } from "../errors.ts";
import { RING } from "./abi.ts";
import { type Expr, parse } from "./expr.ts";
import { parseJson } from "./json.ts";
import {
  ACCESSES,
  type Binding,
  type Cost,
  DTYPES,
  type Kernel,
  type KernelArg,
  KINDS,
  type Plan,
  type PlanBuffer,
  type PlanSymbol,
  ROLES,
  type Step,
  TARGETS,
} from "./plan.ts";
import { checkPlan } from "./plan-checks.ts";
import { Fields, LIMIT, NAME } from "./reading.ts";
import { VERSION } from "./seal.ts";

const MAX_PLAN_VALUES = 1 << 18;
const MAX_SYMBOLS = 16;
const MAX_BUFFERS = 16384;
const MAX_KERNELS = 4096;
const MAX_STEPS = 65536;
const MAX_ARGS = 64;
const MAX_DIMS = 8;
const DTYPE_NAMES = [...DTYPES.keys()];

/**
 * Read and check a plan.
 *
 * @param most values in it at most, as `countValues` counts them.
 * @throws EdgewiseError `plan.*`: whatever is wrong with it; nothing else.
 */
export function parsePlan(data: Uint8Array, most: number = MAX_PLAN_VALUES): Plan {
  return readPlan(parseJson(data, "A plan", "plan", Math.min(most, MAX_PLAN_VALUES)));
}

/** `parsePlan` of what `parseJson` gave. */
export function readPlan(value: unknown): Plan {
  const fields = new Fields(value, "A plan", "plan");
  fields.version(VERSION);
  const name = fields.text("name", NAME);
  const where = `Plan ${shorten(name)}`;
  fields.where = where;
  const part = (item: unknown, what: string) => new Fields(item, `${where}, ${what}`, "plan");
  const list = <T>(key: string, what: string, most: number, read: (fields: Fields) => T): T[] =>
    fields.items(key, most).map((item, i) => read(part(item, `${what} ${i}`)));
  const kernels = new Map<string, Kernel>();
  const plan: Plan = {
    name,
    target: fields.choice("target", TARGETS),
    maxBurst: fields.integer("max_burst", 1, RING),
    symbols: list("symbols", "symbol", MAX_SYMBOLS, readSymbol),
    buffers: list("buffers", "buffer", MAX_BUFFERS, readBuffer),
    kernels,
    steps: list("steps", "step", MAX_STEPS, readStep),
    host: fields.has("host") ? fields.text("host", NAME) : null,
  };
  for (const [key, item] of fields.table("kernels", MAX_KERNELS)) {
    kernels.set(key, readKernel(part(item, `kernel ${shorten(key)}`)));
  }
  fields.done();
  checkPlan(plan);
  return plan;
}

function readExpr(fields: Fields, value: unknown): Expr {
  try {
    return parse(value);
  } catch (error) {
    if (!(error instanceof EdgewiseError)) throw error;
    throw new EdgewiseError(error.code, `${fields.where}: ${error.message}`, "", { cause: error });
  }
}

function readShape(fields: Fields): Expr[] {
  return fields.items("shape", MAX_DIMS).map((item) => readExpr(fields, item));
}

function readSymbol(fields: Fields): PlanSymbol {
  const symbol: PlanSymbol = {
    name: fields.text("name", NAME),
    kind: fields.choice("kind", KINDS),
    min: fields.integer("min", 0, LIMIT - 1),
    max: fields.integer("max", 0, LIMIT - 1),
  };
  fields.done();
  return symbol;
}

function readBuffer(fields: Fields): PlanBuffer {
  const name = fields.text("name", NAME);
  fields.where += ` ${shorten(name)}`;
  const buffer: PlanBuffer = {
    name,
    role: fields.choice("role", ROLES),
    dtype: fields.choice("dtype", DTYPE_NAMES),
    shape: readShape(fields),
    bytes: readExpr(fields, fields.get("bytes")),
  };
  fields.done();
  return buffer;
}

function readKernel(fields: Fields): Kernel {
  const kernel: Kernel = {
    symbol: fields.text("symbol", NAME),
    args: fields
      .items("args", MAX_ARGS)
      .map((item, i) => readArg(new Fields(item, `${fields.where}, argument ${i}`, "plan"))),
    cost: fields.has("cost") ? readCost(fields) : null,
  };
  fields.done();
  return kernel;
}

function readCost(fields: Fields): Cost {
  const part = new Fields(fields.get("cost"), `${fields.where}, cost`, "plan");
  const cost = {
    bytes: readExpr(part, part.get("bytes")),
    flops: readExpr(part, part.get("flops")),
  };
  part.done();
  return cost;
}

function readArg(fields: Fields): KernelArg {
  const name = fields.text("name", NAME);
  const dtype = fields.choice("dtype", DTYPE_NAMES);
  const shape = readShape(fields);
  const access = fields.choice("access", ACCESSES);
  fields.done();
  return { name, dtype, shape, access, bytes: product(DTYPES.get(dtype) ?? 0, shape) };
}

/** An expression of the product, folded as long as it is constant. */
function product(start: number, shape: readonly Expr[]): Expr {
  return shape.reduce<Expr>((size, dim) => {
    if (typeof size !== "number" || typeof dim !== "number") return ["mul", size, dim];
    // Beyond 2^53 the product is no longer exact; as an expression the checks refuse it.
    return size * dim < LIMIT ? size * dim : ["mul", size, dim];
  }, start);
}

function readStep(fields: Fields): Step {
  const kernel = fields.text("kernel", NAME);
  fields.where += ` (${kernel})`;
  const grid = fields.items("grid", 3);
  if (grid.length !== 3) {
    throw fields.fail("grid", `'grid' must have 3 entries, found ${grid.length}`);
  }
  const step: Step = {
    kernel,
    bindings: fields
      .items("bindings", MAX_ARGS)
      .map((item, i) => readBinding(new Fields(item, `${fields.where}, binding ${i}`, "plan"))),
    grid: [readExpr(fields, grid[0]), readExpr(fields, grid[1]), readExpr(fields, grid[2])],
    reads: fields.names("reads", MAX_ARGS),
    writes: fields.names("writes", MAX_ARGS),
    label: fields.text("label"),
  };
  fields.done();
  return step;
}

function readBinding(fields: Fields): Binding {
  const binding = {
    buffer: fields.text("buffer", NAME),
    offset: fields.integer("offset", 0, LIMIT - 1),
  };
  fields.done();
  return binding;
}
