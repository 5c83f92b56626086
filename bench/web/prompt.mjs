/** Tokens of the prompt whose answer's first token ends "page to first token". */
export const STARTING = 16;

/** Token ids that no two prompts share, so that nothing is found in a cache. */
export function prompt(length, salt) {
  return Array.from({ length }, (_, i) => 5 + ((i * 7 + salt * 131) % 900));
}
