import type { LendState } from "../../client/lend.ts";
import { count } from "../format.ts";
import type { ShownLending } from "../lending.ts";

/** That this device works for others, and how much; and the way to end that. */
export function Lent({ lending }: { readonly lending: ShownLending }) {
  if (!lending.on || !lending.state) return null;
  return (
    <div class="banner" data-testid="lent">
      <p>{said(lending.state)}</p>
      <button type="button" onClick={() => lending.turn(false)}>
        Stop lending
      </button>
    </div>
  );
}

/** Whether it does: for who opened the page without `?lend`. */
export function LendSetting({ lending }: { readonly lending: ShownLending }) {
  return (
    <label class="field">
      <span>
        Lend this GPU to the host
        <small>Programs there ask, this device answers; they see only what they asked</small>
      </span>
      <input
        type="checkbox"
        data-testid="lend"
        checked={lending.on}
        onInput={({ currentTarget: { checked } }) => lending.turn(checked)}
      />
    </label>
  );
}

function said(state: LendState): string {
  switch (state.kind) {
    case "connecting":
      return "Offering this device's GPU to the host…";
    case "lending":
      return `This device's GPU is lent to the host: ${answers(state.running)} running, ${count(state.served)} so far.`;
    case "waiting":
      return `This device's GPU is not lent: ${state.error.message} Trying again in ${state.seconds} s.`;
    case "refused":
      return `This device's GPU is not lent: ${state.error.message} ${state.error.remedy}`;
    case "ended":
      return "";
  }
}

function answers(running: number): string {
  return running === 1 ? "1 answer" : `${count(running)} answers`;
}
