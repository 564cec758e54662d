/**
 * A node with upstream's kube-proxy, in a network namespace with a fake API server. What its rules
 * do with packets, the fake kernel says. It needs root.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { isKernelError } from '../../src/kernel/errors.ts';
import type { KernelReader } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NFPROTO, NFT_DATA_VERDICT, NFT_SET } from '../../src/kernel/nft/constants.ts';
import { ElementShape, unknownIndex } from '../../src/kernel/ops.ts';
import { atOneGeneration, steadyDump } from '../../src/kernel/steady.ts';
import { families } from '../../src/net/address.ts';
import { FakeApi } from '../fake/api-server-process.ts';
import type { Raw } from '../fake/api-server-store.ts';
import { type Odds, oddsOf } from '../fake/chance.ts';
import { unpack } from '../fake/nft-entries.ts';
import { evaluate } from '../fake/nft-packet.ts';
import {
  type Chain,
  type Element,
  elementId,
  type NftSet,
  type Rule,
  type Tables,
  tableId,
} from '../fake/nft-state.ts';
import { endOf, type Flow } from './mode-node.ts';
import { type Edit, interfaces, ownNode } from './worlds.ts';

const namespace = { name: `fairlead-worlds-${process.pid}` };
/** It has all objects in force within this time. */
const patienceMs = 120_000;

export class KubeProxy {
  readonly mode: 'nftables' | 'iptables';
  readonly #binary: string;
  readonly #api: FakeApi;
  readonly #kernel = openKernel({ netns: `/run/netns/${namespace.name}` });
  readonly #subjects = new Set<string>();
  #flags: readonly string[] = [];
  #interfaces: readonly string[] = [];
  #tables: Tables = new Map();

  private constructor(binary: string, mode: KubeProxy['mode'], api: FakeApi) {
    this.#binary = binary;
    this.mode = mode;
    this.#api = api;
  }

  static async start(binary: string, mode: KubeProxy['mode']): Promise<KubeProxy> {
    execFileSync('ip', ['netns', 'add', namespace.name]);
    process.once('exit', () => execFileSync('ip', ['netns', 'del', namespace.name]));
    inside('ip link set lo up; ip link add eth0 type veth peer name eth1; ip link set eth0 up');
    return new KubeProxy(binary, mode, await FakeApi.start(namespace));
  }

  close(): Promise<void> {
    return this.#api.close();
  }

