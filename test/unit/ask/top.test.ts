import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../../../src/cli/run-command.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import { TestClock } from './test-clock.ts';
import { item, reading } from './traffic.ts';

/** A process that gives each question the next answer, the last one again and again. */
async function answering(...answers: readonly { status?: number; body: object }[]) {
  let asked = 0;
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url!);
    const { body, status = 200 } = answers[Math.min(asked, answers.length - 1)]!;
    asked += 1;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const top = async (terminal: object, ...args: readonly string[]) => {
    let stdout = '';
    let stderr = '';
    const code = await runCommand(['top', ...args, `--server=127.0.0.1:${port}`], {
      stdout: new Terminal(() => ({ ...terminal, write: (text) => (stdout += text) })),
      stderr: new Terminal(() => ({ write: (text) => (stderr += text) })),
      clock: new TestClock(() => {}),
      surroundings: { input: 'terminal', isOutputFile: false, onInputEnd: () => {} },
    });
    server.close();
    return { code, stdout, stderr };
  };
  return { paths, top };
}

const before = { body: reading('10:00:00', [{ ...item('web', 100, 10), endpoints: undefined }]) };
const busy = { ...item('web', 300, 14), endpoints: undefined };
const idle = { ...item('idle', 5), endpoints: undefined, namespace: 'ns-2' };

describe('fairlead top', () => {
  it('prints each interval, with the busiest Services first', async () => {
    const { top } = await answering(before, { body: reading('10:00:02', [busy]) });
    const { code, stdout } = await top({}, '--count=1');
    expect([code, stdout]).toEqual([
      0,
      [
        '2026-01-01T10:00:02.000Z  100.0 connections/s, 2.0 packets refused/s',
        '   CONN/S  REFUSED/S      CONNS  SERVICE  PORT      FAMILY  DETAILS',
        '    100.0        2.0        300  ns/web   http/TCP  IPv4    no_endpoints 2.0',
        '\n',
      ].join('\n'),
    ]);
  });

  it('redraws a terminal, with no more rows than fit', async () => {
    const { top } = await answering(before, { body: reading('10:00:02', [idle, busy]) });
    const { stdout } = await top({ isTTY: true, rows: 4 }, '-c1');
    expect(stdout.startsWith('\u001b[2J\u001b[H2026-01-01T10:00:02.000Z')).toBe(true);
    expect(stdout).toContain('ns/web');
    expect(stdout.endsWith('\nand 1 more\n')).toBe(true);
  });

  it('lists the endpoints of one Service', async () => {
    const { paths, top } = await answering(
      { body: reading('10:00:00', [item('web', 100)]) },
      { body: reading('10:00:02', [item('web', 150)]) },
    );
    const { stdout } = await top({}, 'ns/web', '-c', '1');
    expect(paths[0]).toBe('/fairlead/v1/traffic?service=web&namespace=ns');
    expect(stdout).toMatch(/ 25\.0 +150 +to 10\.244\.0\.2:8080\n/);
  });

  it('prints one line per interval for programs, with all pages', async () => {
    const next = { ...reading('10:00:02', [busy]), continue: '2' };
    const { top } = await answering(before, { body: next }, { body: reading('10:00:02', [idle]) });
    const { stdout } = await top({}, '-o', 'json', '-c', '1', '--sort=name');
    expect(stdout.trimEnd().split('\n')).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({
      seconds: 2,
      items: [{ namespace: 'ns', connectionsPerSecond: 100 }, { namespace: 'ns-2' }],
    });
  });

  it('ends when its output is no longer read', async () => {
    const readings = Array.from({ length: 9 }, (_, i) => ({
      body: reading(`10:00:0${i}`, [busy]),
    }));
    const { top } = await answering(...readings);
    const { code, stderr, stdout } = await top({ writableLength: 4096 });
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr).toBe('fairlead: top: its output was not read for 10 s\n');
  });

  it('reports why nothing is counted', async () => {
    const { top } = await answering({
      status: 409,
      body: { error: 'traffic is not counted: start with …' },
    });
    expect(await top({})).toEqual({
      code: 1,
      stdout: '',
      stderr: 'Error: traffic is not counted: start with …\n',
    });
  });

  it.each([
    [['--interval=1'], '--interval must be a number from 2 to 86400, not "1"'],
    [['--count=1.5'], '--count must be a number from 1 to 86400, not "1.5"'],
    [['-n', '5'], '-n "5" is the namespace; a count is -c 5'],
    [
      ['--sort=size'],
      'invalid argument "size" for "--sort" flag: must be one of connections, refusals, bytes, name',
    ],
    [['-o', 'wide'], 'invalid argument "wide" for "-o, --output" flag: must be one of json'],
    [['a', 'b'], 'unexpected argument "b"'],
    [['a/b/c'], '"a/b/c" is not [NAMESPACE/]NAME'],
  ])('refuses %j', async (args, reason) => {
    const { top } = await answering({ body: {} });
    expect(await top({}, ...args)).toEqual({
      code: 2,
      stdout: '',
      stderr: `Error: ${reason}\nSee 'fairlead top --help'\n`,
    });
  });
});
