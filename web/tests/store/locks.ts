/** Web Locks as browsers have them, of exclusive ones: whoever asks waits for those before, or hears that there are some. */

type Use = (lock: object | null) => unknown;

export class Locks {
  /** Those who wait, by the names of locks that are held. */
  private readonly held = new Map<string, (() => void)[]>();

  async request(
    name: string,
    { ifAvailable = false }: { readonly ifAvailable?: boolean },
    use: Use,
  ): Promise<unknown> {
    const waiting = this.held.get(name);
    if (waiting && ifAvailable) return use(null);
    if (waiting) await new Promise<void>((resolve) => waiting.push(resolve));
    else this.held.set(name, []);
    try {
      return await use({});
    } finally {
      const next = this.held.get(name)?.shift();
      if (next) next();
      else this.held.delete(name);
    }
  }
}
