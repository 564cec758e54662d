/** Reads what the kernel does with Services by other programs: nft, iptables, ipvsadm, ss. */
import { FAMILIES, type Family, hostPort } from '../lab/addresses.ts';
import { MODES, type Mode, type NodeUnderTest } from '../lab/proxy.ts';
import type { Frontends } from './life.ts';

export const modes = MODES;
export type { Mode };

export interface Reading {
  /** In mode userspace they are without endpoints, which only the program knows. */
  readonly frontends: Frontends;
  /** A line for each object. Lines that differ between two readings were written. */
  readonly lines: readonly string[];
  /** Objects that no packet can reach. They are deleted a little later. */
  readonly unused: readonly string[];
}

/**
 * Reads all objects of this mode in the kernel of the node. While the node changes them, readings
 * never agree: `isAtRest` false asks for what one reading says.
 */
export async function read(mode: Mode, node: NodeUnderTest, isAtRest = true): Promise<Reading> {
  const parts = await Promise.all(FAMILIES.map((family) => readers[mode](node, family, isAtRest)));
  return {
    frontends: new Map(parts.flatMap(({ frontends }) => [...frontends])),
    lines: parts.flatMap(({ lines }) => lines),
    unused: parts.flatMap(({ unused }) => unused),
  };
}

/** Lines that only one of two readings has: gone with a minus, new with a plus. */
export function changedLines(before: Reading, after: Reading): string[] {
  const counts = new Map<string, number>();
  for (const line of before.lines) counts.set(line, (counts.get(line) ?? 0) - 1);
  for (const line of after.lines) counts.set(line, (counts.get(line) ?? 0) + 1);
  return [...counts].flatMap(([line, count]) =>
    Array.from({ length: Math.abs(count) }, () => `${count < 0 ? '-' : '+'} ${line}`),
  );
}

/** A line of a chain that mode iptables writes as a whole: its family and name. */
const wholeChain = /^(IPv[46] )(?:-A |:)(KUBE-(?:SVC|SVL|EXT|FW|SEP)-\S+)/;

/** A line of ipvsadm about an endpoint that gets new connections. */
const servesEndpoint = /^-a (?!.* -w 0\b)/;

/**
 * The number of writes that lead from one reading to the other. In mode iptables, a Service's chain
 * is written as a whole when a rule of it differs, because rules depend on their order and their
 * number. In mode ipvs, an endpoint that is removed is drained first, and deleted later. All else
 * is a write for each line.
 */
export function writesNeeded(before: Reading, after: Reading): number {
  const [old, next] = [chainsOf(before), chainsOf(after)];
  let writes = changedLines(old.rest, next.rest).length;
  for (const name of new Set([...old.chains.keys(), ...next.chains.keys()])) {
    const [was, is] = [old.chains.get(name) ?? [], next.chains.get(name) ?? []];
    if (was.join('\n') === is.join('\n')) continue;
    // Its rules, and the chain itself, which is added and flushed. Without rules it is deleted,
    // too.
    writes += is.length === 0 ? 3 : is.length + 1;
  }
  const stays = new Set(after.lines);
  const drained = before.lines.filter((line) => servesEndpoint.test(line) && !stays.has(line));
  return writes + drained.length;
}

function chainsOf(reading: Reading): { chains: Map<string, string[]>; rest: Reading } {
  const chains = new Map<string, string[]>();
  const lines = reading.lines.filter((line) => {
    const [, family = '', name = ''] = wholeChain.exec(line) ?? [];
    if (name !== '') chains.set(family + name, [...(chains.get(family + name) ?? []), line]);
    return name === '';
  });
  return { chains, rest: { ...reading, lines } };
}

/** Describes the first frontends that differ from what is desired; none = all are equal. */
export function differences(found: Frontends, wanted: Frontends): string[] {
  const frontends = new Set([...found.keys(), ...wanted.keys()]);
  return [...frontends].flatMap((frontend) => {
    const has = found.get(frontend)?.join(' ');
    const wants = wanted.get(frontend)?.join(' ');
    return has === wants ? [] : [`${frontend}: has ${words(has)}, wanted ${words(wants)}`];
  });
}

function words(endpoints: string | undefined): string {
  if (endpoints === undefined) return 'nothing';
  return endpoints === '' ? 'no endpoints' : endpoints;
}

type Reader = (node: NodeUnderTest, family: Family, isAtRest: boolean) => Promise<Reading>;

const readers: Readonly<Record<Mode, Reader>> = {
  nftables: readNftables,
  ipvs: readIpvs,
  iptables: readIptables,
  userspace: readSockets,
};

/** An element of a map as `nft -j` prints it. */
type Part = string | number | { readonly [kind: string]: unknown };

interface Table {
  /** The keys and data of each map, and the keys of each set. */
  readonly elements: ReadonlyMap<string, readonly (readonly [Part[], Part[]])[]>;
  readonly lines: readonly string[];
  /** Shared chains without references. Their names have a number. */
  readonly unusedChains: readonly string[];
}

