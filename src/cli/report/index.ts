/** `fairlead node-report`: answers of this node for `kubectl fairlead`, which asks all nodes. */
import { ask } from '../ask/client.ts';
import { serverOf } from '../ask/server.ts';
import type { Given, Run } from '../command.ts';
import { exitCodes, RefusedError, UnreachableError, UsageError } from '../errors.ts';
import { type Line, reportText } from './lines.ts';
import { diffLines, natureLines, problemLines, serviceLines, statusLines } from './reports.ts';

/** Shorter than the plugin's timeout for a node, so that the reason is reported from here. */
const patienceMs = 5000;

/** Modules that only some reports need are loaded on demand: the plugin asks all nodes for most. */
type Report = (server: string, given: Given) => Promise<readonly Line[]>;

const reports: Readonly<Record<string, Report>> = {
  status: async (server) => statusLines(await ask(server, 'status', {}, patienceMs), Date.now()),
  service: async (server, { words: [, word = ''] }) => {
    const [namespace = '', name = ''] = word.split('/', 2);
    if (namespace === '' || name === '') throw new UsageError('which Service? NAMESPACE/NAME');
    const query = { namespace, name, ports: '500', endpoints: '10000' };
    return serviceLines(await ask(server, 'service', query, patienceMs));
  },
  problems: async (server) => {
    const problems = problemLines(await ask(server, 'problems', {}, patienceMs));
    return [...problems, ...natureLines(await ask(server, 'status', {}, patienceMs))];
  },
  diff: async (server) => diffLines(await ask(server, 'diff', {}, patienceMs)),
  trace: async (_, given) => (await import('./traced.ts')).traceLines(given),
  bundle: async (server) => {
    const [{ collectBundle }, { fileLines }] = await Promise.all([
      import('../bundle/collect.ts'),
      import('./lines.ts'),
    ]);
    return fileLines(await collectBundle(server));
  },
};

/** A report is printed, too, if the process refuses to answer, or does not answer. */
export const run: Run = async (given, { stdout }) => {
  const [name = ''] = given.words;
  const report = Object.hasOwn(reports, name) ? reports[name] : undefined;
  if (report === undefined) throw new UsageError(`no such report: ${name}`);
  const server = await serverOf(given);
  try {
    stdout.write(reportText(await report(server, given)));
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
