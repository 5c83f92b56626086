/** Which answers the pages of this origin are writing, by locks that end with their page. */

const locks = (): LockManager | undefined => globalThis.navigator?.locks;
const nameOf = (id: string) => `edgewise answer ${id}`;

/** Say that an answer of a conversation is written here; returns how to say that it is no more. */
export function hold(id: string): () => void {
  let release = () => {};
  const written = new Promise<void>((resolve) => {
    release = resolve;
  });
  void locks()?.request(nameOf(id), { mode: "shared" }, () => written);
  return release;
}

/** Whether an answer of a conversation is being written by a page; true where nobody can say. */
export async function isHeld(id: string): Promise<boolean> {
  const found = await locks()?.query();
  return found?.held?.some(({ name }) => name === nameOf(id)) ?? true;
}
