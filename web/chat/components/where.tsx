import type { Host } from "../host.ts";

/** Who answers: it may change at any time, and the conversation goes on. */
export function WhereControl({ host }: { readonly host: Host }) {
  if (!host.there) return null;
  return (
    <fieldset class="where" data-testid="where">
      <legend class="hidden">Who answers</legend>
      <label>
        <input
          type="radio"
          name="where"
          value="device"
          checked={host.where === "device"}
          disabled={host.why !== ""}
          onChange={() => host.turn("device")}
        />
        This device
      </label>
      <label>
        <input
          type="radio"
          name="where"
          value="host"
          checked={host.where === "host"}
          onChange={() => host.turn("host")}
        />
        The host
      </label>
      {host.why !== "" && <small>{host.why}</small>}
    </fieldset>
  );
}
