/** Parts of what people are told on a terminal. */

/** `Mode:      nftables`, one line each. */
export function pairs(lines: readonly (readonly [string, string])[]): string {
  const width = Math.max(...lines.map(([name]) => name.length)) + 1;
  return lines.map(([name, text]) => `${`${name}:`.padEnd(width)}  ${text}\n`).join('');
}
