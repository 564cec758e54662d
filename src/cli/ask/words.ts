/** Parts of texts for a terminal. */
import type { Explanation } from '../../ask/explanation.ts';

/** `Mode:      nftables`, one line each. */
export function pairs(lines: readonly (readonly [string, string])[]): string {
  const width = Math.max(...lines.map(([name]) => name.length)) + 1;
  return lines.map(([name, text]) => `${`${name}:`.padEnd(width)}  ${text}\n`).join('');
}

/** `1.  The packet is dropped.`, and below it the object in the kernel that drops it. */
export function numbered(steps: Explanation['steps']): string {
  const lines = steps.flatMap(({ object, text }, i) => {
    const number = `${i + 1}.`.padEnd(4);
    return [`${number}${text}`, ...(object === undefined ? [] : [`    ${object}`])];
  });
  return `${lines.join('\n')}\n`;
}
