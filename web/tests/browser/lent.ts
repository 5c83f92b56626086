/** Python's BrowserEngine, in a process of its own: tests/browser/lent.py. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { python, REPOSITORY } from "./paths.ts";

export interface Answer {
  readonly text?: string;
  readonly tokens?: readonly number[];
  readonly code?: string;
  readonly piece?: string;
  /** Device, answers running, answers so far. */
  readonly tabs?: readonly (readonly [string, number, number])[];
}

export class Lent {
  readonly url: string;
  private readonly process: ChildProcess;
  private readonly waiting = new Map<number, (answer: Answer) => void>();
  private count = 0;

  private constructor(process: ChildProcess, url: string, lines: AsyncIterator<string>) {
    this.process = process;
    this.url = url;
    void this.listen(lines);
  }

  /** An engine of a bundle, whose tabs answer a beat every so many seconds. */
  static async start(bundle: string, beatS: number): Promise<Lent> {
    const args = ["-m", "tests.browser.lent", bundle, String(beatS)];
    const child = spawn(python(), args, { cwd: REPOSITORY, stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const first = await lines.next();
    if (first.done) throw new Error("the engine ended before it began");
    return new Lent(child, JSON.parse(first.value).url, lines);
  }

  /** Wait until so many tabs lend. */
  async wait(tabs: number): Promise<void> {
    const { code } = await this.ask({ do: "wait", tabs });
    if (code) throw new Error(`waited for ${tabs} tabs: ${code}`);
  }

  tabs(): Promise<Answer> {
    return this.ask({ do: "tabs" });
  }

  /** Generate, greedily; `onPiece` is called as text comes. */
  generate(
    prompt: string | readonly number[],
    maxTokens: number,
    onPiece: () => void = () => {},
  ): Promise<Answer> {
    const options = { temperature: 0, max_tokens: maxTokens, ignore_eos: true };
    return this.ask({ do: "generate", prompt, options }, onPiece);
  }

  /** Answer a question, greedily. */
  chat(question: string, maxTokens: number): Promise<Answer> {
    const messages = [{ role: "user", content: question }];
    const options = { temperature: 0, max_tokens: maxTokens };
    return this.ask({ do: "generate", messages, options });
  }

  /** As `generate`, once something of it has come. */
  async begun(maxTokens: number): Promise<{ readonly answer: Promise<Answer> }> {
    let answer: Promise<Answer> | undefined;
    await new Promise<void>((resolve) => {
      answer = this.generate("Once upon a time", maxTokens, resolve);
      void answer.then(() => resolve());
    });
    if (!answer) throw new Error("nothing was asked");
    return { answer };
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.stdin?.end();
    await ended;
  }

  private ask(message: object, onPiece: () => void = () => {}): Promise<Answer> {
    this.count += 1;
    const id = this.count;
    return new Promise((resolve) => {
      this.waiting.set(id, (answer) => {
        if (answer.piece !== undefined) return onPiece();
        this.waiting.delete(id);
        resolve(answer);
      });
      this.process.stdin?.write(`${JSON.stringify({ id, ...message })}\n`);
    });
  }

  private async listen(lines: AsyncIterator<string>): Promise<void> {
    for (let line = await lines.next(); !line.done; line = await lines.next()) {
      const { id, ...answer } = JSON.parse(line.value);
      this.waiting.get(id)?.(answer);
    }
  }
}
