/** `fairlead bundle`: what is in it, and what is not. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { type BundleFile, collectBundle, redacted } from '../../../src/cli/bundle/collect.ts';
import { ustar } from '../../../src/cli/bundle/index.ts';
import { fileLines } from '../../../src/cli/report/files.ts';
import { reportText } from '../../../src/serve/ask/report/lines.ts';
import { type Running, started } from '../agent/running.ts';
import { freePort } from '../free-port.ts';
import { PaperCluster } from './cluster.ts';

const token = 'eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.SflKxwRJSMeKKF2QT4';

let app: Running;

afterEach(() => app?.stop());

const paper = {
  host: { read: (path: string) => `what ${path} says, token: ${token}`, write: () => {} },
  ruleset: async () => 'table inet mine {\n\tchain x {\n\t}\n}\n',
};

function textOf(files: readonly BundleFile[], name: string): string {
  return files.find((file) => file.name === name)!.text;
}

describe('fairlead bundle', () => {
  it('contains the answers of the process, its metrics and configuration, rules and settings', async () => {
    app = await started('--manifests=/anywhere', '--cluster-cidr=10.244.0.0/16');
    const server = `http://127.0.0.1:${app.config.metricsBindAddress!.port}`;
    const files = await collectBundle(server, paper);
    expect(JSON.parse(textOf(files, 'status.json'))).toMatchObject({ kind: 'Status' });
    expect(JSON.parse(textOf(files, 'problems.json'))).toMatchObject({ kind: 'ProblemList' });
    expect(JSON.parse(textOf(files, 'changes.json'))).toMatchObject({ kind: 'ChangeList' });
    expect(JSON.parse(textOf(files, 'services.json'))).toMatchObject({ kind: 'ServiceList' });
    expect(textOf(files, 'configuration.json')).toContain('"clusterCIDR":"10.244.0.0/16"');
    expect(textOf(files, 'metrics.txt')).toContain('\n# TYPE fairlead_');
    expect(textOf(files, 'version.txt')).toContain('Fairlead v');
    expect(textOf(files, 'ruleset.nft.txt')).toBe(await paper.ruleset());
    expect(textOf(files, 'sysctls.txt')).toContain('net.ipv4.ip_forward = what /proc/sys/net');
    for (const { name, text } of files) {
      expect(name).toMatch(/^[a-z0-9][a-z0-9.-]*$/);
      expect(text).not.toContain(token);
    }
  });

  it('contains the rest if the process does not answer, or rules cannot be read', async () => {
    const ruleset = () => Promise.reject(new Error('EPERM'));
    const files = await collectBundle(`http://127.0.0.1:${await freePort()}`, {
      ...paper,
      ruleset,
    });
    expect(textOf(files, 'status.json')).toMatch(/^could not be read: /);
    expect(textOf(files, 'ruleset.nft.txt')).toBe('could not be read: EPERM\n');
    expect(textOf(files, 'memory.txt')).toContain('/proc/meminfo');
  });

  it('does not say where modules are in memory', async () => {
    const modules =
      'nf_tables 409600 2 nft_ct, Live 0xffffffffc0a80000\nx 16384 0 - Live 0xbf000000 (OE)\n';
    const host = { read: () => modules, write: () => {} };
    const files = await collectBundle(`http://127.0.0.1:${await freePort()}`, { ...paper, host });
    const text = textOf(files, 'modules.txt');
    expect(text.trim()).toBe('nf_tables 409600 2 nft_ct, Live\nx 16384 0 - Live (OE)');
  });

  it('is bounded: long files are truncated', async () => {
    const ruleset = async () => 'x'.repeat(3 * 1024 * 1024);
    const files = await collectBundle(`http://127.0.0.1:${await freePort()}`, {
      ...paper,
      ruleset,
    });
    const text = textOf(files, 'ruleset.nft.txt');
    expect(text).toMatch(/\n\[cut at 2097152 characters\]\n$/);
    expect(text.length).toBeLessThan(2.1 * 1024 * 1024);
  });

  it('passes through the plugin unchanged', async () => {
    const long = `${'long '.repeat(300)}end\n\n  indented\ttab\n`;
    const lines = fileLines([{ name: 'long.txt', text: long }]);
    const cluster = new PaperCluster().node('a', reportText(lines));
    expect((await cluster.ask('bundle', '-f', 'x.tar.gz')).code).toBe(0);
    const args = ['-xzOf', 'x.tar.gz', 'fairlead-bundle/nodes/a/long.txt'];
    const found = execFileSync('tar', args, { cwd: cluster.path, encoding: 'utf8' });
    expect(found).toBe(long.replace('\t', '        '));
  });
});

describe('the archive of a bundle', () => {
  it('is readable by tar', () => {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-tar-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const texts = { 'a/empty': '', 'a/one': 'x'.repeat(512), 'a/accent': 'é\n', 'a/two': 'y\n' };
    const files = Object.entries(texts).map(([name, text]) => ({ name, text }));
    writeFileSync(join(folder, 'x.tar'), ustar(files, Date.UTC(2026, 0, 2, 3, 4, 5)));
    const tar = (...args: string[]): string =>
      execFileSync('tar', args, {
        cwd: folder,
        env: { ...process.env, TZ: 'UTC' },
        encoding: 'utf8',
      });
    const listing = tar('-tvf', 'x.tar').trim().split('\n');
    expect(listing).toHaveLength(4);
    expect(listing[1]).toMatch(/^-rw-r--r-- .* 512 2026-01-02 03:04(:05)? a\/one$/);
    expect(tar('-xOf', 'x.tar', 'a/one')).toBe(texts['a/one']);
    expect(tar('-xOf', 'x.tar', 'a/two')).toBe('y\n');
  });
});

describe('redaction in a bundle', () => {
  it('removes tokens, passwords, keys and certificates, and keeps the rest', () => {
    const pem = '-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----';
    const cases: readonly (readonly [string, string])[] = [
      [`token: ${token}`, 'token: [redacted]'],
      [`bearer-token=abc123 next`, 'bearer-token=[redacted] next'],
      ['{"access_token":"abc","x":1}', '{"access_token":"[redacted]","x":1}'],
      ['Authorization: Bearer abc.def', 'Authorization: Bearer [redacted]'],
      [`err ${token} end`, 'err [redacted] end'],
      ['https://user:pw@proxy:3128/x', 'https://[redacted]@proxy:3128/x'],
      ['client-key-data: LS0tLS1', 'client-key-data: [redacted]'],
      [`a ${pem} b`, 'a [redacted] b'],
      ['comment "psk=\'two words\' x"', 'comment "psk=\'[redacted]\' x"'],
      ['{"password":"two words","x":1}', '{"password":"[redacted]","x":1}'],
      ['passphrase hunter2 end', 'passphrase [redacted] end'],
      ['PrivateKey = aGVsbG8= end', 'PrivateKey = [redacted] end'],
      ['preshared-key abc end', 'preshared-key [redacted] end'],
      ['tokens of a bucket: 5', 'tokens of a bucket: 5'],
      ['https://10.96.0.1:443/api', 'https://10.96.0.1:443/api'],
    ];
    for (const [text, expected] of cases) expect(redacted(text)).toBe(expected);
  });
});
