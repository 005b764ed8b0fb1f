// The string formats of JSON Schema that can be promised, as regular expressions. Each is narrower than its standard where
// validators disagree (no 29 February, no leap second, no quoted local part), so that whatever is generated passes them all.

const OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const LABEL = "[a-z]([a-z0-9]{0,30}[a-z0-9])?";
const DATE =
  "[12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
const TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?";
const HEX4 = "[0-9a-f]{1,4}";

const STRING_FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: `${TIME}Z`,
  "date-time": `${DATE}T${TIME}Z`,
  duration: "P([1-9][0-9]{0,3}D|T[1-9][0-9]{0,3}[HMS]|[1-9][0-9]{0,3}DT[1-9][0-9]{0,3}[HMS])",
  email: `[a-z0-9]{1,20}([._+-][a-z0-9]{1,20}){0,3}@${LABEL}(\\.${LABEL}){0,2}\\.[a-z]{2,8}`,
  hostname: `${LABEL}(\\.${LABEL}){1,4}`,
  ipv4: `${OCTET}(\\.${OCTET}){3}`,
  ipv6: `(${HEX4}:){7}${HEX4}`,
  uuid: "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
  uri: `https?://${LABEL}(\\.${LABEL}){1,3}(/[A-Za-z0-9_~.-]{1,40}){0,6}`,
};

/** The expression of a known format; undefined: it is an annotation. */
export function formatRegex(format: unknown): string | undefined {
  return typeof format === "string" && Object.hasOwn(STRING_FORMATS, format) ? STRING_FORMATS[format] : undefined;
}
