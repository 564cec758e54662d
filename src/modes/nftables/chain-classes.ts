import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import type { ModeConfig } from '../mode.ts';
import { isCommon, type TreatmentClass, treatmentChains } from './chains.ts';

const treatmentNumbers = { internal: 0, external: 1, 'external-local': 2 } as const;

/**
 * When there are more than this, all are forgotten: otherwise pools that pass through every length
 * would fill the memory.
 */
const rememberedMax = 2000;

/** More than any pool has endpoints. Its square still fits into a number. */
const poolsMax = 2 ** 20;

/**
 * The chains that frontends share, each made once: there are many frontends and few different
 * chains. The keys are numbers, because a string would have to be made for each frontend.
 */
export class ChainClasses {
  readonly config: ModeConfig;
  readonly #treatments = new Map<number, readonly ChainDefinition[]>();

  constructor(config: ModeConfig) {
    this.config = config;
  }

  /** See `treatmentChains`. */
  treatment(treatmentClass: TreatmentClass): readonly ChainDefinition[] {
    const { deal, maps, treatment, endpoints, localEndpoints } = treatmentClass;
    if (!isCommon(deal)) return treatmentChains(this.config, treatmentClass);
    const way = treatmentNumbers[treatment];
    const id = ((maps.number * 3 + way) * poolsMax + endpoints) * poolsMax + localEndpoints;
    let chains = this.#treatments.get(id);
    if (chains === undefined) {
      chains = treatmentChains(this.config, treatmentClass);
      if (this.#treatments.size >= rememberedMax) this.#treatments.clear();
      this.#treatments.set(id, chains);
    }
    return chains;
  }
}
