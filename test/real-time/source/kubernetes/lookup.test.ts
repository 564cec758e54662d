import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiLookup } from '../../../../src/source/kubernetes/lookup.ts';
import { contentTypes, startServer } from './setup.ts';

const { signal } = new AbortController();

interface Answer {
  readonly status?: number;
  readonly body: unknown;
}

/** A lookup, and what its API server was asked: path with query, and the kinds that it accepts. */
async function asking(answers: Readonly<Record<string, Answer>>) {
  const asked: string[] = [];
  const onRequest = ({ headers, url }: IncomingMessage, response: ServerResponse): void => {
    asked.push(`${decodeURIComponent(url!)} ${headers.accept?.includes('PartialObject')}`);
    const { status = 200, body } = answers[url!.split('?')[0]!] ?? { status: 404, body: {} };
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const server = await startServer({ onRequest });
  const access = { kubeconfigPath: '', masterUrl: server.url };
  const options = { qps: -1, burst: 0, userAgent: 'fairlead/test', contentTypes };
  const lookup = new ApiLookup({ ...access, ...options });
  onTestFinished(() => lookup.close());
  return { lookup, asked, server };
}

const slices = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';
const pod = '/api/v1/namespaces/shop/pods/web-1';
const forbidden = { status: 403, body: { kind: 'Status', message: 'may not get pods' } };
const endpoint = (kind: string, name: string, address: string) => {
  return { addresses: [address], nodeName: 'node-b', targetRef: { kind, name } };
};

describe('the lookup of a pod', () => {
  it('returns its addresses and its node', async () => {
    const body = {
      spec: { nodeName: 'node-a' },
      status: { podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }] },
    };
    const { lookup } = await asking({ [pod]: { body } });
    const addresses = ['10.0.0.1', 'fd00::1'];
    expect(await lookup.pod('shop', 'web-1', signal)).toEqual({ addresses, nodeName: 'node-a' });
  });

  it('uses EndpointSlices if pods may not be read', async () => {
    const items = [
      { endpoints: [endpoint('Pod', 'web-0', '10.0.0.9'), endpoint('Pod', 'web-1', '10.0.0.1')] },
      { endpoints: [endpoint('Node', 'web-1', '10.0.0.8'), endpoint('Pod', 'web-1', 'fd00::1')] },
    ];
    const { lookup } = await asking({ [pod]: forbidden, [slices]: { body: { items } } });
    const addresses = ['10.0.0.1', 'fd00::1'];
    expect(await lookup.pod('shop', 'web-1', signal)).toEqual({ addresses, nodeName: 'node-b' });
  });

  it('returns the name for each address of a Service, in one request', async () => {
    const items = [
      { endpoints: [endpoint('Pod', 'web-0', '10.0.0.9'), endpoint('Node', 'n', '10.0.0.8')] },
      {
        endpoints: [endpoint('Pod', 'web-1', 'fd00:0::1'), endpoint('Pod', 'x', 'not an address')],
      },
    ];
    const { asked, lookup } = await asking({ [slices]: { body: { items } } });
    const names = await lookup.podsOf('shop', 'web', signal);
    expect([...names]).toEqual([
      ['10.0.0.9', 'web-0'],
      ['fd00::1', 'web-1'],
    ]);
    const selector = 'labelSelector=kubernetes.io/service-name=web';
    expect(asked).toEqual([`${slices}?${selector}&limit=500 false`]);
  });

  it('fails with the missing permission if neither works', async () => {
    const { lookup } = await asking({ [pod]: forbidden, [slices]: { body: { items: [] } } });
    await expect(lookup.pod('shop', 'web-1', signal)).rejects.toMatchObject({
      fault: 'absence',
      message: expect.stringContaining(
        'not permitted to get pods; give its address instead',
      ) as string,
    });
  });

  it('reports that the pod does not exist', async () => {
    const { lookup, asked } = await asking({});
    const reason = 'there is no pod shop/web-1';
    await expect(lookup.pod('shop', 'web-1', signal)).rejects.toThrow(reason);
    expect(asked).toEqual([`${pod} false`]);
  });

  it('ends with the timeout of the question', async () => {
    const { lookup, server } = await asking({});
    await server.close();
    await expect(lookup.pod('shop', 'web-1', signal)).rejects.toMatchObject({ fault: 'source' });
  });

  it.each(['pod', 'podsOf'] as const)('says that the server did not answer: %s', async (what) => {
    const server = await startServer({
      onRequest: (_, response) => void response.writeHead(200).write('{'),
    });
    const timeout = new AbortController();
    const observer = (): void => timeout.abort(new DOMException('too late', 'TimeoutError'));
    const access = { kubeconfigPath: '', masterUrl: server.url };
    const options = { qps: -1, burst: 0, userAgent: 'fairlead/test', contentTypes, observer };
    const lookup = new ApiLookup({ ...access, ...options });
    onTestFinished(() => lookup.close());
    const asked = lookup[what]('shop', 'web-1', timeout.signal);
    await expect(asked).rejects.toThrow('the API server does not answer');
  });
});

