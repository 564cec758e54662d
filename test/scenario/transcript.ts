/**
 * Stories: manifests that are applied one after the other, and what the kernel then holds, in one
 * file each. A file begins with a sentence; then come sections with a heading of this form:
 *
 *     -- apply --          a stream of manifests (YAML)
 *     -- delete --         `Kind namespace/name`, one a line
 *     -- wait 2s --        time passes
 *     -- kernel ip --      what has changed since the last such section of `ip` or `ip6`: elements
 *                          of its table, and chains beyond the fixed ones
 */
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { nftablesMode } from '../../src/modes/nftables/mode.ts';
import type { Family } from '../../src/net/address.ts';
import { decodeContext, goneChange, kindOf } from '../../src/source/decode.ts';
import { decodeManifests } from '../../src/source/manifests/objects.ts';
import { readManifest } from '../../src/source/manifests/read.ts';
import type { Resource } from '../../src/state/change.ts';
import { FrontendOwners } from '../../src/state/frontend-owners.ts';
import { ClusterState } from '../../src/state/store.ts';
import { FamilySync } from '../../src/sync/family.ts';
import { SyncLoop } from '../../src/sync/loop.ts';
import { Ruleset } from '../../src/sync/ruleset.ts';
import { Pacer } from '../../src/time/pacer.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { elementTexts } from '../fake/nft-text.ts';
import { config } from '../unit/modes/config.ts';
import { cidr } from '../unit/state/build.ts';
import { ToyClock } from '../unit/sync/double.ts';
import { testSettings } from '../unit/sync/world.ts';

const families = ['IPv4', 'IPv6'] as const satisfies readonly Family[];
const familyOf: ReadonlyMap<string, Family> = new Map([
  ['ip', 'IPv4'],
  ['ip6', 'IPv6'],
]);
const podCIDRs = { IPv4: cidr('10.244.0.0/16'), IPv6: cidr('fd00:244::/32') };

interface Section {
  readonly verb: string;
  readonly argument: string;
  readonly text: string;
}

/** The file with what really came of the transcript: the same text, when all went as it says. */
export async function play(file: string): Promise<string> {
  const [title, sections] = parse(file);
  const node = new ScriptedNode();
  await node.start();
  const told = [title];
  for (const { verb, argument, text } of sections) {
    const words = argument === '' ? verb : `${verb} ${argument}`;
    told.push(`-- ${words} --\n`, (await node.act({ verb, argument, text })) ?? text);
  }
  await node.stop();
  return told.join('');
}

function parse(file: string): [title: string, sections: Section[]] {
  const [title, ...rest] = file.split(/^-- (.+) --\n/m);
  const sections: Section[] = [];
  for (let i = 0; i < rest.length; i += 2) {
    const [verb, argument = ''] = rest[i]!.split(' ');
    sections.push({ verb: verb!, argument, text: rest[i + 1]! });
  }
  return [title!, sections];
}

