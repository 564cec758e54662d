import { expect, it } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import { decodeManifests } from '../../../../src/source/manifests/objects.ts';
import { readManifest } from '../../../../src/source/manifests/read.ts';
import { Pacer } from '../../../../src/time/pacer.ts';

async function read(file: string, text: string) {
  const pacer = new Pacer();
  const { found, problems, unreadable } = await readManifest(file, Buffer.from(text), pacer);
  const content = { file, found, previous: new Map(), extent: 'all' } as const;
  const decoded = await decodeManifests(content, decodeContext('node'), pacer);
  return { ...decoded, problems: [...unreadable, ...problems, ...decoded.problems] };
}

const good =
  '{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}]}}';
const head = '{"apiVersion":"v1","kind":"List","items":[';
const nested = (lists: number) => `${head.repeat(lists)}${good}${']}'.repeat(lists)}`;
const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;

it('nested lists in a manifest are read, up to a depth', async () => {
  expect((await read('a.json', nested(8))).objects.size).toBe(1);
  for (const lists of [9, 8000]) {
    const { objects, problems } = await read('a.json', nested(lists));
    expect(objects.size).toBe(0);
    expect(problems).toMatchObject([{ reason: 'is a list within 8 lists, and is not read' }]);
  }
});

it.each([
  ['a list that contains itself', 'a.yaml', '&a {apiVersion: v1, kind: List, items: [*a]}'],
  ['a sequence that contains itself', 'a.yaml', '&a [*a]'],
  [
    'fields of a manifest that contain themselves are handled',
    'a.yaml',
    'apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: &s {ports: *s, type: *s}\n',
  ],
  ['arrays deeper than the stack', 'a.json', deep(30_000)],
  [
    'a field deeper than the stack',
    'a.json',
    `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":${deep(30_000)}}`,
  ],
])('reports %s, and goes on', async (_, file, text) => {
  const { problems } = await read(file, text);
  expect(problems.length).toBeGreaterThan(0);
});
