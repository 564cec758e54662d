/**
 * Three endpoints hold long connections, and three more come. How many new connections does it take
 * until all six hold about as many, by balance? Mode ipvs needs a kernel that has it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { manyFiles, NodeStage, near } from './lib/node-stage.ts';
import { number, table } from './lib/stats.ts';

const clusterIP = '10.96.0.1';
const target = 8080;
/** Connections before the endpoints come, and the most after. */
const held = 300;
const most = 9000;
/** The most connections of an endpoint, divided by the fewest, where they are spread evenly. */
const even = 1.1;
/** Long enough for a change to be in force. */
const settleMs = 2000;

type Balance = 'random' | 'round-robin' | 'least-connections';
type Mode = 'nftables' | 'iptables' | 'ipvs';

const cases: readonly (readonly [Mode, Balance])[] = [
  ['nftables', 'random'],
  ['nftables', 'round-robin'],
  ['nftables', 'least-connections'],
  ['iptables', 'least-connections'],
  ['ipvs', 'round-robin'],
  ['ipvs', 'least-connections'],
];

const program = fileURLToPath(new URL('./lib/holder-main.ts', import.meta.url));

/** Connections that stay open, and who holds how many. */
class Holder {
  readonly counts = new Map<string, number>();
  readonly #child;
  readonly #answers;

  constructor(pid: number) {
    const run = `${manyFiles}; exec ${process.execPath} ${program} ${clusterIP} 80`;
    const argv = ['-t', String(pid), '-n', 'sh', '-c', run];
    this.#child = spawn('nsenter', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async open(count: number): Promise<void> {
    this.#child.stdin.write(`${count}\n`);
    for (let i = 0; i < count; i += 1) {
      const { value: by } = await this.#answers.next();
      if (!by) throw new Error(`connection ${i} of ${count} failed`);
      this.counts.set(by, (this.counts.get(by) ?? 0) + 1);
    }
  }

  /** Most by fewest. */
  spread(addresses: readonly string[]): number {
    const counts = addresses.map((address) => this.counts.get(address) ?? 0);
    return Math.max(...counts) / Math.min(...counts);
  }

  async end(): Promise<void> {
    const ended = once(this.#child, 'close');
    this.#child.stdin.end();
    await ended;
  }
}

async function measure(stage: NodeStage, mode: Mode, balance: Balance): Promise<string[]> {
  const annotations = { 'fairlead.io/balance': balance };
  const say = (count: number): void => {
    stage.say({ name: 'web', clusterIP, target, addresses: near.slice(0, count), annotations });
  };
  say(3);
  stage.start(`--proxy-mode=${mode}`);
  const holder = new Holder(stage.clientPid);
  try {
    const calling = { address: clusterIP, port: 80, perSecond: 50, timeoutMs: 1000 };
    await (await stage.caller(calling, near.slice(0, 3))).end();
    await holder.open(held);
    say(6);
    await sleep(settleMs);
    const six = near.slice(0, 6);
    const spreads: string[] = [];
    let opened = 0;
    while (opened < most && holder.spread(six) > even) {
      await holder.open(1);
      opened += 1;
      if (opened === held || opened === 5 * held) spreads.push(number(holder.spread(six)));
    }
    while (spreads.length < 2) spreads.push('even');
    const after = opened < most ? number(opened) : `more than ${number(most)}`;
    return [`${balance} (${mode})`, ...spreads, after];
  } finally {
    await holder.end();
    await stage.stop();
  }
}

export async function scaleOut(): Promise<string> {
  const rows: string[][] = [];
  for (const [mode, balance] of cases) {
    // What one case leaves in the kernel must not serve the next.
    const stage = new NodeStage();
    try {
      await stage.open('veth', target);
      if (mode === 'ipvs' && !hasIPVS(stage)) rows.push([`${balance} (${mode})`, '–', '–', '–']);
      else rows.push(await measure(stage, mode, balance));
    } finally {
      await stage.close();
    }
  }
  const head = ['balance', `most by fewest after ${held}`, `after ${number(5 * held)}`];
  return [
    `${held} connections at 3 endpoints stay open while 3 more come: new connections until most by fewest is at most ${even}`,
    table([...head, 'even after'], rows),
  ].join('\n\n');
}

function hasIPVS(stage: NodeStage): boolean {
  try {
    stage.node.run('ipvsadm', ['-Ln'], '', 'ignore');
    return true;
  } catch {
    return false;
  }
}
