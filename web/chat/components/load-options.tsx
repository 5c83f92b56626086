import { useEffect, useState } from "preact/hooks";
import type { AdapterReport } from "../../client/types.ts";
import { choiceOf, choose, contexts, type LoadChoice } from "../choices.ts";
import { bytes, count } from "../format.ts";
import type { Offer } from "../offers.ts";
import { type Runnable, runnable } from "../programs.ts";
import { manifestOf } from "../storage.ts";

interface Props {
  readonly offer: Offer;
  readonly adapter: AdapterReport | null;
}

/** Which program a model is loaded with, and how long conversations may be: for the next time. */
export function LoadOptions({ offer, adapter }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details
      class="load-options"
      data-testid="load-options"
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary>
        Program and memory<span class="hidden"> of {offer.name}</span>
      </summary>
      {open && <Choices key={offer.url} offer={offer} adapter={adapter} />}
    </details>
  );
}

function Choices({ offer, adapter }: Props) {
  const [choice, setChoice] = useState(() => choiceOf(offer));
  const programs = usePrograms(offer, adapter);
  const change = (made: LoadChoice) => {
    choose(offer, made);
    setChoice(made);
  };
  if (programs === null) return <p class="note">What the model consists of cannot be read.</p>;
  const { program, context = offer.context } = choice;
  const shown = programs?.find(({ id }) => id === program) ?? programs?.[0];
  return (
    <>
      <label class="field">
        Program
        <select
          data-testid="program-picker"
          value={program ?? ""}
          onChange={({ currentTarget: { value } }) => {
            const { program: _, ...others } = choice;
            change(value === "" ? others : { ...others, program: value });
          }}
        >
          <option value="">Automatic</option>
          {named(programs ?? [], program).map((id) => (
            <option key={id} value={id}>
              {id}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        Context
        <select
          data-testid="context-picker"
          value={context}
          onChange={({ currentTarget: { value } }) => {
            const { context: _, ...others } = choice;
            const tokens = Number(value);
            change(tokens === offer.context ? others : { ...others, context: tokens });
          }}
        >
          {contexts(offer.context).map((tokens) => (
            <option key={tokens} value={tokens}>
              {count(tokens)} tokens
            </option>
          ))}
        </select>
      </label>
      <p class="note">{shown ? takes(shown, context) : "Reading what the model consists of…"}</p>
    </>
  );
}

/** The programs that can run, and the one that was chosen where it cannot any more. */
function named(programs: readonly Runnable[], chosen: string | undefined): readonly string[] {
  const ids = programs.map(({ id }) => id);
  return chosen === undefined || ids.includes(chosen) ? ids : [...ids, chosen];
}

function takes({ weights, conversation }: Runnable, context: number): string {
  return (
    `${bytes(weights)} of weights, and ${bytes(conversation(context))} for a conversation of ` +
    `${count(context)} tokens.`
  );
}

/** The programs that this adapter can run; undefined until that is known, null where it cannot be. */
function usePrograms(
  offer: Offer,
  adapter: AdapterReport | null,
): readonly Runnable[] | null | undefined {
  const [programs, setPrograms] = useState<readonly Runnable[] | null>();
  useEffect(() => {
    let wanted = true;
    const read = async () => {
      const manifest = await manifestOf(offer);
      return manifest && runnable(manifest, adapter?.features ?? []);
    };
    const show = (found: readonly Runnable[] | null) => {
      if (wanted) setPrograms(found);
    };
    read().then(show, () => show(null));
    return () => {
      wanted = false;
    };
  }, [offer, adapter]);
  return programs;
}
