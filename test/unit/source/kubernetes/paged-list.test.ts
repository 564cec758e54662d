import { expect, it, onTestFinished, vi } from 'vitest';
import type { ApiStream } from '../../../../src/source/kubernetes/api-stream.ts';
import type { Query } from '../../../../src/source/kubernetes/client.ts';
import { json } from '../../../../src/source/kubernetes/encoding.ts';
import { readList } from '../../../../src/source/kubernetes/paged-list.ts';
import { defaultTiming } from '../../../../src/source/kubernetes/timing.ts';
import { Pacer } from '../../../../src/time/pacer.ts';

/** The list in which the server answers each request with these pieces. */
function list(pieces: () => Iterable<string>, maxMs: number): Promise<string> {
  const open = async (_: Query): Promise<ApiStream> => {
    async function* chunks() {
      for (const piece of pieces()) yield Buffer.from(piece);
    }
    return { form: 'json', chunks } as unknown as ApiStream;
  };
  const ignore = (): void => {};
  return readList(
    { open, begin: ignore, item: () => [], unreadable: ignore },
    {
      encodings: { json, protobuf: json },
      objectBytesMax: 1000,
      pacer: new Pacer(),
      pageSize: 500,
      freshness: 'recent',
      maxMs,
    },
  );
}

function* endless(start: string, piece: string): Generator<string> {
  yield start;
  for (;;) yield piece;
}

it.each([
  ['spaces between items', endless('{"items":[', ' ')],
  ['the same item', endless('{"items":[{}', ',{}')],
  ['one item', endless('{"items":[{', ' ')],
])('a list ends after its time although it never ends: %s', async (_what, pieces) => {
  await expect(list(() => pieces, 20)).rejects.toThrow('the list does not end');
});

it.each([
  [0, /the list does not end$/],
  [600_000, /the list does not end after 10000 pages$/],
])(
  'pages without an end end the list after its time, or their number: %i ms',
  async (maxMs, why) => {
    let pages = 0;
    const next = (): string[] => {
      pages += 1;
      return [`{"metadata":{"resourceVersion":"1","continue":"${pages}"}}`];
    };
    await expect(list(next, maxMs)).rejects.toThrow(why);
  },
);

it('a list may take ten minutes, and no longer', async () => {
  let minutes = 0;
  const now = vi.spyOn(performance, 'now').mockImplementation(() => minutes * 60_000);
  onTestFinished(() => now.mockRestore());
  function* slow(): Generator<string> {
    yield '{"items":[';
    for (;;) {
      minutes += 1;
      yield ' ';
    }
  }
  await expect(list(slow, defaultTiming.pagedListMaxMs)).rejects.toThrow('the list does not end');
  expect(minutes).toBe(11);
});

it.each([
  ['continue', 2048, { resourceVersion: '1' }],
  ['resourceVersion', 2048, {}],
])('a list whose %s has more than %i characters is refused', async (field, most, other) => {
  const read = async (length: number): Promise<string> => {
    const metadata = { ...other, [field]: 'x'.repeat(length) };
    let answers = 0;
    const page = (): string[] => {
      answers += 1;
      return [JSON.stringify({ metadata: answers === 1 ? metadata : { resourceVersion: '2' } })];
    };
    return list(page, 600_000);
  };
  await expect(read(most)).resolves.toMatch(/^(2|x+)$/);
  await expect(read(most + 1)).rejects.toThrow('the answer is not a list');
});
