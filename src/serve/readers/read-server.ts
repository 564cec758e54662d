/** The port at which authenticated clients of other machines get answers. */
import type { Admit } from '../ask/admission.ts';
import type { Routes } from '../reply.ts';
import { type ServeOptions, serve } from '../server.ts';
import { type AccessOptions, ReaderAccess } from './access.ts';
import { selfSigned } from './certificate.ts';

type Server = Omit<ServeOptions, 'certificate' | 'group' | 'handling' | 'routes'>;

interface ReadServerOptions extends AccessOptions {
  readonly nodeName: string;
  readonly server: Server;
  /** The routes of questions, for those whom an Admit lets ask. */
  readonly ask: (admit: Admit) => Routes;
}

/** The longest name of a certificate. */
const nameMax = 64;

/** Until `signal` aborts. Rejects like `serve`. */
export async function serveReaders(
  { ask, nodeName, server, ...options }: ReadServerOptions,
  signal: AbortSignal,
): Promise<void> {
  const access = new ReaderAccess(options);
  const routes = ask(access.admit);
  const handling = Object.fromEntries(Object.keys(routes).map((path) => [path, 'remote'] as const));
  const certificate = selfSigned(nodeName.slice(0, nameMax));
  await serve({ ...server, certificate, group: 'read', handling, routes }, signal).finally(() =>
    access.close(),
  );
}
