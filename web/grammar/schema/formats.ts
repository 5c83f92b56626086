/**
 * Formats of strings as regular expressions: each takes only texts that have the format.
 *
 * RFC 3339 for dates and times, 4122 for `uuid`, 5321 for `email`, 1123 for `hostname`, 4291 for
 * `ipv6`, 3986 for `uri`, 6901 for `json-pointer`. Some texts that have it are left out: years
 * before 1000, leap seconds, quoted mailboxes, names with two hyphens in a row, addresses with zones.
 */

const YEAR = "[1-9][0-9]{3}";
const LEAP = "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)";
const DATE =
  `(?:${YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])` +
  "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))" +
  `|${LEAP}-02-29)`;
const HOUR = "(?:[01][0-9]|2[0-3])";
const TIME = `${HOUR}:[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]${HOUR}:[0-5][0-9])`;
const CLOCK =
  "(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)";
const DAYS = "[0-9]{1,6}D";
const MONTHS = `[0-9]{1,6}M(?:${DAYS})?`;
const PERIOD = `(?:[0-9]{1,4}Y(?:${MONTHS})?|${MONTHS}|${DAYS})`;
const LABEL = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}";
const HOST = `${LABEL}(?:\\.${LABEL}){0,3}`;
const MAILBOX = "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}";
const BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const GROUP = "[0-9A-Fa-f]{1,4}";
const PATH = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*";
const QUERY = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*";

/** Eight groups, or fewer on either side of two colons. */
function ipv6(): string {
  const sides = [`${GROUP}(?::${GROUP}){7}`, `::(?:${GROUP}(?::${GROUP}){0,6})?`];
  for (let before = 1; before < 8; before += 1) {
    const after = before < 7 ? `(?:${GROUP}(?::${GROUP}){0,${6 - before}})?` : "";
    sides.push(`${GROUP}(?::${GROUP}){${before - 1}}::${after}`);
  }
  return sides.join("|");
}

const EXPRESSIONS = {
  date: DATE,
  time: TIME,
  "date-time": `${DATE}T${TIME}`,
  duration: `P(?:${PERIOD}(?:T${CLOCK})?|T${CLOCK}|[0-9]{1,6}W)`,
  uuid: "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
  email: `${MAILBOX}@${LABEL}(?:\\.${LABEL}){0,1}\\.[A-Za-z]{2,20}`,
  hostname: HOST,
  ipv4: `(?:${BYTE}\\.){3}${BYTE}`,
  ipv6: ipv6(),
  uri:
    `[a-z][a-z0-9+.-]{0,20}://${HOST}(?::[1-9][0-9]{0,3})?` +
    `(?:/${PATH})?(?:\\?${QUERY})?(?:#${QUERY})?`,
  "json-pointer": "(?:/(?:[^~/]|~[01])*)*",
} as const;

export const FORMATS: ReadonlyMap<string, string> = new Map(
  Object.entries(EXPRESSIONS).map(([name, expression]) => [name, `^(?:${expression})$`]),
);
