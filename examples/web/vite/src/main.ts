import { answerMessage, EdgewiseError, Engine, type Generation, type Message } from "edgewise";

const form = found("form", HTMLFormElement);
const question = found("input", HTMLInputElement);
const [ask, stop] = [found("button", HTMLButtonElement), found("[type=button]", HTMLButtonElement)];
const status = found("[role=status]", HTMLElement);
const answer = found("pre", HTMLElement);

const conversation: Message[] = [];
let running: Generation | null = null;

start().catch((error: unknown) => {
  status.textContent =
    error instanceof EdgewiseError ? `${error.message} ${error.remedy}` : String(error);
});

async function start(): Promise<void> {
  const engine = await Engine.load("/bundles/demo-q4/", {
    onProgress: ({ phase, done, total }) => {
      status.textContent = `Loading: ${phase}, ${done} of ${total}`;
    },
  });
  status.textContent = `Ready: ${engine.info.name} on ${engine.info.adapter.name}`;
  ask.disabled = false;
  stop.onclick = () => running?.stop();
  form.onsubmit = (event) => {
    event.preventDefault();
    void turn(engine, question.value);
  };
}

/** Ask, show the answer as it comes, and keep both for the next question. */
async function turn(engine: Engine, content: string): Promise<void> {
  [ask.disabled, stop.disabled] = [true, false];
  answer.textContent = "";
  status.textContent = "Answering";
  conversation.push({ role: "user", content });
  try {
    running = engine.chat(conversation, { contextPolicy: "drop" });
    for await (const text of running) answer.append(text);
    const completion = await running.completion;
    conversation.push(answerMessage(completion));
    const { decodeTokensPerSecond } = completion.timings;
    status.textContent = `${completion.finishReason}, ${decodeTokensPerSecond.toFixed(1)} tokens a second`;
  } catch (error) {
    conversation.pop();
    status.textContent = String(error);
  }
  running = null;
  [ask.disabled, stop.disabled] = [false, true];
}

function found<T extends Element>(selector: string, kind: new () => T): T {
  const element = document.querySelector(selector);
  if (element instanceof kind) return element;
  throw new Error(`index.html has no ${selector}`);
}
