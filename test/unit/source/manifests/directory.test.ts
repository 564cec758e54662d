import { mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import { graceMs, ManifestDirectory } from '../../../../src/source/manifests/directory.ts';
import { Pacer } from '../../../../src/time/pacer.ts';

const service = (clusterIP: string) =>
  `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: ${clusterIP}}}\n`;

const lab = { path: '', directory: undefined as unknown as ManifestDirectory };
const file = () => join(lab.path, 'a.yaml');
const scan = () => lab.directory.scan(new Set());
const pastGrace = () => new Promise((resolve) => setTimeout(resolve, graceMs + 10));

const inForce = () =>
  [...lab.directory.contents()].flatMap(([, objects]) =>
    [...objects.values()].map(({ change }) =>
      change.kind === 'service' ? change.service.clusterIPs[0]!.bytes.join('.') : change.kind,
    ),
  );

beforeEach(async () => {
  lab.path = mkdtempSync(join(tmpdir(), 'fairlead-manifests-'));
  lab.directory = new ManifestDirectory(lab.path, decodeContext('here'), new Pacer());
  writeFileSync(file(), service('10.96.0.1'));
  await scan();
  expect(inForce()).toEqual(['10.96.0.1']);
});

afterEach(() => rmSync(lab.path, { recursive: true, force: true }));

describe('ManifestDirectory', () => {
  it('waits a moment for a missing file to be back', async () => {
    rmSync(file());
    expect((await scan()).state).toBe('unsettled');
    expect(inForce()).toEqual(['10.96.0.1']);
    await pastGrace();
    expect((await scan()).state).toBe('settled');
    expect(inForce()).toEqual([]);
  });

  it('treats a file that is back as if it had never been missing', async () => {
    rmSync(file());
    await scan();
    await pastGrace();
    writeFileSync(file(), service('10.96.0.2'));
    await scan();
    await pastGrace();
    expect((await scan()).state).toBe('settled');
    expect(inForce()).toEqual(['10.96.0.2']);
  });

  it.each([
    ['empty', '', ['10.96.0.1']],
    ['broken', 'kind: [\n', ['10.96.0.1']],
    ['without objects', '---\n', []],
  ])('waits a moment for a file that is %s to be written', async (_what, text, later) => {
    writeFileSync(file(), text);
    utimesSync(file(), new Date(), new Date());
    const first = await scan();
    // On a machine that stands still for longer than the grace, there is none.
    if (first.state === 'unsettled') {
      expect(first.problems).toEqual([]);
      expect(inForce()).toEqual(['10.96.0.1']);
    }
    await pastGrace();
    expect((await scan()).state).toBe('settled');
    expect(inForce()).toEqual(later);
  });

  it('reports once that a file cannot be read, and reads it when it can', async () => {
    rmSync(file());
    symlinkSync('a.yaml', file());
    expect((await scan()).problems).toMatchObject([{ subject: 'a.yaml' }]);
    expect((await scan()).problems).toEqual([]);
    expect(inForce()).toEqual(['10.96.0.1']);
    rmSync(file());
    writeFileSync(file(), service('10.96.0.3'));
    await scan();
    expect(inForce()).toEqual(['10.96.0.3']);
  });
});
