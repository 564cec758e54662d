/**
 * The modes, best first.
 * - `fallback`: the mode that runs where the kernel cannot do this one.
 * - `section`: the section of the configuration that has its sync periods.
 * - `frontendEndpoints`: the most endpoints of a frontend, by default. That number is planned in 50 ms
 *   and committed well within 1 s. In mode iptables an endpoint is a chain and three rules,
 *   elsewhere an element or a real server.
 */
export const modeTable = {
  nftables: { fallback: 'iptables', section: 'nftables', frontendEndpoints: 10_000 },
  ipvs: { fallback: 'iptables', section: 'ipvs', frontendEndpoints: 10_000 },
  iptables: { fallback: 'userspace', section: 'iptables', frontendEndpoints: 5000 },
  userspace: { fallback: undefined, section: 'iptables', frontendEndpoints: 10_000 },
} as const;

export type ModeName = keyof typeof modeTable;

export const modeNames = Object.keys(modeTable) as readonly ModeName[];

export function isModeName(text: string): text is ModeName {
  return Object.hasOwn(modeTable, text);
}
