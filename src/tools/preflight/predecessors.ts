/** Checks what kube-proxy and Fairlead have left in the kernel, and what a start takes over. */

import { type Finding, ok, problem, warning } from '../../host/finding.ts';
import { findInstance, formatHolder } from '../../host/instance-lock.ts';
import { orElse, orNone } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import type { ProxyMode } from '../../modes/proxy-mode.ts';
import { families } from '../../net/address.ts';
import { findForeignTables } from '../../takeover/foreign-tables.ts';
import { findIPVSLeftovers, isOurIPVS } from '../../takeover/ipvs-leftovers.ts';
import {
  findLeftovers,
  findLegacyLeftovers,
  kinds,
  type Leftovers,
} from '../../takeover/leftovers.ts';
import { findLegacyTables, legacyPrograms } from '../../takeover/legacy-tables.ts';
import { ownChain } from '../../takeover/names.ts';

/** `running`: the mode that would run. Rejects with KernelError. */
export async function checkPredecessors(
  kernel: Kernel,
  modes: readonly ProxyMode[],
  running: ModeFacts | undefined,
): Promise<Finding[]> {
  const findings = [await checkInstance()];
  for (const mode of modes) findings.push(...(await checkOwn(kernel, mode)));
  // What accepts packets is its own then.
  const isAdopting = running?.hasKubeProxyNames === true;
  const scope = isAdopting ? 'all' : 'replaced';
  for (const family of families) {
    const found = await findLeftovers(kernel, family, kinds, scope, isAdopting ? {} : running);
    findings.push(...ofKubeProxy(found, familyWord(NFPROTO[family])));
    const legacy = await orNone(
      findLegacyLeftovers(kernel, family, 'replaced').then((one) => [one]),
    );
    findings.push(...legacy.flatMap((one) => ofKubeProxy(one, legacyPrograms[family])));
  }
  findings.push(...(await checkIPVS(kernel, modes)), ...(await checkLegacy(kernel)));
  for (const { table, objects } of await findForeignTables(kernel)) {
    const text = `table ${table} has our name and ${objects.length} objects that are not ours`;
    const advice = 'Fairlead replaces it; rename it if another program needs it';
    findings.push(warning('table of our name', text, advice));
  }
  return findings;
}

/** Whether a Fairlead runs already. */
export const instanceCheck = 'another Fairlead';

async function checkInstance(): Promise<Finding> {
  const check = instanceCheck;
  const found = await findInstance();
  if (found.kind === 'none') return ok(check, 'none runs in this network namespace');
  if (found.kind === 'unknown') {
    return warning(check, found.reason, 'see that no other Fairlead runs on this node');
  }
  const advice =
    'a second one waits for 30 s, and fails then: stop this one first, or do not start';
  return problem(check, formatHolder(found.holder), advice);
}

async function checkOwn(kernel: Kernel, mode: ProxyMode): Promise<Finding[]> {
  const owned = await orNone(mode.owned(kernel));
  if (owned.length === 0) return [];
  const text = `${owned.length} objects, such as ${owned[0]!.object}: they are taken over`;
  return [ok(`Fairlead's mode ${mode.name}`, text)];
}

function ofKubeProxy({ tables, chains, jumps, kept }: Leftovers, word: string): Finding[] {
  const check = `kube-proxy in ${word}`;
  const findings = kept.map(({ table, chain, because }) => {
    const advice = 'it stays after the takeover: see who needs it';
    return warning(check, `chain ${table} ${chain}: ${because}`, advice);
  });
  // Chains of our mode iptables have kube-proxy's names, and are reported with that mode.
  const isOurs = chains.some(({ chain }) => chain === ownChain);
  const parts = [
    ...tables.map((table) => `table ${table}`),
    ...(chains.length > 0 && !isOurs ? [`${chains.length} chains, ${jumps.length} jumps`] : []),
  ];
  if (parts.length === 0) return findings;
  const text = `${parts.join(', ')}: taken over once our own rules are verified`;
  return [ok(check, text), ...findings];
}

async function checkIPVS(kernel: Kernel, modes: readonly ProxyMode[]): Promise<Finding[]> {
  const found = await orElse(findIPVSLeftovers(kernel, 'all'), undefined);
  if (found === undefined) return [];
  const { foreign, sets } = found;
  // Those of our own mode are reported with that mode.
  const services = (await isOurIPVS(kernel, modes)) ? [] : found.services;
  const text = `${services.length} virtual services and ${sets.length} sets of its interface`;
  const advice = 'Fairlead keeps them; make sure that no other program serves Services in IPVS';
  return [
    ...(services.length + sets.length > 0
      ? [ok('kube-proxy in IPVS', `${text}: taken over when their connections have ended`)]
      : []),
    ...(foreign > 0 ? [warning('IPVS', `${foreign} virtual services of others`, advice)] : []),
  ];
}

async function checkLegacy(kernel: Kernel): Promise<Finding[]> {
  const tables = await orNone(findLegacyTables(kernel));
  return tables.map((text) => {
    const advice =
      'packets meet these rules in addition to those of nf_tables: see who writes them';
    return warning('iptables-legacy', text, advice);
  });
}
