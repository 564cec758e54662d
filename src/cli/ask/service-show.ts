/** `fairlead service show`: the resolved state of a Service on this node, and why. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { type Block, bad, type Fact } from '../../ask/view.ts';
import { serviceBlocks, serviceFacts } from '../../ask/views/service.ts';
import { parseAddress } from '../../net/address.ts';
import { splitHostPort } from '../../net/host-port.ts';
import type { Given } from '../command.ts';
import type { Query } from './client.ts';
import { asking } from './command.ts';
import { readServiceName } from './names.ts';

export const run = asking<'service'>({
  question: 'service',
  query: (given) => ({
    ...serviceQuery(given),
    // With --watch, this would query the API server and the kernel every two seconds.
    ...(given.values.watch === undefined ? { pods: 'true', traffic: 'true' } : {}),
  }),
  names: ({ name, namespace }) => [`${namespace}/${name}`],
  isHealthy: ({ problems }) => problems.length === 0,
  view,
  // Without what failure detection counts: problems name the endpoints that do not answer.
  steady: (service) => view({ ...service, ports: service.ports.map(uncounted) }),
});

function view(service: ServiceAnswer): Block[] {
  return [{ facts: [...head(service), ...serviceFacts(service)] }, ...serviceBlocks(service)];
}

function uncounted(port: ServiceAnswer['ports'][number]): typeof port {
  return { ...port, endpoints: port.endpoints.map(({ detection: _, ...one }) => one) };
}

/** Throws a UsageError. */
export function serviceQuery(given: Given): Query<'service'> {
  const word = given.words[0]!;
  const host = splitHostPort(word);
  const address = host?.host ?? word.replace(/^\[(.*)\]$/, '$1');
  if (parseAddress(address) !== undefined) {
    return { address, ...(host && { port: host.port }) };
  }
  const [subject = '', port] = word.split(':', 2);
  const { name, namespace } = readServiceName(subject, given);
  return { name, ...(namespace && { namespace }), ...(port && { port }) };
}

function head({ name, namespace, problems, state }: ServiceAnswer): Fact[] {
  return [
    ['Service', `${namespace}/${name}`],
    ['State', state],
    ...problems.map((problem): Fact => ['Problem', bad(problem)]),
  ];
}
