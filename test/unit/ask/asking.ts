/** Asks the whole proxy on doubles, as programs and as people do. */
import { type EndpointName, endpoints } from '../../../src/ask/endpoints.ts';
import { runCommand } from '../../../src/cli/run-command.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import type { Running } from '../agent/running.ts';
import { problems } from './schema.ts';

export interface Asked {
  readonly status: number;
  // Tests name fields that are there: the schema has been held against the answer.
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly body: any;
}

/** Throws when the answer is not as documented. */
export async function asked(app: Running, name: EndpointName, query = ''): Promise<Asked> {
  const { answer, path } = endpoints[name];
  const response = await app.get('metrics', `${path}${query}`);
  const body = await response.json();
  const found = response.status === 200 ? problems(answer.json, body) : [];
  if (found.length > 0) throw new Error(`${path} is not as documented:\n${found.join('\n')}`);
  return { status: response.status, body };
}

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** What a command says: `said(app, 'status', '-o', 'json')`. */
export function said(app: Running, name: string, ...args: string[]): Promise<Said> {
  return saidAt(app.config.metricsBindAddress!.port, name, ...args);
}

export async function saidAt(port: number, name: string, ...args: string[]): Promise<Said> {
  let stdout = '';
  let stderr = '';
  const io = {
    stdout: new Terminal(() => ({ write: (text) => (stdout += text) })),
    stderr: new Terminal(() => ({ write: (text) => (stderr += text) })),
  };
  const code = await runCommand([name, ...args, `--server=127.0.0.1:${port}`], io);
  return { code, stdout, stderr };
}
