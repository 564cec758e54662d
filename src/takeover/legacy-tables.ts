/**
 * Where nf_tables does not reach: the legacy iptables of the kernel, where kube-proxy may have left
 * rules. Its tables are found and named; removing them is up to the operator.
 */
import type { HostFiles } from '../host/files.ts';

/** Tables that kube-proxy would have written to. */
const tables = ['nat', 'filter'];

/** Those that exist, as `iptables-legacy nat`. */
export function findLegacyTables(files: HostFiles): string[] {
  const legacy = (path: string, command: string): string[] => {
    const names = (files.read(path) ?? '').split(/\s+/);
    return tables.filter((table) => names.includes(table)).map((table) => `${command} ${table}`);
  };
  return [
    ...legacy('/proc/net/ip_tables_names', 'iptables-legacy'),
    ...legacy('/proc/net/ip6_tables_names', 'ip6tables-legacy'),
  ];
}
