/** How tokens are chosen while answers are timed: what models' own files ask for, and the likeliest. */
export const DEFAULTS = { temperature: 0.6, topK: 20, topP: 0.95, seed: 1 };
export const GREEDY = { temperature: 0 };
