/**
 * What kube-proxy may have left where nf_tables does not reach: the legacy iptables of the kernel,
 * and IPVS. It is found and named; removing it is up to the operator.
 */
import type { HostFiles } from '../host/files.ts';

export interface Elsewhere {
  /** Tables of legacy iptables that exist, as `iptables-legacy nat`. */
  readonly legacyTables: readonly string[];
  /** Virtual servers of IPVS; anybody's. */
  readonly virtualServers: number;
  /** Whether there is kube-proxy's dummy interface. */
  readonly dummyInterface: boolean;
}

/** Tables that kube-proxy would have written to. */
const tables = ['nat', 'filter'];

export function lookElsewhere(files: HostFiles): Elsewhere {
  const legacy = (path: string, command: string): string[] => {
    const names = (files.read(path) ?? '').split(/\s+/);
    return tables.filter((table) => names.includes(table)).map((table) => `${command} ${table}`);
  };
  const lines = (files.read('/proc/net/ip_vs') ?? '').split('\n');
  return {
    legacyTables: [
      ...legacy('/proc/net/ip_tables_names', 'iptables-legacy'),
      ...legacy('/proc/net/ip6_tables_names', 'ip6tables-legacy'),
    ],
    virtualServers: lines.filter((line) => /^(TCP|UDP|SCTP) /.test(line)).length,
    dummyInterface: /^\s*kube-ipvs0:/m.test(files.read('/proc/net/dev') ?? ''),
  };
}
