import { describe, expect, it } from "vitest";
import { compileTemplate, renderTemplate } from "../../engine/jinja.ts";

const render = (source: string) =>
  renderTemplate(compileTemplate(source), new Map([["items", [1, 2, 3, 4]]]), () => new Date(0));

describe("a loop that is left early", () => {
  it.each([
    ["{% for i in items %}{% if i > 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "12"],
    ["{% for i in items %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "134"],
    [
      "{% for i in items %}\n  {%- if i == 3 -%}\n    {% break %}\n  {% endif %}\n{% endfor %}.",
      ".",
    ],
    ["{% for i in items %}{{ i }}{% for j in items %}{% break %}{% endfor %}{% endfor %}", "1234"],
  ])("before it has written is rendered: %j", (source, text) => {
    expect(render(source).trim()).toBe(text);
  });

  it.each([
    "{% for i in items %}{{ i }}{% break %}{% endfor %}",
    "{% for i in items %}<{% if i == 2 %}{% continue %}{% endif %}>{% endfor %}",
    "{% for i in items %}{% if i %}a{% endif %}{% if i > 2 %}{% break %}{% endif %}{% endfor %}",
    "{% for i in items %}{% for j in items %}x{% endfor %}{% continue %}{% endfor %}",
  ])("after it has written is refused, for what it wrote would be lost: %j", (source) => {
    expect(() => compileTemplate(source)).toThrow(/by (break|continue) after writing/);
  });
});
