/** What the tests have in common that disturb connect-time translation at its work. */
import { settings as standard } from '../lab/objects.ts';
import type { ProxySettings } from '../lab/proxy.ts';

/** How long each lasts. */
export const seconds = Number(process.env.FAIRLEAD_LOAD_SECONDS ?? 2);

export const settings: ProxySettings = {
  ...standard,
  connectTime: 'all',
  ownTables: false,
};
