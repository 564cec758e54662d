/**
 * A node as the API server sees it: it lists four resources as streams, and keeps watching. Over
 * HTTP/1.1 each watch has a connection of its own, over HTTP/2 all share one. It tries
 * again as our reflectors do.
 */
import { type ClientHttp2Session, connect } from 'node:http2';
import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultTiming } from '../../src/source/kubernetes/timing.ts';
import { resources } from '../../src/state/change.ts';
import { requestBackoff } from '../../src/time/backoff.ts';
import { kinds } from '../../test/fake/api-server-store.ts';

export type Protocol = 'HTTP/1.1' | 'HTTP/2';

interface Access {
  /** `https://127.0.0.1:6443` */
  readonly server: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Answer {
  readonly status: number;
  readonly retryAfterSeconds: number;
  readonly body: AsyncIterable<Buffer>;
}

/** Opens a path. The body continues until `close` is called. */
type Open = (path: string) => Promise<Answer>;

interface Connection {
  readonly open: Open;
  readonly close: () => void;
}

const query = [
  'watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true',
  'timeoutSeconds=600',
].join('&');
const endOfList = 'initial-events-end';

export class WatchingNode {
  readonly #connection: Connection;
  /** Requests that the server has refused for the time being (429). */
  refused = 0;
  /** Requests without an answer, and lists that ended in the middle. */
  broken = 0;
  received = 0;

  constructor(protocol: Protocol, access: Access) {
    this.#connection = protocol === 'HTTP/2' ? multiplexed(access) : separate(access);
  }

  /** Resolves when all lists are complete. Watches continue. */
  async list(): Promise<void> {
    await Promise.all(resources.map((resource) => this.#list(kinds[resource].path)));
  }

  close(): void {
    this.#connection.close();
  }

  async #list(path: string): Promise<void> {
    const { backoffBaseMs, backoffFirstMaxMs } = defaultTiming;
    const backoff = requestBackoff(backoffBaseMs, backoffFirstMaxMs);
    for (;;) {
      const answer = await this.#connection.open(`${path}?${query}`).catch(() => undefined);
      if (answer?.status === 200 && (await this.#toEndOfList(answer.body))) return;
      if (answer?.status === 429) this.refused += 1;
      else this.broken += 1;
      await sleep((answer?.retryAfterSeconds ?? 0) * 1000 + backoff.failed());
    }
  }

  /** Resolves to whether the list is complete. The watch continues then. */
  #toEndOfList(body: AsyncIterable<Buffer>): Promise<boolean> {
    return new Promise((resolve) => {
      const read = async (): Promise<void> => {
        let tail = '';
        for await (const part of body) {
          this.received += part.length;
          const text = tail + part.subarray(-1000).toString('latin1');
          if (text.includes(endOfList)) resolve(true);
          tail = text.slice(-endOfList.length);
        }
      };
      const ended = (): void => resolve(false);
      read().then(ended, ended);
    });
  }
}

function separate({ server, headers }: Access): Connection {
  const agents: Agent[] = [];
  return {
    open: (path) =>
      new Promise((resolve, reject) => {
        const agent = new Agent({ rejectUnauthorized: false });
        agents.push(agent);
        request(`${server}${path}`, { agent, headers }, (response) => {
          const retryAfterSeconds = Number(response.headers['retry-after'] ?? 0);
          resolve({ status: response.statusCode ?? 0, retryAfterSeconds, body: response });
        })
          .on('error', reject)
          .end();
      }),
    close: () => {
      for (const agent of agents) agent.destroy();
    },
  };
}

function multiplexed({ server, headers }: Access): Connection {
  let session: ClientHttp2Session | undefined;
  const connected = (): ClientHttp2Session => {
    if (session === undefined || session.destroyed) {
      session = connect(server, { rejectUnauthorized: false });
      session.on('error', () => {});
    }
    return session;
  };
  return {
    open: (path) =>
      new Promise((resolve, reject) => {
        const stream = connected().request({ ':path': path, ...headers });
        stream.on('error', reject);
        stream.once('response', (answer) => {
          const retryAfterSeconds = Number(answer['retry-after'] ?? 0);
          resolve({ status: Number(answer[':status']), retryAfterSeconds, body: stream });
        });
      }),
    close: () => session?.destroy(),
  };
}
