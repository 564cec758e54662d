/** Parts of texts for a terminal. */
import type { Explanation } from '../../ask/explanation.ts';
import { printable } from '../../serve/printable.ts';

/** `Mode:      nftables`, one line each. */
export function pairs(lines: readonly (readonly [string, string])[]): string {
  const width = Math.max(...lines.map(([name]) => name.length)) + 1;
  return lines.map(([name, text]) => `${`${name}:`.padEnd(width)}  ${printable(text)}\n`).join('');
}

/** `1.  The packet is dropped.`, and below it the object in the kernel that drops it. */
export function numbered(steps: Explanation['steps']): string {
  const lines = steps.flatMap(({ object, text }, i) => {
    const number = `${i + 1}.`.padEnd(4);
    const below = object === undefined ? [] : [`    ${printable(object)}`];
    return [`${number}${printable(text)}`, ...below];
  });
  return `${lines.join('\n')}\n`;
}
