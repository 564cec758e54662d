import type { ServerResponse } from 'node:http';

/** What stands between the server and its clients, and does not understand what it passes on. */
export type Gateway =
  /** Passes on the path only. */
  | 'strips the query'
  /** Passes on only what every API server has always understood. */
  | 'strips new parameters'
  /** Passes on a body when it is complete, headers at once. */
  | 'buffers bodies'
  /** Passes on answers when they are complete. */
  | 'buffers answers';

const newParameters = ['sendInitialEvents', 'resourceVersionMatch', 'allowWatchBookmarks'];

export function alterQuery(gateway: Gateway | undefined, url: URL): void {
  if (gateway === 'strips the query') url.search = '';
  if (gateway !== 'strips new parameters') return;
  for (const name of newParameters) url.searchParams.delete(name);
}

/** From here on what is written to it waits for its end. */
export function buffer(gateway: Gateway | undefined, response: ServerResponse): void {
  if (gateway !== 'buffers bodies' && gateway !== 'buffers answers') return;
  const parts: Buffer[] = [];
  const end = response.end.bind(response) as (body: Buffer) => ServerResponse;
  if (gateway === 'buffers answers') response.flushHeaders = () => {};
  response.write = (part: string | Buffer, done?: unknown): boolean => {
    parts.push(Buffer.from(part));
    if (typeof done === 'function') done();
    return true;
  };
  response.end = ((part?: string | Buffer): ServerResponse => {
    if (part !== undefined) parts.push(Buffer.from(part));
    return end(Buffer.concat(parts));
  }) as ServerResponse['end'];
}
