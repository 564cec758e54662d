/** `fairlead service list`: the Services of this node's proxy. */

import type { ServiceList } from '../../ask/service.ts';
import { servicesTable } from '../../ask/views/service.ts';
import { byName } from '../../ask/words.ts';
import { asking } from './command.ts';
import { namespaceOf, readServiceName } from './names.ts';

type Item = ServiceList['items'][number];

export const run = asking<'services'>({
  question: 'services',
  query: (given) => {
    const [word] = given.words;
    const { name, namespace = namespaceOf(given) } = word ? readServiceName(word, given) : {};
    const { problems } = given.values;
    return {
      ...(name && { name }),
      ...(namespace && { namespace }),
      ...(problems && { state: 'unhealthy' }),
    };
  },
  names: ({ items }) => items.map(({ name, namespace }) => `${namespace}/${name}`),
  // Like kubectl get: a list may be empty, but a named Service must exist.
  isHealthy: ({ items }, { words: [word] }) =>
    items.length > 0 || word === undefined || /[*?]/.test(word),
  sorted: (list) => ({ ...list, items: list.items.toSorted(inOrder) }),
  view: (list) =>
    list.items.length === 0 ? [{ text: 'No Services.' }] : [{ table: servicesTable(list) }],
});

function inOrder(a: Item, b: Item): number {
  return byName(a.namespace, b.namespace) || byName(a.name, b.name);
}
