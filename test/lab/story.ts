/**
 * A story is data: what is applied to the node under test, who then connects to what, and what the
 * outcome must be. It does not depend on a mode. README.md has an example.
 */
import type { ActorName, Addresses, DualAddresses, Family } from './addresses.ts';
import { fromYaml, type KubernetesObject } from './objects.ts';
import type { IcmpReason, Protocol, SocketAddress } from './outcome.ts';
import type { Mode, ProxySettings } from './proxy.ts';

export interface Story {
  /** One sentence about behaviour: it becomes a line of docs/semantics.md. */
  readonly name: string;
  /** Sections of the behaviour document, such as `5.4` or `12.40` for edge case 40. */
  readonly covers: readonly string[];
  /** Default: both. Every connecting step runs for each. */
  readonly families?: readonly Family[];
  /** Default: a working local detector by ClusterCIDR, nothing else. */
  readonly settings?: ProxySettings;
  /**
   * Servers in addition to those that the runner starts by itself: one on each address and port of
   * every applied EndpointSlice that belongs to an actor, whatever the endpoint's conditions.
   */
  readonly servers?: readonly Server[];
  /** Further addresses of the node, as when a cloud binds load-balancer addresses to it. */
  readonly nodeAddresses?: readonly DualAddresses[];
  /** Modes that differ by design, each with the reason; the story does not run there. */
  readonly differsIn?: Readonly<Partial<Record<Mode, string>>>;
  readonly steps: readonly Step[];
}

type Others = Omit<Story, 'name' | 'covers' | 'steps'>;
type Steps = Story['steps'];

/** `covers`: sections with spaces between them; `others`: what else the story has. */
export function storyOf(name: string, covers: string, steps: Steps): Story;
export function storyOf(name: string, covers: string, others: Others, steps: Steps): Story;
export function storyOf(name: string, covers: string, ...given: [Steps] | [Others, Steps]): Story {
  const [others, steps] = given.length === 1 ? [{}, given[0]] : given;
  return { name, covers: covers.split(' '), ...others, steps };
}

export interface Server {
  readonly actor: ActorName;
  readonly at: Target;
}

/** A destination in each family that it exists in; other families skip the step. */
export interface Target {
  readonly addresses: Addresses;
  readonly port: number;
  readonly protocol: Protocol;
}

/**
 * The source address that a server must see: the client's own address, any address of the node
 * under test (masqueraded), one given address, or any.
 */
export type SeenSource = 'own' | 'node' | 'any' | DualAddresses;

/** Answering servers: an actor's name, or `pod-a:8081` for one of its ports. */
export type Answers = Readonly<Record<string, SeenSource>>;

export type Expectation =
  /** every: each of `by` and no other answers; one: always the same of `by`; any: only `by`. */
  | { readonly kind: 'answered'; readonly by: Answers; readonly spread: 'every' | 'one' | 'any' }
  | { readonly kind: 'reset' }
  /** At least one connection is reset; `by` may answer others. */
  | { readonly kind: 'some-reset'; readonly by: ActorName }
  | { readonly kind: 'unreachable'; readonly icmp: IcmpReason }
  /** Either of the two above: for modes that refuse in different ways. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'closed' }
  | { readonly kind: 'silence' };

export interface ConnectOptions {
  /** Explicit ports are below 10000 or above 29999: the agents use those between. */
  readonly from?: {
    readonly addresses?: Addresses;
    readonly port?: number;
    /** In place of `addresses`: connections come from each of them, and are judged together. */
    readonly each?: readonly Addresses[];
  };
  /** The least number of connections. More are made while an expected server has not answered. */
  readonly connections?: number;
  readonly families?: readonly Family[];
}

interface Connecting extends ConnectOptions {
  readonly actor: ActorName;
  readonly to: Target;
  readonly expect: Expectation;
}