describe('a lookup of many or large objects', () => {
  /** Answers pages of these, and records their limits and sizes. */
  async function paging(items: readonly object[]) {
    const pages: { limit: number; bytes: number }[] = [];
    const onRequest = ({ url }: IncomingMessage, response: ServerResponse): void => {
      const query = new URL(url!, 'http://server').searchParams;
      const [from, limit] = [Number(query.get('continue') ?? 0), Number(query.get('limit'))];
      const to = from + limit;
      const metadata = to < items.length ? { continue: String(to) } : {};
      const body = JSON.stringify({ metadata, items: items.slice(from, to) });
      pages.push({ limit, bytes: body.length });
      response.writeHead(200, { 'content-type': 'application/json' }).end(body);
    };
    return { lookup: await lookupAt(onRequest), pages };
  }

  async function lookupAt(onRequest: (asked: IncomingMessage, response: ServerResponse) => void) {
    const server = await startServer({ onRequest });
    const access = { kubeconfigPath: '', masterUrl: server.url };
    const options = { qps: -1, burst: 0, userAgent: 'fairlead/test', contentTypes };
    const lookup = new ApiLookup({ ...access, ...options });
    onTestFinished(() => lookup.close());
    return lookup;
  }

  const large = (bytes: number) => ({ annotations: { note: 'x'.repeat(bytes) } });

  it('reads no page that would keep the event loop for long, and asks for fewer objects', async () => {
    const items = Array.from({ length: 250 }, (_, i) => ({
      metadata: large(60_000),
      endpoints: [endpoint('Pod', `web-${i}`, `10.0.0.${i}`)],
    }));
    const { lookup, pages } = await paging(items);
    const found = await lookup.podsOf('shop', 'web', signal);
    expect([found.size, found.get('10.0.0.249')]).toEqual([250, 'web-249']);
    const sizes = [500, 100, 20];
    expect([...new Set(pages.map(({ limit }) => limit))]).toEqual(sizes);
    const whole = pages.filter(({ limit }) => limit === sizes.at(-1));
    expect(whole).toHaveLength(13);
    expect(Math.max(...whole.map(({ bytes }) => bytes))).toBeLessThan(2 * 1024 * 1024);
  });

  it('puts the pages together', async () => {
    const items = Array.from({ length: 8 }, (_, i) => ({
      metadata: large(600_000),
      endpoints: [endpoint('Pod', `web-${i % 4}`, `10.0.0.${i}`)],
    }));
    const { lookup } = await paging(items);
    const names = await lookup.podsOf('shop', 'web', signal);
    expect([names.size, names.get('10.0.0.7')]).toEqual([8, 'web-3']);
  });

  it.each([
    ['128 MiB', 1024 * 1024, 128],
    ['100,000 objects, if all pages are full', 200, 200],
  ])('ends after %s', async (_, pageBytes, most) => {
    const metadata = { continue: 'x', ...large(pageBytes - 100) };
    const body = JSON.stringify({ metadata, items: [] }).padEnd(pageBytes, ' ');
    let pages = 0;
    const lookup = await lookupAt((_, response) => {
      pages += 1;
      response.writeHead(200, { 'content-type': 'application/json' }).end(body);
    });
    const reason = 'more than 100000 objects, or 134217728 bytes';
    await expect(lookup.podsOf('shop', 'web', signal)).rejects.toThrow(reason);
    expect([body.length, pages]).toEqual([pageBytes, most]);
  });

  it('reads a single object that is larger than a page', async () => {
    const { lookup, pages } = await paging([
      { metadata: large(3_000_000), endpoints: [endpoint('Pod', 'web-0', '10.0.0.9')] },
    ]);
    expect([...(await lookup.podsOf('shop', 'web', signal))]).toEqual([['10.0.0.9', 'web-0']]);
    expect(pages.map(({ limit }) => limit)).toEqual([500, 100, 20, 4, 1]);
  });
});
