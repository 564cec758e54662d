import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import type { HostFiles } from '../../../src/host/files.ts';
import type { NodeReason } from '../../../src/serve/cluster-events.ts';
import { conntrackTableMetrics } from '../../../src/serve/collectors.ts';
import { watchConntrack } from '../../../src/serve/conntrack-watch.ts';
import { loggerTo } from '../../../src/serve/log.ts';
import { FakeConntrack } from '../../fake/conntrack.ts';
import { all, byFrontend, clusterIP, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { ToyClock } from '../sync/double.ts';

/** A machine whose table holds at most 1,000 entries. */
class Machine implements HostFiles {
  entries = 0;
  /** On the second of two CPUs. */
  dropped = 0;
  evicted = 31;
  looks = 0;
  /** What cannot be read for lack of descriptors. */
  unreadable = /^$/;

  read(path: string): string | undefined {
    if (this.unreadable.test(path)) throw new Error('EMFILE: too many open files');
    switch (path.split('/').at(-1)) {
      case 'nf_conntrack_count':
        this.looks += 1;
        return String(this.entries);
      case 'nf_conntrack_max':
        return '1000';
      case 'nf_conntrack': {
        const names = 'entries  clashres found insert_failed drop early_drop icmp_error';
        const counts = `0000000a  00000000 00000000 00000002 ${this.dropped.toString(16)} ${this.evicted.toString(16)} 0`;
        return [names, '0000000a  00000000 00000000 00000001 00000010 00000001 0', counts].join(
          '\n',
        );
      }
      default:
        return undefined;
    }
  }

  list(): string[] {
    return [];
  }

  write(path: string): void {
    throw new Error(`${path} is not to be written`);
  }
}

/** Three clients of shop/web, one of shop/dns, one of no Service. */
function connections(): FakeConntrack {
  const conntrack = new FakeConntrack();
  const from = (port: number, to: string) =>
    ({ protocol: 'TCP', from: `10.1.0.1:${port}`, to }) as const;
  conntrack.add(from(1, '10.96.0.2:80'), from(2, '10.96.0.1:80'), from(3, '10.96.0.1:80'));
  conntrack.add(from(4, '10.96.0.1:80'), from(5, '192.0.2.1:443'));
  return conntrack;
}

const services = all(
  forwarding('web', pool(1), { frontends: [clusterIP('10.96.0.1')] }),
  forwarding('dns', pool(2), { frontends: [clusterIP('10.96.0.2')] }),
);

function watched(machine: Machine, conntrack = connections()) {
  const [lines, notes]: [Record<string, unknown>[], string[]] = [[], []];
  const clock = new ToyClock();
  const ending = new AbortController();
  const log = loggerTo({ write: (line) => lines.push(JSON.parse(line)) }, 0);
  const events = { aboutNode: (_: NodeReason, note: string) => void notes.push(note) };
  const agent = { engine: { frontends: byFrontend(services) } };
  const options = { host: machine, clock, conntrack, agent, log, events };
  const done = watchConntrack(options, ending.signal);
  const stop = (): Promise<void> => {
    ending.abort();
    return done;
  };
  return { clock, lines, notes, stop };
}

describe('the check of the connection tracking table', () => {
  it('runs every ten seconds, however empty the table is', async () => {
    const machine = new Machine();
    const { clock, stop } = watched(machine);
    await clock.pass(600_000);
    expect(machine.looks).toBe(61);
    await stop();
  });

  it('reports a table that was full, by what was lost, also if it could not be read then', async () => {
    const machine = new Machine();
    const { clock, notes, stop } = watched(machine);
    await clock.pass(10_000);
    for (const unreadable of [/./, /stat/]) {
      machine.unreadable = unreadable;
      machine.evicted += 150;
      await clock.pass(10_000);
    }
    expect(notes).toEqual([]);
    machine.unreadable = /^$/;
    await clock.pass(10_000);
    const full = 'connection tracking holds 0 of 1000 connections, and';
    const most = 'for it; most entries have ns/web (3), ns/dns (1)';
    expect(notes).toEqual([`${full} 300 connections were evicted ${most}`]);
    await stop();
  });

  it('names the Services that fill it, once in five minutes', async () => {
    const machine = new Machine();
    const { clock, lines, notes, stop } = watched(machine);
    machine.entries = 799;
    await clock.pass(60_000);
    expect(notes).toEqual([]);
    machine.entries = 800;
    await clock.pass(4 * 60_000);
    expect(notes).toEqual([
      'connection tracking holds 800 of 1000 connections; most entries have ' +
        'ns/web (3), ns/dns (1)',
    ]);
    expect(lines).toMatchObject([
      { level: 'warn', msg: 'Conntrack table is nearly full', entries: 800, others: 1 },
    ]);
    await clock.pass(70_000);
    expect(notes).toHaveLength(2);
    machine.entries = 700;
    await clock.pass(4 * 60_000);
    expect(lines).toHaveLength(2);
    await clock.pass(10 * 60_000);
    const over = {
      level: 'info',
      msg: 'Conntrack table has room again',
      entries: 700,
      limit: 1000,
    };
    expect(lines.slice(2)).toMatchObject([over]);
    await stop();
  });

  it('warns again immediately when it gets worse: nearer to the limit, or packets are dropped', async () => {
    const machine = new Machine();
    machine.entries = 850;
    machine.dropped = 5;
    const { clock, notes, stop } = watched(machine);
    await clock.pass(10_000);
    machine.entries = 950;
    await clock.pass(10_000);
    machine.dropped = 12;
    await clock.pass(10_000);
    const told = notes.map((note) => note.replace(/; most.*/, ''));
    expect(told).toEqual([
      'connection tracking holds 850 of 1000 connections',
      'connection tracking holds 950 of 1000 connections',
      'connection tracking holds 950 of 1000 connections, and 7 packets were dropped for it',
    ]);
    await stop();
  });

  it('warns without names if the table can’t be read', async () => {
    const machine = new Machine();
    machine.entries = 999;
    const conntrack = connections();
    conntrack.before = () => {
      throw new Error('no');
    };
    const { clock, notes, stop } = watched(machine, conntrack);
    await clock.pass(10_000);
    expect(notes).toEqual(['connection tracking holds 999 of 1000 connections']);
    await stop();
  });
});

it('metrics of connection tracking show how full the table is, and sum losses over CPUs', async () => {
  const registry = new Registry();
  const machine = new Machine();
  machine.entries = 12;
  machine.dropped = 3;
  conntrackTableMetrics(registry, { host: machine });
  const lines = (await registry.metrics()).split('\n').filter((line) => !line.startsWith('#'));
  expect(lines.filter((line) => line !== '')).toEqual([
    'fairlead_conntrack_entries 12',
    'fairlead_conntrack_limit 1000',
    'fairlead_conntrack_losses_total{kind="dropped"} 19',
    'fairlead_conntrack_losses_total{kind="evicted"} 32',
    'fairlead_conntrack_losses_total{kind="clashed"} 3',
  ]);
});

it('metrics of connection tracking are missing without connection tracking', async () => {
  const registry = new Registry();
  conntrackTableMetrics(registry, { host: { read: () => undefined, list: () => [] } });
  const lines = (await registry.metrics()).split('\n');
  expect(lines.filter((line) => /^fairlead_conntrack_\w+(\{| )/.test(line))).toEqual([]);
});
