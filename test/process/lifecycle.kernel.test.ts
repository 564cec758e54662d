/** The program itself, from its command line to its exit code, in a network namespace. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import {
  addresses,
  mixedRules,
  nftablesRules,
  restoreText,
} from '../conformance/kube-proxy-rules.ts';
import { createNamespace, type Namespace } from '../conformance/namespace.ts';
import { BASELINE, service, slices } from '../lab/objects.ts';

const main = resolve(import.meta.dirname, '..', '..', 'src', 'main.ts');
/** Limits of the machine are not a namespace's to set. */
const conntrack = { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' };

interface Line {
  readonly msg: string;
  readonly [key: string]: unknown;
}

/** One process of the program. */
class Program {
  readonly lines: Line[] = [];
  stdout = '';
  /** What is no line of the log. */
  words = '';
  readonly exitCode: Promise<number | null>;
  readonly #child: ChildProcess;
  #pending = '';

  constructor(namespace: Namespace, ...args: readonly string[]) {
    const argv = ['netns', 'exec', namespace.name, process.execPath, main, ...args];
    this.#child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child.stdout?.on('data', (part) => {
      this.stdout += String(part);
    });
    this.#child.stderr?.on('data', (part) => this.#read(String(part)));
    this.exitCode = new Promise((done) => this.#child.once('close', done));
    onTestFinished(async () => {
      this.#child.kill('SIGKILL');
      await this.exitCode;
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async told(msg: string, count = 1): Promise<Line> {
    const found = (): Line[] => this.lines.filter((line) => line.msg === msg);
    await until(async () => found().length >= count, `${count} times "${msg}"`);
    return found()[count - 1]!;
  }

  #read(text: string): void {
    const lines = (this.#pending + text).split('\n');
    this.#pending = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('{')) this.lines.push(JSON.parse(line) as Line);
      else this.words += `${line}\n`;
    }
  }
}

/** The deadline is generous: the machine may be busy or emulated. */
async function until(done: () => Promise<boolean>, what: string): Promise<void> {
  for (let attempt = 0; attempt < 2400; attempt += 1) {
    if (await done()) return;
    await sleep(25);
  }
  throw new Error(`not within a minute: ${what}`);
}

/** A cluster of one Service in a directory, and a configuration file beside it. */
class Place {
  readonly namespace: Namespace;
  readonly manifests = temporaryDirectory();
  readonly config = join(temporaryDirectory(), 'config.conf');

  private constructor(namespace: Namespace) {
    this.namespace = namespace;
    const objects = [...BASELINE, service('web'), ...slices('web', ['pod-a', 'pod-b'])];
    writeFileSync(
      join(this.manifests, 'cluster.json'),
      JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    );
    this.configure({});
  }

  static async make(): Promise<Place> {
    const namespace = await createNamespace();
    await namespace.run('ip', ['link', 'set', 'lo', 'up']);
    return new Place(namespace);
  }

  start(...flags: readonly string[]): Program {
    const given = [`--config=${this.config}`, `--manifests=${this.manifests}`];
    return new Program(this.namespace, ...given, '--hostname-override=node', ...flags);
  }

  configure(fields: object): void {
    const head = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration' };
    this.write(JSON.stringify({ ...head, mode: 'nftables', conntrack, ...fields }));
  }

  write(text: string): void {
    writeFileSync(`${this.config}.new`, text);
    renameSync(`${this.config}.new`, this.config);
  }

  ruleset(): Promise<string> {
    return this.namespace.run('nft', ['list', 'ruleset']);
  }
}

function temporaryDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'fairlead-process-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

const inForce = 'Kernel is as wanted';

test('a changed file takes effect, is refused, or ends the process', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.told(inForce, 2);
  const before = await place.ruleset();
  expect(before).not.toContain('0x00000008');

  place.configure({ nftables: { masqueradeBit: 3 } });
  const changed = await program.told('Configuration has changed and is in force');
  expect(changed.fields).toEqual(['nftables.masqueradeBit']);
  await program.told(inForce, 4);
  const after = await place.ruleset();
  expect(after).toContain('0x00000008');
  expect(after).not.toContain('0x00004000');

  place.configure({ nftables: { masqueradeBit: 99 } });
  const refused = await program.told('Configuration file is not usable, what is in force stays');
  expect(String(refused.err)).toContain('nftables.masqueradeBit');
  expect(await place.ruleset()).toBe(after);

  place.configure({ metricsBindAddress: '127.0.0.1:10250', nftables: { masqueradeBit: 3 } });
  expect(await program.exitCode).toBe(1);
  expect(program.words).toBe(
    "fairlead: content of the proxy server's configuration file was updated\n",
  );
  expect(await place.ruleset()).toBe(after);
});

test('SIGHUP reads the file again; SIGTERM ends the process, and the rules stay', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.told(inForce, 2);
  program.kill('SIGHUP');
  await program.told('Configuration file was read again and changes nothing');
  const before = await place.ruleset();
  expect(before).toContain('10.96.0.10 . tcp . 80');
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  expect(program.words).toBe('');
  expect(await place.ruleset()).toBe(before);
});

