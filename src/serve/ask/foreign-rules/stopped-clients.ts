/**
 * Pods whose packets to Services meet a rule of another program that names their address. That may
 * be intended, as with a NetworkPolicy: so it is a remark. Looked for when answers and metrics ask,
 * seldom enough that it takes no more than a ten-thousandth of a core.
 */
import type { Config } from '../../../config/config.ts';
import { type Finding, warning } from '../../../host/finding.ts';
import { Address, type AddressKey, cidrContains, formatAddress } from '../../../net/address.ts';
import type { ProgrammedFamily } from '../../../state/frontends-in-force.ts';
import type { ClusterState } from '../../../state/store.ts';
import { formatServicePortName } from '../../../state/types.ts';
import type { Clock } from '../../../time/clock.ts';
import { answerPacer, type Refresh, refreshing } from '../answer-pacer.ts';
import { podBlocks } from '../pod-blocks.ts';
import type { ForeignRules } from './foreign-rules.ts';

interface Engine {
  readonly families: readonly ProgrammedFamily[];
  readonly interfaces: readonly Address[];
}

interface Known {
  readonly clock: Pick<Clock, 'now' | 'turn'>;
  readonly config: Pick<Config, 'clusterCIDR'>;
  readonly engine: Engine | undefined;
  readonly foreignRules: Pick<ForeignRules, 'found' | 'obstacles'>;
  readonly state: Pick<ClusterState, 'node'>;
}

/** How long a look serves, and the shortest pause after it, in multiples of its duration. */
const kept = { keepMs: 10_000, restFactor: 10_000 } as const;
/** The most senders that are judged, and ports of Services for each. */
const sendersMax = 8;
const portsMax = 1000;

export class StoppedClients {
  readonly #known: Known;
  readonly #refresh: Refresh;
  #found: ReadonlyMap<AddressKey, Finding> = new Map();
  /** Those that rules name, of the last chains. */
  #named: { readonly by: ForeignRules['found']; readonly senders: readonly Address[] } | undefined;

  constructor(known: Known) {
    this.#known = known;
    this.#refresh = refreshing(known, kept, () => this.#look());
  }

  /** A warning for each that rules still name, because a look may come late; see `refresh`. */
  get findings(): readonly Finding[] {
    if (this.#found.size === 0) return [];
    return this.#pods().flatMap(({ key }) => this.#found.get(key) ?? []);
  }

  /** See `Refresh`. Nothing is looked at if rules name no pods. */
  async refresh(): Promise<void> {
    if (this.#pods().length > 0) await this.#refresh();
  }

  async #look(): Promise<void> {
    const found = new Map<AddressKey, Finding>();
    for (const sender of this.#pods()) {
      const finding = await this.#findingOf(sender);
      if (finding !== undefined) found.set(sender.key, finding);
    }
    this.#found = found;
  }

  /** Those that rules name. */
  #pods(): Address[] {
    const { config, state } = this.#known;
    const blocks = podBlocks(config, state.node);
    const pods: Address[] = [];
    for (const sender of this.#senders()) {
      if (blocks.some((block) => cidrContains(block, sender))) pods.push(sender);
      if (pods.length === sendersMax) break;
    }
    return pods;
  }

  /** All that rules name, each once: they are many rules, which seldom change. */
  #senders(): readonly Address[] {
    const { found } = this.#known.foreignRules;
    if (this.#named?.by === found) return this.#named.senders;
    const senders = new Map<AddressKey, Address>();
    for (const { chains } of found.all) {
      for (const bytes of [...chains.values()].flat().flatMap((rule) => rule.senders)) {
        const address = Address.from(bytes);
        senders.set(address.key, address);
      }
    }
    this.#named = { by: found, senders: [...senders.values()] };
    return this.#named.senders;
  }

  /** Of the first port of a Service at which it is stopped, and others are not. */
  async #findingOf({ bytes, family }: Address): Promise<Finding | undefined> {
    const { engine, foreignRules } = this.#known;
    const sync = engine?.families.find((one) => one.family === family);
    const pacer = answerPacer(this.#known);
    let left = portsMax;
    for (const forwarding of sync?.inForce.values() ?? []) {
      if (pacer.due) await pacer.rest();
      const client = { address: bytes, isMasqueraded: false, isPod: true };
      const [met] = foreignRules.obstacles([{ forwarding }], engine!.interfaces, client);
      if (met && foreignRules.obstacles([{ forwarding }], engine!.interfaces).length === 0) {
        const where = `does not reach ${formatServicePortName(forwarding.servicePort)}, perhaps others`;
        return warning(`pod ${formatAddress(bytes)}`, `${where}. ${met.text().slice(0, -1)}`, '');
      }
      left -= 1;
      if (left === 0) break;
    }
    return undefined;
  }
}
