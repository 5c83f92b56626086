import { useId, useRef, useState } from "preact/hooks";
import type { Settings } from "../conversations.ts";

interface Props {
  readonly settings: Settings;
  readonly onChange: (settings: Settings) => void;
}

/** What the model is told that it may call. Nothing is run here: calls are shown. */
export function ToolsSetting({ settings, onChange }: Props) {
  const id = useId();
  const { tools, ...others } = settings;
  const [text, setText] = useState(tools ? JSON.stringify(tools, null, 2) : "");
  const [problem, setProblem] = useState("");
  const latest = useRef(text);
  const read = async (value: string) => {
    const { readTools } = await import("../tools.ts");
    if (latest.current !== value) return;
    const found = readTools(value);
    setProblem("problem" in found ? found.problem : "");
    if ("tools" in found) onChange(found.tools ? { ...others, tools: found.tools } : others);
  };
  return (
    <label class="field column">
      Tools
      <textarea
        rows={2}
        class="code"
        data-testid="tools"
        value={text}
        spellcheck={false}
        placeholder='[{"name": "weather", "parameters": {…}}]'
        maxLength={100_000}
        aria-invalid={problem !== ""}
        aria-describedby={id}
        onInput={({ currentTarget: { value } }) => {
          setText(value);
          latest.current = value;
          void read(value);
        }}
      />
      <small id={id} role={problem ? "alert" : undefined}>
        {problem || "JSON schemas of functions that the model may call; calls are shown, not run"}
      </small>
    </label>
  );
}
