/** Label selectors, as the API server reads them: `app=web,tier!=db,env in (a, b),!old`. */

const name = '[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const label = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?';
/** `app`, `security.istio.io/tlsMode` */
const key = String.raw`(?:${label}(?:\.${label})*/)?${name}`;
/** It may be empty. */
const value = `(?:${name})?`;

const forms = [
  String.raw`!?\s*${key}`,
  String.raw`${key}\s*(?:==?|!=)\s*${value}`,
  String.raw`${key}\s*[<>]\s*\d+`,
  String.raw`${key}\s+(?:in|notin)\s*\(\s*${value}(?:\s*,\s*${value})*\s*\)`,
];
const requirement = new RegExp(`^(?:${forms.join('|')})$`);
const inWords = 'a, !a, a=b, a!=b, a in (b, c), a notin (b, c)';

/** Why it is not a selector; undefined if it is one. Empty text is a selector. */
export function selectorFault(text: string): string | undefined {
  if (text === '') return undefined;
  // Commas within parentheses part values, the others requirements.
  const parts = text.split(/,(?![^()]*\))/).map((part) => part.trim());
  const wrong = parts.find((part) => !requirement.test(part));
  if (wrong === undefined) return undefined;
  return `${JSON.stringify(wrong)} is no requirement of a label selector (${inWords})`;
}
