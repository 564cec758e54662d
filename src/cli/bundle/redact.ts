/** Removes secrets from files that are to be passed on. */

const replacement = '[redacted]';

/**
 * Each pattern and its replacement. The text before a secret is kept, so that the file can be read.
 * No pattern scans the rest of a long text again from each of its characters.
 */
const secrets: readonly (readonly [RegExp, string])[] = [
  // PEM, on one line of JSON or on several lines.
  [/-----BEGIN [A-Z ]+-----[\s\S]*?(?:-----END [A-Z ]+-----|$)/g, replacement],
  // JSON Web Tokens, which service accounts use.
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
