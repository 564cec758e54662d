/** Leaves secrets out of what is meant to be passed on. */

const replacement = '[redacted]';

/**
 * Each pattern, and what it is replaced by. What is before a secret stays, so that it can be read.
 * None tries the rest of a long text again from each of its characters.
 */
const secrets: readonly (readonly [RegExp, string])[] = [
  // PEM, on one line of JSON or on many.
  [/-----BEGIN [A-Z ]+-----[\s\S]*?(?:-----END [A-Z ]+-----|$)/g, replacement],
  // JSON Web Tokens, which service accounts have.
  [/\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, replacement],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, `$1 ${replacement}`],
  // User and password in a URL.
  [/(\w:\/\/)[^\s/@"']+@/g, `$1${replacement}@`],
  [
    /((?:password|passwd|secret|[\w-]{0,40}token|client-key-data|client-certificate-data|api-?key)["']?\s*[:=]\s*["']?)(?!\[redacted\])[^\s"',}]+/gi,
    `$1${replacement}`,
  ],
];

export function redacted(text: string): string {
  return secrets.reduce((left, [pattern, by]) => left.replace(pattern, by), text);
}
