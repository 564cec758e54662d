import { linkSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import { graceMs, ManifestDirectory } from '../../../../src/source/manifests/directory.ts';
import { Pacer } from '../../../../src/time/pacer.ts';

const service = (clusterIP: string) =>
  `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: ${clusterIP}}}\n`;

const lab = { path: '', directory: undefined as unknown as ManifestDirectory };
const file = () => join(lab.path, 'a.yaml');
const scan = () => lab.directory.scan(new Set());
const pass = (ms: number) => vi.advanceTimersByTime(ms);

const inForce = () =>
  [...lab.directory.contents()].flatMap(([, objects]) =>
    [...objects.values()].map(({ change }) =>
      change.kind === 'service' ? change.service.clusterIPs[0]!.bytes.join('.') : change.kind,
    ),
  );

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  lab.path = mkdtempSync(join(tmpdir(), 'fairlead-manifests-'));
  lab.directory = new ManifestDirectory(lab.path, decodeContext('here'), new Pacer());
  writeFileSync(file(), service('10.96.0.1'));
  await scan();
  expect(inForce()).toEqual(['10.96.0.1']);
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(lab.path, { recursive: true, force: true });
});

describe('ManifestDirectory', () => {
  it('waits a moment for a missing file to be back', async () => {
    rmSync(file());
    expect((await scan()).state).toBe('unsettled');
    pass(graceMs - 1);
    expect((await scan()).state).toBe('unsettled');
    expect(inForce()).toEqual(['10.96.0.1']);
    pass(1);
    expect((await scan()).state).toBe('plain');
    expect(inForce()).toEqual([]);
  });

  it('treats a file that is back as if it had never been missing', async () => {
    rmSync(file());
    await scan();
    pass(graceMs);
    writeFileSync(file(), service('10.96.0.2'));
    await scan();
    pass(graceMs);
    expect((await scan()).state).toBe('plain');
    expect(inForce()).toEqual(['10.96.0.2']);
  });

  it.each([
    ['empty', ''],
    ['broken', 'kind: [\n'],
  ])('waits a moment for a file that is %s to be written', async (_what, text) => {
    writeFileSync(file(), text);
    utimesSync(file(), new Date(), new Date());
    expect(await scan()).toEqual({ state: 'unsettled', problems: [] });
    pass(graceMs);
    expect(await scan()).toMatchObject({ state: 'plain', problems: [{}] });
    expect(inForce()).toEqual(['10.96.0.1']);
  });

  it.each([
    ['a symbolic link', symlinkSync],
    ['a file with another name', linkSync],
  ])('is not plain with %s, into which others may write elsewhere', async (_, link) => {
    link(file(), join(lab.path, 'b.yaml'));
    expect((await scan()).state).toBe('settled');
    rmSync(join(lab.path, 'b.yaml'));
    await scan();
    pass(graceMs);
    expect((await scan()).state).toBe('plain');
  });

  it('reads only the files that events name, where those are known', async () => {
    writeFileSync(join(lab.path, 'b.yaml'), service('10.96.0.7').replace('web', 'other'));
    const names = new Set(['a.yaml', '.a.yaml.swp']);
    expect(lab.directory.hasAll(new Set(['.a.yaml.swp']))).toBe(false);
    expect(lab.directory.hasAll(new Set([...names, 'b.yaml']))).toBe(false);
    expect(lab.directory.hasAll(names)).toBe(true);
    writeFileSync(file(), service('10.96.0.2'));
    expect((await lab.directory.scanOnly(names)).state).toBe('plain');
    expect(inForce()).toEqual(['10.96.0.2']);
    await scan();
    rmSync(file());
    expect((await lab.directory.scanOnly(names)).state).toBe('unsettled');
    pass(graceMs);
    expect((await lab.directory.scanOnly(names)).state).toBe('plain');
    expect(inForce()).toEqual(['10.96.0.7']);
  });

  it('reads all files soon where one is a link now', async () => {
    const names = new Set(['a.yaml']);
    writeFileSync(join(lab.path, 'text'), service('10.96.0.2'));
    rmSync(file());
    symlinkSync('text', file());
    expect((await lab.directory.scanOnly(names)).state).toBe('unsettled');
    expect((await scan()).state).toBe('settled');
    expect(inForce()).toEqual(['10.96.0.2']);
  });

  it('applies a file without objects', async () => {
    writeFileSync(file(), '---\n');
    expect((await scan()).state).toBe('plain');
    expect(inForce()).toEqual([]);
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
