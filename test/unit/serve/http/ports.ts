/** The HTTP server with raw connections to it. */
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { ListenOptions } from '../../../../src/serve/http/http-thread.ts';
import { httpHere } from '../../../fake/http-here.ts';
import { freePort } from '../../free-port.ts';

type Told = Parameters<typeof httpHere>[0];
type What = Pick<ListenOptions, 'answers' | 'group' | 'routes'>;

export const probes: What = { group: 'healthz', answers: { kind: 'probes' } };

/** Opens a port on this thread; resolves to its number. */
export async function opened(what: What, told: Told = {}, http = httpHere(told)): Promise<number> {
  onTestFinished(() => http.close());
  const place = { host: '127.0.0.1', port: await freePort() };
  await new Promise<void>((resolve, reject) => {
    http.listen({ place, ...what, opened: resolve, failed: reject });
  });
  return place.port;
}

/** A connection, with all that has come over it. */
export class Raw {
  readonly socket: Socket;
  text = '';
  readonly closed: Promise<void>;

  constructor(port: number, localAddress = '127.0.0.1') {
    this.socket = connect({ host: '127.0.0.1', port, localAddress });
    this.socket
      .on('error', () => {})
      .on('data', (part) => {
        this.text += part.toString('latin1');
      });
    this.closed = new Promise((resolve) => this.socket.once('close', () => resolve()));
    onTestFinished(() => void this.socket.destroy());
  }

  send(text: string): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  get statuses(): number[] {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));
  }

  /** Resolves when this number of answers has begun to arrive. */
  async answered(count: number): Promise<number[]> {
    while (this.statuses.length < count && !this.socket.closed) {
      await new Promise<void>((resolve) => {
        this.socket.once('data', () => resolve());
        this.socket.once('close', () => resolve());
      });
    }
    return this.statuses;
  }
}

export const get = (path: string, more = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;
