import type { EngineInfo } from "../../client/types.ts";
import { bytes, count } from "../format.ts";

/** What is loaded: which model, by which program, and what it takes. */
export function Loaded({ info }: { readonly info: EngineInfo }) {
  return (
    <dl class="facts" data-testid="loaded">
      {factsOf(info).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function factsOf(info: EngineInfo): readonly (readonly [string, string])[] {
  const { param, state, input, output, scratch } = info.memory;
  return [
    ["Model", `${info.name}: ${info.family}, ${info.quant}`],
    ["Program", info.program],
    ["Runs on", info.adapter.name],
    ["Context", `${count(info.context)} tokens`],
    ["Weights", bytes(param)],
    ["Conversations (KV)", bytes(state)],
    ["Work", bytes(input + output + scratch)],
  ];
}

/** The same in a line. */
export function summary({ program, memory }: EngineInfo): string {
  return `${program} · ${bytes(memory.param)} of weights, ${bytes(memory.state)} for conversations`;
}
