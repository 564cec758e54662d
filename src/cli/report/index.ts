/** `fairlead node-report`: answers of this node for `kubectl fairlead`, which asks all nodes. */

import type { EndpointName } from '../../ask/endpoints.ts';
import { type Line, reportText } from '../../serve/ask/report/lines.ts';
import { reports as answered } from '../../serve/ask/report/reports.ts';
import { ask, type Query } from '../ask/client.ts';
import { serverOf } from '../ask/server.ts';
import type { Given, Run } from '../command.ts';
import { exitCodes, RefusedError, UnreachableError, UsageError } from '../errors.ts';

/** Shorter than the plugin's timeout for a node, so that the reason is reported from here. */
const patienceMs = 5000;

/** Modules that only some reports need are loaded on demand: the plugin asks all nodes for most. */
type Report = (server: string, given: Given) => Promise<readonly Line[]>;

const report =
  (name: keyof typeof answered, queryOf: (given: Given) => Query<'service'> = () => ({})): Report =>
  (server, given) =>
    answered[name](<Name extends EndpointName>(one: Name) => {
      const query = one === name ? queryOf(given) : {};
      return ask(server, one, query as Query<Name>, patienceMs);
    });

const reports: Readonly<Record<string, Report>> = {
  status: report('status'),
  service: report('service', ({ words: [, word = ''] }) => {
    const [namespace = '', name = ''] = word.split('/', 2);
    if (namespace === '' || name === '') throw new UsageError('which Service? NAMESPACE/NAME');
    return { namespace, name, ports: '500', endpoints: '10000' };
  }),
  problems: report('problems'),
  diff: report('diff'),
  trace: async (_, given) => (await import('./traced.ts')).traceLines(given),
  bundle: async (server) => {
    const [{ collectBundle }, { fileLines }] = await Promise.all([
      import('../bundle/collect.ts'),
      import('./files.ts'),
    ]);
    return fileLines(await collectBundle(server));
  },
};

/** A report is printed, too, if the process refuses to answer, or does not answer. */
export const run: Run = async (given, { stdout }) => {
  const [name = ''] = given.words;
  const made = Object.hasOwn(reports, name) ? reports[name] : undefined;
  if (made === undefined) throw new UsageError(`no such report: ${name}`);
  const server = await serverOf(given);
  try {
    stdout.write(reportText(await made(server, given)));
    return exitCodes.healthy;
  } catch (error) {
    const word = outcomeOf(error);
    if (word === undefined) throw error;
    stdout.write(reportText([[word, (error as Error).message]]));
    return word === 'refused' ? exitCodes.unhealthy : exitCodes.unreachable;
  }
};

function outcomeOf(error: unknown): 'refused' | 'unreachable' | undefined {
  if (error instanceof RefusedError) return 'refused';
  return error instanceof UnreachableError ? 'unreachable' : undefined;
}
