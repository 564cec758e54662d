/** Names, zones and the like are the tenants' choice: no command lets them reach a terminal raw. */
import { afterEach, describe, expect, it } from 'vitest';
import { resources } from '../../../src/state/change.ts';
import { type Running, started } from '../agent/running.ts';
import { http, node, ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { said } from './asking.ts';

let app: Running;
afterEach(() => app.stop());

/** Title, cleared screen, forged line, DEL, C1, turned text, blank without width, mark. */
const hostile = 'a\u001b]0;T\u0007\u001b[2J\nState\u007f\u009bx\u202e\u2066\u200b\u0301';

async function startHostile(): Promise<void> {
  app = await started('--manifests=/anywhere', '--proxy-mode=nftables');
  const name = `web${hostile}`;
  const namespace = `ns${hostile}`;
  const key = `${namespace}/${name}`;
  const ports = [{ ...http, name: `http${hostile}` }];
  const endpoints = { '10.244.0.2': { ...ready, zones: [`zone${hostile}`] }, '10.244.0.3': ready };
  const place = { node: `node${hostile}`, zone: `zone${hostile}` };
  app.source.say(
    { kind: 'service', service: service({ name, namespace, ports }) },
    {
      kind: 'slice',
      slice: slice(endpoints, {
        key: `${key}-1`,
        service: key,
        ports: [{ name: `http${hostile}`, port: 8080, protocol: 'TCP' }],
        places: [place, place],
      }),
    },
    { kind: 'node', node: node({ zone: `zone${hostile}` }) },
  );
  app.source.listed(...resources);
  // A condition that names what it is about, in the words of an API server.
  app.source.trouble(`Service ${key}`, `field${hostile}`, `reason${hostile}`);
  app.source.trouble('endpointslices watch', undefined, `reason${hostile}`);
  await quiet();
}

const raw = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{M}]/u;

const questions: readonly (readonly string[])[] = [
  ['status'],
  ['service', 'list'],
  ['service', 'show', `ns${hostile}/web${hostile}`],
  ['service', 'show', `no${hostile}/such`],
  ['explain', '10.96.0.1:80'],
  ['explain', '10.96.0.1:80', `--from=${hostile}`],
  ['explain', `${hostile}:80`],
  ['diff'],
  ['diff', hostile],
  ['top', hostile, hostile],
  ['trace', `${hostile}:80`],
  ['status', `--${hostile}`],
];

describe('commands', () => {
  it.each(questions.map((words) => ({ words })))(
    'print only printable characters: %j',
    async ({ words }) => {
      await startHostile();
      const [name = '', ...args] = words;
      for (const output of [[], ['-o', 'wide'], ['-o', 'json']]) {
        const { stderr, stdout } = await said(app, name, ...args, ...output);
        expect(stdout).not.toMatch(raw);
        expect(stderr).not.toMatch(raw);
        expect(stdout + stderr).not.toBe('');
      }
    },
  );

  it('prevent a zone from forging a line', async () => {
    await startHostile();
    const show = await said(app, 'service', 'show', `ns${hostile}/web${hostile}`);
    expect(show.stdout).not.toMatch(/^\s*State(?!:)/m);
    expect(show.stdout).toContain('zonea\\u001b]0;T\\u0007\\u001b[2J\\u000aState\\u007f');
    expect(show.stdout).not.toMatch(raw);
  });

  it('print the content unchanged for programs', async () => {
    await startHostile();
    const question = ['service', 'show', `ns${hostile}/web${hostile}`] as const;
    const json = JSON.parse((await said(app, ...question, '-o', 'json')).stdout);
    expect(json.name).toBe(`web${hostile}`);
    expect(json.ports[0].endpoints[0].zone).toBe(`zone${hostile}`);
  });
});
