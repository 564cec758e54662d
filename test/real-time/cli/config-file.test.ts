import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ConfigFile } from '../../../src/cli/config-file.ts';
import { until } from '../until.ts';

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'fairlead-config-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The reports about a file while the test changes it. */
function watched(path: string, content: string, rescanMs = 60_000): string[] {
  const told: string[] = [];
  const stop = new AbortController();
  const file = new ConfigFile({ path, content: Buffer.from(content), rescanMs });
  const running = file.watch(stop.signal, (seen) => {
    told.push(seen instanceof Error ? `failed: ${seen.message}` : Buffer.from(seen).toString());
  });
  onTestFinished(async () => {
    stop.abort();
    await running;
  });
  return told;
}

/** As the kubelet mounts a ConfigMap: `config.conf` → `..data/config.conf`, `..data` → a version. */
class ConfigMapVolume {
  readonly root = directory();
  #version = 0;

  constructor(content: string) {
    this.swap(content);
    symlinkSync('..data/config.conf', this.path);
  }

  get path(): string {
    return join(this.root, 'config.conf');
  }

  swap(content: string): void {
    const old = join(this.root, `..v${this.#version}`);
    this.#version += 1;
    const name = `..v${this.#version}`;
    mkdirSync(join(this.root, name));
    writeFileSync(join(this.root, name, 'config.conf'), content);
    symlinkSync(name, join(this.root, '..data_tmp'));
    renameSync(join(this.root, '..data_tmp'), join(this.root, '..data'));
    rmSync(old, { recursive: true, force: true });
  }
}

describe('a watch of the configuration file', () => {
  it('reports a change when a ConfigMap volume replaces its links', async () => {
    const volume = new ConfigMapVolume('one');
    const told = watched(volume.path, 'one');
    volume.swap('two');
    await until('the second version is told', () => told.length === 1);
    volume.swap('two');
    volume.swap('three');
    await until('the third version is told', () => told.length === 2);
    expect(told).toEqual(['two', 'three']);
  });

  it('reports a change when the file is written in place, and when it is replaced', async () => {
    const path = join(directory(), 'config.conf');
    writeFileSync(path, 'one');
    const told = watched(path, 'one');
    writeFileSync(path, 'two');
    await until('the second version is told', () => told.length === 1);
    writeFileSync(`${path}.new`, 'three');
    renameSync(`${path}.new`, path);
    await until('the third version is told', () => told.length === 2);
    expect(told).toEqual(['two', 'three']);
  });

  it('reports a change between the first read and the start of the watch', async () => {
    const path = join(directory(), 'config.conf');
    writeFileSync(path, 'two');
    const told = watched(path, 'one');
    await until('the difference is told', () => told.length === 1);
    expect(told).toEqual(['two']);
  });

  it('reports once that the file is missing, and that it exists again', async () => {
    const path = join(directory(), 'config.conf');
    writeFileSync(path, 'one');
    const told = watched(path, 'one', 50);
    rmSync(path);
    await until('the loss is told', () => told.length === 1);
    expect(told[0]).toMatch(/^failed: ENOENT/);
    await new Promise((resolve) => setTimeout(resolve, 300));
    writeFileSync(path, 'two');
    await until('the return is told', () => told.length === 2);
    expect(told[1]).toBe('two');
  });

  it('does not report half of a file: its content must be stable for a moment', async () => {
    const path = join(directory(), 'config.conf');
    writeFileSync(path, 'one');
    const told = watched(path, 'one');
    let text = '';
    for (let i = 0; i < 20; i += 1) {
      text += `line ${i}\n`;
      writeFileSync(path, text);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await until('the whole is told', () => told.includes(text));
    expect(told.at(-1)).toBe(text);
  });
});
