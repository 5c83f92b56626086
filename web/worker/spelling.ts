/** Tokens as they are spelled, for who is told how likely they were. As in Python's `hosting/local.py`. */

import type { LikelyToken, TokenLogprob } from "../client/types.ts";
import type { DrawnLogprob } from "../engine/logprobs.ts";
import type { Tokenizer } from "../engine/tokenizer.ts";

/** What writes out single tokens, special ones, too. */
export class Spelling {
  private readonly bytesOf: (tokenId: number) => Uint8Array;
  private readonly decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor(tokenizer: Pick<Tokenizer, "speller">) {
    this.bytesOf = tokenizer.speller();
  }

  logprob({ tokenId, logprob, top }: DrawnLogprob): TokenLogprob {
    return { ...this.token(tokenId, logprob), top: top.map((one) => this.token(...one)) };
  }

  private token(tokenId: number, logprob: number): LikelyToken {
    const bytes = this.bytesOf(tokenId);
    return { tokenId, text: this.decoder.decode(bytes), bytes: [...bytes], logprob };
  }
}