/** @throws Error with the command and what it printed, if that is not JSON. */
function parsed(argv: readonly string[], text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const printed = `${text.slice(0, 100)} … ${text.slice(-100)}`;
    throw new Error(`${argv.join(' ')} printed ${text.length} characters: ${printed}`, {
      cause: error,
    });
  }
}

async function readTable(node: NodeUnderTest, family: Family, name: string): Promise<Table> {
  const argv = ['nft', '-j', 'list', 'table', nftFamily[family], name];
  // Before the first load there is no table.
  const text = await node.run(argv).catch(() => '{"nftables":[]}');
  const objects = (parsed(argv, text) as { nftables: Record<string, JsonObject>[] }).nftables;
  const elements = new Map<string, [Part[], Part[]][]>();
  const lines: string[] = [];
  for (const object of objects) {
    const [kind, { handle: _, ...fields }] = Object.entries(object)[0]!;
    if (kind === 'metainfo') continue;
    const { elem = [], ...definition } = fields;
    lines.push(`${family} ${kind} ${JSON.stringify(definition)}`);
    if (kind !== 'map' && kind !== 'set') continue;
    const list = (elem as unknown[]).map((each): [Part[], Part[]] =>
      kind === 'map' && Array.isArray(each) ? [parts(each[0]), parts(each[1])] : [parts(each), []],
    );
    elements.set(String(fields.name), list);
    for (const each of list) lines.push(`${family} ${fields.name} ${JSON.stringify(each)}`);
  }
  const targets = new Set([...text.matchAll(/"target": "([^"]+)"/g)].map((match) => match[1]));
  const unusedChains = objects
    .flatMap(({ chain }) => (chain === undefined || chain.hook !== undefined ? [] : [chain.name]))
    .filter((chain) => /\d/.test(String(chain)) && !targets.has(String(chain)))
    .map((chain) => `chain ${chain}`);
  return { elements, lines, unusedChains };
}

type JsonObject = { readonly [key: string]: unknown };

const nftFamily: Readonly<Record<Family, string>> = { IPv4: 'ip', IPv6: 'ip6' };

function parts(value: unknown): Part[] {
  const { concat, elem } = value as { concat?: Part[]; elem?: { val: unknown } };
  if (elem !== undefined) return parts(elem.val);
  return concat ?? [value as Part];
}

function frontendOf([address, protocol, port]: readonly Part[]): string {
  return `${protocol} ${hostPort(String(address), Number(port))}`;
}

async function readNftables(node: NodeUnderTest, family: Family): Promise<Reading> {
  const { elements, lines, unusedChains } = await readTable(node, family, 'fairlead');
  const frontends = new Map<string, string[]>();
  for (const [key] of elements.get('no-endpoint-services') ?? [])
    frontends.set(frontendOf(key), []);
  // The treatment `cluster-4-e` draws an index below 4 until there is such an endpoint.
  const places = new Map<string, number>();
  for (const [key, [verdict]] of elements.get('services') ?? []) {
    const { target } = (verdict as { goto?: { target: string } }).goto ?? { target: '' };
    places.set(frontendOf(key), Number(/-(\d+)-/.exec(target)?.[1]));
    frontends.set(frontendOf(key), []);
  }
  const unused = [...unusedChains];
  for (const [map, list] of elements) {
    if (!map.startsWith('endpoints-')) continue;
    for (const [key, [address, port]] of list) {
      const frontend = frontendOf(key);
      const endpoint = hostPort(String(address), Number(port));
      const used = Number(key[3]) < (places.get(frontend) ?? 0);
      if (used) frontends.get(frontend)!.push(endpoint);
      else unused.push(`${map}: ${frontend} ${key[3]} ${endpoint}`);
    }
  }
  for (const [frontend, count] of places) {
    const pool = frontends.get(frontend)!.sort();
    const isFull = pool.length <= count && pool.length > (count > 2 ? count / 2 : 0);
    if (!isFull) pool.push(`but drawn from ${count} places`);
  }
  return { frontends, lines, unused };
}

/** Follows the jumps from KUBE-SERVICES to where destinations are rewritten. */
async function readIptables(node: NodeUnderTest, family: Family): Promise<Reading> {
  const save = family === 'IPv4' ? 'iptables-nft-save' : 'ip6tables-nft-save';
  const text = await node.run([save]);
  const rules = text
    .split('\n')
    .map((line) => line.replace(/^\[\d+:\d+\] /, '').replace(/ \[\d+:\d+\]$/, ''))
    .filter((line) => line.startsWith('-A ') || line.startsWith(':'));
  const chains = new Map<string, string[]>();
  for (const rule of rules) {
    const chain = /^-A (\S+)/.exec(rule)?.[1];
    if (chain !== undefined) chains.set(chain, [...(chains.get(chain) ?? []), rule]);
  }
  const endpoints = (chain: string): string[] =>
    (chains.get(chain) ?? []).flatMap((rule) => {
      const to = /--to-destination (\S+)/.exec(rule)?.[1];
      if (to !== undefined) return [to];
      const next = /-j (KUBE-(?:SVC|SEP|EXT|SVL|FW)-\S+)/.exec(rule)?.[1];
      return next === undefined ? [] : endpoints(next);
    });
  const frontends = new Map<string, string[]>();
  for (const rule of chains.get('KUBE-SERVICES') ?? []) {
    const [, address] = /-d (\S+?)\/\d+/.exec(rule) ?? [];
    const [, protocol] = /-p (\S+)/.exec(rule) ?? [];
    const [, port] = /--dport (\d+)/.exec(rule) ?? [];
    const [, target = ''] = /-j (\S+)/.exec(rule) ?? [];
    if (address === undefined || port === undefined || target === 'KUBE-MARK-MASQ') continue;
    frontends.set(`${protocol} ${hostPort(address, Number(port))}`, endpoints(target).sort());
  }
  // Frontends without endpoints are refused in table filter, those of load balancers elsewhere.
  for (const rule of chains.get('KUBE-EXTERNAL-SERVICES') ?? []) {
    const [, address] = /-d (\S+?)\/\d+/.exec(rule) ?? [];
    const [, protocol] = /-p (\S+)/.exec(rule) ?? [];
    const [, port] = /--dport (\d+)/.exec(rule) ?? [];
    if (address === undefined || port === undefined) continue;
    frontends.set(`${protocol} ${hostPort(address, Number(port))}`, []);
  }
  const jumps = new Set(rules.map((rule) => /-[jg] (\S+)/.exec(rule)?.[1]));
  const unused = [...chains.keys()].filter((name) => name.startsWith('KUBE-') && !jumps.has(name));
  return { frontends, lines: rules.map((rule) => `${family} ${rule}`), unused };
}

const showAddresses = ['ip', '-j', 'address', 'show', 'dev', 'kube-ipvs0'];

async function readIpvs(node: NodeUnderTest, family: Family, isAtRest: boolean): Promise<Reading> {
  const [services, links, table] = await Promise.all([
    readVirtualServices(node, isAtRest),
    node.run(showAddresses).catch(() => '[]'),
    readTable(node, family, 'fairlead-ipvs'),
  ]);
  const frontends = new Map<string, string[]>();
  for (const set of ['rejected', 'dropped', 'dropped-outside']) {
    for (const [key] of table.elements.get(set) ?? []) frontends.set(frontendOf(key), []);
  }
  const ofFamily = services
    .split('\n')
    .filter((line) => line !== '' && line.includes('[') === (family === 'IPv6'));
  for (const line of ofFamily) {
    const [, command, protocol, frontend, rest = ''] = /^-(\w) -([tu]) (\S+)(.*)$/.exec(line) ?? [];
    const key = `${protocol === 't' ? 'tcp' : 'udp'} ${frontend}`;
    if (command === 'A') frontends.set(key, []);
    const server = /-r (\S+)/.exec(rest)?.[1];
    // Weight 0: the endpoint drains, and gets no new connections.
    if (server !== undefined && !rest.includes('-w 0')) frontends.get(key)?.push(server);
  }
  for (const pool of frontends.values()) pool.sort();
  const bound = (
    parsed(showAddresses, links) as { addr_info?: { family: string; local: string }[] }[]
  )
    .flatMap((link) => link.addr_info ?? [])
    .filter((info) => info.family === (family === 'IPv4' ? 'inet' : 'inet6'))
    .map(({ local }) => `${family} address ${local}`);
  // No connection of these runs is to an endpoint that goes: what drains is deleted a moment later.
  const draining = ofFamily.filter((line) => / -w 0\b/.test(line));
  const unused = [...table.unusedChains, ...draining];
  return { frontends, lines: [...table.lines, ...bound, ...ofFamily], unused };
}

/**
 * The kernel counts the virtual services of all network namespaces while it lists those of one.
 * Changes by other nodes in that time make it omit some. So the list is read until it is the same
 * twice.
 */
async function readVirtualServices(node: NodeUnderTest, isAtRest: boolean): Promise<string> {
  for (let last = await node.run(['ipvsadm', '-Sn']); ; ) {
    if (!isAtRest) return last;
    const again = await node.run(['ipvsadm', '-Sn']);
    if (again === last) return again;
    last = again;
  }
}

async function readSockets(node: NodeUnderTest, family: Family): Promise<Reading> {
  const argv = ['ss', '--no-header', '--numeric', '--tcp', '--udp', '--listening'];
  const text = await node.run([...argv, family === 'IPv4' ? '-4' : '-6']);
  const sockets = text.split('\n').filter((line) => line !== '');
  const frontends = new Map<string, string[]>();
  const lines: string[] = [];
  for (const socket of sockets) {
    const [protocol, , , , local = ''] = socket.split(/\s+/);
    lines.push(`${protocol} ${local}`);
    // Other sockets are those of the node: health, metrics, the fake API server.
    const address = local.replace(/^\[|]?:\d+$/g, '');
    const ofService = /^(10\.96|203\.0\.113)\.|^(fd00:96|2001:db8:1):/.test(address);
    if (ofService) frontends.set(`${protocol} ${local}`, []);
  }
  return { frontends, lines, unused: [] };
}
