/**
 * The fake API server in a process of its own, for benchmarks and for trying things by hand:
 *
 *     node test/fake/api-server-main.ts [--tls] [--streaming-lists=refused]
 *
 * Prints one JSON line, `{"url":…,"kubeconfig":…}`, when it listens. Commands are lines of JSON on
 * standard input (see `answerCommands`), of the type `Command`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Watched } from '../../src/source/source.ts';
import { answerCommands } from '../lab/asked-process.ts';
import { FakeApiServer, type FaultRule } from './api-server.ts';
import { createAuthority } from './api-server-certificate.ts';
import { type ClusterSize, populate, replaceEndpoints } from './api-server-cluster.ts';
import type { Edit, Raw } from './api-server-store.ts';
import type { Disturbance } from './api-server-watch.ts';

type Command =
  /** Makes Services with a slice each. */
  | ({ readonly do: 'populate' } & ClusterSize)
  /** Replaces one endpoint in each of `count` slices. Answered when all events are sent. */
  | { readonly do: 'replace'; readonly count: number; readonly except?: string | undefined }
  /** Replaces endpoints at a rate, for a time. Answers a `Churned` at its end. */
  | ({ readonly do: 'churn' } & Churn)
  | { readonly do: 'apply'; readonly object: Raw }
  /** Replaces a string of an object by one of the same length, which takes little. */
  | ({ readonly do: 'edit'; readonly resource: Watched; readonly key: string } & Edit)
  | { readonly do: 'delete'; readonly resource: Watched; readonly key: string }
  | { readonly do: 'fault'; readonly rule: FaultRule }
  | { readonly do: 'heal' }
  | { readonly do: 'disturb'; readonly resource: Watched; readonly disturbance: Disturbance }
  | { readonly do: 'compact' }
  | { readonly do: 'token'; readonly token: string | null }
  /** Counts the requests of each kind. */
  | { readonly do: 'counts' }
  /** Returns all objects of a resource as they are now. */
  | { readonly do: 'truth'; readonly resource: Watched };

interface Churn {
  readonly perSecond: number;
  readonly seconds: number;
  /** A watch that has more to send is ended. Default: none is. */
  readonly unsentBytesMax?: number;
}

export interface Churned {
  readonly changes: number;
  /** The watches that did not keep up. */
  readonly ended: number;
}

async function run(server: FakeApiServer, command: Command): Promise<unknown> {
  switch (command.do) {
    case 'populate':
      return populate(server.store, command);
    case 'replace':
      replaceEndpoints(server.store, command.count, keysBut(server, command.except));
      return await server.drained();
    case 'churn':
      return await churn(server, command);
    case 'apply':
      return server.store.apply(command.object);
    case 'edit':
      return server.store.replaceStrings(command.resource, command.key, () => [command]);
    case 'delete':
      return server.store.delete(command.resource, command.key);
    case 'fault':
      return server.fault(command.rule);
    case 'heal':
      return server.heal();
    case 'disturb':
      return server.disturb(command.resource, command.disturbance);
    case 'compact':
      return server.store.compact();
    case 'token':
      server.token = command.token ?? undefined;
      return undefined;
    case 'counts':
      return Object.fromEntries(server.counts);
    case 'truth':
      return server.truth(command.resource);
  }
}

/** The number of changes after which watches get their turn. */
const changesAtOnce = 500;

/** Of all slices whose keys do not begin with `except`. */
function keysBut(server: FakeApiServer, except: string | undefined): string[] {
  const keys = [...server.store.objects('endpointslices').keys()];
  return except === undefined ? keys : keys.filter((key) => !key.startsWith(except));
}

async function churn(
  server: FakeApiServer,
  { perSecond, seconds, unsentBytesMax = Number.POSITIVE_INFINITY }: Churn,
): Promise<Churned> {
  const start = performance.now();
  const keys = [...server.store.objects('endpointslices').keys()];
  let changes = 0;
  let ended = 0;
  for (;;) {
    const elapsed = Math.min(seconds, (performance.now() - start) / 1000);
    const due = Math.min(Math.floor(elapsed * perSecond) - changes, changesAtOnce);
    if (due > 0) replaceEndpoints(server.store, due, keys);
    changes += Math.max(0, due);
    ended += server.endSlow(unsentBytesMax);
    if (elapsed >= seconds) {
      await server.drained();
      return { changes, ended };
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function kubeconfig(url: string, authority: string): string {
  const ca = Buffer.from(authority).toString('base64');
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'fake',
    contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'fake' } }],
    clusters: [{ name: 'fake', cluster: { server: url, 'certificate-authority-data': ca } }],
    users: [{ name: 'fake', user: { token: 'fake' } }],
  });
}

const { values } = parseArgs({
  options: {
    tls: { type: 'boolean', default: false },
    'streaming-lists': { type: 'string', default: 'supported' },
    port: { type: 'string', default: '0' },
  },
});
const authority = createAuthority();
const server = new FakeApiServer({
  ...(values.tls ? { tls: authority.issue('fake', ['127.0.0.1', 'localhost']) } : {}),
  streamingLists: values['streaming-lists'] === 'refused' ? 'refused' : 'supported',
});
await server.listen(Number(values.port));
const directory = mkdtempSync(join(tmpdir(), 'fairlead-fake-api-'));
const path = join(directory, 'kubeconfig');
writeFileSync(path, kubeconfig(server.url, authority.certificate));
console.log(JSON.stringify({ url: server.url, kubeconfig: path }));
try {
  await answerCommands((command: Command) => run(server, command));
} finally {
  rmSync(directory, { recursive: true });
  await server.close();
}
