import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { wayOf } from '../../state/paths.ts';
import type { ModeConfig } from '../mode.ts';
import { isCommon, type PathClass, pathChains, placesOf } from './chains.ts';

const wayNumbers = { internal: 0, external: 1, 'external-local': 2 } as const;

/**
 * When there are more than this, all are forgotten: otherwise pools that pass through every size
 * would fill the memory.
 */
const rememberedMax = 2000;

/** More than any pool has places. Its square still fits into a number. */
const placesMax = 2 ** 20;

/**
 * The chains that frontends share, each made once: there are many frontends and few different
 * chains. The keys are numbers, because a string would have to be made for each frontend.
 */
export class ChainClasses {
  readonly config: ModeConfig;
  readonly #known = new Map<number, readonly ChainDefinition[]>();

  constructor(config: ModeConfig) {
    this.config = config;
  }

  /** See `pathChains`. */
  of(pathClass: PathClass): readonly ChainDefinition[] {
    const { deal, isRange, maps, paths } = pathClass;
    if (!isCommon(deal)) return pathChains(this.config, pathClass);
    const way = wayNumbers[wayOf(paths)] + (isRange ? 3 : 0);
    const [places, local] = [placesOf(pathClass.endpoints), placesOf(pathClass.localEndpoints)];
    const id = ((maps.number * 6 + way) * placesMax + places) * placesMax + local;
    let chains = this.#known.get(id);
    if (chains === undefined) {
      chains = pathChains(this.config, pathClass);
      if (this.#known.size >= rememberedMax) this.#known.clear();
      this.#known.set(id, chains);
    }
    return chains;
  }
}
