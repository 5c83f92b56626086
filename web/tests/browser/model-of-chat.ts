/** Conversations as they ought to be kept, to compare those of the app with. */

export interface Said {
  readonly role: "user" | "assistant";
  readonly content: string;
  /** Which of the messages it follows; -1 for the first. */
  readonly parent: number;
}

export interface Talked {
  readonly title: string;
  readonly messages: readonly Said[];
  /** The last message of the branch that is shown. */
  readonly leaf: number;
}

/** The messages of a branch, from the first to this one: where they are. */
export function branch(messages: readonly Said[], leaf: number): readonly number[] {
  const parent = messages[leaf]?.parent;
  return parent === undefined ? [] : [...branch(messages, parent), leaf];
}

/** The last changed first. */
export class ModelOfChat {
  all: Talked[] = [];
  /** Which is shown; null for one in which nothing was said. */
  shown: Talked | null = null;

  /** The branch that is shown. */
  get said(): readonly Said[] {
    const { messages = [], leaf = -1 } = this.shown ?? {};
    return branch(messages, leaf).flatMap((at) => messages[at] ?? []);
  }

  /** What is asked next, with all before it, as a model is asked. */
  asking(question: string): readonly { role: "user" | "assistant"; content: string }[] {
    return [...this.said, { role: "user" as const, content: question }].map(
      ({ role, content }) => ({ role, content }),
    );
  }

  /** A question and its answer, at the end. */
  ask(question: string, answer: string): void {
    const { title = question, messages = [], leaf = -1 } = this.shown ?? {};
    this.changed(title, this.with(messages, leaf, question, answer));
  }

  /** The question of this number in the branch shown in other words, and its answer. */
  edit(number: number, question: string, answer: string): void {
    const before = this.shown;
    if (!before) throw new Error("nothing was asked");
    const asked = branch(before.messages, before.leaf).filter(
      (at) => before.messages[at]?.role === "user",
    );
    const old = before.messages[asked[number] ?? -1];
    if (!old) throw new Error(`there is no question ${number}`);
    const named = old.parent === -1 && before.title === old.content;
    const title = named ? question : before.title;
    this.changed(title, this.with(before.messages, old.parent, question, answer));
  }

  /** An answer to the last question, which has none. */
  answer(answer: string): void {
    const { title = "", messages = [], leaf = -1 } = this.shown ?? {};
    const answered: Said = { role: "assistant", content: answer, parent: leaf };
    this.changed(title, [...messages, answered]);
  }

  remove(at: number): void {
    const [removed] = this.all.splice(at, 1);
    if (removed === this.shown) this.shown = null;
  }

  private with(messages: readonly Said[], parent: number, question: string, answer: string) {
    const asked: Said = { role: "user", content: question, parent };
    const answered: Said = { role: "assistant", content: answer, parent: messages.length };
    return [...messages, asked, answered];
  }

  private changed(title: string, messages: readonly Said[]): void {
    const others = this.all.filter((one) => one !== this.shown);
    this.shown = { title, messages, leaf: messages.length - 1 };
    this.all = [this.shown, ...others];
  }
}
