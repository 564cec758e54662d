/** `--watch`: what it prints, and when it ends. Time is the test's. */
import { createServer } from 'node:http';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { changedLines } from '../../../src/cli/ask/command.ts';
import type { Surroundings } from '../../../src/cli/reader.ts';
import { runCommand } from '../../../src/cli/run-command.ts';
import { type OutputStream, Terminal } from '../../../src/cli/terminal.ts';
import { resources } from '../../../src/state/change.ts';
import { type Running, started, web } from '../agent/running.ts';
import { freePort } from '../free-port.ts';
import { node, service } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked } from './asking.ts';
import { TestClock } from './test-clock.ts';

let app: Running;
afterEach(() => app.stop());

interface Situation {
  readonly args?: readonly string[];
  readonly command?: string;
  readonly input?: Surroundings['input'];
  readonly isOutputFile?: boolean;
  readonly stream?: Partial<OutputStream>;
  readonly beforePause?: (pause: number) => unknown;
  /** Of the server that is asked; default: that of the app. */
  readonly port?: number;
}

interface Watched {
  readonly code: number;
  readonly written: readonly string[];
  readonly stderr: string;
  readonly nowMs: number;
}

let endInput = (): void => {};

async function start(): Promise<void> {
  app = await started('--manifests=/anywhere');
  app.source.say(...web, { kind: 'node', node: node() });
  app.source.listed(...resources);
  await quiet();
}

async function watch(situation: Situation): Promise<Watched> {
  const { args = ['-w'], command = 'status', input = 'none', isOutputFile = false } = situation;
  const written: string[] = [];
  let stderr = '';
  const clock = new TestClock(situation.beforePause ?? (() => {}));
  const { port = app.config.metricsBindAddress!.port } = situation;
  const server = `--server=127.0.0.1:${port}`;
  const code = await runCommand([command, ...args, server], {
    stdout: new Terminal(() => ({
      write: (text) => written.push(String(text)),
      ...situation.stream,
    })),
    stderr: new Terminal(() => ({ write: (text) => (stderr += text) })),
    clock,
    surroundings: {
      input,
      isOutputFile,
      onInputEnd: (act) => {
        endInput = act;
      },
    },
  });
  return { code, written, stderr, nowMs: clock.nowMs };
}

/** Answers as the app does, of endpoints whose answers are counted, or that do not answer. */
async function counting(states: readonly ('answers' | 'silent' | 'ejected')[]): Promise<number> {
  const { body } = await asked(app, 'service', '?name=web');
  let asking = 0;
  const server = createServer((_, response) => {
    const state = states[asking];
    asking += 1;
    const answers = state === 'answers' ? asking : 0;
    const ejected = state === 'ejected' ? { ejectedSeconds: 2 * asking } : {};
    const silent = state === 'silent';
    const detection = { attempts: asking, answers, resets: 0, silent, ...ejected };
    const endpoints = [{ ...body.ports[0].endpoints[0], detection }];
    const problems = state === 'answers' ? [] : ['Endpoint 10.244.0.2:8080 answers nothing.'];
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ ...body, ports: [{ ...body.ports[0], endpoints }], problems }));
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return port;
}