export type Step =
  | { readonly do: 'apply'; readonly objects: readonly KubernetesObject[] }
  | { readonly do: 'remove'; readonly objects: readonly KubernetesObject[] }
  | ({ readonly do: 'connect' } & Connecting)
  | ({
      readonly do: 'open';
      readonly flow: string;
      /** TCP: a download starts now, 3 MB/s, and continues until `resume`. */
      readonly download?: 'endless';
    } & Connecting)
  | {
      readonly do: 'resume';
      readonly flow: string;
      readonly expect: Expectation;
      /** Until then the flow is answered, or silent. */
      readonly inTheEnd?: true;
    }
  | { readonly do: 'wait'; readonly ms: number; readonly why: string }
  /** The proxy's clock, not the kernel's, is later by this time; then a moment for what it does. */
  | { readonly do: 'skip'; readonly ms: number; readonly why: string }
  /** Waits until no interface of the node has any of these addresses. */
  | { readonly do: 'unbound'; readonly addresses: readonly string[] }
  /** The proxy ends and starts again, perhaps with other settings. */
  | { readonly do: 'restart'; readonly settings?: ProxySettings };

export function at(addresses: Addresses, port: number, protocol: Protocol = 'TCP'): Target {
  return { addresses, port, protocol };
}

/** Adds or replaces objects, in one change. Strings are YAML. */
export function apply(...objects: readonly (KubernetesObject | string)[]): Step {
  return {
    do: 'apply',
    objects: objects.flatMap((each) => (typeof each === 'string' ? fromYaml(each) : [each])),
  };
}

/** Deletes objects, known by kind, namespace and name. */
export function remove(...objects: readonly KubernetesObject[]): Step {
  return { do: 'remove', objects };
}

export function connect(
  actor: ActorName,
  to: Target,
  expect: Expectation,
  options: ConnectOptions = {},
): Step {
  return { do: 'connect', actor, to, expect, ...options };
}

/** One connection, kept open under a name. */
export function open(
  flow: string,
  actor: ActorName,
  to: Target,
  expect: Expectation,
  options: ConnectOptions & { readonly download?: 'endless' } = {},
): Step {
  return { do: 'open', flow, actor, to, expect, ...options };
}

/** Asks again on an open connection. */
export function resume(flow: string, expect: Expectation): Step {
  return { do: 'resume', flow, expect };
}

/** Asks again and again until that is the outcome. */
export function resumeUntil(flow: string, expect: Expectation): Step {
  return { do: 'resume', flow, expect, inTheEnd: true };
}

export function wait(ms: number, why: string): Step {
  return { do: 'wait', ms, why };
}

export function skip(ms: number, why: string): Step {
  return { do: 'skip', ms, why };
}

export function unbound(...addresses: readonly string[]): Step {
  return { do: 'unbound', addresses };
}

export function restart(settings?: ProxySettings): Step {
  return settings === undefined ? { do: 'restart' } : { do: 'restart', settings };
}

/** All of these servers answer, and no other. */
export function answered(by: Answers): Expectation {
  return { kind: 'answered', by, spread: 'every' };
}

/** One of these servers answers every time. */
export function answeredByOne(by: Answers): Expectation {
  return { kind: 'answered', by, spread: 'one' };
}

/** Only these servers answer, perhaps not each of them. */
export function answeredByAny(by: Answers): Expectation {
  return { kind: 'answered', by, spread: 'any' };
}

export const reset: Expectation = { kind: 'reset' };

/**
 * The clients are no longer bound to `server`: a new endpoint is chosen for each, which resets the
 * connection, or may be the same server by chance. The Service must have no other server: it would
 * be chosen by chance, too.
 */
export function chosenAgain(server: ActorName): Expectation {
  return { kind: 'some-reset', by: server };
}

export const refused: Expectation = { kind: 'refused' };
export const closed: Expectation = { kind: 'closed' };
export const silence: Expectation = { kind: 'silence' };

export function unreachable(icmp: IcmpReason = 'port-unreachable'): Expectation {
  return { kind: 'unreachable', icmp };
}

/** `10.96.0.10:80/UDP` needs the family: this is the short form for messages. */
export function targetAddress(target: Target, family: Family): SocketAddress | undefined {
  const address = target.addresses[family];
  return address === undefined ? undefined : { address, port: target.port };
}
