/** Questions that the running process answers, by HTTP GET on the metrics server. */
import { diffSchema } from './difference.ts';
import { explanationSchema } from './explanation.ts';
import { pathOf } from './paths.ts';
import { problemsSchema } from './problems.ts';
import type { Infer, Schema } from './schema.ts';
import { changeListSchema, serviceListSchema, serviceSchema } from './service.ts';
import { statusSchema } from './status.ts';
import { trafficSchema } from './traffic.ts';

interface Endpoint {
  readonly path: string;
  readonly meaning: string;
  /** The query parameters and their meanings. */
  readonly query: Readonly<Record<string, string>>;
  readonly answer: Schema<object>;
}

/** Parameters that several questions have. */
export const everywhere = {
  continue: 'The field `continue` of the page before.',
  form: '`report`: lines of fields for `kubectl fairlead` instead of JSON.',
  proof:
    'An abstract Unix socket that proves the asker’s CAP_NET_ADMIN, where the API server is asked. `fairlead` makes one.',
};
const { form, proof, continue: page } = everywhere;

/** A new endpoint needs an entry here, whose name is its path, and an answer in `src/serve/ask`. */
export const endpoints = {
  status: {
    path: pathOf('status'),
    meaning: 'The health of this node’s proxy.',
    query: { form },
    answer: statusSchema,
  },
  services: {
    path: pathOf('services'),
    meaning: 'The Services that this proxy serves, page by page.',
    query: {
      namespace: 'Only of this namespace.',
      name: 'Only of this name; `*` matches any characters, `?` one.',
      state: '`unhealthy`: only those with problems on this node.',
      order: '`problems`: those with problems on this node first, by name.',
      limit: 'Services of one answer: 1 to 1000. Default: 500.',
      continue: page,
    },
    answer: serviceListSchema,
  },
  service: {
    path: pathOf('service'),
    meaning: 'One Service: its resolved state on this node, and why.',
    query: {
      name: 'Its name.',
      namespace: 'Absent: the only Service of that name, else that of namespace default.',
      address: 'One of its addresses, instead of its name.',
      port: 'Only ports of this name or number.',
      ports: 'Ports of the answer: 1 to 500. Default: 50.',
      pods: '`true`: with names of pods. Asks the API server, or reads the files again.',
      traffic:
        '`true`: with the outcomes of connections, if they are counted (`--service-metrics`).',
      endpoints: 'Endpoints of the answer: 1 to 10000. Default: 500.',
      form,
      proof,
    },
    answer: serviceSchema,
  },
  problems: {
    path: pathOf('problems'),
    meaning: 'All problems on this node: of the proxy and of Services.',
    query: {
      namespace: 'Only of this namespace. Counts are of all.',
      limit: 'Services of one answer: 1 to 1000. Default: 500.',
      continue: page,
      form,
    },
    answer: problemsSchema,
  },
  changes: {
    path: pathOf('changes'),
    meaning: 'Recent changes in the kernel: the last thousand are kept.',
    query: { limit: 'Changes of the answer: 1 to 1000. Default: 100.' },
    answer: changeListSchema,
  },
  explain: {
    path: pathOf('explain'),
    meaning: 'What happens to a packet to an address and port, and why.',
    query: {
      to: '`ADDRESS:PORT` or `[NAMESPACE/]NAME:PORT`, then optionally `/TCP`, `/UDP` or `/SCTP`. Without it, an address means TCP, and a name all protocols (`also`).',
      from: 'The client: an address, `pod` (default), `node`, `outside` or `pod/NAMESPACE/NAME` (from the API server, or from EndpointSlices).',
      form,
      proof,
    },
    answer: explanationSchema,
  },
  diff: {
    path: pathOf('diff'),
    meaning:
      'How the kernel’s state differs from what is in force. A clean answer serves for twenty times its reading time, until rules change. After another, the next waits four times as long, at most 5 s.',
    query: { form },
    answer: diffSchema,
  },
  traffic: {
    path: pathOf('traffic'),
    meaning:
      'Connections and refusals by Service port, if counted (`--service-metrics`). The kernel is read at most every two seconds.',
    query: {
      namespace: 'Only of this namespace.',
      service: 'Only of this name; the answer then has endpoints.',
      limit: 'Service ports of one answer: 1 to 1000. Default: 500.',
      continue: page,
    },
    answer: trafficSchema,
  },
} as const satisfies Readonly<Record<string, Endpoint>>;

export type EndpointName = keyof typeof endpoints;
export type Answer<Name extends EndpointName> = Infer<(typeof endpoints)[Name]['answer']>;
export type QueryName<Name extends EndpointName> = string & keyof (typeof endpoints)[Name]['query'];
