/** `fairlead service list`: the Services of this node's proxy. */

import type { ServiceList } from '../../ask/service.ts';
import { stateWords } from '../../ask/service-words.ts';
import { listOptions } from '../../config/commands.ts';
import { columns } from '../output.ts';
import type { AskCommand } from './command.ts';
import { UsageError } from './options.ts';

type Item = ServiceList['items'][number];

export const listCommand: AskCommand<'services'> = {
  question: 'services',
  options: listOptions,
  query: ({ values, words }) => {
    const [name, ...more] = words;
    if (more.length > 0) throw new UsageError(`unknown argument "${more[0]}"`);
    if (name?.includes('=')) throw new UsageError(`"${name}" is no name: for labels, -l ${name}`);
    const { namespace, selector: labelSelector } = values;
    return {
      ...(name && { name }),
      ...(namespace && { namespace }),
      ...(labelSelector && { labelSelector }),
      ...(values.problems === undefined ? {} : { state: 'unhealthy' }),
    };
  },
  pages: {
    next: ({ continue: last }) => (last === undefined ? undefined : { continue: last }),
    join: (pages) => {
      const items = pages.flatMap((page) => page.items);
      return { apiVersion: pages[0]!.apiVersion, kind: 'ServiceList', items: items.sort(byName) };
    },
  },
  print: ({ items }, wide) => {
    if (items.length === 0) return 'No Services.\n';
    const heads = ['NAMESPACE', 'NAME', 'TYPE', 'CLUSTER-IP', 'PORTS', 'USED', 'STATE'];
    const rows = items.map((item) => (wide ? [...row(item), external(item)] : row(item)));
    return columns([wide ? [...heads, 'EXTERNAL-IP'] : heads, ...rows]);
  },
};

function byName(a: Item, b: Item): number {
  const [x, y] = [a.namespace, b.namespace];
  if (x !== y) return x < y ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

function row(item: Item): string[] {
  const { clusterIPs, endpoints, name, namespace, type, used } = item;
  const ports = item.ports.map(({ nodePort, port, protocol }) => {
    return `${port}${nodePort === undefined ? '' : `:${nodePort}`}/${protocol}`;
  });
  const shown = ports.length > 4 ? [...ports.slice(0, 4), '…'] : ports;
  return [
    namespace,
    name,
    type,
    clusterIPs.join(','),
    shown.join(','),
    `${used}/${endpoints}`,
    stateWords(item),
  ];
}

function external({ externalIPs }: Item): string {
  return externalIPs.length === 0 ? '<none>' : externalIPs.join(',');
}
