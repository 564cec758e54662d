/** Addresses and names of this machine's interfaces, and whether it can do IPv6. */
import { readdirSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import type { AddressWatch } from '../kernel/addon.ts';
import { availableModes } from '../modes/index.ts';
import { type Address, type Family, families, parseAddress } from '../net/address.ts';
import type { Clock } from '../time/clock.ts';
import type { ReadableFiles } from './files.ts';
import { isLinkLocalV6 } from './node-ips.ts';

/** The addresses of each interface, by its name. */
type Interfaces = Readonly<Record<string, readonly { readonly address: string }[] | undefined>>;

const linksOfModes = new Set(availableModes().map(({ link }) => link));

/**
 * Addresses of all interfaces that are up, loopback included, each once and in an order that does
 * not depend on the interfaces. Left out are addresses on the links of modes that bind addresses,
 * which belong to Services, and link-local addresses of IPv6: every pod's interface has one.
 */
export function interfaceAddresses(interfaces: Interfaces = networkInterfaces()): Address[] {
  const texts = new Set<string>();
  for (const [name, addresses] of Object.entries(interfaces)) {
    if (linksOfModes.has(name)) continue;
    // A link-local address may have a zone.
    for (const { address } of addresses ?? []) texts.add(address.split('%')[0]!);
  }
  return [...texts].sort().flatMap((text) => {
    const address = parseAddress(text);
    return address === undefined || isLinkLocalV6(address) ? [] : [address];
  });
}

/**
 * The time until they are read again, after a failure or while the kernel sends no notifications.
 */
const retryMs = 5000;
/** The least time between two readings: a burst of changes is read together. */
const restMs = 1000;

interface MachineAddressesOptions {
  readonly after: Clock['after'];
  readonly read: () => readonly Address[];
  /** Subscribes to changes. Throws, or calls with an Error, if it can't (any more). */
  readonly watch: (notify: (error: Error | undefined) => void) => AddressWatch;
  /** The first failure in a row. */
  readonly failed: (error: Error) => void;
  readonly restored: () => void;
  /** The kernel sends no notifications, for the first time in a row. */
  readonly unwatched: (error: Error) => void;
}

/** The addresses of this machine, read when the kernel reports a change. */
export class MachineAddresses {
  readonly #options: MachineAddressesOptions;
  #last: readonly Address[];
  #isFailing = false;
  #isWatched = true;

  /** Reads them. Throws if that fails: a start that does not know them can serve nothing. */
  constructor(options: MachineAddressesOptions) {
    this.#options = options;
    try {
      this.#last = options.read();
    } catch (error) {
      throw new Error(`read the addresses of this machine: ${(error as Error).message}`);
    }
  }

  /** If reading fails (the system lacks file descriptors or memory), the last ones stay. */
  readonly read = (): readonly Address[] => {
    const { failed, read, restored } = this.#options;
    try {
      this.#last = read();
      if (this.#isFailing) restored();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) failed(error as Error);
      this.#isFailing = true;
    }
    return this.#last;
  };

  /**
   * Calls `changed` immediately, and when they may have changed; it must read them then. Returns a
   * function that ends this.
   */
  readonly follow = (changed: () => void): (() => void) => {
    const { after, unwatched, watch } = this.#options;
    let watching: AddressWatch | undefined;
    let stopResting: (() => void) | undefined;
    let stopWaiting = (): void => {};
    let isOver = false;
    let isDue = false;
    const report = (): void => {
      isDue = false;
      changed();
      if (isOver) return;
      stopResting = after(this.#isFailing ? retryMs : restMs, () => {
        stopResting = undefined;
        if (isDue || this.#isFailing) report();
      });
    };
    const reportSoon = (): void => {
      if (stopResting === undefined) report();
      else isDue = true;
    };
    const ended = (error: Error): void => {
      if (this.#isWatched) unwatched(error);
      this.#isWatched = false;
      stopWaiting = after(retryMs, begin);
    };
    const begin = (): void => {
      try {
        watching = watch((error) => (error === undefined ? reportSoon() : ended(error)));
        this.#isWatched = true;
      } catch (error) {
        ended(error as Error);
      }
      // Earlier changes were not reported.
      reportSoon();
    };
    begin();
    return () => {
      isOver = true;
      watching?.close();
      stopResting?.();
      stopWaiting();
    };
  };
}

/** The families that this machine can do (behaviour document 3.5). */
export function availableFamilies(files: ReadableFiles): readonly Family[] {
  return isIPv6Available(files) ? families : ['IPv4'];
}

function isIPv6Available(files: ReadableFiles): boolean {
  if (files.read('/proc/net/if_inet6') === undefined) return false;
  // If the setting does not exist, `if_inet6` decides.
  return files.read('/proc/sys/net/ipv6/conf/all/disable_ipv6') !== '1';
}

const interfacesFolder = '/sys/class/net';

/** Names of interfaces by index, as the kernel's events have it. One that is gone is shown by its index. */
export function interfaceNames(files: ReadableFiles): (index: number) => string {
  return (index) => {
    const isIt = (name: string): boolean =>
      files.read(`${interfacesFolder}/${name}/ifindex`) === String(index);
    return readdirSync(interfacesFolder).find(isIt) ?? `interface ${index}`;
  };
}