test('--init-only checks, writes no rules and ends', async () => {
  const place = await Place.make();
  const program = place.start('--init-only');
  expect(await program.exitCode).toBe(0);
  expect(program.lines.at(-1)?.msg).toBe('System initialized and --init-only specified');
  expect(await place.ruleset()).toBe('');
});

test("--cleanup removes our rules and kube-proxy's; --dry-run lists them before", async () => {
  const place = await Place.make();
  const { namespace } = place;
  const program = place.start();
  await program.told(inForce, 2);
  program.kill('SIGTERM');
  await program.exitCode;
  const rules = mixedRules(addresses.IPv4, 'DROP');
  await namespace.run('iptables-nft-restore', [], restoreText(rules, ['kube-proxy', 'others']));
  await namespace.run('nft', ['-f', '-'], nftablesRules('ip6', addresses.IPv6));

  const before = await place.ruleset();
  const listing = new Program(namespace, '--cleanup', '--dry-run');
  expect(await listing.exitCode).toBe(0);
  expect(await place.ruleset()).toBe(before);
  expect(listing.stdout).toMatch(/^table ip fairlead: only Fairlead's nftables mode uses/m);
  expect(listing.stdout).toMatch(/^table ip6 kube-proxy: only kube-proxy's/m);
  expect(listing.stdout).toMatch(/^chain ip nat KUBE-SVC-XPGD46QRK7WJZT7O: only/m);
  expect(listing.stdout).toMatch(/^rule ip filter FORWARD handle \d+: jumps to KUBE-FORWARD/m);

  const removing = new Program(namespace, '--cleanup');
  expect(await removing.exitCode).toBe(0);
  expect(removing.words).toBe('');
  const left = await place.ruleset();
  for (const gone of ['fairlead', 'table ip6', 'KUBE-SVC', 'KUBE-FORWARD', 'KUBE-SERVICES']) {
    expect(left).not.toContain(gone);
  }
  for (const others of ['KUBE-FIREWALL', 'DOCKER', 'cali-FORWARD', 'KUBE-IPTABLES-HINT']) {
    expect(left).toContain(others);
  }
  const again = new Program(namespace, '--cleanup', '--dry-run');
  expect([await again.exitCode, again.stdout]).toEqual([0, '']);
});

test('mode userspace follows its file, leaves its addresses when it ends, and is cleaned up', async () => {
  const place = await Place.make();
  const { namespace } = place;
  const listening = (): Promise<string> => namespace.run('ss', ['-Htln', 'sport', '=', ':80']);
  const bound = (): Promise<string> => namespace.run('ip', ['-brief', 'addr', 'show']);
  place.configure({ mode: 'userspace' });
  const program = place.start();
  await program.told(inForce, 2);
  expect(await listening()).toContain('10.96.0.10:80');
  expect(await bound()).toMatch(/^fairlead0 .* 10\.96\.0\.10\/32/m);
  expect(await place.ruleset()).toBe('');

  place.configure({ mode: 'userspace', udpIdleTimeout: '2s' });
  const changed = await program.told('Configuration has changed and is in force');
  expect(changed.fields).toEqual(['userspace.udpIdleTimeout']);
  await program.told(inForce, 4);
  expect(await listening()).toContain('10.96.0.10:80');

  place.configure({ mode: 'nftables' });
  await program.told('Took over from another mode, its objects are removed');
  expect(await bound()).not.toContain('fairlead0');
  expect(await listening()).toBe('');
  place.configure({ mode: 'userspace' });
  await program.told('Took over from another mode, its objects are removed', 2);
  expect(await listening()).toContain('10.96.0.10:80');

  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  expect(program.words).toBe('');
  expect(await bound()).toContain('10.96.0.10/32');
  expect(await listening()).toBe('');
  const removing = new Program(namespace, '--cleanup');
  expect(await removing.exitCode).toBe(0);
  expect(removing.stdout).toContain('removed interface fairlead0\n');
  expect(await bound()).not.toContain('fairlead0');
});
