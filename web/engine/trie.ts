/** Finding words in a text: the longest that begins at a place, from left to right. */

/** Words by their UTF-16 units; a node has `end` where one of them ends. */
export interface Trie {
  readonly next: Map<number, Trie>;
  end: boolean;
}

/** @param words of which empty ones are left out. */
export function trieOf(words: Iterable<string>): Trie {
  const root: Trie = { next: new Map(), end: false };
  for (const word of words) {
    let node = root;
    for (let i = 0; i < word.length; i++) {
      const unit = word.charCodeAt(i);
      const next: Trie = node.next.get(unit) ?? { next: new Map(), end: false };
      node.next.set(unit, next);
      node = next;
    }
    node.end = true;
  }
  root.end = false;
  return root;
}

/** The text with every word replaced, in the order in which they come. */
export function withTokens(text: string, words: Trie, replaced: (word: string) => string): string {
  const parts: string[] = [];
  let kept = 0;
  for (let at = 0; at < text.length; ) {
    const end = longest(text, at, words);
    if (end === at) {
      at += 1;
      continue;
    }
    parts.push(text.slice(kept, at), replaced(text.slice(at, end)));
    at = end;
    kept = end;
  }
  return kept === 0 ? text : parts.join("") + text.slice(kept);
}

/** Where the longest word ends that begins at a place; that place where none does. */
export function longest(text: string, at: number, words: Trie): number {
  let [end, node] = [at, words.next.get(text.charCodeAt(at))];
  for (let i = at + 1; node; i++) {
    if (node.end) end = i;
    node = i < text.length ? node.next.get(text.charCodeAt(i)) : undefined;
  }
  return end;
}