/** A node named `here` with a sync loop in both families. */
class ScriptedNode {
  readonly #kernel = new FakeKernel();
  readonly #clock = new ToyClock();
  readonly #state = new ClusterState(0, () => this.#clock.now());
  readonly #decode = decodeContext('here');
  readonly #loop: SyncLoop;
  readonly #abort = new AbortController();
  #running: Promise<void> | undefined;
  /** Chains that are there without any Service. */
  #fixed: ReadonlySet<string> = new Set();
  /** Lines of the last listing, by heading. */
  readonly #listed: Record<Family, ReadonlyMap<string, readonly string[]>> = {
    IPv4: new Map(),
    IPv6: new Map(),
  };

  constructor() {
    const ruleset = new Ruleset();
    const observer = (event: { readonly kind: string }): void => {
      if (event.kind === 'failed') throw new Error(JSON.stringify(event));
    };
    const context = () => ({
      zone: this.#state.node?.zone ?? '',
      nodeAddresses: this.#state.node?.addresses ?? [],
      externalIPsEnabled: true,
    });
    const environment = memoised((family: Family) => ({
      serviceCIDRs: this.#state.serviceCIDRs(family),
      nodePortAddresses: 'all' as const,
    }));
    const common = { kernel: this.#kernel, reader: this.#kernel, clock: this.#clock, observer };
    const syncs = families.map((family) => {
      const none = { serviceCIDRs: [], nodePortAddresses: 'all' } as const;
      const localDetector = { kind: 'cidr', cidr: podCIDRs[family] } as const;
      const planner = nftablesMode.planner(
        { ...config, family, localDetector, dropInvalid: true },
        none,
      );
      return new FamilySync({
        ...common,
        planner,
        environment: () => environment(family),
        ruleset,
        settings: testSettings,
      });
    });
    this.#loop = new SyncLoop({
      owners: new FrontendOwners(),
      ...common,
      state: this.#state,
      families: syncs,
      context,
      sliceMs: 4,
    });
  }

  async start(): Promise<void> {
    this.#state.markSynced('services');
    this.#state.markSynced('endpointslices');
    this.#loop.wake();
    this.#running = this.#loop.run(this.#abort.signal);
    await this.#clock.pass(0);
    this.#fixed = new Set(this.#kernel.table(NFPROTO.IPv4, 'fairlead')!.chains.keys());
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }

  /** Does what a section says. Returns what it should have said, if that is for us to say. */
  async act({ verb, argument, text }: Section): Promise<string | undefined> {
    switch (verb) {
      case 'apply':
        await this.#apply(text);
        return undefined;
      case 'delete':
        for (const line of text.trim().split('\n')) this.#delete(line);
        await this.#settle();
        return undefined;
      case 'wait':
        await this.#clock.pass(1000 * Number.parseFloat(argument));
        return undefined;
      case 'kernel':
        return this.#listing(familyOf.get(argument)!);
      default:
        throw new Error(`no transcript has a section ${verb}`);
    }
  }

  async #settle(): Promise<void> {
    this.#loop.wake();
    await this.#clock.pass(0);
  }

  async #apply(yaml: string): Promise<void> {
    const pacer = new Pacer();
    const read = await readManifest('transcript.yaml', Buffer.from(yaml), pacer);
    const content = { ...read, file: 'transcript', previous: new Map(), extent: 'all' } as const;
    const decoded = await decodeManifests(content, this.#decode, pacer);
    const all = [...read.unreadable, ...read.problems, ...decoded.problems];
    if (all.length > 0) throw new Error(JSON.stringify(all));
    const { objects } = decoded;
    for (const { change } of objects.values()) this.#state.apply(change);
    await this.#settle();
  }

  #delete(line: string): void {
    const [kind, key] = line.split(' ') as [string, string];
    const resource = Object.entries(kindOf).find(([, name]) => name === kind)?.[0];
    if (resource === undefined) throw new Error(`nothing to delete: ${line}`);
    this.#state.apply(goneChange(resource as Resource, key));
  }

  #listing(family: Family): string {
    const { sets, chains } = this.#kernel.table(NFPROTO[family], 'fairlead')!;
    const more = [...chains.keys()].filter((name) => !this.#fixed.has(name));
    const now = new Map([...sets.values()].map((set) => [set.fields.set, elementTexts(set)]));
    now.set('chains', more.sort());
    const before = this.#listed[family];
    this.#listed[family] = now;
    return [...now].map(([name, lines]) => part(name, before.get(name) ?? [], lines)).join('');
  }
}

/** Lines that have gone and come. */
function part(heading: string, before: readonly string[], now: readonly string[]): string {
  const gone = before.filter((line) => !now.includes(line)).map((line) => `- ${line}\n`);
  const come = now.filter((line) => !before.includes(line)).map((line) => `+ ${line}\n`);
  return gone.length + come.length === 0 ? '' : `${heading}\n${[...gone, ...come].join('')}`;
}

/** The loop takes another object for a change. */
function memoised<T>(make: (family: Family) => T): (family: Family) => T {
  const known = new Map<Family, { text: string; value: T }>();
  return (family) => {
    const value = make(family);
    const text = JSON.stringify(value);
    const last = known.get(family);
    if (last?.text === text) return last.value;
    known.set(family, { text, value });
    return value;
  };
}
