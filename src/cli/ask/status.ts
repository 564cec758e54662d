/** `fairlead status`: whether the proxy of this node is healthy, and why not. */
import type { Status } from '../../ask/status.ts';
import { type Block, tableIf } from '../../ask/view.ts';
import {
  familiesTable,
  setAsideName,
  setAsideTable,
  statusFacts,
  verdictFacts,
  watchesTable,
} from '../../ask/views/status.ts';
import { asking } from './command.ts';

export const run = asking<'status'>({
  question: 'status',
  query: () => ({}),
  isHealthy: ({ healthy }) => healthy,
  view: (status): Block[] => [
    { facts: [...verdictFacts(status), ...statusFacts(status)] },
    ...[familiesTable, watchesTable, setAsideTable].flatMap((table) => tableIf(table(status))),
  ],
  // Without ages, counts of connections, times of syncs.
  steady: (status): Block[] => {
    const facts = statusFacts({ ...status, conntrack: undefined });
    const watches = status.watches.map(({ failure, resource, state }) => {
      return `watch of ${resource}: ${state}${failure === undefined ? '' : `, ${failure}`}`;
    });
    const setAside = status.setAside.map((aside) => {
      const before = aside.earlierInForce ? 'in force' : 'none';
      return `set aside: ${setAsideName(aside)} of ${aside.family}, before ${before}: ${aside.error}`;
    });
    return [
      { facts: [...verdictFacts(status), ...facts.filter(([name]) => name !== 'Uptime')] },
      { list: [...status.families.map(familyLine), ...watches, ...setAside] },
    ];
  },
});

function familyLine(of: Status['families'][number]): string {
  const { family, inForce, lastSync, phase, repairs, waiting } = of;
  const sync = lastSync === undefined ? 'never synced' : lastSync.ok ? 'synced' : 'sync failed';
  return `${family}: ${phase}, ${inForce} in force, ${waiting} waiting, ${sync}, ${repairs} repairs`;
}
