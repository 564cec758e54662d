/**
 * What is not right of this machine at present. It is looked at when answers and metrics ask, not
 * more often than every five seconds; never for a packet or a change.
 */
import { counted } from '../../ask/words.ts';
import type { Config } from '../../config/config.ts';
import { droppedSources } from '../../host/dropped-sources.ts';
import type { FolderFiles } from '../../host/files.ts';
import { type Finding, warning } from '../../host/finding.ts';
import { checkMachine, type MachineUse } from '../../host/machine-checks.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import type { ProgrammedFamily } from '../../state/frontends-in-force.ts';
import type { Clock } from '../../time/clock.ts';
import { type Refresh, refreshing, seldomKept } from './answer-pacer.ts';
import type { UnroutedEndpoints } from './unrouted.ts';

interface Known {
  readonly clock: Pick<Clock, 'now' | 'wallMs'>;
  readonly config: Pick<Config, 'connectTime' | 'modes'>;
  readonly families: readonly ProgrammedFamily[];
  readonly host: FolderFiles | undefined;
  readonly mode: Pick<ModeFacts, 'name' | 'translates'>;
  readonly unrouted: Pick<UnroutedEndpoints, 'podDevices'>;
}

export class MachineFindings {
  readonly #known: Known;
  #found: readonly Finding[] = [];
  readonly #refused: RefusedSources;
  readonly refresh: Refresh;

  constructor(known: Known) {
    this.#known = known;
    this.#refused = new RefusedSources(known);
    this.refresh = refreshing(known, seldomKept, () => this.#look());
    // What the kernel has counted before does not matter.
    this.#look();
  }

  /** What is known; see `refresh`. */
  get found(): readonly Finding[] {
    return this.#found;
  }

  /** What cannot be read, as without a descriptor, is as it was. */
  #look(): void {
    const { host } = this.#known;
    if (host === undefined) return;
    try {
      const all = [...checkMachine(host, this.#use()), ...this.#refused.findings(host)];
      this.#found = all.filter(({ level }) => level !== 'ok');
    } catch {}
  }

  #use(): MachineUse {
    const { config, families, mode, unrouted } = this.#known;
    const served = mode.translates ? families.filter(({ inForce }) => inForce.size > 0) : [];
    return {
      families: served.map(({ family }) => family),
      podDevices: unrouted.podDevices,
      isTracked: config.connectTime !== 'all' && !config.modes[mode.name].masqueradeAll,
      isServing: true,
    };
  }
}

/** Fewer may be those of a scanner, with senders that it made up. */
const droppedLeast = 10;
/** After the last one. */
const shownMs = 5 * 60_000;

/** Packets that rp_filter drops, of which no rule and no connection shows anything. */
class RefusedSources {
  readonly #clock: Known['clock'];
  /** When the process began, and the kernel's counter then. */
  #begin: { readonly time: string; readonly count: number } | undefined;
  #count = 0;
  /** When it last grew. */
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor({ clock }: Pick<Known, 'clock'>) {
    this.#clock = clock;
  }

  findings(host: FolderFiles): Finding[] {
    const count = droppedSources(host);
    if (count === undefined) return [];
    const begin = this.#begin ?? { time: new Date(this.#clock.wallMs()).toISOString(), count };
    if (this.#begin !== undefined && count > this.#count) this.#lastMs = this.#clock.now();
    this.#begin = begin;
    this.#count = count;
    const dropped = count - begin.count;
    if (dropped < droppedLeast || this.#clock.now() - this.#lastMs >= shownMs) return [];
    const text =
      `has dropped ${counted(dropped, 'packet')} since ${begin.time}, because the way back to ` +
      'their sender is another interface than they came in by';
    return [warning('rp_filter', text, 'correct the routes, or set net.ipv4.conf.all.rp_filter=2')];
  }
}
