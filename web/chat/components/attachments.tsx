import { useEffect, useState } from "preact/hooks";
import type { Attachment } from "../files.ts";
import { bytes, count } from "../format.ts";
import type { Measured } from "../measure.ts";
import { Icon, IconButton } from "./icons.tsx";

interface Props {
  readonly files: readonly Attachment[];
  /** Why some files are not among them. */
  readonly problems: readonly string[];
  /** The question as far as it is written. */
  readonly text: string;
  /** Counts tokens; null where no model is there to do so. */
  readonly measure: ((text: string, files: readonly Attachment[]) => Promise<Measured>) | null;
  readonly onRemove: (at: number) => void;
  /** Hears whether what is written fits the context, as far as that is known. */
  readonly onFits: (fits: boolean) => void;
}

/** How long a question rests before it is counted again, in milliseconds. */
const REST_MS = 300;

/** Files that go with the next question: what they come to, and a way to take them out again. */
export function Attachments(props: Props) {
  const { files, problems, onRemove } = props;
  const measured = useMeasured(props);
  const tooLong = measured ? "problem" in measured && measured.problem : false;
  return (
    <div class="attached" data-testid="attached">
      {files.length > 0 && (
        <ul aria-label="Attached files">
          {files.map(({ name, text }, at) => (
            // Two files may have one name.
            <li key={at} class="chip" data-testid="file">
              <Icon name="file" />
              <span class="name" dir="auto">
                {name}
              </span>
              <small>{bytes(new Blob([text]).size)}</small>
              <IconButton
                icon="close"
                label={`Remove ${name}`}
                class="small"
                onClick={({ currentTarget }) => {
                  if (currentTarget instanceof Element) focusBeside(currentTarget);
                  onRemove(at);
                }}
              />
            </li>
          ))}
        </ul>
      )}
      <p class="note" role="status" data-testid="measured">
        {words(measured)}
      </p>
      {(tooLong || problems.length > 0) && (
        <p class="note bad" role="alert" data-testid="unattached">
          {tooLong && `This does not fit. ${tooLong}`} {problems.join(" ")}
        </p>
      )}
    </div>
  );
}

/** Undefined while it is not known. */
function useMeasured({ files, text, measure, onFits }: Props): Measured | undefined {
  const [measured, setMeasured] = useState<Measured>();
  useEffect(() => {
    let wanted = true;
    const tell = (found: Measured | undefined) => {
      if (!wanted) return;
      setMeasured(found);
      onFits(!found || !("problem" in found));
    };
    if (!measure || files.length === 0) {
      tell(undefined);
      return;
    }
    const timer = setTimeout(() => void measure(text, files).then(tell), REST_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [measure, files, text, onFits]);
  return measured;
}

function words(measured: Measured | undefined): string {
  if (measured === null) return "Its tokens are counted when it is asked.";
  if (!measured || "problem" in measured) return "";
  const { tokens, context, droppedTurns } = measured;
  const said = `${count(tokens)} of ${count(context)} tokens with the conversation`;
  return droppedTurns === 0
    ? said
    : `${said}, without its ${turns(droppedTurns)}, which do not fit`;
}

function turns(dropped: number): string {
  return dropped === 1 ? "oldest turn" : `${count(dropped)} oldest turns`;
}

/** The focus goes to the next file, or the one before, or to where the message is written. */
function focusBeside(within: Element): void {
  const item = within.closest("li");
  const beside = item?.nextElementSibling ?? item?.previousElementSibling;
  const next = beside?.querySelector<HTMLElement>("button") ?? document.getElementById("message");
  next?.focus();
}
