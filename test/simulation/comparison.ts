/** States of kernels and answers as lines, and what differs in them. */
import { type Family, families, formatEndpoint } from '../../src/net/address.ts';
import type { FakeKernel } from '../fake/kernel.ts';
import type { WrittenSockets } from '../fake/sockets.ts';

/**
 * The state, without what depends on the past: the places of endpoints in their pool, and what
 * packets have written, which is the endpoint of a client. Tables of iptables stay when our rules
 * in them go: other programs may use them, and so does what is in the kubelet's chain.
 */
export function linesOf(kernel: FakeKernel, sockets: WrittenSockets): string[] {
  const learned = /^\s+[\da-f.:]+ : \S+ \. \d+$/;
  const placed = /^(\s+.* \. )\d+( : \S+ \. \d+)$/;
  const shared = /^ *(|\}|policy .*|type .* hook .*|chain [A-Z]+ \{|table ip6? [a-z]+ \{)$/;
  const ofKubelet = / KUBE-FIREWALL\b|"block incoming localnet connections"/;
  const addresses = ['kube-ipvs0', 'fairlead0'].flatMap((one) => kernel.links.texts(one) ?? []);
  // What their maps hold depends on a secret, and on past refusals.
  const programs = Array.from(kernel.bpf.links, (link) => JSON.stringify(link));
  // It is there for seconds after a question.
  const counts = /^table \S+ fairlead-refused \{$[\s\S]*?^\}$/gm;
  return `${kernel.ruleset().replaceAll(counts, '')}${kernel.ipvs.text()}`
    .split('\n')
    .filter((line) => ![learned, shared, ofKubelet].some((kind) => kind.test(line)))
    .map((line) => line.replace(placed, '$1*$2'))
    .concat(
      addresses,
      programs,
      families.flatMap((family) => socketsOf(sockets, family)),
    )
    .sort();
}

function socketsOf(sockets: WrittenSockets, family: Family): string[] {
  return Array.from(sockets.frontends(family), ({ address, pools, port, protocol }) => {
    const ends = Object.entries(pools).map(([from, pool]) => [from, pool.texts().sort()]);
    return `${protocol} ${formatEndpoint(address.bytes, port)} ${JSON.stringify(ends)}`;
  });
}

/** The words of a text, in an order that does not depend on theirs. */
export function words(text: string): string {
  return text.split(/\W+/).sort().join(' ');
}

/** Lines that only the first has, with a `+`, and only the second, with a `-`. */
export function difference(now: readonly string[], expected: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const line of now) counts.set(line, (counts.get(line) ?? 0) + 1);
  for (const line of expected) counts.set(line, (counts.get(line) ?? 0) - 1);
  return [...counts]
    .filter(([, count]) => count !== 0)
    .map(([line, count]) => `${count > 0 ? '+' : '-'} ${line}`);
}

/**
 * Values of metrics that depend on the present alone. The room in maps grows slowly after it was
 * too little.
 */
export function gaugesIn(metrics: string): string[] {
  const ofPast = /_seconds|_last$|^(nodejs|process|fairlead_(affinity|connect_time))_/;
  const names = metrics.matchAll(/^# TYPE (\S+) gauge$/gm);
  const gauges = new Set(Array.from(names, ([, name]) => name).filter((one) => !ofPast.test(one!)));
  return metrics.split('\n').filter((line) => gauges.has(/^\w+/.exec(line)?.[0]));
}
