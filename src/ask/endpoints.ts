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

const form = {
  form: '`report`: lines of fields for `kubectl fairlead`, in place of JSON, also for errors.',
};
const proof =
  'For questions that need the API server: an abstract Unix socket by which the asker proves that it has CAP_NET_ADMIN. `fairlead` makes one.';

/** A new endpoint needs an entry here, whose name is its path, and an answer in `src/serve/ask`. */
export const endpoints = {
  status: {
    path: pathOf('status'),
    meaning: 'The health of this node’s proxy.',
    query: form,
    answer: statusSchema,
  },
  services: {
    path: pathOf('services'),
    meaning: 'The Services that this proxy serves, page by page.',
    query: {
      namespace: 'Only Services of this namespace.',
      name: 'Only Services of this name. In it, `*` matches any characters and `?` one.',
      labelSelector:
        'Only Services with these labels, written as for `kubectl get -l`. The API server is asked, or the files are read again.',
      state: '`unhealthy`: only Services that have problems on this node.',
      order: '`problems`: Services that have problems on this node come first, by name.',
      limit: 'The most Services of one answer: 1 to 1000. Default: 500.',
      continue: 'The field `continue` of the page before.',
      proof,
    },
    answer: serviceListSchema,
  },
  service: {
    path: pathOf('service'),
    meaning: 'One Service: its resolved state on this node, and why.',
    query: {
      name: 'Its name.',
      namespace:
        'Its namespace. Without it: the only Service of that name, else that of namespace default.',
      address: 'One of its addresses, in place of its name.',
      port: 'Only ports of this name or number.',
      ports: 'The most ports in the answer: 1 to 500. Default: 50.',
      pods: '`true`: with the pods of endpoints. The API server is asked, or the files are read again.',
      traffic:
        '`true`: with the outcomes of connections to each endpoint, if the kernel counts them (`--service-metrics`).',
      endpoints:
        'The most endpoints in the answer, of all ports together: 1 to 10000. Default: 500.',
      ...form,
      proof,
    },
    answer: serviceSchema,
  },
  problems: {
    path: pathOf('problems'),
    meaning: 'All problems on this node: of the proxy and of Services.',
    query: {
      namespace: 'Only Services of this namespace. Counts are of all.',
      limit: 'The most Services of one answer: 1 to 1000. Default: 500.',
      continue: 'The field `continue` of the page before.',
      ...form,
    },
    answer: problemsSchema,
  },
  changes: {
    path: pathOf('changes'),
    meaning: 'Recent changes in the kernel: the last thousand are kept.',
    query: { limit: 'The most changes in the answer: 1 to 1000. Default: 100.' },
    answer: changeListSchema,
  },
  explain: {
    path: pathOf('explain'),
    meaning: 'What happens to a packet to an address and port, and why.',
    query: {
      to: '`ADDRESS:PORT`, or `[NAMESPACE/]NAME:PORT` with the number or name of a port of a Service; `/TCP`, `/UDP` or `/SCTP` may follow. Without it, an address means TCP; of a port with several protocols each is explained (`also`).',
      from: 'The client: an address, `pod` (the default), `node`, `outside` or `pod/NAMESPACE/NAME`. A pod’s address comes from the API server, or from EndpointSlices if Fairlead may not get pods.',
      ...form,
      proof,
    },
    answer: explanationSchema,
  },
  diff: {
    path: pathOf('diff'),
    meaning:
      'How the kernel’s state differs from what is in force. The kernel is read and not written. An answer without differences serves for twenty times as long as reading took, until others change rules; where it does not, the next one waits for four times as long, at most 5 s.',
    query: form,
    answer: diffSchema,
  },
  traffic: {
    path: pathOf('traffic'),
    meaning:
      'Connections and refusals by Service port, if they are counted (`--service-metrics`). The kernel is read at most every two seconds.',
    query: {
      namespace: 'Only Services of this namespace.',
      service: 'Only Services of this name. The answer then has their endpoints, too.',
      limit: 'The most Service ports of one answer: 1 to 1000. Default: 500.',
      continue: 'The field `continue` of the page before.',
    },
    answer: trafficSchema,
  },
} as const satisfies Readonly<Record<string, Endpoint>>;

export type EndpointName = keyof typeof endpoints;
export type Answer<Name extends EndpointName> = Infer<(typeof endpoints)[Name]['answer']>;
export type QueryName<Name extends EndpointName> = string & keyof (typeof endpoints)[Name]['query'];
