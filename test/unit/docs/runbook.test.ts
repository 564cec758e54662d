/** The commands and quotes of the runbook are valid. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fieldPaths } from '../../../src/config/settings/index.ts';
import { tableLayout as ipvsLayout } from '../../../src/modes/ipvs/layout.ts';
import { tableLayout as nftablesLayout } from '../../../src/modes/nftables/layout.ts';
import { started } from '../agent/running.ts';
import { isFlag, wrong } from './command-lines.ts';

const root = resolve(import.meta.dirname, '../../..');
const runbook = readFileSync(join(root, 'docs/runbook.md'), 'utf8');

/** Without comments, which may quote what the program does not say any more. */
const source = execFileSync('git', ['ls-files', 'src'], { cwd: root })
  .toString()
  .trim()
  .split('\n')
  .map((path) => readFileSync(join(root, path), 'utf8').replace(/^ *(?:\/\*\*|\*|\/\/).*$/gm, ''))
  .join('\n')
  // Texts that go over several lines.
  .replace(/' \+\n\s+[`']/g, '');

const metrics = readFileSync(join(root, 'docs/metrics.md'), 'utf8');

/** Lines to type: those of blocks. */
const typed = [...runbook.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) =>
  block!.trim().split('\n'),
);

/** Words between backticks in sentences. */
const quoted = [...runbook.replace(/```[\s\S]*?```/g, '').matchAll(/`([^`\n]+)`/g)].map(
  ([, words]) => words!,
);

/** Tools on a node, or of a user of kubectl. */
const tools =
  'bridge conntrack curl dmesg fairlead ip iptables-save ipvsadm journalctl kubectl nft sysctl top'.split(
    ' ',
  );

/** Arguments of each `fairlead` that stands at the beginning, or after `--`. */
const calls = [...typed, ...quoted].flatMap((line) => {
  const [, words] = /^(?:kubectl .* -- )?fairlead( [^|]*)?$/.exec(line) ?? [];
  return words === undefined ? [] : [words.trim().split(' ')];
});

/** Alternatives of `grep -E 'a|b'` in lines that have `what`. */
function searched(what: string): string[] {
  return typed
    .filter((line) => line.includes(what))
    .flatMap((line) => /grep -E '([^']+)'/.exec(line)?.[1] ?? [])
    .flatMap((pattern) => pattern.replace(/(\w+)\((\w+)\|(\w+)\)/, '$1$2|$1$3').split('|'));
}

describe('the runbook', () => {
  it('uses existing tools', () => {
    const unknown = typed.filter((line) => !tools.includes(line.split(' ')[0]!));
    expect(unknown).toEqual([]);
  });

  it('calls Fairlead with existing commands and flags', async () => {
    expect(calls.length).toBeGreaterThan(20);
    const found = await Promise.all(calls.map(wrong));
    // Sentences name commands without their arguments.
    const reasons = found.filter((reason) => !/^an argument is missing/.test(reason ?? ''));
    expect(reasons.filter((reason) => reason !== undefined)).toEqual([]);
    expect(await wrong(['service', 'shows'])).toMatch(/^unknown command "shows"/);
    expect(await wrong(['service', 'show', 'a', '--whence=x'])).toBe('unknown flag: --whence');
  });

  it('names existing flags and fields of the configuration', () => {
    const flags = quoted.filter((words) => /^--[a-z]/.test(words));
    expect(flags.filter((flag) => !isFlag(flag))).toEqual([]);
    const fields = quoted.flatMap((words) => /^(\w+\.\w+)(?:: .*)?$/.exec(words)?.[1] ?? []);
    const ours = fields.filter((field) => /^(conntrack|nftables|iptables|ipvs)\./.test(field));
    expect(ours.length).toBeGreaterThan(2);
    expect(ours.filter((field) => !fieldPaths.some((path) => path === field))).toEqual([]);
  });

  it('requests existing paths of the servers', async () => {
    const running = await started('--manifests=/anywhere', '--profiling');
    const asked = [...typed, ...quoted].flatMap((line) => [
      ...line.matchAll(/localhost:(10249|10256)(\/[\w/]+)/g),
    ]);
    const unknown: string[] = [];
    for (const [what, port, path] of asked) {
      const server = port === '10256' ? 'healthz' : 'metrics';
      const { status } = await running.get(server, `${path}?seconds=0`);
      if (status === 404) unknown.push(what);
    }
    await running.stop();
    expect(asked.length).toBeGreaterThan(5);
    expect(unknown).toEqual([]);
  });

  it('asks nft for sets and maps of the layout', () => {
    const asked = [...typed, ...quoted].flatMap((line) => [
      ...line.matchAll(/nft (?:list|get) (?:map|set|element) ip (fairlead\S*) (\S+)/g),
    ]);
    const known: Readonly<Record<string, readonly string[]>> = {
      fairlead: Object.keys(nftablesLayout('IPv4', true).sets),
      'fairlead-ipvs': Object.keys(ipvsLayout('IPv4', true).sets),
    };
    expect(asked.length).toBeGreaterThan(5);
    const unknown = asked.filter(
      ([, table, name]) => !(known[table!]?.includes(name!) || name!.startsWith('affinity-')),
    );
    expect(unknown.map(([words]) => words)).toEqual([]);
  });

  it('searches for existing metrics and log messages', () => {
    const names = searched('localhost:10249/metrics');
    expect(names.filter((name) => !metrics.includes(name))).toEqual([]);
    const lines = searched(' logs ');
    expect(lines.filter((line) => !source.includes(line))).toEqual([]);
    expect(Math.min(names.length, lines.length)).toBeGreaterThan(5);
  });

  it('quotes messages of the program', () => {
    const said = [...runbook.matchAll(/"([A-Za-z][^"`{}\n]{8,})"/g)].flatMap(([, words]) =>
      words!.split('…').map((part) => part.trim()),
    );
    // Of nft, and of an API server.
    const others = [
      'Operation not permitted',
      'No such file or directory',
      'the required storage feature RequestWatchProgress is disabled',
    ];
    expect(said.length).toBeGreaterThan(15);
    expect(said.filter((words) => !others.includes(words) && !source.includes(words))).toEqual([]);
    const events = [...runbook.matchAll(/event `(\w+)`/g)].map(([, reason]) => reason!);
    // It is put together from two words.
    const known = (reason: string) => source.includes(reason.replace('FailedToStart', ''));
    expect(events.filter((reason) => !known(reason))).toEqual([]);
  });

  it('begins each symptom with a command', () => {
    const sections = runbook.split(/^## /m).slice(1);
    const without = sections.filter((section) => !section.includes('```sh'));
    expect(without.map((section) => section.split('\n')[0])).toEqual(['What may be restarted']);
  });
});
