import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, expect, it } from 'vitest';
import { readManifest } from '../../../../src/source/manifests/read.ts';
import { Pacer } from '../../../../src/time/pacer.ts';

const head = 'apiVersion: v1\nkind: List\nitems:\n';
const item = (i: number) =>
  `- apiVersion: v1\n  kind: Service\n  metadata:\n    name: web-${i}\n  spec:\n    ports: [{port: 80}]\n`;

/** A document of at least this number of characters. */
function list(characters: number): { text: string; count: number } {
  const parts = [head];
  for (let length = head.length; length < characters; length += parts.at(-1)!.length) {
    parts.push(item(parts.length));
  }
  return { text: parts.join(''), count: parts.length - 1 };
}

const read = (file: string, text: string) => readManifest(file, Buffer.from(text), new Pacer());

describe('a manifest', () => {
  it('has the same objects on either thread', async () => {
    const [small, large] = [list(1000), list(100_000)];
    for (const { text, count } of [small, large]) {
      const { found, problems } = await read('a.yaml', text);
      expect(problems).toEqual([]);
      expect(found.map(({ raw }) => raw.metadata)).toEqual(
        Array.from({ length: count }, (_, i) => ({ name: `web-${i + 1}` })),
      );
    }
  });

  it('has its mistake reported with the line on either thread', async () => {
    for (const before of [list(1000), list(100_000)]) {
      const lines = before.text.split('\n').length;
      const broken = await read('a.yaml', `${before.text}---\nkind: [\n---\n${before.text}`);
      expect(broken.unreadable).toEqual([{ line: lines + 2, reason: expect.any(String) }]);
      expect(broken.found).toHaveLength(2 * before.count);
    }
    const problem = await read('a.yaml', `${list(100_000).text}---\njust text\n`);
    expect(problem.problems).toMatchObject([{ reason: expect.stringContaining('just text') }]);
  });

  it('of one huge YAML document is rejected, with a remedy', async () => {
    const text = list(20_000_000).text;
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const reading = read('a.yaml', text);
    delay.enable();
    const { unreadable } = await reading;
    expect(unreadable).toMatchObject([
      {
        reason:
          'is a YAML document of more than 4 MiB: divide it by lines of `---`, or write it as JSON',
      },
    ]);
    delay.disable();
    // It takes 20 s to parse. A busy machine may stop a process for a second.
    expect(delay.max / 1e6).toBeLessThan(5000);
  });

  it('with an object that no cluster accepts is rejected', async () => {
    const text = `{"apiVersion": "v1", "kind": "Service", "x": "${'x'.repeat(1_600_000)}"}`;
    expect((await read('a.json', text)).unreadable).toMatchObject([
      { reason: 'contains an object of more than 1.5 MiB, which no cluster accepts' },
    ]);
  });

  it.each([
    ['octal numbers', 'port: 0120', { port: 80 }],
    ['octal numbers of YAML 1.2', 'port: 0o120', { port: 80 }],
    ['words for truth', 'a: yes\nb: off', { a: true, b: false }],
    ['merge keys', 'x: &x {a: 1, b: 2}\nz: {<<: *x, b: 3}', { z: { a: 1, b: 3 } }],
    ['a key that is given twice', 'a: 1\na: 2', { a: 2 }],
    [
      'dates and numbers in base 60 as text',
      'a: 2001-01-01\nb: 1:30',
      { a: '2001-01-01', b: '1:30' },
    ],
  ])('reads %s as YAML 1.1', async (_, yaml, fields) => {
    const { found } = await read('a.yaml', `apiVersion: v1\nkind: Service\n${yaml}\n`);
    expect(found).toMatchObject([{ raw: fields }]);
  });

  it('reads JSON objects that follow one another', async () => {
    const object = (n: number) => `{"apiVersion": "v1", "kind": "Service", "n": ${n}}`;
    for (const file of ['a.yaml', 'a.json']) {
      const { found } = await read(file, `${object(1)}\n\n${object(2)}${object(3)}\n`);
      expect(found.map(({ raw, line }) => [raw.n, line])).toEqual([
        [1, 1],
        [2, 3],
        [3, 3],
      ]);
    }
    const broken = await read('a.json', `${object(1)}\n{"a": }\n`);
    expect(broken).toMatchObject({ found: [{ line: 1 }], unreadable: [{ line: 2 }] });
    // A key may occur twice.
    const cut = await read('a.json', '{"a": 1,\n"a": 2,\n"b":');
    expect(cut.unreadable).toMatchObject([{ line: 3 }]);
  });

  it('reads UTF-16 with its mark', async () => {
    const bytes = Buffer.from('\ufeffapiVersion: v1\nkind: Service\n', 'utf16le');
    const { found } = await readManifest('a.yaml', bytes, new Pacer());
    expect(found).toHaveLength(1);
  });

  it('whose aliases make more than 128 MiB of it is rejected', async () => {
    const text = `- &a {apiVersion: v1, kind: Service, metadata: {name: ${'x'.repeat(1_400_000)}}}\n`;
    const repeated = (times: number) =>
      `apiVersion: v1\nkind: List\nitems:\n${text}${'- *a\n'.repeat(times - 1)}`;
    expect((await read('a.yaml', repeated(96))).unreadable).toMatchObject([
      { reason: 'contains objects of more than 128 MiB, by its aliases' },
    ]);
    expect((await read('a.yaml', repeated(90))).found).toHaveLength(90);
  });

  it('loses only the object that contains itself', async () => {
    const itself = '---\n&a {apiVersion: v1, kind: Service, x: *a}\n';
    const { found, unreadable } = await read('a.yaml', `${list(100_000).text}${itself}`);
    expect(found).toHaveLength(list(100_000).count);
    expect(unreadable).toMatchObject([
      {
        reason: expect.stringContaining(
          'contains a value that JSON cannot express, and is left out: ',
        ),
      },
    ]);
  });
});
