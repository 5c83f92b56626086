import { useEffect, useState } from "preact/hooks";
import type { Book } from "../book.ts";
import { type Found, type Hit, search } from "../search.ts";

interface Props {
  readonly book: Book;
  readonly query: string;
  readonly onPick: (conversation: string, message: string | null) => void;
}

/** How long what is looked for rests before it is, in milliseconds. */
const REST_MS = 150;

/** What was found, each with a piece of the text: arrow keys go through it. */
export function SearchHits({ book, query, onPick }: Props) {
  const found = useFound(book, query);
  return (
    <>
      <p class="note" role="status" data-testid="found">
        {found ? told(found) : "Searching…"}
      </p>
      <ul class="hits" aria-label="Found conversations" onKeyDown={goThrough}>
        {found?.hits.map((hit) => (
          <li key={hit.id}>
            <HitView hit={hit} onPick={onPick} />
          </li>
        ))}
      </ul>
    </>
  );
}

function HitView({ hit, onPick }: { readonly hit: Hit; readonly onPick: Props["onPick"] }) {
  const { id, title, message, piece } = hit;
  return (
    <button type="button" class="hit" data-testid="hit" onClick={() => onPick(id, message)}>
      <strong dir="auto">{title}</strong>
      <span dir="auto">
        {piece.before}
        <mark>{piece.match}</mark>
        {piece.after}
      </span>
    </button>
  );
}

/** Null while it is looked for. */
function useFound(book: Book, query: string): Found | null {
  const [found, setFound] = useState<Found | null>(null);
  useEffect(() => {
    let wanted = true;
    const pause = async () => {
      await new Promise((resolve) => setTimeout(resolve));
      if (!wanted) throw new DOMException("Something else is looked for.", "AbortError");
    };
    const timer = setTimeout(() => {
      search(book, query, pause).then(
        (all) => wanted && setFound(all),
        () => undefined,
      );
    }, REST_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [book, query]);
  return found;
}

function told({ hits, more }: Found): string {
  if (hits.length === 0) return "Nothing found.";
  if (more) return `The newest ${hits.length} of more conversations.`;
  return hits.length === 1 ? "In 1 conversation." : `In ${hits.length} conversations.`;
}

/** By how many hits a key goes on. */
const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };

function goThrough(event: KeyboardEvent): void {
  const { currentTarget, target, key } = event;
  const step = STEPS[key];
  if (!step || !(currentTarget instanceof Element) || !(target instanceof HTMLButtonElement))
    return;
  const hits = [...currentTarget.querySelectorAll("button")];
  const at = hits.indexOf(target) + step;
  event.preventDefault();
  const field = currentTarget.closest("nav")?.querySelector<HTMLElement>("input[type=search]");
  (at < 0 ? field : hits[at])?.focus();
}