describe('--watch', () => {
  it('of a Service does not print what is counted, but endpoints that fall silent', async () => {
    await start();
    const port = await counting(['answers', 'answers', 'answers', 'silent', 'ejected', 'ejected']);
    const { code, written } = await watch({
      args: ['show', 'web', '-w'],
      command: 'service',
      input: 'pipe',
      port,
      beforePause: (pause) => pause === 6 && endInput(),
    });
    expect(written[0]).toContain('1 of 1');
    expect(written.slice(1).map((text) => text.slice(25))).toEqual([
      '+ Problem:  Endpoint 10.244.0.2:8080 answers nothing.\n',
    ]);
    expect(code).toBe(1);
  });

  it('prints only changes, with the time', async () => {
    await start();
    const { written } = await watch({
      args: ['list', '-w'],
      command: 'service',
      input: 'pipe',
      beforePause: async (pause) => {
        if (pause === 3) {
          const shop = service({ name: 'a-much-longer-name', clusterIPs: ['10.96.0.9'] });
          app.source.say({ kind: 'service', service: shop });
          await quiet();
        }
        if (pause === 6) endInput();
      },
    });
    expect(written[0]).toMatch(/^NAMESPACE +NAME.*\nns +web /);
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;
    const line = new RegExp(
      `^${time} \\+ ns  a-much-longer-name  ClusterIP  10\\.96\\.0\\.9 [^\\n]*\\n$`,
    );
    expect(written.slice(1)).toEqual([expect.stringMatching(line)]);
  });

  it('prints nothing while only ages change', async () => {
    await start();
    const { written } = await watch({ input: 'pipe', beforePause: endAt(5) });
    expect(written.slice(1)).toEqual([]);
    expect(written[0]).toMatch(/^Status:/);
  });

  it('redraws a terminal each time', async () => {
    await start();
    const stream = { isTTY: true };
    const { written } = await watch({ input: 'pipe', stream, beforePause: endAt(2) });
    expect(written.filter((text) => text === '\u001b[2J\u001b[H')).toHaveLength(2);
    expect(written.filter((text) => text.startsWith('Status:'))).toHaveLength(2);
  });

  it('ends when standard input ends, as it does when kubectl exec -i is disconnected', async () => {
    await start();
    const { code, nowMs, stderr } = await watch({ input: 'pipe', beforePause: endAt(3) });
    expect([code, stderr]).toEqual([0, '']);
    expect(nowMs).toBeLessThanOrEqual(6000);
  });

  it('ends when its output is closed', async () => {
    await start();
    let close = (): void => {};
    const on = (event: string, act: () => void): void => {
      if (event === 'error') close = act;
    };
    const { code, nowMs } = await watch({
      input: 'terminal',
      stream: { on },
      beforePause: (pause) => {
        if (pause === 2) close();
      },
    });
    expect(code).toBe(0);
    expect(nowMs).toBeLessThanOrEqual(4000);
  });

  it('ends when its output is not read for 10 s, and writes no more in that time', async () => {
    await start();
    const { nowMs, stderr, written } = await watch({
      input: 'terminal',
      stream: { writableLength: 4096 },
    });
    expect(nowMs).toBe(10_000);
    expect(written).toHaveLength(1);
    expect(stderr).toBe('fairlead: --watch: its output was not read for 10 s\n');
  });

  it('ends after ten minutes if nothing shows whether its output is read', async () => {
    await start();
    const { nowMs, stderr } = await watch({ input: 'none' });
    expect(nowMs).toBe(600_000);
    expect(stderr).toContain('kubectl exec -i');
  });

  it.each([
    ['terminal', false],
    ['none', true],
  ] as const)('continues with input %s and output to a file: %s', async (input, isOutputFile) => {
    await start();
    const situation = { input, isOutputFile, beforePause: stopAt(600) };
    const { code, nowMs, stderr } = await watch(situation);
    expect([code, stderr]).toEqual([1, 'Error: seen enough\n']);
    expect(nowMs).toBeGreaterThan(1_000_000);
  });

  it('treats a pipe that is closed from the start as no input', async () => {
    await start();
    const beforePause = (pause: number): void => {
      if (pause === 1) endInput();
    };
    const { nowMs } = await watch({ input: 'pipe', beforePause });
    expect(nowMs).toBe(600_000);
  });
});

describe('the changed lines of two texts', () => {
  const time = 'T';

  it('are the removed and the added ones', () => {
    expect(changedLines(['a', 'b', 'c'], ['a', 'd', 'c'], time)).toBe('T - b\nT + d\n');
    expect(changedLines(['a'], ['a'], time)).toBe('');
  });

  it('are counted, and empty if only column widths changed', () => {
    expect(changedLines(['a', 'a'], ['a'], time)).toBe('T - a\n');
    expect(changedLines(['x  y'], ['x      y  '], time)).toBe('');
    expect(changedLines([''], [], time)).toBe('');
  });
});

function endAt(last: number) {
  return (pause: number): void => {
    if (pause === last) endInput();
  };
}

function stopAt(last: number) {
  return (pause: number): void => {
    if (pause === last) throw new Error('seen enough');
  };
}