  async begin(flags: readonly string[]): Promise<void> {
    for (const subject of this.#subjects) await this.#delete(subject);
    this.#flags = flags;
    this.#move(interfaces);
  }

  /** Starts it again: some of the changes matter to it at its start only, or an hour later. */
  async take(edits: readonly Edit[]): Promise<void> {
    for (const edit of edits) {
      if ('put' in edit) await this.#put(edit.put);
      else if ('gone' in edit) await this.#delete(edit.gone);
      else if ('interfaces' in edit) this.#move(edit.interfaces);
    }
    inside('nft flush ruleset');
    const of = [`--kubeconfig=${this.#api.kubeconfig}`, `--hostname-override=${ownNode}`];
    const flags = [...of, `--proxy-mode=${this.mode}`, ...this.#flags];
    const proxy = runKubeProxy(this.#binary, namespace.name, flags);
    const ended = once(proxy, 'exit');
    const untilMs = performance.now() + patienceMs;
    try {
      while (!(await this.#isInForce())) {
        if (proxy.exitCode !== null) throw new Error(`kube-proxy ended with ${proxy.exitCode}`);
        if (performance.now() > untilMs) throw new Error('not everything is in force');
        await sleep(100);
      }
    } finally {
      proxy.kill('SIGKILL');
      await ended;
    }
  }

  answer(flow: Flow): Odds {
    const nodeAddresses = this.#interfaces;
    // A connection of the node to an address that it has itself comes from there.
    const isFromThere = flow.iif === undefined && nodeAddresses.includes(flow.daddr);
    const saddr = isFromThere ? flow.daddr : flow.saddr;
    const packet = { ...flow, saddr, nodeAddresses, random: 0, isTrial: true };
    return oddsOf((chance) => endOf(evaluate(this.#tables, { ...packet, chance })));
  }

  /** It writes all of a family in one transaction, or in one of each table, nat last. */
  async #isInForce(): Promise<boolean> {
    const [name, chain] =
      this.mode === 'nftables' ? ['kube-proxy', 'services'] : ['nat', 'KUBE-POSTROUTING'];
    try {
      const found = await atOneGeneration(this.#kernel, () => readTables(this.#kernel));
      this.#tables = found;
      return families.every((family) => {
        const table = found.get(tableId(NFPROTO[family], name));
        return (table?.chains.get(chain)?.rules.length ?? 0) > 0;
      });
    } catch (error) {
      if (isKernelError(error, 'EINTR')) return false;
      throw error;
    }
  }

  #move(to: readonly string[]): void {
    const adds = to.map((one) => {
      return `ip addr add ${one.includes(':') ? `${one}/64 dev eth0 nodad` : `${one}/24 dev eth0`}`;
    });
    inside(['ip addr flush dev eth0 scope global', ...adds].join(';'));
    this.#interfaces = to;
  }

  async #put(object: Raw): Promise<void> {
    const { name, namespace: of } = object.metadata as Raw;
    this.#subjects.add(`${object.kind} ${of === undefined ? name : `${of}/${name}`}`);
    await this.#api.ask({ do: 'apply', object });
  }

  async #delete(subject: string): Promise<void> {
    const [kind = '', key] = subject.split(' ');
    const resource = `${kind.toLowerCase()}s`;
    if (this.#subjects.delete(subject)) await this.#api.ask({ do: 'delete', resource, key });
  }
}

export function runKubeProxy(
  binary: string,
  namespace: string,
  flags: readonly string[],
): ChildProcess {
  const timeouts = ['established', 'close-wait'].map((one) => `--conntrack-tcp-timeout-${one}=0s`);
  const of = [
    '--conntrack-max-per-core=0',
    ...timeouts,
    '--kube-api-content-type=application/json',
  ];
  return spawn('ip', ['netns', 'exec', namespace, binary, ...of, ...flags], { stdio: 'ignore' });
}

function inside(script: string): void {
  execFileSync('ip', ['netns', 'exec', namespace.name, 'sh', '-ec', script]);
}

/** All tables of a kernel, as the fake one keeps them. Rejects if it is changed (EINTR). */
async function readTables(kernel: KernelReader): Promise<Tables> {
  const tables: Tables = new Map();
  for (const found of await steadyDump(kernel, { kind: 'tablesDump', family: 0 })) {
    if (found.kind !== 'table') continue;
    const { family, table: name } = found;
    const inTable = { family, table: name };
    const chains = new Map<string, Chain>();
    const sets = new Map<string, NftSet>();
    for (const one of await steadyDump(kernel, { kind: 'chainsDump', ...inTable })) {
      if (one.kind !== 'chain') continue;
      const base = one.hook === unknownIndex ? undefined : one;
      chains.set(one.chain, { ...one, name: one.chain, base, rules: [] });
    }
    for (const one of await steadyDump(kernel, { kind: 'rulesDump', ...inTable, chain: '' })) {
      const chain = one.kind === 'rule' ? chains.get(one.chain) : undefined;
      if (chain !== undefined && one.kind === 'rule') (chain.rules as Rule[]).push(one);
    }
    for (const one of await steadyDump(kernel, { kind: 'setsDump', ...inTable })) {
      if (one.kind === 'set') sets.set(one.set, await setOf(kernel, one));
    }
    const more = { others: new Map(), flowtables: new Map(), uses: new Map(), recent: new Map() };
    tables.set(tableId(family, name), { ...found, name, chains, sets, ...more });
  }
  return tables;
}

async function setOf(
  kernel: KernelReader,
  { handle, ...fields }: NftSet['fields'] & { readonly handle: number },
): Promise<NftSet> {
  const { dataLength, dataType, family, flags, keyLength, set, table } = fields;
  const isMap = (flags & NFT_SET.MAP) !== 0;
  const { comment, data, verdict } = ElementShape;
  const part = isMap ? (dataType === NFT_DATA_VERDICT ? verdict : data) : 0;
  const shape = ElementShape.flags + comment + part;
  const request = { family, table, set, shape, keyLength, dataLength } as const;
  const elements = new Map<string, Element>();
  for (const one of await steadyDump(kernel, { kind: 'elementsDump', ...request })) {
    for (const each of one.kind === 'elements' ? unpack(one) : [])
      elements.set(elementId(each), each);
  }
  return { handle, fields, elements };
}
