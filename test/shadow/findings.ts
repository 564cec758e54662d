/** What `fairlead shadow -o json` said, and whether that is what was planted. */
import type { Plant } from './plants.ts';

export interface Said {
  readonly compared: readonly { readonly family: string; readonly mode: string }[];
  readonly frontends: number;
  readonly unread: readonly string[];
  readonly unsettled: number;
  readonly differences: readonly { readonly service: string; readonly text: string }[];
}

/** Plants that were not found, and differences of Services without any. */
export function misjudged(said: Said, planted: readonly Plant[]): string[] {
  const isOf = (service: string, plant: Plant): boolean =>
    service === plant.service || service.startsWith(`${plant.service}:`);
  const missed = planted.filter((plant) => {
    return !said.differences.some(
      ({ service, text }) => isOf(service, plant) && plant.says.test(text),
    );
  });
  const wrong = said.differences.filter(({ service }) => {
    return !planted.some((plant) => isOf(service, plant));
  });
  return [
    ...said.unread.map((frontend) => `not compared: ${frontend}`),
    ...missed.map(({ service, says }) => `not found: ${service} ${says}`),
    ...wrong.map(({ service, text }) => `false: ${service} ${text}`),
  ];
}
