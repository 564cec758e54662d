/** Lists of Services that are read page by page while Services change. */

/** The answer at a path; undefined: it says that the reader must start again. */
type Ask = (path: string) => Promise<ListOfServices | undefined>;

interface ListOfServices {
  readonly items: readonly { namespace: string; name: string; reasons: readonly string[] }[];
  readonly continue?: string;
}

/**
 * Services that no page had, although all the time each was there, with its problems or without.
 * `edit` changes some of them.
 */
export async function servicesLeftOut(
  ask: Ask,
  edit: () => Promise<void>,
): Promise<readonly string[]> {
  let steady = await troubles(ask);
  const listed = new Set<string>();
  let place = '';
  do {
    const page = await ask(`/fairlead/v1/services?order=problems&limit=2${place}`);
    if (page === undefined) return [];
    for (const { name, namespace } of page.items) listed.add(`${namespace}/${name}`);
    place = page.continue === undefined ? '' : `&continue=${encodeURIComponent(page.continue)}`;
    await edit();
    const now = await troubles(ask);
    steady = new Map([...steady].filter(([key, isTroubled]) => now.get(key) === isTroubled));
  } while (place !== '');
  return [...steady.keys()].filter((key) => !listed.has(key));
}

/** Whether each Service has problems. */
async function troubles(ask: Ask): Promise<ReadonlyMap<string, boolean>> {
  const { items = [] } = (await ask('/fairlead/v1/services?limit=1000')) ?? {};
  return new Map(
    items.map(({ name, namespace, reasons }) => [`${namespace}/${name}`, reasons.length > 0]),
  );
}
