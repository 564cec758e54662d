/**
 * A kube-proxy that runs as well, by its rules: what one has left is removed. They are looked for
 * when answers and metrics ask, not more often than every five seconds; never for a packet or a
 * change.
 */
import type { Config } from '../../config/config.ts';
import { type Finding, problem } from '../../host/finding.ts';
import { isKernelError, orElse } from '../../kernel/errors.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import type { ProgrammedFamily } from '../../state/frontends-in-force.ts';
import { canary, nftablesTable } from '../../takeover/names.ts';
import { readProxyTable } from '../../takeover/sign.ts';
import type { Clock } from '../../time/clock.ts';
import { type Refresh, refreshing, seldomKept } from './answer-pacer.ts';

interface Known {
  readonly clock: Pick<Clock, 'now'>;
  readonly config: Pick<Config, 'serviceProxyName'>;
  readonly families: readonly ProgrammedFamily[];
  readonly kernel: KernelReader;
  readonly mode: Pick<ModeFacts, 'ownsChain'>;
}

export class SecondProxy {
  readonly refresh: Refresh;
  /** What two looks in a row find is certain: at a start the takeover comes in between. */
  #suspects: readonly string[] = [];
  #certain: readonly string[] = [];

  constructor(known: Known) {
    this.refresh = refreshing(known, seldomKept, async () => {
      const found = await orElse(rulesIn(known), [], isKernelError);
      this.#certain = found.filter((one) => this.#suspects.includes(one));
      this.#suspects = found;
    });
  }

  get findings(): readonly Finding[] {
    const advice = 'its rules may come first; keep it off this node (docs/migrating.md)';
    return this.#certain.slice(0, 1).map((object) => {
      return problem('kube-proxy', `runs here as well: its ${object} is there`, advice);
    });
  }
}

async function rulesIn({ config, families, kernel, mode }: Known): Promise<string[]> {
  const found: string[] = [];
  for (const { family: name, inForce } of families) {
    if (inForce.size === 0 || config.serviceProxyName !== '') continue;
    const [family, table] = [NFPROTO[name], await readProxyTable(kernel, name)];
    const word = familyWord(family);
    if (table === 'kube-proxy' || table === 'both') found.push(`table ${word} ${nftablesTable}`);
    // Mode iptables has it, too, and tens of thousands of other chains.
    if (mode.ownsChain !== undefined) continue;
    await kernel.dump({ kind: 'chainsDump', family, table: 'mangle' }, (one) => {
      const isIt = one.kind === 'chain' && one.table === 'mangle' && one.chain === canary;
      if (isIt) found.push(`chain ${word} mangle ${canary}`);
    });
  }
  return found;
}
