/** Whether two nodes have the same configuration, in one word. */

import { createHash } from 'node:crypto';
import { madeAt } from '../net/made-at.ts';
import type { Config } from './config.ts';

const digits = 12;

/** By document, since metrics and answers ask often. */
const known = new WeakMap<Config['document'], string>();

/**
 * The first digits of the SHA-256 of the configuration in force, as `/configz` shows it, without
 * `hostnameOverride`: that one differs from node to node.
 */
export function configHash({ document }: Pick<Config, 'document'>): string {
  return madeAt(known, document, () => {
    const { hostnameOverride: _, ...common } = document;
    return createHash('sha256').update(JSON.stringify(common)).digest('hex').slice(0, digits);
  });
}
