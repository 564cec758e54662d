/** What can be asked of the running process, by HTTP GET on the metrics server. */
import { diffSchema } from './difference.ts';
import { explanationSchema } from './explanation.ts';
import type { Infer, Schema } from './schema.ts';
import { changeListSchema, serviceListSchema, serviceSchema } from './service.ts';
import { statusSchema } from './status.ts';
import { trafficSchema } from './traffic.ts';

interface Endpoint {
  readonly path: string;
  readonly meaning: string;
  /** What may follow the question mark, and what it means. */
  readonly query: Readonly<Record<string, string>>;
  readonly answer: Schema<object>;
}

const prefix = '/fairlead/v1';

/** A new one needs an entry here and an answer in `src/serve/ask`. */
export const endpoints = {
  status: {
    path: `${prefix}/status`,
    meaning: 'How the proxy of this node is doing.',
    query: {},
    answer: statusSchema,
  },
  services: {
    path: `${prefix}/services`,
    meaning: 'The Services that this proxy serves, page by page.',
    query: {
      namespace: 'Only those of this namespace.',
      name: 'Only those of this name, in which `*` stands for any characters and `?` for one.',
      labelSelector:
        'Only those with these labels, as `kubectl get -l` has it. Labels are not kept: the API server, or the files, are asked at that moment.',
      state:
        '`notwell`: only those that are not in force, or of which a port has no endpoint that may be used.',
      limit: 'How many at most: 500, unless it says another number up to 1000.',
      continue: 'What the page before says.',
    },
    answer: serviceListSchema,
  },
  service: {
    path: `${prefix}/service`,
    meaning: 'All about one Service: what it means on this node, and why.',
    query: {
      name: 'Its name.',
      namespace: 'Its namespace; may be left out where only one has a Service of that name.',
      port: 'Only ports of this name or number.',
      ports: 'How many ports at most: 50, unless it says another number up to 500.',
      endpoints: 'How many endpoints are named at most: 500, unless it says another number.',
    },
    answer: serviceSchema,
  },
  changes: {
    path: `${prefix}/changes`,
    meaning: 'What has changed in the kernel lately: the last thousand changes are remembered.',
    query: { limit: 'How many at most: 100, unless it says another number up to 1000.' },
    answer: changeListSchema,
  },
  explain: {
    path: `${prefix}/explain`,
    meaning: 'What becomes of a packet to an address and port, and why.',
    query: {
      to: '`ADDRESS:PORT`, or `NAMESPACE/NAME:PORT` with the number or name of a port of a Service; `/TCP`, `/UDP` or `/SCTP` may follow.',
      from: 'Who sends it: an address, or `pod` (the default), `node` or `outside`, or `pod/NAMESPACE/NAME`. The API server is asked for the pod; without the right to get pods, its EndpointSlices are.',
    },
    answer: explanationSchema,
  },
  diff: {
    path: `${prefix}/diff`,
    meaning: 'How the kernel differs from what is in force; it is read for that, and not written.',
    query: {},
    answer: diffSchema,
  },
  traffic: {
    path: `${prefix}/traffic`,
    meaning:
      'Connections and refusals by Service port, where they are counted (`--service-metrics`). The kernel is read every two seconds at most.',
    query: {
      namespace: 'Only Services of this namespace.',
      service: 'Only Services of this name, and with their endpoints.',
      limit: 'How many at most: 500, unless it says another number up to 1000.',
      continue: 'What the page before says.',
    },
    answer: trafficSchema,
  },
} as const satisfies Readonly<Record<string, Endpoint>>;

export type EndpointName = keyof typeof endpoints;
export type Answer<Name extends EndpointName> = Infer<(typeof endpoints)[Name]['answer']>;
export type QueryName<Name extends EndpointName> = string & keyof (typeof endpoints)[Name]['query'];
