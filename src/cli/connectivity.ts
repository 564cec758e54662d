/** What the pods of `kubectl fairlead test` run: a server, and a client that reports. */
import { readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { serverPort } from '../tools/connectivity/checks.ts';
import { report, sceneOf } from '../tools/connectivity/client.ts';
import { exchange, serve } from '../tools/connectivity/exchange.ts';
import type { Run } from './command.ts';
import { exitCodes } from './errors.ts';

/** Until SIGTERM. */
export const runServer: Run = async ({ words }) => {
  const ending = new Promise((resolve) => process.once('SIGTERM', resolve));
  const server = await serve(hostname(), serverPort, words);
  await ending;
  server.close();
  return exitCodes.healthy;
};

/** With --message, the kubelet reads its report as the message of a container that has ended. */
export const runClient: Run = async ({ values, words: [network, node = ''] }, { stdout }) => {
  const folder = values.facts ?? '/facts';
  const listed = JSON.parse(await readFile(join(folder, 'objects.json'), 'utf8'));
  const lines = (await readFile(join(folder, 'nodes'), 'utf8')).trim().split('\n');
  const nodes = new Map(lines.map((line) => line.split(' ')).map(([name, ...of]) => [name!, of]));
  const client = { network: network === 'node' ? 'node' : 'pod', node } as const;
  const text = await report(sceneOf(listed, nodes, client), exchange);
  if (values.message === undefined) stdout.write(text);
  else await writeFile(values.message, text);
  return exitCodes.healthy;
};
