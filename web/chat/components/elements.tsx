/** Markdown's tokens as elements: what is not in this table is text, so a model's HTML never is one. */

import type { MarkedToken, Token, Tokens } from "marked";
import type { ComponentChildren } from "preact";
import type { Block, Plain } from "../blocks.ts";
import { characters } from "../entities.ts";
import type { Formula } from "../tex.ts";
import { CodeBlock } from "./code-block.tsx";
import { FormulaView } from "./formula-view.tsx";

type Drawn = Exclude<MarkedToken, { type: "list_item" }> | Formula | Plain;
type Of<Type> = Extract<Drawn, { type: Type }>;

/** Where a token is. */
interface Place {
  readonly depth: number;
  /** Of a heading, see `Block`; 0 within other blocks, where it is none. */
  readonly level: number;
  /** Whether more of the block comes. */
  readonly growing: boolean;
}

type Table = {
  readonly [Type in Drawn["type"]]: (token: Of<Type>, place: Place) => ComponentChildren;
};

/** Deeper than anything that is read; what is deeper still is shown as it was written. */
const DEEPEST = 24;
/** The web, and letters; nothing that runs. */
const SAFE_LINK = /^(?:https?:|mailto:)/i;
const LINE_BREAK = /^<br\s*\/?>$/i;
const LANGUAGE = /^[\w+#.-]{1,20}/;
/** Whether a block of code has its end, unless it is by indentation. */
const FENCED = /\n[ \t]*(?:`{3,}|~{3,})\s*$/;

const TABLE: Table = {
  blockquote: ({ tokens }, place) => <blockquote>{within(tokens, place)}</blockquote>,
  br: () => lineBreak(),
  checkbox: ({ checked }) => (
    <span
      class="tick"
      role="img"
      aria-label={checked ? "Done:" : "To do:"}
      data-checked={checked}
    />
  ),
  code: ({ raw, text, lang }, { growing }) => (
    <CodeBlock
      code={text}
      language={LANGUAGE.exec(lang ?? "")?.[0] ?? ""}
      growing={growing && !FENCED.test(raw)}
    />
  ),
  codespan: ({ text }) => <code>{text}</code>,
  def: () => null,
  del: ({ tokens }, place) => <del>{within(tokens, place)}</del>,
  em: ({ tokens }, place) => <em>{within(tokens, place)}</em>,
  escape: ({ text }) => text,
  formula: (token) => <FormulaView formula={token} />,
  heading: ({ tokens, depth }, place) => {
    if (place.level === 0) {
      return (
        <p>
          <strong>{within(tokens, place)}</strong>
        </p>
      );
    }
    const Heading = `h${place.level}` as "h2";
    return <Heading data-depth={depth}>{within(tokens, place)}</Heading>;
  },
  hr: () => <hr />,
  html: ({ text, block }) => {
    if (block) return <p>{text}</p>;
    return LINE_BREAK.test(text) ? lineBreak() : text;
  },
  // A picture would be fetched from wherever the model likes: its text stands for it.
  image: ({ text }) => characters(text),
  link: ({ href, autolink, tokens }, place) => {
    const url = autolink ? href : characters(href);
    const safe = SAFE_LINK.test(url) ? { href: url } : {};
    return (
      <a {...safe} target="_blank" rel="noopener noreferrer nofollow">
        {within(tokens, place)}
      </a>
    );
  },
  list: ({ ordered, start, items }, place) => {
    const body = items.map(({ task, tokens }) => (
      <li class={task ? "task" : undefined}>
        {within(tokens, place)}
        {"\n"}
      </li>
    ));
    if (!ordered) return <ul>{body}</ul>;
    return <ol start={start === "" || start === 1 ? undefined : start}>{body}</ol>;
  },
  paragraph: ({ tokens }, place) => <p>{within(tokens, place)}</p>,
  plain: ({ raw }) => plain(raw),
  space: () => null,
  strong: ({ tokens }, place) => <strong>{within(tokens, place)}</strong>,
  table: ({ header, rows }, place) => (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for what is filled in
    <div
      class="scroll"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is scrolled by keys too
      tabIndex={0}
      role="group"
      aria-label="Table"
    >
      <table>
        <thead>
          <tr>{header.map((cell) => tableCell(cell, place))}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>{row.map((cell) => tableCell(cell, place))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  ),
  text: (token, place) =>
    "tokens" in token && token.tokens ? within(token.tokens, place) : characters(token.text),
};

/** A block, and whether more of it comes. */
export function elementOf({ token, level }: Block, growing: boolean): ComponentChildren {
  return element(token, { depth: 0, level, growing });
}

function within(tokens: readonly Token[], place: Place): ComponentChildren {
  const inner = { ...place, depth: place.depth + 1, level: 0 };
  if (inner.depth > DEEPEST) return plain(tokens.map(({ raw }) => raw).join(""));
  return tokens.map((token) => element(token, inner));
}

function element(token: Token | Plain, place: Place): ComponentChildren {
  const draw = Object.hasOwn(TABLE, token.type) && TABLE[token.type as keyof Table];
  if (!draw) return plain(token.raw);
  // The table's own type says that a token comes to what draws it.
  return (draw as (token: Token | Plain, place: Place) => ComponentChildren)(token, place);
}

function tableCell({ header, align, tokens }: Tokens.TableCell, place: Place): ComponentChildren {
  const Cell = header ? "th" : "td";
  return (
    <Cell align={align ?? undefined}>
      {within(tokens, place)}
      {"\n"}
    </Cell>
  );
}

/** The text has a line's end, too: it is copied and read aloud. */
function lineBreak(): ComponentChildren {
  return (
    <>
      <br />
      {"\n"}
    </>
  );
}

function plain(text: string): ComponentChildren {
  return <span class="plain">{text}</span>;
}
