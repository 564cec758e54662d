/** What can be asked of the running process, by HTTP GET on the metrics server. */
import type { Infer, Schema } from './schema.ts';
import { statusSchema } from './status.ts';

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
} as const satisfies Readonly<Record<string, Endpoint>>;

export type EndpointName = keyof typeof endpoints;
export type Answer<Name extends EndpointName> = Infer<(typeof endpoints)[Name]['answer']>;
export type QueryName<Name extends EndpointName> = string & keyof (typeof endpoints)[Name]['query'];
