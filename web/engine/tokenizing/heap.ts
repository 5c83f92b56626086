/** Numbered places by rank, the lowest first and of equal ranks the leftmost. */

export interface Offered {
  readonly rank: number;
  readonly place: number;
}

const precedes = (a: Offered, b: Offered) =>
  a.rank < b.rank || (a.rank === b.rank && a.place < b.place);

export class Heap {
  private readonly items: Offered[] = [];

  push(rank: number, place: number): void {
    const { items } = this;
    const item = { rank, place };
    let at = items.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = items[above];
      if (!parent || !precedes(item, parent)) break;
      items[at] = parent;
      at = above;
    }
    items[at] = item;
  }

  pop(): Offered | undefined {
    const { items } = this;
    const top = items[0];
    const last = items.pop();
    if (!top || !last || items.length === 0) return top;
    let at = 0;
    for (;;) {
      const left = items[2 * at + 1];
      if (!left) break;
      const right = items[2 * at + 2];
      const isRight = right !== undefined && precedes(right, left);
      const child = isRight ? right : left;
      if (!precedes(child, last)) break;
      items[at] = child;
      at = 2 * at + (isRight ? 2 : 1);
    }
    items[at] = last;
    return top;
  }
}
